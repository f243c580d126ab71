// Lines of the request log about requests that had no right to pass. Strangers decide how many there are, so each kind of
// refusal gets a few lines a second; a further line says how many were left out. Invariant: lines written + left out = refusals.

import type { Log } from '../../telemetry/log.ts';
import { apiLimits } from '../limits.ts';
import { logRequest, type RequestLine } from './request-log.ts';

interface Second {
  readonly kind: Pick<RequestLine, 'status' | 'code'>;
  readonly timer: NodeJS.Timeout;
  written: number;
  leftOut: number;
}

export class RefusalLines {
  readonly #log: Log;
  /** Of each kind the second that is running. Kinds are few: codes of the catalogue. */
  readonly #seconds = new Map<string, Second>();

  constructor(log: Log) {
    this.#log = log;
  }

  write(line: RequestLine): void {
    const second = this.#secondOf(line);
    if (second.written >= apiLimits.refusedLinesPerSecond) {
      second.leftOut += 1;
      return;
    }
    second.written += 1;
    logRequest(this.#log, { ...line, topic: shortened(line.topic), id: shortened(line.id) });
  }

  /** Writes the counts of the seconds that are running. */
  close(): void {
    for (const [key, { timer }] of [...this.#seconds]) {
      clearTimeout(timer);
      this.#end(key);
    }
  }

  #secondOf({ status, code }: RequestLine): Second {
    const key = `${status} ${code}`;
    const running = this.#seconds.get(key);
    if (running !== undefined) return running;
    const timer = setTimeout(() => this.#end(key), 1_000);
    timer.unref();
    const begun = { kind: { status, code }, timer, written: 0, leftOut: 0 };
    this.#seconds.set(key, begun);
    return begun;
  }

  #end(key: string): void {
    const second = this.#seconds.get(key);
    this.#seconds.delete(key);
    if (second !== undefined && second.leftOut > 0)
      this.#log.request({ ...second.kind, leftOut: second.leftOut });
  }
}

/** The text comes from a stranger, whose request line may have 16 KB. */
function shortened(text: string | null): string | null {
  if (text === null || text.length <= apiLimits.refusedTextMax) return text;
  return `${text.slice(0, apiLimits.refusedTextMax)}…`;
}
