// Applies a deal plan to whole rings, for the model, the mutants and tests of the wheel.

import type { Priority } from '../../src/core/job.ts';
import { type DealPlan, planDeals, type ReadyTopic } from '../../src/store/wheel.ts';

/** Per priority, each topic once, next turn first. */
export type ReadyRings = Readonly<Record<Priority, readonly ReadyTopic[]>>;

export interface Dealt extends Pick<DealPlan, 'deals' | 'position' | 'more'> {
  /** Afterwards: served topics are at the end, topics without capacity kept their turn, emptied ones are
   *  gone. */
  readonly rings: ReadyRings;
}

export function dealTickets(
  position: number,
  rings: ReadyRings,
  request: Parameters<typeof planDeals>[2],
): Dealt {
  const { served, ...plan } = planDeals(position, rings, request);
  const left = (priority: Priority) => leftOf(rings[priority], served[priority]);
  return { ...plan, rings: { high: left('high'), normal: left('normal'), low: left('low') } };
}

function leftOf(ring: readonly ReadyTopic[], served: ReadonlyMap<string, number>): readonly ReadyTopic[] {
  const waiting = ring.filter((entry) => entry.ready > 0 && !served.has(entry.topic));
  const after = [...served].map(([topic, ready]) => ({ topic, ready }));
  return [...waiting, ...after.filter((entry) => entry.ready > 0)];
}
