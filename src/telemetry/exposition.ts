// The numbers as Prometheus reads them. prom-client writes the text; it is loaded with the first question, because a daemon that
// nobody scrapes needs none of it.

import type { TalliedFamily } from './metric-tally.ts';

/** Text of the exposition format 0.0.4. */
export async function exposition(families: readonly TalliedFamily[]): Promise<string> {
  // CommonJS: its names are found on `default` alone once it has been bundled.
  const { AggregatorRegistry } = (await import('prom-client')).default;
  // Made for the workers of node:cluster, but its own gathering is not used: it asks every worker at every scrape, and one that
  // hangs holds the scrape up for 5 s and then fails it. What goes in here has been added up already.
  const gathered = families.map((family) => ({ ...family, aggregator: 'first' }));
  return AggregatorRegistry.aggregate([gathered]).metrics();
}

export const expositionType = 'text/plain; version=0.0.4; charset=utf-8';
