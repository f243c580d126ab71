// Tests which attempts of a job are from before its last requeue, and since when it waits.
import { expect, it } from 'vitest';
import { type AttemptRecord, attemptsBeforeRequeue, firstDueAt } from '../../src/core/job.ts';
import { hasMarks } from '../../src/core/survey.ts';
import { lateJob } from '../../src/use-cases/find-job.ts';

const failed = (attempt: number): AttemptRecord => ({
  ...{ attempt, startedAt: 0, durationMs: 1, outcome: 'failed', reason: 'status', status: 500 },
  ...{ replyExcerpt: '', notifier: 'dq-notifier-0', host: 'vm-1' },
});
const delivered = (attempt: number): AttemptRecord => ({
  ...failed(attempt),
  outcome: 'delivered',
  reason: null,
});
const all = (...numbers: readonly number[]) => numbers.map(failed);

it.each([
  ['none', [], 0, 0],
  ['a job that was never requeued', all(1, 2, 3), 3, 0],
  ['of which the first ones are gone', all(4, 5, 6), 6, 0],
  ['requeued, not called since', all(1, 2, 3), 0, 3],
  ['requeued, failed since', all(2, 3, 1, 2), 2, 2],
  ['requeued after one attempt, failed since', all(1, 1), 1, 1],
  ['requeued twice', all(1, 2, 1, 2), 0, 4],
  ['requeued twice, failed since', all(1, 2, 1, 2, 1), 1, 4],
  ['delivered at once', [delivered(1)], 0, 0],
  ['delivered after failures', [...all(1, 2), delivered(3)], 2, 0],
  ['delivered after a requeue', [...all(1, 2), delivered(1)], 0, 2],
  ['an attempt without a record after a requeue', all(1, 2, 3), 1, 3],
])('%s', (_, attempts, failures, earlier) => {
  expect(attemptsBeforeRequeue(attempts, failures)).toBe(earlier);
});

it('the first due time is that of the first attempt since the push or the requeue', () => {
  const late = (attempt: number, startedAt: number) => ({ ...failed(attempt), startedAt, latenessMs: 30 });
  const [dueAt, attempts] = [9_000, [late(1, 1_030), late(2, 5_000)]];
  expect(firstDueAt({ dueAt, attempts: [], failures: 0 })).toBe(9_000);
  expect(firstDueAt({ dueAt, attempts, failures: 2 })).toBe(1_000);
  expect(firstDueAt({ dueAt, attempts: [...attempts, late(1, 7_030)], failures: 1 })).toBe(7_000);
  // It is not kept, or its notifier wrote no lateness.
  expect(firstDueAt({ dueAt, attempts: [late(2, 5_000)], failures: 2 })).toBeNull();
  expect(firstDueAt({ dueAt, attempts: all(1), failures: 1 })).toBeNull();
});

it.each([
  ['first attempt', [1, 2], { since: 1_000, isLeast: false }],
  ['later attempt, where the first ones are gone', [2, 3], { since: 1_000, isLeast: true }],
])('a job that retries is late since its %s', async (_, numbers, late) => {
  const attempts = numbers.map((attempt, n) => ({
    ...failed(attempt),
    startedAt: 1_030 + n,
    latenessMs: 30,
  }));
  const job = { id: 'a', state: 'delayed', dueAt: 9_000, attempts, failures: numbers.at(-1) };
  const jobs = { get: async () => job as never };
  const retried = [{ id: 'a', since: 0, nextAt: 9_000 }];
  const asked = { topic: 't', found: [], retried, jobs: 1, hasFailed: true };
  expect(await lateJob(jobs, asked, 5_000)).toEqual({ id: 'a', ...late });
});

it.each([
  ['failed since the requeue', 1, all(1, 2, 1), true],
  ['not called since the requeue', 0, all(1, 2), false],
])('marks of a dead letter that was %s', (_, failures, attempts, isLast) => {
  const dead = { deadReason: 'expired', attempts, failures } as const;
  for (const marks of [{ lastReason: 'status' }, { status: '500' }, { status: '5xx' }] as const)
    expect(hasMarks(marks, dead), JSON.stringify(marks)).toBe(isLast);
  expect(hasMarks({ deadReason: 'expired' }, dead)).toBe(true);
  expect(hasMarks({ status: 'none' }, dead)).toBe(!isLast);
});
