// push to each state, in each mode.

import { expect } from 'vitest';
import type { PushOutcome } from '../../../src/ports/job-store.ts';
import {
  type Case,
  dueAfter,
  fact,
  farOffMs,
  idsOf,
  jobOf,
  only,
  request,
  storedAs,
  type Trial,
} from '../trial.ts';

const liveStates = ['delayed', 'ready', 'reserved'] as const;
const modes = ['replace', 'keep', 'reject'] as const;

/** Each way in which a job can end, and a death. */
const ends: Readonly<Record<Ended['state'], (trial: Trial) => Promise<unknown>>> = {
  done: async (trial) => trial.ack(await trial.reserved('1')),
  cancelled: async (trial) => trial.cancel(await trial.push('1').then(() => trial.known('1'))),
  purged: async (trial) => trial.push('1').then(() => trial.admin.purgeTopic('t', 10)),
  expired: async (trial) => {
    const { version } = await trial.buried('1');
    await trial.alerts.settle([version], 'sent');
    await trial.tick();
    return trial.dead.expire(0, 10);
  },
  dead: (trial) => trial.buried('1'),
};
type Ended = Extract<PushOutcome, { readonly kind: 'ended' }>;

export const pushCases: readonly Case[] = [
  fact('push: stores a job due later as delayed', async (trial) => {
    await trial.bystanders();
    const job = jobOf('1', { when: { delayMs: farOffMs }, priority: 'high', contentType: null });
    await trial.changes(
      async () => only(await trial.jobs.push([job])),
      (outcome, now) => {
        expect(outcome).toEqual({
          ...{ kind: 'stored', version: expect.any(Number), dueAt: dueAfter(now, farOffMs) },
          ...{ state: 'delayed', replaced: false, inFlight: false },
        });
        const stored = outcome as { version: number; dueAt: number };
        return { jobs: { 't/1': { ...storedAs(job, stored, now), state: 'delayed' } } };
      },
    );
  }),

  fact('push: stores a job due now as ready', async (trial) => {
    await trial.bystanders();
    const job = jobOf('1', { priority: 'low', body: Buffer.from([0, 255, 10]) });
    await trial.changes(
      async () => only(await trial.jobs.push([job])),
      (outcome, now) => {
        expect(outcome).toMatchObject({ kind: 'stored', state: 'ready', dueAt: now });
        return { jobs: { 't/1': storedAs(job, outcome as { version: number; dueAt: number }, now) } };
      },
    );
  }),

  fact('push: keeps a future instant to the millisecond', async (trial) => {
    const instant = trial.now + farOffMs + 1;
    expect(await trial.push('1', { when: { at: instant } })).toMatchObject({
      state: 'delayed',
      dueAt: instant,
    });
    expect(await trial.jobs.get({ topic: 't', id: '1' })).toMatchObject({ state: 'delayed', dueAt: instant });
  }),

  fact('push: clamps a past instant to now', async (trial) => {
    const outcome = await trial.push('1', { when: { at: trial.now - farOffMs } });
    expect(outcome).toMatchObject({ state: 'ready', dueAt: trial.now });
  }),

  fact('push: an item with a number that no store can keep fails alone', async (trial) => {
    const bad = [
      jobOf('2', { when: { delayMs: Number.NaN } }),
      jobOf('3', { when: { at: Number.POSITIVE_INFINITY } }),
    ];
    const outcomes = await trial.jobs.push([jobOf('1'), ...bad, jobOf('4')]);
    const notStored = { kind: 'not_stored', code: 'bad_item' };
    expect(outcomes).toMatchObject([{ kind: 'stored' }, notStored, notStored, { kind: 'stored' }]);
    expect((await trial.dump()).jobs.map(({ id }) => id).sort()).toEqual(['1', '4']);
  }),

  fact('push: numbers versions by the storage clock in microseconds', async (trial) => {
    const from = trial.now * 1000;
    const first = await trial.push('1');
    const second = await trial.push('2');
    expect(Number.isSafeInteger(first.version)).toBe(true);
    expect(first.version).toBeGreaterThanOrEqual(from);
    expect(second.version).toBeGreaterThan(first.version);
    expect(second.version).toBeLessThan(from + 1000);
  }),

  ...liveStates.map((state) =>
    fact(`push replace: replaces a ${state} job`, async (trial) => {
      await trial.bystanders();
      const lease = await trial.seed(state);
      const inFlight = state === 'reserved';
      const job = jobOf('1', { when: { delayMs: farOffMs }, body: Buffer.from('new'), priority: 'low' });
      await trial.changes(
        async () => only(await trial.jobs.push([job])),
        (outcome, now) => {
          expect(outcome).toMatchObject({ kind: 'stored', state: 'delayed', replaced: true, inFlight });
          const stored = outcome as { version: number; dueAt: number };
          return { jobs: { 't/1': { ...storedAs(job, stored, now), state: 'delayed' } } };
        },
      );
      if (lease !== null) await trial.lost(lease);
    }),
  ),

  ...liveStates.flatMap((state) =>
    (['keep', 'reject'] as const).map((mode) =>
      fact(`push ${mode}: leaves a ${state} job as it was`, async (trial) => {
        await trial.bystanders();
        await trial.seed(state);
        const { version, dueAt } = await trial.known('1');
        const kind = mode === 'keep' ? 'kept' : 'job_exists';
        const outcome = await trial.unchanged(() =>
          trial.tryPush('1', { mode, body: Buffer.from('other'), priority: 'high' }),
        );
        expect(outcome).toEqual({ kind, version, dueAt, state });
      }),
    ),
  ),

  ...(['replace', 'keep', 'reject'] as const).map((mode) =>
    fact(`push ${mode}: replaces a dead job; its alert stays owed`, async (trial) => {
      await trial.bystanders();
      const dead = await trial.buried('1');
      const job = jobOf('1', { mode, body: Buffer.from('new') });
      await trial.changes(
        async () => only(await trial.jobs.push([job])),
        (outcome, now) => {
          expect(outcome).toMatchObject({ kind: 'stored', state: 'ready', replaced: false, inFlight: false });
          return { jobs: { 't/1': storedAs(job, outcome as { version: number; dueAt: number }, now) } };
        },
      );
      expect((await trial.dump()).alerts).toContainEqual(
        expect.objectContaining({ version: dead.version, state: 'owed' }),
      );
    }),
  ),

  ...(['purged', 'expired'] as const).map((state) =>
    fact(`push with a window: an id that is ${state} is free`, async (trial) => {
      await trial.bystanders();
      await ends[state](trial);
      expect(await trial.history.get({ topic: 't', id: '1' })).toMatchObject({ state });
      expect(await trial.tryPush('1', { windowMs: farOffMs })).toMatchObject({ kind: 'stored' });
    }),
  ),

  ...(['done', 'cancelled', 'dead'] as const).map((state) =>
    fact(`push with a window: a job that is ${state} stays so, in every mode`, async (trial) => {
      await trial.bystanders();
      await ends[state](trial);
      const endedAt = trial.now;
      const last =
        state === 'dead' ? await trial.known('1') : await trial.history.get({ topic: 't', id: '1' });
      const { version, dueAt } = last ?? {};
      await trial.clock.skip(99);
      for (const mode of modes) {
        const outcome = await trial.unchanged(() => trial.tryPush('1', { mode, windowMs: 100 }));
        expect(outcome).toEqual({ kind: 'ended', version, dueAt, state, endedAt });
      }
      await trial.tick();
      expect(await trial.push('1', { mode: 'reject', windowMs: 100 })).toMatchObject({ replaced: false });
    }),
  ),

  fact(
    'push with a window: an end further ahead of the clock than the window does not count',
    async (trial) => {
      await trial.ack(await trial.reserved('done'));
      await trial.buried('dead');
      await trial.clock.skip(-100);
      for (const id of ['done', 'dead']) {
        expect(await trial.tryPush(id, { windowMs: 101 })).toMatchObject({ kind: 'ended', state: id });
        expect(await trial.tryPush(id, { windowMs: 100 })).toMatchObject({ kind: 'stored', replaced: false });
        // A journal has the instant of a push by its number, which is ahead of a clock that was set back.
        await trial.cancel({ topic: 't', id });
      }
    },
  ),

  fact('push with a window: a live job is the business of the mode', async (trial) => {
    await trial.push('1', { windowMs: farOffMs });
    expect(await trial.tryPush('1', { mode: 'keep', windowMs: farOffMs })).toMatchObject({ kind: 'kept' });
    expect(await trial.tryPush('1', { mode: 'reject', windowMs: farOffMs })).toMatchObject({
      kind: 'job_exists',
    });
    expect(await trial.push('1', { windowMs: farOffMs })).toMatchObject({ replaced: true });
  }),

  fact('push without a window: stores the job right after the end of its id', async (trial) => {
    await trial.ack(await trial.reserved('1'));
    expect(await trial.push('1')).toMatchObject({ replaced: false });
  }),

  fact('push with a window: each item of a call has its own', async (trial) => {
    for (const id of ['1', '2', '3']) await trial.push(id).then(() => trial.cancel({ topic: 't', id }));
    const id7 = '01989f6e-5d3a-7c01-8000-0123456789ab';
    await trial.push(id7).then(() => trial.cancel({ topic: 't', id: id7 }));
    await trial.clock.skip(10);
    const apart = { body: Buffer.alloc(2_000, 7) };
    const pushes = [
      jobOf('1', { windowMs: 11, ...apart }),
      jobOf('2', { windowMs: 10, ...apart }),
      { ...jobOf('4', { windowMs: 11 }), acceptedAt: trial.now - 3, failures: 2 },
      { ...jobOf('3', { windowMs: 11 }), acceptedAt: trial.now - 3, failures: 2 },
      jobOf('1', { mode: 'keep', body: Buffer.from('last') }),
      jobOf('1', { windowMs: 11 }),
      jobOf(id7, { windowMs: 11 }),
    ];
    expect((await trial.jobs.push(pushes)).map(({ kind }) => kind)).toEqual([
      'ended',
      'stored',
      'stored',
      'ended',
      'stored',
      'stored',
      'ended',
    ]);
    expect(await trial.known('1')).toMatchObject({ body: Buffer.from('body of 1') });
    expect(await trial.known('2')).toMatchObject({ body: apart.body });
    expect(await trial.known('4')).toMatchObject({ failures: 2, body: Buffer.from('body of 4') });
  }),

  fact('push with a window: of 100 concurrent pushes around an end, one is stored', async (trial) => {
    const push = () => trial.tryPush('1', { mode: 'keep', windowMs: farOffMs });
    const pushes = (count: number) => Array.from({ length: count }, push);
    const early = pushes(40);
    await early[0];
    const job = only(await trial.reserve(request(250)));
    const around = pushes(30);
    const ended = trial.ack(job);
    const outcomes = await Promise.all([...early, ...around, ...pushes(30)]);
    expect(await ended).toEqual({ kind: 'acked' });
    expect(outcomes.filter(({ kind }) => kind === 'stored')).toHaveLength(1);
    for (const outcome of outcomes) {
      expect(['stored', 'kept', 'ended']).toContain(outcome.kind);
      expect(outcome).toMatchObject({ version: job.version });
    }
    expect(await trial.tryPush('1', { windowMs: farOffMs })).toMatchObject({ kind: 'ended', state: 'done' });
    expect((await trial.dump()).jobs).toEqual([]);
  }),

  fact('push keep and reject: store a job whose id is free', async (trial) => {
    expect(await trial.tryPush('1', { mode: 'keep' })).toMatchObject({ kind: 'stored', replaced: false });
    expect(await trial.tryPush('2', { mode: 'reject' })).toMatchObject({ kind: 'stored', replaced: false });
  }),

  fact('push replace: starts without failures, attempts or origin of the old job', async (trial) => {
    const first = await trial.reserved('1');
    await trial.retry(first, 0);
    const again = await trial.push('1');
    expect(await trial.jobs.get({ topic: 't', id: '1' })).toMatchObject({
      ...{ version: again.version, origin: again.version, failures: 0, strikes: 0, attempts: [] },
    });
  }),

  fact('push: returns an outcome per item; equal ids replace one another', async (trial) => {
    // A store may treat ids of a known topic differently.
    await trial.push('0');
    const [a, b, kept, other, rejected] = await trial.jobs.push([
      jobOf('1', { body: Buffer.from('a') }),
      jobOf('1', { body: Buffer.from('b') }),
      jobOf('1', { body: Buffer.from('c'), mode: 'keep' }),
      jobOf('2'),
      jobOf('1', { body: Buffer.from('d'), mode: 'reject' }),
    ]);
    const versionOf = (outcome: unknown) => (outcome as { version: number }).version;
    expect(a).toMatchObject({ kind: 'stored', replaced: false });
    expect(b).toMatchObject({ kind: 'stored', replaced: true });
    expect(kept).toMatchObject({ kind: 'kept', version: versionOf(b) });
    expect(other).toMatchObject({ kind: 'stored', replaced: false });
    expect(rejected).toMatchObject({ kind: 'job_exists', version: versionOf(b) });
    expect(versionOf(b)).toBeGreaterThan(versionOf(a));
    expect(versionOf(other)).toBeGreaterThan(versionOf(b));
    const { jobs } = await trial.dump();
    expect(jobs.map((job) => [job.id, job.body.toString()])).toEqual([
      ['0', 'body of 0'],
      ['1', 'b'],
      ['2', 'body of 2'],
    ]);
    expect(idsOf(await trial.reserve(request(250))).sort()).toEqual(['0', '1', '2']);
  }),

  fact('push: topics of a call get turns in the order of their first jobs', async (trial) => {
    for (const topic of ['a', 'b', 'c']) await trial.push('later', { topic, when: { delayMs: 60_000 } });
    await trial.jobs.push(['c', 'a', 'c', 'b', 'a'].map((topic, n) => jobOf(String(n), { topic })));
    const jobs = await trial.reserve(request(5));
    expect(jobs.map(({ topic }) => topic).join(' ')).toBe('c a b c a');
  }),

  // A store may expect such an id to be new.
  fact('push replace: replaces jobs with ids of the shape of generated ones', async (trial) => {
    for (const [n, state] of ([...liveStates, 'dead'] as const).entries()) {
      const id = `01989f6e-5d3a-7c0${n}-8000-0123456789ab`;
      const topic = `by.${state}`;
      const lease = await trial.seed(state, id, { topic });
      const job = jobOf(id, { topic, when: { delayMs: farOffMs }, body: Buffer.from('new') });
      const [replaced, inFlight] = [state !== 'dead', state === 'reserved'];
      await trial.changes(
        async () => only(await trial.jobs.push([job])),
        (outcome, now) => {
          expect(outcome).toMatchObject({ kind: 'stored', state: 'delayed', replaced, inFlight });
          const stored = outcome as { version: number; dueAt: number };
          return { jobs: { [`${topic}/${id}`]: { ...storedAs(job, stored, now), state: 'delayed' } } };
        },
      );
      if (lease !== null) await trial.lost(lease);
      expect(await trial.cancel(job)).toMatchObject({ kind: 'cancelled' });
      expect(await trial.tryPush(id, { topic })).toMatchObject({ kind: 'stored', replaced: false });
      expect((await trial.known(id, topic)).body).toEqual(Buffer.from(`body of ${id}`));
    }
  }),

  fact('push: no jobs, no outcomes', async (trial) => {
    expect(await trial.unchanged(() => trial.jobs.push([]))).toEqual([]);
  }),

  fact('push: of 100 concurrent pushes of one id, one survives', async (trial) => {
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, (_, n) => trial.push('1', { body: Buffer.from(String(n)) })),
    );
    const byVersion = outcomes.map((outcome, n) => ({ ...outcome, n })).sort((a, b) => a.version - b.version);
    expect(new Set(byVersion.map((outcome) => outcome.version)).size).toBe(100);
    expect(byVersion.map((outcome) => outcome.replaced)).toEqual([false, ...Array(99).fill(true)]);
    const last = byVersion.at(-1) as (typeof byVersion)[number];
    const job = only((await trial.dump()).jobs);
    expect([job.version, job.body.toString()]).toEqual([last.version, String(last.n)]);
    expect(idsOf(await trial.reserve(request(250)))).toEqual(['1']);
  }),
];
