// Waits until the instances have shipped the changes that their spools hold now. A row that is read later
// knows every end that was written before.
// Invariant: an instance that is behind counts until it has said that nothing follows: its last sign may be
// older than its last change, so an old sign does not show that its spool is empty. A database that goes back
// forgets who has reached the barrier, until they have shipped again.

import { allBarriers, type JournalDb, type JournalInstance } from '../../ports/journal.ts';
import { monotonicNow, sleep } from '../../runtime/time.ts';
import { journalLimits } from '../limits.ts';

interface BarrierOptions {
  /** The own instance, which is waited for even if it was not seen for a while: after a crash and a slow
   *  start its spool has changes that the journal lacks. */
  readonly self?: number;
  /** An instance that was seen within this time lives. */
  readonly seenMs: number;
  /** how long each living instance is waited for */
  readonly maxMs: number;
  /** those that gave no sign for longer; absent: they are left out */
  readonly silent?: SilentInstances;
  /** Called between two looks; when it rejects, the wait ends. `silent`: those that the wait is for. */
  readonly meanwhile?: (silent: readonly JournalInstance[]) => Promise<void>;
}

interface SilentInstances {
  /** Older signs are left out: those changes are too old to be merged. */
  readonly withinMs: number;
  readonly maxMs: number;
  /** Whether an earlier wait for it was in vain, and it gave no sign since. */
  readonly isGivenUp?: (instance: JournalInstance) => boolean;
}

export interface Passed {
  readonly barrier: number;
  /** the instances that have not shipped theirs when the wait ended */
  readonly behind: readonly JournalInstance[];
  /** those that have reached it, without ended ones */
  readonly reached: readonly number[];
}

export async function shippedByAll(
  journal: Pick<JournalDb, 'raiseBarrier' | 'instances'>,
  { self, seenMs, maxMs, silent, meanwhile }: BarrierOptions,
): Promise<Passed> {
  const barrier = await journal.raiseBarrier();
  const began = monotonicNow();
  /** by instance: the first look at which it lived. One that returns has its own time to ship. */
  const livingSince = new Map<number, number>();
  for (;;) {
    const instances = await journal.instances();
    const now = monotonicNow();
    const isLiving = (each: JournalInstance) => each.instance === self || each.ageMs < seenMs;
    // A sign of the end of this one is from before the database went back, or this one began.
    const reachedBy = (each: JournalInstance) =>
      each.instance === self && each.barrier === allBarriers ? 0 : each.barrier;
    const behind = instances.filter(
      (each) =>
        reachedBy(each) < barrier &&
        (isLiving(each) ||
          (silent !== undefined && each.ageMs < silent.withinMs && silent.isGivenUp?.(each) !== true)),
    );
    for (const each of behind)
      if (isLiving(each) && !livingSince.has(each.instance)) livingSince.set(each.instance, now);
    const awaited = behind.filter((each) =>
      isLiving(each)
        ? now - (livingSince.get(each.instance) ?? now) < maxMs
        : now - began < (silent?.maxMs ?? 0),
    );
    if (awaited.length === 0) {
      const reached = instances.filter((each) => each.barrier >= barrier && each.barrier < allBarriers);
      return { barrier, behind, reached: reached.map(({ instance }) => instance) };
    }
    await meanwhile?.(awaited.filter((each) => !isLiving(each)));
    await sleep(journalLimits.restoreWaitMs);
  }
}

/** Whether the database has what it had when the barrier was passed: called after rows were read, it tells
 *  whether they may be from an older state. */
export async function isStillPassed(
  journal: Pick<JournalDb, 'instances'>,
  { barrier, reached }: Pick<Passed, 'barrier' | 'reached'>,
): Promise<boolean> {
  const now = new Map((await journal.instances()).map((each) => [each.instance, each.barrier]));
  return reached.every((instance) => (now.get(instance) ?? 0) >= barrier);
}
