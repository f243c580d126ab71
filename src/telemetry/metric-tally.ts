// MetricTally adds up the reports of all processes, dead ones included, and bounds the number of series.
// exposition() writes the sums in the format of Prometheus with prom-client, which no start needs: it is
// loaded later.
// Invariant: a series never falls while it exists; it is dropped with its topic. Reads memory only.

import { telemetryLimits } from './limits.ts';
import {
  type Declaration,
  declarationOf,
  knownSeries,
  type MetricName,
  metricDeclarations,
} from './metric-declarations.ts';
import type { MetricReport } from './metrics.ts';

/** JSON text of the label values → the values and a number. */
type Family = Map<string, { readonly labels: readonly string[]; value: number }>;

interface Histogram {
  readonly bounds: readonly number[];
  readonly buckets: number[];
  sum: number;
}

export class MetricTally {
  readonly #families = new Map<string, Family>();
  readonly #histograms = new Map<string, Histogram>();
  #series = 0;
  #dropped = 0;

  constructor() {
    for (const [name, declaration] of Object.entries<Declaration>(metricDeclarations)) {
      const { type, bounds } = declaration;
      if (type === 'histogram')
        this.#histograms.set(name, { bounds, buckets: new Array<number>(bounds.length + 1).fill(0), sum: 0 });
      else this.#families.set(name, new Map());
      // An unmeasured gauge is not 0.
      if (type === 'counter') this.#begin(name, declaration);
    }
  }

  /** Series that the bound rejected since the last drop. */
  get dropped(): number {
    return this.#dropped;
  }

  addReport(report: MetricReport): void {
    for (const [name, values] of report.keeps) this.#keep(name, new Set(values));
    for (const [name, labels, n] of report.counts)
      if (fits(name, 'counter', labels)) this.#add(name, labels, n);
    for (const [name, buckets, sum] of report.histograms) this.#addHistogram(name, buckets, sum);
    for (const [name, series] of report.gauges) {
      if (declarationOf(name)?.type !== 'gauge') continue;
      const family = this.#families.get(name) as Family;
      this.#series -= family.size;
      family.clear();
      for (const [labels, value] of series) if (fits(name, 'gauge', labels)) this.#add(name, labels, value);
    }
  }

  /** In the order of the declarations; histograms cumulative, as in Prometheus. */
  families(): readonly TalliedFamily[] {
    return (Object.keys(metricDeclarations) as MetricName[]).map((name) => {
      const { type, help, labels: declared } = metricDeclarations[name] as Declaration;
      const names = declared.map(([label]) => label);
      const histogram = this.#histograms.get(name);
      const values =
        histogram === undefined
          ? [...(this.#families.get(name) as Family).values()].map(({ labels, value }) => ({
              metricName: name,
              labels: Object.fromEntries(names.map((label, i) => [label, labels[i] as string])),
              value,
            }))
          : cumulated(name, histogram);
      return { name, help, type, values };
    });
  }

  #add(name: string, labels: readonly string[], n: number): void {
    const family = this.#families.get(name) as Family;
    const key = JSON.stringify(labels);
    const known = family.get(key);
    if (known !== undefined) known.value += n;
    else if (this.#series < telemetryLimits.metricSeriesMax) {
      this.#series += 1;
      family.set(key, { labels, value: n });
    } else this.#dropped += 1;
  }

  /** Only series of these values of the first label exist afterwards, and all that are possible. */
  #keep(name: string, values: ReadonlySet<string>): void {
    const declaration = declarationOf(name);
    const family = this.#families.get(name);
    const [first, ...others] = declaration?.labels ?? [];
    if (declaration?.type !== 'counter' || first === undefined || family === undefined) return;
    const before = family.size;
    for (const [key, { labels }] of family) if (!values.has(labels[0] as string)) family.delete(key);
    if (family.size < before) {
      this.#series -= before - family.size;
      this.#dropped = 0;
    }
    this.#begin(name, { ...declaration, labels: [[first[0], [...values]], ...others] });
  }

  #begin(name: string, declaration: Declaration): void {
    for (const labels of knownSeries(declaration)) this.#add(name, labels, 0);
  }

  #addHistogram(name: string, buckets: readonly number[], sum: number): void {
    const histogram = this.#histograms.get(name);
    // Another version of dq can have other bounds.
    if (histogram?.buckets.length !== buckets.length) return;
    for (const [i, n] of buckets.entries()) histogram.buckets[i] = (histogram.buckets[i] as number) + n;
    histogram.sum += sum;
  }
}

interface TalliedFamily {
  readonly name: string;
  readonly help: string;
  readonly type: Declaration['type'];
  readonly values: readonly {
    readonly metricName: string;
    readonly labels: Readonly<Record<string, string | number>>;
    readonly value: number;
  }[];
}

function fits(name: string, type: Declaration['type'], labels: readonly string[]): boolean {
  const declaration = declarationOf(name);
  return declaration?.type === type && declaration.labels.length === labels.length;
}

function cumulated(name: string, { bounds, buckets, sum }: Histogram): TalliedFamily['values'] {
  let count = 0;
  const values: TalliedFamily['values'][number][] = buckets.map((n, i) => {
    count += n;
    return { metricName: `${name}_bucket`, labels: { le: bounds[i] ?? '+Inf' }, value: count };
  });
  values.push({ metricName: `${name}_sum`, labels: {}, value: sum });
  values.push({ metricName: `${name}_count`, labels: {}, value: count });
  return values;
}

/** Loads prom-client, after the start. A reload keeps the master, while a new package may have replaced its
 *  files: loaded at the first scrape, they would be missing. */
export async function loadExposition(): Promise<void> {
  await import('prom-client');
}

/** Text of the exposition format 0.0.4. */
export async function exposition(families: readonly TalliedFamily[]): Promise<string> {
  // CommonJS: after bundling its exports are on `default` only.
  const { AggregatorRegistry } = (await import('prom-client')).default;
  // AggregatorRegistry is for workers of node:cluster. Its own aggregation is not used, because it asks
  // every worker at every scrape: a stuck worker delays the scrape by 5 s and fails it. The values here are
  // sums already.
  const gathered = families.map((family) => ({ ...family, aggregator: 'first' }));
  return AggregatorRegistry.aggregate([gathered]).metrics();
}

export const expositionType = 'text/plain; version=0.0.4; charset=utf-8';
