// get, counts, purgeTopic, fsck, clock and health.

import { expect } from 'vitest';
import { jobStates } from '../../../src/core/job.ts';
import { type Case, examined, fact, farOffMs, idsOf, jobOf, request } from '../trial.ts';

export const adminCases: readonly Case[] = [
  ...jobStates.map((state) =>
    fact(`get: shows a ${state} job whole and changes nothing`, async (trial) => {
      await trial.bystanders();
      await trial.seed(state, '1', { body: Buffer.from([0, 128, 255]) });
      const { priority, lease, ...stored } = (await trial.dump()).jobs.find((job) => job.topic === 't') ?? {};
      const job = await trial.unchanged(() => trial.jobs.get({ topic: 't', id: '1' }));
      expect(job).toEqual(stored);
      expect(Buffer.isBuffer(job?.body)).toBe(true);
    }),
  ),

  fact('get: returns null for an unknown job', async (trial) => {
    await trial.push('1');
    expect(await trial.jobs.get({ topic: 't', id: '2' })).toBeNull();
    expect(await trial.jobs.get({ topic: 'u', id: '1' })).toBeNull();
  }),

  fact('get: leaves out the body that is not wanted', async (trial) => {
    for (const size of [5, 100_000]) {
      const body = Buffer.alloc(size, 'x');
      const key = { topic: 't', id: `of ${size}` };
      await trial.seed('dead', key.id, { body, contentType: 'text/x-none' });
      const whole = await trial.jobs.get(key);
      expect(whole).toMatchObject({ state: 'dead', body, contentType: 'text/x-none' });
      const bodiless = await trial.jobs.get(key, 'bodiless');
      expect(bodiless).toEqual({ ...whole, body: Buffer.alloc(0) });
    }
    expect(await trial.jobs.get({ topic: 't', id: '2' }, 'bodiless')).toBeNull();
  }),

  fact('counts: counts every topic that has a job, by state, and no other', async (trial) => {
    expect(await trial.admin.counts()).toEqual({ topics: {}, oldestOverdueMs: null, oldest: [] });
    for (const state of jobStates) await trial.seed(state, state, { topic: `one.${state}` });
    await trial.jobs.push(['1', '2', '3'].map((id) => jobOf(id)));
    await trial.lease();
    await trial.bury(await trial.lease());
    await trial.push('gone', { topic: 'u' });
    await trial.cancel({ topic: 'u', id: 'gone' });
    const zero = { delayed: 0, ready: 0, reserved: 0, dead: 0 };
    expect((await trial.unchanged(() => trial.admin.counts())).topics).toEqual({
      'one.delayed': { ...zero, delayed: 1 },
      'one.ready': { ...zero, ready: 1 },
      'one.reserved': { ...zero, reserved: 1 },
      'one.dead': { ...zero, dead: 1 },
      t: { delayed: 0, ready: 1, reserved: 1, dead: 1 },
    });
  }),

  fact('counts: returns how long the oldest ready job is overdue', async (trial) => {
    await trial.push('1');
    await trial.clock.skip(20);
    await trial.push('2', { topic: 'u', priority: 'high' });
    await trial.push('3', { when: { delayMs: 60_000 } });
    await trial.clock.skip(5);
    expect(await trial.admin.counts()).toMatchObject({
      oldestOverdueMs: 25,
      oldest: [
        { topic: 't', id: '1' },
        { topic: 'u', id: '2' },
      ],
    });
    await trial.reserve(request(1, { t: 1 }));
    expect(await trial.admin.counts()).toMatchObject({
      oldestOverdueMs: 5,
      oldest: [{ topic: 'u', id: '2' }],
    });
    await trial.reserve(request(1));
    expect(await trial.admin.counts()).toMatchObject({ oldestOverdueMs: null, oldest: [] });
  }),

  fact('counts: a due delayed job counts as overdue, but for those of held topics', async (trial) => {
    await trial.push('far', { when: { delayMs: farOffMs } });
    expect((await trial.admin.counts()).oldestOverdueMs).toBeNull();
    const { dueAt } = await trial.push('1', { when: { delayMs: 20 } });
    const early = await trial.justBefore(dueAt, () => trial.admin.counts());
    expect(early.oldestOverdueMs).toBeNull();
    const later = await trial.push('2', { topic: 'u', when: { delayMs: 5 } });
    await trial.clock.skip(20);
    expect(await trial.admin.counts()).toMatchObject({
      oldestOverdueMs: 20,
      oldest: [
        { topic: 't', id: '1' },
        { topic: 'u', id: '2' },
      ],
    });
    const laterMs = 20 - (later.dueAt - dueAt);
    expect(await trial.admin.counts(['t'])).toMatchObject({
      oldestOverdueMs: laterMs,
      oldest: [{ topic: 'u', id: '2' }],
    });
    expect(await trial.admin.counts(['t', 'u'])).toMatchObject({ oldestOverdueMs: null, oldest: [] });
  }),

  fact('counts: of pulled topics only due delayed jobs count as overdue', async (trial) => {
    await trial.push('1');
    await trial.clock.skip(20);
    const { dueAt } = await trial.push('2', { when: { delayMs: 5 } });
    await trial.push('3', { topic: 'u', when: { delayMs: 10 } });
    await trial.clock.skip(20);
    expect(await trial.admin.counts([], ['t', 'v'])).toMatchObject({
      oldestOverdueMs: trial.now - dueAt,
      oldest: [
        { topic: 't', id: '2' },
        { topic: 'u', id: '3' },
      ],
    });
    expect(await trial.admin.counts(['t'], ['u'])).toMatchObject({ oldest: [{ topic: 'u', id: '3' }] });
    expect(await trial.admin.counts(['t', 'u'], ['t'])).toMatchObject({ oldest: [] });
    expect((await trial.admin.counts([], ['u'])).oldest[0]).toMatchObject({ topic: 't', id: '1' });
  }),

  fact(
    'counts: names the oldest overdue job of each topic, the one due first before the others',
    async (trial) => {
      for (const [topic, priority] of [
        ['v', 'low'],
        ['t', 'normal'],
        ['u', 'high'],
        ['t', 'high'],
        ['v', 'high'],
      ] as const) {
        await trial.push(`${topic}-${priority}`, { topic, priority });
        await trial.clock.skip(5);
      }
      const { oldest } = await trial.admin.counts();
      expect(oldest.map(({ topic, id }) => [topic, id])).toEqual([
        ['v', 'v-low'],
        ['t', 't-normal'],
        ['u', 'u-high'],
      ]);
    },
  ),

  fact('counts: held topics only do not count as overdue', async (trial) => {
    await trial.push('1');
    await trial.clock.skip(20);
    await trial.push('2', { topic: 'u' });
    await trial.clock.skip(5);
    const { topics, ...oldest } = await trial.admin.counts(['t', 'v']);
    expect(topics).toEqual((await trial.admin.counts()).topics);
    expect(oldest).toMatchObject({ oldestOverdueMs: 5, oldest: [{ topic: 'u', id: '2' }] });
    expect((await trial.admin.counts(['t', 'u'])).oldestOverdueMs).toBeNull();
  }),

  fact('countsOf: counts the given topics alone, and finds their oldest overdue jobs', async (trial) => {
    expect(await trial.admin.countsOf(['t', 'none'])).toEqual({
      topics: {},
      oldestOverdueMs: null,
      oldest: [],
    });
    for (const state of jobStates) await trial.seed(state, state, { topic: `one.${state}` });
    await trial.push('first', { topic: 'first' });
    await trial.clock.skip(5);
    const { dueAt } = await trial.push('late', { topic: 'u', when: { delayMs: 5 } });
    await trial.clock.skip(10);
    for (const priority of ['high', 'low'] as const) {
      await trial.push(priority, { priority });
      await trial.clock.skip(5);
    }
    await trial.push('far', { when: { delayMs: farOffMs } });
    const { topics } = await trial.admin.counts();
    const states = jobStates.map((state) => `one.${state}`);
    const asked = ['t', 'none', 'u', ...states];
    const found = await trial.unchanged(() => trial.admin.countsOf(asked));
    const { first: _, ...others } = topics;
    expect(found.topics).toEqual(others);
    expect(await trial.admin.countsOf(['t', 'none', 'u'])).toMatchObject({
      oldestOverdueMs: trial.now - dueAt,
      oldest: [
        { topic: 'u', id: 'late' },
        { topic: 't', id: 'high' },
      ],
    });
    expect(await trial.admin.countsOf([])).toEqual({ topics: {}, oldestOverdueMs: null, oldest: [] });
  }),

  fact('purgeTopic: removes jobs of a topic in any state; alerts stay owed', async (trial) => {
    await trial.bystanders();
    await trial.buried('dead');
    const lease = await trial.reserved('reserved');
    await trial.push('ready');
    await trial.push('delayed', { when: { delayMs: 60_000 } });
    await trial.push('ready', { topic: 't.' });
    await trial.push('ready', { topic: 'T' });
    await trial.changes(
      () => trial.admin.purgeTopic('t', 10),
      (outcome) => {
        expect(outcome).toEqual({ purged: 4, more: false });
        return { jobs: { 't/dead': null, 't/reserved': null, 't/ready': null, 't/delayed': null } };
      },
    );
    await trial.lost(lease);
    expect(await trial.reserve(request(10, { t: 10 }))).toEqual([]);
    expect((await trial.admin.counts()).topics['t']).toBeUndefined();
  }),

  fact('purgeTopic: removes at most max and returns whether more are left', async (trial) => {
    for (const id of ['1', '2', '3']) await trial.push(id);
    expect(await trial.admin.purgeTopic('t', 2)).toEqual({ purged: 2, more: true });
    expect(await trial.admin.purgeTopic('t', 2)).toEqual({ purged: 1, more: false });
    expect(await trial.unchanged(() => trial.admin.purgeTopic('t', 2))).toEqual({ purged: 0, more: false });
    await trial.push('4');
    expect(idsOf(await trial.reserve(request(9)))).toEqual(['4']);
  }),

  fact('fsck: counts live and dead jobs, and finds no problems', async (trial) => {
    await trial.bystanders();
    await trial.ack(await trial.reserved('1'));
    await trial.lostLease('2');
    await trial.jobs.run([{ topic: 't', id: '2' }]);
    await trial.alerts.claim('by.dead', 60_000, 1);
    expect(await examined(trial)).toMatchObject({ jobs: 5, problems: [] });
  }),

  fact('clock: returns the storage clock, not that of the caller', async (trial) => {
    const now = await trial.withWrongClock(-400, () => trial.admin.clock());
    expect(now).toBe(trial.now);
  }),

  fact('moment: lies above all numbers from before it and below all later ones', async (trial) => {
    const { version } = await trial.push('1');
    const [first, second] = [await trial.admin.moment(), await trial.admin.moment()];
    expect(Object.values(first).some((number) => number > version)).toBe(true);
    expect(Object.keys(second)).toEqual(Object.keys(first));
    for (const [name, number] of Object.entries(first)) expect(second[name]).toBeGreaterThan(number);
    const later = await trial.push('1');
    expect(Object.values(second).some((number) => number < later.version)).toBe(true);
  }),

  fact('health: returns ok and the durability', async (trial) => {
    const health = await trial.admin.health();
    expect(health.ok).toBe(true);
    expect(health.durability).toMatch(/\w/);
  }),
];
