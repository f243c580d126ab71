// Tests why a job is where it is, its planned attempts, and the shared questions to the notifiers.
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { apiLimits } from '../../src/api/limits.ts';
import { NotifierAnswers } from '../../src/api/routes/job-facts.ts';
import type { CapacityReason } from '../../src/core/capacity-reasons.ts';
import type { JobSnapshot } from '../../src/core/job.ts';
import { type WhyFacts, whyOf } from '../../src/core/job-why.ts';
import { limits } from '../../src/core/limits.ts';
import { plannedAttempts } from '../../src/core/retry-policy.ts';

const ready: JobSnapshot = {
  ...{ topic: 't', id: 'a', version: 1, origin: 1, state: 'ready', dueAt: 1_000, acceptedAt: 0 },
  ...{ failures: 0, strikes: 0, contentType: null, body: Buffer.alloc(0), attempts: [] },
  ...{ deadAt: null, deadReason: null },
};
const because = (...codes: CapacityReason['code'][]): CapacityReason[] =>
  codes.map((code) => ({ code, message: code, remedy: '', values: {} }));
const says = (...answers: (CapacityReason[] | null)[]) => answers.map((answer) => ({ answer }));
const facts: WhyFacts = {
  ...{ now: 5_000, pollCeilingMs: 1_000, topic: { state: 'active', delivery: 'push' } },
  ...{ notifiers: null, ahead: null, places: null, call: null },
};
const why = (notifiers: WhyFacts['notifiers'], ahead: number | null = null) =>
  whyOf(ready, { ...facts, notifiers, ahead });

describe('why: a snoozed job', () => {
  const waiting = (job: object) => whyOf({ ...ready, state: 'delayed', dueAt: 65_000, ...job }, facts).code;
  const failed = { attempt: 1, startedAt: 4_000, durationMs: 500, nextDelayMs: 60_000 };

  it('waits for its snooze, not for a retry, unless a later failure decided', () => {
    expect(waiting({})).toBe('waits_until_due');
    expect(waiting({ again: 2 })).toBe('waits_again');
    expect(waiting({ failures: 1, attempts: [failed] })).toBe('waits_to_retry');
    expect(waiting({ again: 2, failures: 1, attempts: [failed] })).toBe('waits_to_retry');
    expect(waiting({ again: 2, failures: 1, attempts: [failed], dueAt: 65_500 })).toBe('waits_again');
  });
});

describe('why: a ready job', () => {
  it('one free notifier: other jobs go first', () => {
    expect(why(says(because('concurrency_reached'), []), 12)).toEqual({ code: 'ahead', ahead: 12 });
  });

  it.each([
    ['store_unavailable', 'store_away'],
    ['ailing', 'probing'],
    ['slow_calls', 'probing'],
    ['rate_reached', 'at_rate'],
    ['half_of_slots', 'at_concurrency'],
    ['ramping', 'at_concurrency'],
    ['no_free_slot', 'at_concurrency'],
    ['isolation', 'held'],
    ['unknown_topic', 'held'],
  ] as const)('every notifier says %s: %s', (reason, code) => {
    expect(why(says(because(reason), because(reason)))).toEqual({
      code,
      ahead: null,
      reasons: because(reason),
    });
  });

  it('a notifier without a share does not count beside others', () => {
    expect(why(says(because('no_share'), because('rate_reached')))).toMatchObject({ code: 'at_rate' });
    expect(why(says(null, because('no_share')))).toMatchObject({ code: 'unknown' });
  });

  it('the notifiers that call it are not ready: it names them', () => {
    const [share] = because('no_share');
    const told = [{ ...(share as CapacityReason), values: { callers: 'dq-notifier-0' } }];
    expect(why(says(told, told))).toMatchObject({
      code: 'no_notifier',
      reasons: [{ code: 'no_caller', values: { callers: 'dq-notifier-0' } }],
    });
  });

  it('only reasons of its own partition hold it', () => {
    const [full] = because('concurrency_reached');
    const inShard = (code: CapacityReason['code'], places: string) =>
      because(code).map((reason) => ({ ...reason, values: { places } }));
    const failing = inShard('store_unavailable', 'a:0 a:1');
    const of = (places: readonly string[] | null, reasons: CapacityReason[]) =>
      whyOf(ready, { ...facts, places, notifiers: says(reasons) }).code;
    expect(of(['a:1'], failing)).toBe('store_away');
    expect(of(null, failing)).toBe('store_away');
    expect(of(['b:0'], failing)).toBe('ahead');
    expect(of(['b:0'], [...failing, full as CapacityReason])).toBe('at_concurrency');
    expect(of(['b:0'], inShard('healing', 'b:0'))).toBe('healing');
    const pulled: WhyFacts = { ...facts, topic: { state: 'active', delivery: 'pull' }, places: ['b:0'] };
    const healing = says(inShard('healing', 'b:0'));
    expect(whyOf(ready, { ...pulled, notifiers: healing }).code).toBe('healing');
    expect(whyOf(ready, { ...pulled, notifiers: says(inShard('healing', 'a:0')) }).code).toBe(
      'waits_for_pull',
    );
  });

  it('a topic whose record is unread is not called unregistered', () => {
    const reasons = because('unreadable_topic');
    expect(whyOf(ready, { ...facts, topic: null, notifiers: says(reasons) })).toEqual({
      ...{ code: 'held', ahead: null, reasons },
    });
  });

  it('silent notifiers and no notifier are named', () => {
    expect(why(null)).toEqual({ code: 'unknown', ahead: null });
    expect(why(says(null, null))).toEqual({ code: 'unknown', ahead: null });
    expect(why([])).toEqual({ code: 'no_notifier', ahead: null });
    expect(why(says(null, because('rate_reached')))).toMatchObject({ code: 'at_rate' });
  });
});

describe('why: a job that no notifier has', () => {
  it('delayed and due for longer than pollCeiling: dq-timer has not made it ready, whatever holds it then', () => {
    const delayed: JobSnapshot = { ...ready, state: 'delayed' };
    expect(whyOf(delayed, { ...facts, now: 999 })).toEqual({ code: 'waits_until_due', at: 1_000 });
    // A hint may have been lost.
    expect(whyOf(delayed, { ...facts, now: 1_999 })).toEqual({ code: 'waits_until_due', at: 1_000 });
    expect(whyOf(delayed, { ...facts, now: 2_000 })).toEqual({ code: 'not_promoted', at: 1_000 });
    const failed = { ...delayed, failures: 1 };
    expect(whyOf(failed, { ...facts, now: 999 })).toMatchObject({ code: 'waits_to_retry' });
    expect(whyOf(failed, { ...facts, topic: undefined })).toEqual({
      code: 'not_promoted',
      at: 1_000,
      held: 'not_registered',
    });
  });

  it('reserved: runs only where a notifier says so', () => {
    const reserved: JobSnapshot = { ...ready, state: 'reserved' };
    expect(whyOf(reserved, facts)).toEqual({ code: 'leased' });
    const call = { since: 2_000, notifier: 'dq-notifier-0' };
    expect(whyOf(reserved, { ...facts, call })).toEqual({ code: 'running', ...call });
    const topic = { state: 'active', delivery: 'pull' } as const;
    expect(whyOf(reserved, { ...facts, topic })).toEqual({ code: 'pulled' });
  });
});

describe('planned attempts', () => {
  const topic = { backoff: { type: 'odd' } as const, maxAttempts: 4 };
  const plan = (job: Partial<JobSnapshot>, now = 0) =>
    plannedAttempts({ ...ready, ...job }, topic, 60_000, now).map(({ attempt, at }) => [attempt, at]);

  it('begin at the due time, or now', () => {
    expect(plan({ state: 'delayed' })).toEqual([
      [1, 1_000],
      [2, 61_000],
      [3, 241_000],
      [4, 541_000],
    ]);
    expect(plan({ failures: 3 }, 5_000)).toEqual([[4, 5_000]]);
  });

  it('while one runs, begin after its wait; a dead letter has none', () => {
    expect(plan({ state: 'reserved', failures: 2 }, 5_000)).toEqual([[4, 305_000]]);
    expect(plan({ state: 'dead' })).toEqual([]);
  });

  it('are bounded', () => {
    const many = plannedAttempts(ready, { ...topic, maxAttempts: 1_000 }, 60_000, 0);
    expect(many).toHaveLength(limits.plannedMax);
  });
});

describe('kept answers', () => {
  it('one question serves all readers, for a bounded number of questions', async () => {
    // No answer grows too old while this process stands still.
    vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const asked: string[] = [];
    const kept = new NotifierAnswers<number>();
    const of = (about: string) =>
      kept.of(about, async () => {
        asked.push(about);
        return [];
      });
    expect(await Promise.all([of('a'), of('a')])).toEqual([[], []]);
    expect(asked).toEqual(['a']);
    for (let n = 0; n < apiLimits.whyKeptMax + 5; n += 1) await of(`t${n}`);
    expect(asked).toHaveLength(apiLimits.whyKeptMax);
    expect(await of('b')).toBeNull();
  });

  it('a silent master delays a reader by the bound only', async () => {
    const kept = new NotifierAnswers<number>();
    const from = performance.now();
    expect(await kept.of('a', () => new Promise(() => {}))).toBeNull();
    expect(performance.now() - from).toBeGreaterThanOrEqual(apiLimits.whyMs - 5);
  });
});
