// Tests the finishing write that follows a verdict.
import { describe, expect, it } from 'vitest';
import { attemptReasons } from '../../src/core/job.ts';
import type { Failure } from '../../src/core/verdict.ts';
import { beforeDeadline, settle } from '../../src/core/verdict.ts';

const topic = { maxAttempts: 3, backoff: { type: 'odd' }, jitter: 0 } as const;
const failed = (more: Partial<Failure> = {}): Failure => ({
  outcome: 'failed',
  reason: 'status',
  noMoreAttempts: null,
  retryAfterMs: 0,
  ...more,
});
const settled = (
  failures: number,
  verdict: Parameters<typeof settle>[2],
  policy: Parameters<typeof settle>[0] = topic,
) => settle(policy, failures, verdict, 60_000, () => 0.5);

it('a retry after the deadline of the job is its end', () => {
  const retry = { kind: 'retry', delayMs: 60_000, by: 'backoff' } as const;
  expect(beforeDeadline(retry, 60_000)).toEqual(retry);
  expect(beforeDeadline(retry, 59_999)).toEqual({ kind: 'bury', reason: 'expired' });
  expect(beforeDeadline({ kind: 'ack' }, -1)).toEqual({ kind: 'ack' });
  const buried = { kind: 'bury', reason: 'gone' } as const;
  expect(beforeDeadline(buried, -1)).toEqual(buried);
});

describe('settle', () => {
  it('acks a delivered job, however late', () => {
    expect(settled(0, { outcome: 'delivered' })).toEqual({ kind: 'ack' });
    expect(settled(99, { outcome: 'delivered' })).toEqual({ kind: 'ack' });
  });

  it('retries after 1, 3 … units, and buries with the last attempt', () => {
    expect(settled(0, failed())).toEqual({ kind: 'retry', delayMs: 60_000, by: 'backoff' });
    expect(settled(1, failed())).toEqual({ kind: 'retry', delayMs: 180_000, by: 'backoff' });
    expect(settled(2, failed())).toEqual({ kind: 'bury', reason: 'attempts_exhausted' });
  });

  it('one attempt means no retry; a lowered maxAttempts buries at the next failure', () => {
    expect(settled(0, failed(), { ...topic, maxAttempts: 1 })).toEqual({
      kind: 'bury',
      reason: 'attempts_exhausted',
    });
    expect(settled(7, failed())).toEqual({ kind: 'bury', reason: 'attempts_exhausted' });
  });

  it.each(attemptReasons)('%s counts as an attempt', (reason) => {
    expect(settled(1, failed({ reason })).kind).toBe('retry');
    expect(settled(2, failed({ reason })).kind).toBe('bury');
  });

  it('buries at once when the receiver says so', () => {
    expect(settled(0, failed({ noMoreAttempts: 'gone' }))).toEqual({ kind: 'bury', reason: 'gone' });
    expect(settled(0, failed({ noMoreAttempts: 'no_retry', retryAfterMs: 5 }))).toEqual({
      kind: 'bury',
      reason: 'no_retry',
    });
    expect(settled(2, failed({ noMoreAttempts: 'gone' }))).toEqual({ kind: 'bury', reason: 'gone' });
  });

  it('Retry-After only lengthens the wait, and adds no attempt', () => {
    expect(settled(0, failed({ retryAfterMs: 90_000 }))).toEqual({
      kind: 'retry',
      delayMs: 90_000,
      by: 'retry_after',
    });
    expect(settled(0, failed({ retryAfterMs: 1 }))).toEqual({
      kind: 'retry',
      delayMs: 60_000,
      by: 'backoff',
    });
    expect(settled(2, failed({ retryAfterMs: 90_000 })).kind).toBe('bury');
  });

  it('adds the jitter to the wait', () => {
    expect(settled(0, failed(), { ...topic, jitter: 0.5 })).toEqual({
      kind: 'retry',
      delayMs: 75_000,
      by: 'backoff',
    });
  });
});
