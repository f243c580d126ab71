// Finds the first job of a filter, where one call of the store may read only jobs that do not match.

import type { FoundJob } from '../core/job.ts';
import type { JobStore, SearchFilter } from '../ports/job-store.ts';
import { useCaseLimits } from './limits.ts';

type Jobs = Pick<JobStore, 'search'>;

/** null: there is none, or it lies behind firstFoundPages pages without one. Rejects with StoreError. */
export async function firstFound(
  jobs: Jobs,
  filter: SearchFilter,
  from: string | null = null,
): Promise<FoundJob | null> {
  let cursor = from;
  for (let page = 0; page < useCaseLimits.firstFoundPages; page += 1) {
    const { items, nextCursor } = await jobs.search(filter, 1, cursor);
    if (items[0] !== undefined || nextCursor === null) return items[0] ?? null;
    cursor = nextCursor;
  }
  return null;
}

/** The job of a topic that waits for the longest time: a ready one, or one that was due before `until` (epoch
 *  ms) and is not promoted. */
export async function oldestDue(jobs: Jobs, topic: string, until: number): Promise<FoundJob | null> {
  const [ready, delayed] = await Promise.all([
    firstFound(jobs, { topic, state: 'ready' }),
    firstFound(jobs, { topic, state: 'delayed', until }),
  ]);
  if (ready === null || delayed === null) return ready ?? delayed;
  return delayed.dueAt < ready.dueAt ? delayed : ready;
}
