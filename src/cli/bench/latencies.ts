// Records request times in a histogram of three figures: its memory does not grow with the run.

import { createHistogram } from 'node:perf_hooks';

export interface Percentiles {
  readonly count: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
}

export class Latencies {
  readonly #histogram = createHistogram({ figures: 3 });

  /** Counts less than a microsecond as one. */
  add(ms: number): void {
    this.#histogram.record(Math.max(1, Math.round(ms * 1_000)));
  }

  get count(): number {
    return Number(this.#histogram.count);
  }

  percentiles(): Percentiles {
    const at = (percent: number) => this.#histogram.percentile(percent) / 1_000;
    if (this.count === 0) return { count: 0, p50Ms: 0, p90Ms: 0, p99Ms: 0, p999Ms: 0, maxMs: 0 };
    const maxMs = this.#histogram.max / 1_000;
    return { count: this.count, p50Ms: at(50), p90Ms: at(90), p99Ms: at(99), p999Ms: at(99.9), maxMs };
  }
}
