// Merges the overdue jobs that the parts of a store name, for StoreAdmin.counts: one of each topic, those
// that have been due the longest first.

import type { LateJob } from '../core/incident.ts';
import { limits } from '../core/limits.ts';

export function oldestByTopic(found: readonly LateJob[]): readonly LateJob[] {
  const oldest = new Map<string, LateJob>();
  for (const job of found.toSorted((a, b) => a.dueAt - b.dueAt))
    if (oldest.size < limits.oldestMax && !oldest.has(job.topic)) oldest.set(job.topic, job);
  return [...oldest.values()];
}
