// request-log.ts defines the line of the request log for a push or cancel. The log's own configuration
// selects the lines. A line never holds a body or a token.
// RejectionLines bounds the lines about unauthorized ones: strangers decide how many there are, so each
// status and code gets a few lines per second; one more line counts the suppressed ones.
// Invariant: lines written + lines suppressed = rejections.

import { clearTimeout, monotonicNow, setTimeout, type Timer } from '../../runtime/time.ts';
import type { Log } from '../../telemetry/log.ts';
import { apiLimits } from '../limits.ts';

/** A type alias, because an interface is not assignable to LogFields. */
export type RequestLine = {
  readonly method: 'POST' | 'DELETE';
  /** null for a batch, or an item of a batch, that is unreadable */
  readonly topic: string | null;
  /** null when dq rejected the push before it made an id */
  readonly id: string | null;
  readonly status: number;
  /** of the catalogue; null for a success */
  readonly code: string | null;
  readonly version: string | null;
  /** RFC 3339 */
  readonly dueAt: string | null;
  /** size of the body */
  readonly bytes: number;
  /** from the complete request to its answer; null for an earlier rejection */
  readonly ms: number | null;
  /** of a push with a trace: the producer's */
  readonly traceparent?: string;
  /** protocol of another queue; absent: the HTTP API */
  readonly via?: string;
  /** one sentence, where the reply has none; of such a protocol only */
  readonly reason?: string;
};

export function logRequest(log: Log, line: RequestLine): void {
  log.request(line);
}

/** Milliseconds since `since`, rounded to whole microseconds. */
export function elapsedMs(since: number): number {
  return Math.round((monotonicNow() - since) * 1000) / 1000;
}

interface Second {
  readonly kind: Pick<RequestLine, 'status' | 'code'>;
  readonly timer: Timer;
  written: number;
  suppressed: number;
}

export class RejectionLines {
  readonly #log: Log;
  /** The current second of each status and code; the catalogue bounds their number. */
  readonly #seconds = new Map<string, Second>();

  constructor(log: Log) {
    this.#log = log;
  }

  write(line: RequestLine): void {
    const second = this.#secondOf(line);
    if (second.written >= apiLimits.rejectedLinesPerSecond) {
      second.suppressed += 1;
      return;
    }
    second.written += 1;
    logRequest(this.#log, { ...line, topic: shortened(line.topic), id: shortened(line.id) });
  }

  /** Writes the counts of the current seconds. */
  close(): void {
    for (const [key, { timer }] of [...this.#seconds]) {
      clearTimeout(timer);
      this.#end(key);
    }
  }

  #secondOf({ status, code }: RequestLine): Second {
    const key = `${status} ${code}`;
    const current = this.#seconds.get(key);
    if (current !== undefined) return current;
    const timer = setTimeout(() => this.#end(key), 1_000);
    timer.unref();
    const second = { kind: { status, code }, timer, written: 0, suppressed: 0 };
    this.#seconds.set(key, second);
    return second;
  }

  #end(key: string): void {
    const second = this.#seconds.get(key);
    this.#seconds.delete(key);
    if (second !== undefined && second.suppressed > 0)
      this.#log.request({ ...second.kind, leftOut: second.suppressed });
  }
}

/** The text comes from a stranger, whose request line may have 16 KB. */
function shortened(text: string | null): string | null {
  if (text === null || text.length <= apiLimits.rejectedTextMax) return text;
  return `${text.slice(0, apiLimits.rejectedTextMax)}…`;
}
