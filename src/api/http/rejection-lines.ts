// RejectionLines writes request log lines about unauthorized pushes and cancels. Strangers decide how many
// there are, so each status and code gets a few lines per second; one more line counts the suppressed ones.
// Invariant: lines written + lines suppressed = rejections.

import { clearTimeout, setTimeout, type Timer } from '../../runtime/time.ts';
import type { Log } from '../../telemetry/log.ts';
import { apiLimits } from '../limits.ts';
import { logRequest, type RequestLine } from './request-log.ts';

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
