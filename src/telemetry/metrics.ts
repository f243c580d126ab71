// What a part of dq counts with. Cheap enough for every push and every attempt: a call finds a number and adds to it. Nothing
// is sent or formatted here; metric-buffer.ts gathers, the master adds up (metric-tally.ts).

import type { CounterName, GaugeName, HistogramName, LabelValues } from './metric-declarations.ts';

export interface Metrics {
  count<N extends CounterName>(name: N, n: number, ...labels: LabelValues<N>): void;
  /** Seconds, or items, as the declaration says. */
  observe(name: HistogramName, value: number): void;
  /** All series of this gauge: those that are not given are no more. */
  set<N extends GaugeName>(name: N, series: readonly (readonly [...LabelValues<N>, value: number])[]): void;
  /** Series of this counter whose first label has another value are dropped, here and in the sums: what they stood for is gone. A
   *  value that comes back begins at 0, which Prometheus reads as a reset. */
  keep(name: CounterName, values: ReadonlySet<string>): void;
}

/** What a process has counted since its last report: plain JSON. Names that the receiver does not know are left out there:
 *  after an upgrade an old master hears new workers. */
export interface MetricReport {
  readonly counts: readonly (readonly [name: string, labels: readonly string[], n: number])[];
  /** observations per bucket, not cumulated, the last bucket without a bound; and their sum */
  readonly histograms: readonly (readonly [name: string, buckets: readonly number[], sum: number])[];
  /** of a counter: values of its first label; the series of others are dropped before `counts` are added. A worker of an earlier
   *  version sends none */
  readonly keeps?: readonly (readonly [name: string, values: readonly string[]])[];
  /** whole */
  readonly gauges: readonly (readonly [
    name: string,
    series: readonly (readonly [labels: readonly string[], value: number])[],
  ])[];
}

/** For what runs where nobody asks. */
export const noMetrics: Metrics = { count() {}, observe() {}, set() {}, keep() {} };
