// Waits until the instances have shipped the changes that their spools hold now. A row that is read later
// knows every end that was written before.

import type { JournalDb, JournalInstance } from '../../ports/journal.ts';
import { upkeepLimits } from '../limits.ts';

export interface BarrierOptions {
  /** The own instance, which is waited for even if it was not seen for a while: after a crash and a slow
   *  start its spool has changes that the journal lacks. */
  readonly self?: number;
  /** Waits for the instances that were seen within this time. */
  readonly seenMs: number;
  readonly maxMs: number;
  /** Called between two looks; when it rejects, the wait ends. */
  readonly meanwhile?: () => Promise<void>;
}

export interface Passed {
  readonly barrier: number;
  /** the instances that have not shipped theirs after maxMs */
  readonly behind: readonly JournalInstance[];
}

export async function shippedByAll(
  journal: Pick<JournalDb, 'raiseBarrier' | 'instances'>,
  { self, seenMs, maxMs, meanwhile }: BarrierOptions,
): Promise<Passed> {
  const barrier = await journal.raiseBarrier();
  const end = performance.now() + maxMs;
  for (;;) {
    const behind = (await journal.instances()).filter(
      (each) => (each.instance === self || each.ageMs < seenMs) && each.barrier < barrier,
    );
    if (behind.length === 0 || performance.now() >= end) return { barrier, behind };
    await meanwhile?.();
    await new Promise((resolve) => setTimeout(resolve, upkeepLimits.restoreWaitMs));
  }
}
