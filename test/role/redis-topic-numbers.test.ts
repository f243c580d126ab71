// Topic numbers in Redis: unused topics cost no command, and no two topics have one number at a time.
import { describe, expect, it } from 'vitest';
import { attemptOf, examined, farOffMs, jobOf, request, type Trial } from '../conformance/trial.ts';
import { type OneShardOptions, type OpenedRedis, openedEmpty } from '../support/redis-store.ts';
import { lacks, workerRedis } from '../support/services.ts';

// Without hints: their connection subscribes again from time to time, which would count as a cost.
const opened = async (more: OneShardOptions = {}) =>
  openedEmpty(await workerRedis(), { plainPolls: false, hints: false, ...more });

/** Commands that a call costs the server, those inside scripts included. */
async function costOf({ raw }: OpenedRedis, call: () => Promise<unknown>): Promise<number> {
  await raw.config('RESETSTAT');
  await call();
  const info = await raw.info('commandstats');
  return [...info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)]
    .filter(([, name]) => !/^(config|info)/.test(name ?? ''))
    .reduce((sum, [, , calls]) => sum + Number(calls), 0);
}

/** The polls of the loops. */
async function costs(under: OpenedRedis): Promise<readonly number[]> {
  const { admin, alerts, jobs, history } = under.store;
  const all: number[] = [];
  const calls = [
    () => admin.counts(),
    () => alerts.due(1_000),
    () => jobs.search({}, 10, null),
    () => history.forget(farOffMs, 100),
  ];
  for (const call of calls) all.push(await costOf(under, call));
  return all;
}

/** A job in each topic, ended in one way or another. */
async function comeAndGo(trial: Trial, names: readonly string[]): Promise<void> {
  for (let at = 0; at < names.length; at += 100) {
    const some = names.slice(at, at + 100);
    await trial.jobs.push(some.map((topic) => jobOf('1', { topic })));
    const jobs = await trial.reserve(request(100));
    expect(jobs).toHaveLength(some.length);
    await trial.jobs.ack(jobs.map((job) => ({ ...job, attempt: attemptOf(job) })));
  }
}

const names = (n: number, prefix: string) => Array.from({ length: n }, (_, i) => `${prefix}.${i}`);
const numbersOf = async ({ raw }: OpenedRedis) => Object.entries(await raw.hgetall('{dq:0}:T'));

describe.skipIf(await lacks('redis'))('topic numbers', () => {
  it.each([true, false])('5,000 unused topics cost no command (history: %s)', async (keepHistory) => {
    const { under, trial } = await opened({ keepHistory });
    await trial.push('stays', { topic: 'stays', when: { delayMs: 60_000 } });
    await trial.history.forget(farOffMs, 100);
    const before = await costs(under);
    await comeAndGo(trial, names(5_000, 'gone'));
    await trial.history.forget(farOffMs, 100);
    expect(await costs(under)).toEqual(before);
    // Their history is kept, and found.
    const ended = await trial.history.get({ topic: 'gone.17', id: '1' });
    expect(ended?.state).toBe(keepHistory ? 'done' : undefined);
  });

  it('a number is reused when its topic has nothing left, and not before', async () => {
    const { under, trial } = await opened();
    await comeAndGo(trial, names(300, 'first'));
    await trial.history.forget(farOffMs, 100);
    await comeAndGo(trial, names(300, 'second'));
    // The first topics are at rest and keep their numbers for their history.
    expect(await numbersOf(under)).toHaveLength(600);
    expect(await trial.history.get({ topic: 'first.7', id: '1' })).toMatchObject({ state: 'done' });
    const all = async () => {
      while ((await trial.history.forget(0, 500)).more);
      await trial.history.forget(farOffMs, 100);
    };
    await all();
    expect(await numbersOf(under)).toEqual([]);
    expect(await under.raw.hlen('{dq:0}:t')).toBe(0);
    await comeAndGo(trial, names(600, 'third'));
    const given = await numbersOf(under);
    expect(new Set(given.map(([no]) => no)).size).toBe(600);
    expect(Math.max(...given.map(([no]) => Number(no)))).toBe(600);
    expect(await under.raw.hget('{dq:0}:n', 'topics')).toBe('600');
  });

  it('a topic with a job, an alert or a claim is not put at rest', async () => {
    const { under, trial } = await opened();
    await trial.bystanders();
    await trial.buried('claimed', { topic: 'claimed' });
    await trial.alerts.claim('claimed', 60_000, 5);
    await trial.dead.purge({ topic: 'claimed' }, 5);
    await trial.buried('owed', { topic: 'owed' });
    await trial.dead.purge({ topic: 'owed' }, 5);
    const before = await trial.dump();
    await trial.history.forget(farOffMs, 100);
    const atRest = Object.entries(await under.raw.hgetall('{dq:0}:t')).filter(([, no]) =>
      no.includes('rest'),
    );
    const held = new Set([...before.jobs, ...before.alerts].map(({ topic }) => topic));
    expect(held.has('claimed') && held.has('owed')).toBe(true);
    expect(atRest.filter(([topic]) => held.has(topic))).toEqual([]);
    expect(await trial.dump()).toEqual(before);
  });

  it('a topic at rest keeps its number for its next job', async () => {
    const { under, trial } = await opened();
    await comeAndGo(trial, ['t', 'u']);
    await trial.history.forget(farOffMs, 100);
    expect(await under.raw.hget('{dq:0}:t', 't')).toBe('1 at rest');
    await trial.push('2');
    expect(await under.raw.hget('{dq:0}:t', 't')).toBe('1');
    expect((await under.store.admin.counts()).topics).toMatchObject({ t: { ready: 1 } });
    expect(await trial.history.get({ topic: 't', id: '1' })).toMatchObject({ state: 'done' });
    expect((await under.store.jobs.search({ state: 'done' }, 10, null)).items).toHaveLength(2);
    while ((await trial.history.forget(0, 500)).more);
    expect(await numbersOf(under)).toEqual([['1', 't']]);
    expect(await trial.known('2')).toMatchObject({ state: 'ready' });
  });

  it('fsck: finds no problem while topics come and go', async () => {
    const { trial } = await opened();
    await comeAndGo(trial, names(50, 'gone'));
    await trial.history.forget(farOffMs, 100);
    await trial.push('1');
    expect(await examined(trial)).toEqual({ jobs: 1, problems: [] });
  });
});
