// Tests what dq explain says about one job.
import { expect, it } from 'vitest';
import { linesOf } from '../../src/cli/commands/explain.ts';
import type { JobJson } from '../../src/contract/api/job.ts';
import { whyCodes } from '../../src/core/job-why.ts';

const second = (n: number) => new Date(1_000 * n).toISOString();
const job = {
  ...{ topic: 't', id: 'a', state: 'delayed', attempt: 0, maxAttempts: 3, attempts: [] },
  ...{ dueAt: second(10), why: { code: 'waits_until_due', at: second(10) } },
} as unknown as JobJson;
const line = (name: string, more: object, now: number) =>
  linesOf({ ...job, ...more } as JobJson, 1_000 * now).find(([key]) => key === name)?.[1];

it('each code of a due job has a sentence, not the code', () => {
  for (const code of whyCodes) {
    const text = line('why', { state: 'ready', why: { code, at: second(1) } }, 4);
    expect(text, code).toMatch(/ /);
    expect(text, code).not.toContain(code.includes('_') ? code : '?');
  }
  const pulled = { state: 'ready', why: { code: 'waits_for_pull' } };
  expect(line('why', pulled, 4)).toBe('it is due and waits for a client that pulls its topic');
});

it('a delayed job: when it is due, also where the time has just come', () => {
  expect(line('why', {}, 4)).toBe(`attempt 1 of 3 is due at ${second(10)}, in 6s`);
  expect(line('why', {}, 10)).toBe(`attempt 1 of 3 has been due since ${second(10)}`);
});

it('a snoozed job: how often', () => {
  const why = { code: 'waits_again', at: second(70) };
  expect(line('why', { why, again: 1 }, 10)).toBe(`snoozed once; attempt 1 of 3 is due at ${second(70)}`);
  expect(line('why', { why, again: 2 }, 10)).toContain('snoozed 2 times;');
});

it('a running job: its start and its notifier, as far as the daemon names them', () => {
  const why = { code: 'running', since: second(3), notifier: 'dq-notifier-0' };
  expect(line('why', { why }, 10)).toBe(`attempt 1 of 3 is running since ${second(3)} in dq-notifier-0`);
  expect(line('why', { why: { code: 'running', since: null, notifier: null } }, 10)).toBe(
    'attempt 1 of 3 is running',
  );
});

it('a ready job: its next attempt has no time, only jobs before it', () => {
  const waits = { state: 'ready', nextAttempts: [{ attempt: 2, at: second(10.4) }] };
  expect(line('next attempt', { ...waits, why: { code: 'probing', ahead: 345 } }, 10)).toBe(
    '2 of 3, after the jobs before it',
  );
  expect(line('next attempt', { ...waits, why: { code: 'ahead', ahead: 0 } }, 10)).toBe('2 of 3');
  const paced = (ahead: number) =>
    line('next attempt', { ...waits, why: { code: 'ahead', ahead, likelyAt: second(250) } }, 10);
  const pace = `${second(250)}, in 4m, at the pace of the last 5 minutes`;
  expect(paced(345)).toBe(`2 of 3, after the jobs before it: likely at ${pace}`);
  expect(paced(1_000)).toBe(`2 of 3, after the jobs before it: not before ${pace}`);
  const later = { nextAttempts: waits.nextAttempts, why: { code: 'waits_to_retry', at: second(10.4) } };
  expect(line('next attempt', later, 10)).toBe(`2 of 3, at ${second(10.4)}`);
});

it('a job past its deadline: what it waits for', () => {
  const dies = (state: string, why: object) => line('deadline', { state, why, deadline: second(20) }, 30);
  expect(dies('ready', { code: 'ahead' })).toMatch(/it dies when its turn comes$/);
  expect(dies('ready', { code: 'topic_paused' })).toMatch(/it dies when the topic is resumed$/);
  expect(dies('delayed', { code: 'not_promoted', held: 'topic_offline' })).toMatch(
    /when the topic is resumed$/,
  );
  expect(dies('ready', { code: 'not_registered' })).toMatch(/it dies when the topic is registered$/);
});
