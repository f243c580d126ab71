// planned-attempts.ts computes when the next attempts of a job are due if each of them fails. Pure. Without
// jitter, Retry-After and the duration of the calls, so every time but the first is the earliest one.

import type { JobSnapshot } from './job.ts';
import { limits } from './limits.ts';
import { backoffMs } from './retry-policy.ts';
import type { Topic } from './topic/topic.ts';

export interface PlannedAttempt {
  readonly attempt: number;
  /** epoch ms */
  readonly at: number;
}

/** At most limits.plannedMax. `now`: epoch ms by the storage clock. Empty for a dead letter. */
export function plannedAttempts(
  job: Pick<JobSnapshot, 'state' | 'dueAt' | 'failures'>,
  topic: Pick<Topic, 'backoff' | 'maxAttempts'>,
  retryUnitMs: number,
  now: number,
): readonly PlannedAttempt[] {
  if (job.state === 'dead') return [];
  const wait = (failures: number) => backoffMs(topic.backoff, failures, retryUnitMs);
  const planned: PlannedAttempt[] = [];
  let attempt = job.failures + 1;
  let at = Math.max(job.dueAt, now);
  if (job.state === 'reserved') {
    at += wait(job.failures);
    attempt += 1;
  }
  while (attempt <= topic.maxAttempts && planned.length < limits.plannedMax) {
    planned.push({ attempt, at });
    at += wait(attempt - 1);
    attempt += 1;
  }
  return planned;
}
