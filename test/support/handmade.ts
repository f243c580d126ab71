// Does what notifiers do, on the store of a server role.
import { expect } from 'vitest';
import type { AttemptRecord, ReservedJob } from '../../src/core/job.ts';
import type { TestIntake } from './intake.ts';

export const failedAttempt: AttemptRecord = {
  ...{ attempt: 1, startedAt: 1_700_000_000_000, durationMs: 5, outcome: 'failed', reason: 'status' },
  ...{ status: 500, replyExcerpt: 'no', notifier: 'dq-notifier-0', host: 'vm' },
};

/** The only ready job. */
export async function reserveOne(dq: TestIntake): Promise<ReservedJob> {
  const { jobs } = await dq.store.jobs.reserve(0, {
    owner: { instance: 1, incarnation: 9 },
    max: 2,
    others: { room: 2, leaseMs: 60_000 },
    topics: new Map(),
  });
  expect(jobs).toHaveLength(1);
  return jobs[0] as ReservedJob;
}

/** Pushes `{"id":…}` for each id, and buries it after one attempt. */
export async function bury(dq: TestIntake, topic: string, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await dq.push(topic, `{"id":"${id}"}`, `?id=${id}&delay=0`);
    const job = await reserveOne(dq);
    const outcomes = await dq.store.jobs.bury([
      { ...job, reason: 'attempts_exhausted', attempt: failedAttempt },
    ]);
    expect(outcomes).toEqual([{ kind: 'buried' }]);
  }
}
