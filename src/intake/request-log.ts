// The `request` log: one line for each push and cancel with its answer. Owns what a line holds and which are wanted. Bodies
// and tokens are never in it.

import type { Config } from '../config/options.ts';
import type { Log } from '../telemetry/log.ts';

export interface RequestLine {
  readonly method: 'POST' | 'DELETE';
  readonly topic: string;
  /** null when a push was refused before an id was made for it */
  readonly id: string | null;
  readonly status: number;
  /** of the catalogue; null for a success */
  readonly code: string | null;
  readonly version: string | null;
  /** RFC 3339 */
  readonly dueAt: string | null;
  /** of the body */
  readonly bytes: number;
  /** from the whole request to its answer; null when it was refused before */
  readonly ms: number | null;
}

export class RequestLog {
  readonly #log: Log;
  readonly #wanted: Config['log.request'];

  constructor(log: Log, wanted: Config['log.request']) {
    this.#log = log;
    this.#wanted = wanted;
  }

  write(line: RequestLine): void {
    if (this.#wanted === 'all' || (this.#wanted === 'errors' && line.status >= 400))
      this.#log.request({ ...line });
  }
}

/** Whole microseconds are enough. */
export function elapsedMs(since: number): number {
  return Math.round((performance.now() - since) * 1000) / 1000;
}
