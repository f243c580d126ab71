// search: filters, order, pages and fields.

import { expect } from 'vitest';
import type { FoundJob } from '../../../src/core/job.ts';
import type { SearchFilter } from '../../../src/ports/job-store.ts';
import { type Case, fact, farOffMs, type Trial } from '../trial.ts';

const names = (jobs: readonly FoundJob[]) => jobs.map(({ topic, id }) => `${topic}/${id}`);

/** All pages of `limit` items. */
async function found(trial: Trial, filter: SearchFilter, limit = 100): Promise<FoundJob[]> {
  const all: FoundJob[] = [];
  for (let cursor: string | null = null; ; ) {
    const page = await trial.jobs.search(filter, limit, cursor);
    expect(page.items.length).toBeLessThanOrEqual(limit);
    all.push(...page.items);
    cursor = page.nextCursor;
    if (cursor === null) return all;
  }
}

/** One of each state, and of two ends, in two topics. */
async function eight(trial: Trial): Promise<void> {
  await trial.push('delayed', { topic: 'a', when: { delayMs: farOffMs } });
  await trial.buried('dead', { topic: 'a' });
  await trial.reserved('reserved', { topic: 'a' });
  await trial.push('ready', { topic: 'a' });
  await trial.push('delayed', { topic: 'b', when: { delayMs: farOffMs / 2 } });
  await trial.ack(await trial.reserved('done', { topic: 'b' }));
  await trial.tick();
  await trial.push('cancelled', { topic: 'b' });
  await trial.cancel({ topic: 'b', id: 'cancelled' });
  await trial.push('ready', { topic: 'b' });
}

const filters: readonly (readonly [SearchFilter, readonly string[]])[] = [
  [{}, ['a/dead', 'a/reserved', 'a/ready', 'b/ready', 'b/delayed', 'a/delayed']],
  [{ topic: 'a' }, ['a/dead', 'a/reserved', 'a/ready', 'a/delayed']],
  [{ topic: 'none' }, []],
  [{ state: 'ready' }, ['a/ready', 'b/ready']],
  [{ state: 'delayed' }, ['b/delayed', 'a/delayed']],
  [{ state: 'dead' }, ['a/dead']],
  [{ state: 'reserved', topic: 'b' }, []],
  [{ state: 'delayed', topic: 'b' }, ['b/delayed']],
  [{ id: 'delayed' }, ['b/delayed', 'a/delayed']],
  [{ id: 'delayed', topic: 'a' }, ['a/delayed']],
  [{ id: 'delayed', state: 'ready' }, []],
  [{ id: 'delaye' }, []],
  [{ id: 'done' }, []],
  [{ id: 'done', state: 'done' }, ['b/done']],
  [{ state: 'done' }, ['b/done']],
  [{ state: 'cancelled', topic: 'b' }, ['b/cancelled']],
  [{ state: 'cancelled', topic: 'a' }, []],
  [{ state: 'purged' }, []],
];

export const searchCases: readonly Case[] = [
  ...filters.map(([filter, expected]) =>
    fact(`search: applies the filter ${JSON.stringify(filter)}`, async (trial) => {
      await eight(trial);
      expect(names(await trial.unchanged(() => found(trial, filter)))).toEqual(expected);
      expect(names(await found(trial, filter, 1))).toEqual(expected);
    }),
  ),

  fact('search: returns jobs without body and attempts, ended ones with their end', async (trial) => {
    await trial.bystanders();
    await trial.buried('1');
    const { jobs } = await trial.dump();
    for (const job of jobs) {
      const { topic, id, version, origin, state, dueAt, acceptedAt, failures, deadAt } = job;
      expect(await found(trial, { topic })).toEqual([
        { topic, id, version, origin, state, dueAt, acceptedAt, failures, deadAt, endedAt: null },
      ]);
    }
    await trial.cancel({ topic: 't', id: '1' });
    const { attempts, ...entry } = (await trial.dump()).ended[0] ?? {};
    expect(await found(trial, { state: 'cancelled' })).toEqual([{ ...entry, deadAt: null }]);
  }),

  fact('search: filters by due time, since included, until not', async (trial) => {
    const [first, second, third] = [100_000, 200_000, 300_000].map((ms) => trial.now + ms);
    for (const [id, at] of Object.entries({ first, second, third }))
      await trial.push(id, { when: { at: at ?? 0 } });
    const ids = async (since?: number, until?: number) => {
      const range = { ...(since === undefined ? {} : { since }), ...(until === undefined ? {} : { until }) };
      const all = (await found(trial, range)).map(({ id }) => id);
      expect((await found(trial, { ...range, topic: 't' })).map(({ id }) => id)).toEqual(all);
      return all;
    };
    expect(await ids(second)).toEqual(['second', 'third']);
    expect(await ids(undefined, second)).toEqual(['first']);
    expect(await ids(first, third)).toEqual(['first', 'second']);
    expect(await ids((second ?? 0) + 1, third)).toEqual([]);
  }),

  fact('search: before a moment, only versions from before it, by list and by id', async (trial) => {
    const when = { delayMs: farOffMs };
    for (const id of ['1', '2', '3']) await trial.push(id, { when });
    const before = await trial.admin.moment();
    await trial.push('2', { when });
    await trial.jobs.run([{ topic: 't', id: '3' }]);
    await trial.push('4', { when });
    for (const filter of [{}, { topic: 't' }])
      expect(names(await found(trial, { ...filter, before }, 1))).toEqual(['t/1']);
    for (const id of ['1', '2', '3', '4'])
      expect(names(await found(trial, { topic: 't', id, before }))).toEqual(id === '1' ? ['t/1'] : []);
    expect(await found(trial, { before: await trial.admin.moment() })).toHaveLength(4);
    // Its partitions were all added later.
    expect(await found(trial, { before: {} })).toEqual([]);
  }),

  fact('search: pages skip and repeat nothing while others come or go', async (trial) => {
    const due = trial.now + farOffMs;
    // Due together; their versions are those of their order on any number of shards.
    for (const n of [1, 2, 3, 4, 5]) {
      await trial.push(`${n}`, { when: { at: due } });
      await trial.tick();
    }
    const first = await trial.jobs.search({}, 2, null);
    expect(first.items.map(({ id }) => id)).toEqual(['1', '2']);
    for (const id of ['1', '2']) await trial.cancel({ topic: 't', id });
    await trial.push('earlier', { when: { at: due - 1 } });
    await trial.push('later', { when: { at: due + 1 } });
    const second = await trial.jobs.search({}, 2, first.nextCursor);
    expect(second.items.map(({ id }) => id)).toEqual(['3', '4']);
    const third = await trial.jobs.search({}, 2, second.nextCursor);
    expect(third.items.map(({ id }) => id)).toEqual(['5', 'later']);
    expect(third.nextCursor).toBeNull();
  }),

  fact('search: lists the latest end first', async (trial) => {
    for (const id of ['1', '2', '3']) await trial.push(id);
    for (const id of ['2', '3', '1']) {
      await trial.cancel({ topic: 't', id });
      await trial.tick();
    }
    for (const limit of [1, 2, 100])
      expect((await found(trial, { state: 'cancelled' }, limit)).map(({ id }) => id)).toEqual([
        '1',
        '3',
        '2',
      ]);
  }),
];
