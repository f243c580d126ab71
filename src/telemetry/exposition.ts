// Writes the metrics in the format of Prometheus with prom-client, which is loaded after the start or with
// the first scrape: it is not needed for a start.

import type { TalliedFamily } from './metric-tally.ts';

/** Loads the library. A reload keeps the master, while a new package may have replaced its files: loaded at
 *  the first scrape, they would be missing. */
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
