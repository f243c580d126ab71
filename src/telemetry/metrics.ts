// The contract for counting. Cheap enough for every push and attempt: a call adds to a number.
// metric-buffer.ts gathers the numbers of a process, the master adds them up (metric-tally.ts).

import type { CounterName, GaugeName, HistogramName, LabelValues } from './metric-declarations.ts';

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
