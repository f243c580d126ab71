// Tests that the only attempt of a job is read back as it was stored.
import { expect, it } from 'vitest';
import type { AttemptRecord } from '../../src/core/job.ts';
import { packFirstAttempt, withFirstAttempt } from '../../src/core/stored-codes.ts';

const first: AttemptRecord = {
  ...{ attempt: 1, startedAt: 1_900_000_000_000, durationMs: 12, outcome: 'delivered', reason: null },
  status: 200,
  replyExcerpt: '{"code":200}',
  notifier: 'dq-notifier-0',
  host: 'vm-1',
};

it.each([
  first,
  { ...first, durationMs: 0, status: null, replyExcerpt: '' },
  { ...first, replyExcerpt: 'später \\u000a\n"“\n' },
])('with reply $replyExcerpt and status $status', (attempt) => {
  expect(withFirstAttempt([], packFirstAttempt(attempt))).toEqual([attempt]);
});
