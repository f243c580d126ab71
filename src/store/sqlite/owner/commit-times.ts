// Keeps the durations of the last commits, and computes their 99th percentile. Pure.

import { sqliteLimits } from '../limits.ts';

export class CommitTimes {
  readonly #times = new Float64Array(sqliteLimits.commitTimesKept);
  #count = 0;

  add(ms: number): void {
    this.#times[this.#count % this.#times.length] = ms;
    this.#count += 1;
  }

  /** ms; null = no commit yet */
  p99(): number | null {
    const kept = Math.min(this.#count, this.#times.length);
    if (kept === 0) return null;
    return this.#times.slice(0, kept).sort()[Math.ceil(kept * 0.99) - 1] ?? null;
  }
}
