// The contract for counting, and MetricBuffer, which holds the increments of one process between two reports.
// Cheap enough for every push and attempt: a call adds to a number. The master adds up the reports of all
// processes (metric-tally.ts) and keeps the sums of dead ones, so no sum falls. A kill -9 loses the
// increments since the last report.

import {
  type CounterName,
  type GaugeName,
  type HistogramName,
  type LabelValues,
  metricDeclarations,
  otherLabel,
} from './metric-declarations.ts';

export interface Metrics {
  count<N extends CounterName>(name: N, n: number, ...labels: LabelValues<N>): void;
  /** Seconds or items, as declared. */
  observe(name: HistogramName, value: number): void;
  /** Sets all series of this gauge; series that are not given end. */
  set<N extends GaugeName>(name: N, series: readonly (readonly [...LabelValues<N>, value: number])[]): void;
  /** Drops the series of this counter with other values of the first label, here and in the sums. A value
   *  that returns begins at 0, which Prometheus reads as a reset. */
  keep(name: CounterName, values: ReadonlySet<string>): void;
}

/** The increments of a process since its last report, plain JSON. The receiver ignores unknown names: after
 *  an upgrade an old master gets reports of new workers. */
export interface MetricReport {
  readonly counts: readonly (readonly [name: string, labels: readonly string[], n: number])[];
  /** observations per bucket, not cumulative, the last bucket without a bound; and their sum */
  readonly histograms: readonly (readonly [name: string, buckets: readonly number[], sum: number])[];
  /** of a counter: values of its first label; the receiver drops other series before it adds `counts` */
  readonly keeps: readonly (readonly [name: string, values: readonly string[]])[];
  /** whole */
  readonly gauges: readonly (readonly [
    name: string,
    series: readonly (readonly [labels: readonly string[], value: number])[],
  ])[];
}

/** For code whose metrics are not read. */
export const noMetrics: Metrics = { count() {}, observe() {}, set() {}, keep() {} };

interface Counted {
  readonly labels: readonly string[];
  n: number;
}

interface Observed {
  readonly bounds: readonly number[];
  readonly buckets: number[];
  sum: number;
  any: boolean;
}

export class MetricBuffer implements Metrics {
  readonly #counters = new Map<string, Map<string, Counted>>();
  readonly #histograms = new Map<string, Observed>();
  #gauges = new Map<string, MetricReport['gauges'][number]>();
  readonly #keeps = new Map<string, ReadonlySet<string>>();

  count<N extends CounterName>(name: N, n: number, ...labels: LabelValues<N>): void {
    this.#add(name, n, labels as readonly string[]);
  }

  #add(name: string, n: number, values: readonly string[]): void {
    let family = this.#counters.get(name);
    if (family === undefined) {
      family = new Map();
      this.#counters.set(name, family);
    }
    // Metrics with at most one label, which most have, need no joined key.
    const key = values.length < 2 ? (values[0] ?? '') : values.join('\n');
    const counted = family.get(key);
    if (counted === undefined) family.set(key, { labels: values, n });
    else counted.n += n;
  }

  observe(name: HistogramName, value: number): void {
    let observed = this.#histograms.get(name);
    if (observed === undefined) {
      const { bounds } = metricDeclarations[name];
      observed = { bounds, buckets: new Array<number>(bounds.length + 1).fill(0), sum: 0, any: false };
      this.#histograms.set(name, observed);
    }
    const { bounds, buckets } = observed;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket += 1;
    buckets[bucket] = (buckets[bucket] as number) + 1;
    observed.sum += value;
    observed.any = true;
  }

  set<N extends GaugeName>(name: N, series: readonly (readonly [...LabelValues<N>, value: number])[]): void {
    const entries = series.map((one) => {
      const labels = one.slice(0, -1) as readonly string[];
      return [labels, one.at(-1) as number] as const;
    });
    this.#gauges.set(name, [name, entries]);
  }

  /** Takes effect with the next report: a value that disappears and returns before it loses nothing. */
  keep(name: CounterName, values: ReadonlySet<string>): void {
    this.#keeps.set(name, values);
  }

  /** The increments since the last call; null = none. */
  take(): MetricReport | null {
    const keeps = [...this.#keeps].map(([name, values]) => [name, [...values]] as const);
    for (const [name, values] of this.#keeps) this.#drop(name, values);
    this.#keeps.clear();
    const counts: [string, readonly string[], number][] = [];
    for (const [name, family] of this.#counters)
      for (const counted of family.values()) {
        if (counted.n === 0) continue;
        counts.push([name, counted.labels, counted.n]);
        counted.n = 0;
      }
    const histograms: [string, number[], number][] = [];
    for (const [name, observed] of this.#histograms) {
      if (!observed.any) continue;
      histograms.push([name, [...observed.buckets], observed.sum]);
      observed.buckets.fill(0);
      observed.sum = 0;
      observed.any = false;
    }
    const gauges = [...this.#gauges.values()];
    this.#gauges = new Map();
    const isEmpty = counts.length + histograms.length + gauges.length + keeps.length === 0;
    if (isEmpty) return null;
    return { keeps, counts, histograms, gauges };
  }

  /** Drops the series of other values. Their unreported counts go to `_other` if it is kept, so that the sum
   *  stays right. */
  #drop(name: string, values: ReadonlySet<string>): void {
    const family = this.#counters.get(name);
    for (const [key, { labels, n }] of family ?? []) {
      const [first = '', ...others] = labels;
      if (values.has(first)) continue;
      family?.delete(key);
      if (n > 0 && values.has(otherLabel)) this.#add(name, n, [otherLabel, ...others]);
    }
  }
}
