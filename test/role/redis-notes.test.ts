// A bucket on Redis that went back to an older state: the next call of a process that lost a change makes a
// note, and until the journal has put the jobs back no answer and no removal relies on what is absent.

import type { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import type { Changed, ChangedJob } from '../../src/core/job-change.ts';
import { readSafe } from '../../src/core/stored-codes.ts';
import type { Store } from '../../src/ports/job-store.ts';
import { bucketOf, prefixOf } from '../../src/store/redis/scripts/keys.ts';
import { cancelJob } from '../../src/use-cases/move-job.ts';
import { farOffMs, jobOf } from '../conformance/trial.ts';
import { openedEmpty, openedOn, snapshot } from '../support/redis-store.ts';
import { lacks, workerRedis } from '../support/services.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { until } from '../support/until.ts';
import { ids } from './rig.ts';

const meta = '{dq:0}:n';
const restoring = { kind: 'not_stored', code: 'restoring' };

describe.skipIf(await lacks('redis'))('Redis store, a bucket that went back', async () => {
  const server = await workerRedis();

  const noteOf = async (raw: Redis) => {
    const text = await raw.hget(meta, 'heal');
    const [from, id, phase] = (text ?? '').split(' ');
    return text === null ? null : { from: Number(from), id: Number(id), phase };
  };

  /** Job `old` is there; jobs `lost` and `leased`, which was reserved, are lost. */
  async function wentBack() {
    const { under, trial } = await openedEmpty(server, { writer: '7.1' });
    const old = await trial.push('old', { when: { delayMs: farOffMs } });
    const back = await snapshot(under.raw);
    const leased = await trial.reserved('leased');
    const lost = await trial.push('lost', { when: { delayMs: farOffMs } });
    await back();
    return { under, trial, old, lost, leased, jobs: under.store.jobs };
  }

  it('without a loss there is no note', async () => {
    const { under, trial } = await openedEmpty(server, { writer: '7.1' });
    const job = await trial.reserved('a');
    await under.store.jobs.ack([{ ...job, attempt: null }]);
    await trial.push('b');
    await under.store.jobs.cancel([{ topic: 't', id: 'b' }]);
    expect(await noteOf(under.raw)).toBeNull();
  });

  it('the note has a number above the lost ones, also after the clock was set back', async () => {
    const clock = new SteppedClock();
    const { under, trial } = await openedEmpty(server, { writer: '7.1', clock });
    await trial.push('old');
    const back = await snapshot(under.raw);
    await clock.skip(3_600_000);
    const lost = await trial.push('lost');
    await back();
    await clock.skip(-3_600_000);
    const next = await trial.push('next');
    const note = await noteOf(under.raw);
    expect(note?.id).toBeGreaterThan(lost.version);
    expect(next.version).toBeGreaterThan(note?.id ?? Number.NaN);
    await trial.push('one more');
    expect(await noteOf(under.raw)).toEqual(note);
    // A minute by the clock of now: the time of the lost numbers is an hour away.
    const reserve = async () => (await trial.jobs.reserve(0, trialRequest)).isHealing === true;
    await clock.skip(59_000);
    expect(await reserve()).toBe(true);
    await clock.skip(2_000);
    expect(await reserve()).toBe(false);
  });

  it.each([['get', ({ jobs }: Store) => jobs.get({ topic: 't', id: 'lost' })]])(
    '%s of an absent id: restoring, also before a write made the note',
    async (_, call) => {
      const { under } = await wentBack();
      await expect(call(under.store)).rejects.toMatchObject({ failure: restoring });
      expect(await under.store.jobs.get({ topic: 't', id: 'old' })).toMatchObject({ id: 'old' });
    },
  );

  it('run, reschedule, requeue of an absent id: restoring; of a live one as always', async () => {
    const { jobs } = await wentBack();
    const [lost, old] = [
      { topic: 't', id: 'lost' },
      { topic: 't', id: 'old' },
    ];
    const when = { delayMs: farOffMs };
    expect(
      await jobs.reschedule([
        { ...lost, when },
        { ...old, when },
      ]),
    ).toMatchObject([restoring, { kind: 'rescheduled' }]);
    expect(await jobs.requeue([lost, old])).toMatchObject([restoring, { kind: 'not_dead' }]);
    expect(await jobs.run([lost, old])).toMatchObject([restoring, { kind: 'run' }]);
  });

  it('verbs that name a version: restoring, because a later one may be lost', async () => {
    const { jobs, under, old, lost } = await wentBack();
    const both = [old, lost].map(({ version }, n) => ({ topic: 't', id: n === 0 ? 'old' : 'lost', version }));
    const when = { delayMs: farOffMs };
    for (const outcomes of [
      await jobs.cancel(both),
      await jobs.run(both),
      await jobs.reschedule(both.map((key) => ({ ...key, when }))),
      await jobs.requeue(both),
    ])
      expect(outcomes).toEqual([restoring, restoring]);
    expect(await under.store.jobs.get({ topic: 't', id: 'old' })).toMatchObject({ version: old.version });
  });

  it('push: keep and reject of an absent id are restoring; replace and generated ids are stored', async () => {
    const { jobs } = await wentBack();
    const outcomes = await jobs.push([
      jobOf('lost', { mode: 'keep' }),
      jobOf('lost', { mode: 'reject' }),
      jobOf('old', { mode: 'keep' }),
      jobOf('lost'),
      jobOf('lost', { mode: 'keep' }),
      { ...jobOf('generated', { mode: 'keep' }), anotherId: () => 'other' },
    ]);
    expect(outcomes).toMatchObject([
      restoring,
      restoring,
      { kind: 'kept' },
      { kind: 'stored' },
      { kind: 'kept' },
      { kind: 'stored' },
    ]);
  });

  it('cancel of an absent id: its end is recorded with its own number', async () => {
    const { under, jobs, lost } = await wentBack();
    const [outcome] = await jobs.cancel([{ topic: 't', id: 'lost' }]);
    expect(outcome).toMatchObject({ kind: 'absent', isRecorded: true });
    const { change } = outcome as { change?: { number: number; version: number } };
    expect(change?.number).toBeGreaterThan(lost.version);
    expect(change?.version).toBe(change?.number);
    expect(await under.store.history.get({ topic: 't', id: 'lost' })).toMatchObject({
      state: 'cancelled',
      version: change?.number,
    });
    const [again] = await jobs.cancel([{ topic: 't', id: 'lost' }]);
    expect(again).toMatchObject({ kind: 'absent', isRecorded: true });
    // Its attempt may run: the store that lost the job does not know.
    expect(await cancelJob(jobs, { topic: 't', id: 'lost' })).toEqual({ inFlight: true });
    // A later push of the id is above it.
    const [pushed] = await jobs.push([jobOf('lost')]);
    expect((pushed as { version: number }).version).toBeGreaterThan(change?.number ?? 0);
    expect(await under.store.history.get({ topic: 't', id: 'lost' })).toBeNull();
  });

  it('cancel and purge of a live job: its entry has the number of the end, with or without a note', async () => {
    const { under, trial } = await openedEmpty(server, { writer: '7.1' });
    const { version } = await trial.push('a');
    const [cancelled] = await trial.jobs.cancel([{ topic: 't', id: 'a' }], 'done');
    const { version: buried } = await trial.buried('b');
    const purged: ChangedJob[] = [];
    await trial.dead.purge({}, 10, async (jobs) => void purged.push(...jobs));
    const { change } = cancelled as { change?: Changed };
    const numbers = [change?.number, purged[0]?.number];
    for (const [n, [id, itsVersion]] of [['a', version] as const, ['b', buried] as const].entries()) {
      const entry = await under.store.history.get({ topic: 't', id });
      expect(entry).toMatchObject({ version: itsVersion });
      expect(entry?.attempts).toHaveLength(n);
      const [row] = (await under.raw.hvalsBuffer('{dq:0}:h')).filter(
        (record) => readSafe(record, 9) === itsVersion,
      );
      expect(readSafe(row ?? Buffer.alloc(0), 36)).toBe(numbers[n]);
    }
  });

  it('ack of a lost lease: acked once, and its end is recorded', async () => {
    const { under, trial, jobs, leased } = await wentBack();
    // The loss is known before the ack: another call of this process made the note.
    await trial.push('next');
    expect(await jobs.ack([{ ...leased, attempt: null }])).toMatchObject([
      { kind: 'acked', change: { version: leased.version } },
    ]);
    expect(await under.store.history.get(leased)).toMatchObject({ state: 'done', version: leased.version });
    expect(await jobs.ack([{ ...leased, attempt: null }])).toEqual([{ kind: 'lease_lost' }]);
    expect(await trial.jobs.push([jobOf('leased')])).toMatchObject([{ kind: 'stored' }]);
  });

  it('history entries are neither forgotten nor skipped, and no dead letter expires', async () => {
    const { under, trial } = await wentBack();
    const { version } = await trial.push('next', { when: { delayMs: farOffMs } });
    await under.raw.hset(meta, 'heal', `1 ${version} jobs`);
    const job = await trial.buried('dead', { topic: 'other' });
    await trial.alerts.settle([job.version], 'nobody');
    await trial.jobs.cancel([{ topic: 't', id: 'old' }]);
    expect(await trial.history.forget(-farOffMs, 10)).toEqual({ forgotten: 0, more: false });
    expect(await trial.dead.expire(-farOffMs, 10)).toEqual({ expired: 0, more: false });
  });

  it('reserve: nothing while a healing holds the jobs, also after 60 s', async () => {
    const { under, trial } = await wentBack();
    const { healing } = under.store;
    if (healing === undefined) throw new Error('the store has no healing');
    await trial.push('ready');
    const asked = async () => (await trial.jobs.reserve(0, trialRequest)).jobs.map(({ id }) => id);
    const note = await noteOf(under.raw);
    await under.raw.hset(meta, 'hold', Date.now() * 1_000 - 1);
    expect(await asked()).toEqual(['ready']);
    await trial.push('next');
    const [partition] = trial.jobs.partitions();
    if (partition === undefined) throw new Error('no partition');
    const loss = { partition, place: '', from: note?.from ?? 0, id: note?.id ?? 0 };
    expect(await healing.hold({ ...loss, phase: 'ends' }, 30_000)).toBe(true);
    expect(await trial.jobs.reserve(0, trialRequest)).toEqual({
      ...{ jobs: [], more: false, now: null, isHealing: true },
    });
    expect(await healing.hold({ ...loss, id: 1, phase: 'ends' }, 30_000)).toBe(false);
    // As of a storage clock that was set back: the journal has not healed the jobs yet, so they stay held.
    await under.raw.hset(meta, 'hold', (Date.now() + 90_000) * 1_000);
    expect(await asked()).toEqual([]);
    await trial.push('more');
    expect(await healing.hold({ ...loss, phase: 'ends' }, 30_000)).toBe(true);
    expect(await healing.advance({ ...loss, phase: 'ends' }, 'jobs')).toBe(true);
    expect(await asked()).toEqual(['next', 'more']);
    expect(await healing.hold({ ...loss, phase: 'ends' }, 30_000)).toBe(false);
    expect(await under.raw.hget(meta, 'hold')).toBeNull();
  });

  it('reserve: a clock set back neither ends a hold nor extends it beyond 60 s', async () => {
    const clock = new SteppedClock();
    const { under, trial } = await openedEmpty(server, { writer: '7.1', clock });
    await trial.push('old');
    const back = await snapshot(under.raw);
    await trial.push('lost');
    await back();
    await trial.push('next');
    const isHeld = async () => (await trial.jobs.reserve(0, trialRequest)).isHealing === true;
    // No reserve has come since the note.
    await clock.skip(-3_600_000);
    expect(await isHeld()).toBe(true);
    await clock.skip(59_999);
    expect(await isHeld()).toBe(true);
    await clock.skip(1);
    expect(await isHeld()).toBe(false);
  });

  it('reserve: a note without a hold, as of another build, holds the jobs for 60 s', async () => {
    const clock = new SteppedClock();
    const { under, trial } = await openedEmpty(server, { writer: '7.1', clock });
    const { version } = await trial.push('ready');
    await under.raw.hset(meta, 'heal', `1 ${version} ends`);
    const isHeld = async () => (await trial.jobs.reserve(0, trialRequest)).isHealing === true;
    expect(await isHeld()).toBe(true);
    await clock.skip(59_999);
    expect(await isHeld()).toBe(true);
    await clock.skip(1);
    expect(await isHeld()).toBe(false);
  });

  it('hold: shortens no hold, except one of a clock that was set back', async () => {
    const clock = new SteppedClock();
    const { under, trial } = await openedEmpty(server, { writer: '7.1', clock });
    const { version } = await trial.push('ready');
    const { healing } = under.store;
    const [partition] = trial.jobs.partitions();
    if (healing === undefined || partition === undefined) throw new Error('no partition that heals');
    const note = { partition, place: '', from: 1, id: version, phase: 'ends' as const };
    await under.raw.hset(meta, 'heal', `1 ${version} ends`, 'hold', (clock.now + 45_000) * 1_000);
    const leftMs = async () => Number(await under.raw.hget(meta, 'hold')) / 1_000 - clock.now;
    expect(await healing.hold(note, 30_000)).toBe(true);
    expect(await leftMs()).toBe(45_000);
    await clock.skip(20_000);
    expect(await healing.hold(note, 30_000)).toBe(true);
    expect(await leftMs()).toBe(30_000);
    await clock.skip(-3_600_000);
    expect(await healing.hold(note, 30_000)).toBe(true);
    expect(await leftMs()).toBe(60_000);
  });

  it('a process without a journal keeps to the note of others', async () => {
    const { under, trial } = await wentBack();
    await trial.push('next');
    const { under: plain } = await openedOn(server);
    await expect(plain.store.jobs.get({ topic: 't', id: 'lost' })).rejects.toMatchObject({
      failure: restoring,
    });
    expect(await plain.store.jobs.push([jobOf('lost', { mode: 'keep' })])).toEqual([restoring]);
    expect(await plain.store.jobs.cancel([{ topic: 't', id: 'lost' }])).toEqual([
      { kind: 'absent', isRecorded: true },
    ]);
    expect(await noteOf(under.raw)).not.toBeNull();
  });

  it('several writers: the note covers the oldest loss', async () => {
    const { under, trial: mine } = await openedEmpty(server, { writer: '7.1' });
    const { trial: theirs } = await openedOn(server, { writer: '8.2' });
    const first = await theirs.push('b1');
    const second = await mine.push('a1');
    const back = await snapshot(under.raw);
    await theirs.push('b2');
    await mine.push('a2');
    await back();
    await mine.push('a3');
    const note = await noteOf(under.raw);
    expect(note?.from).toBe(second.version);
    await theirs.push('b3');
    const wider = await noteOf(under.raw);
    expect(wider?.from).toBe(first.version);
    expect(wider?.id).toBeGreaterThan(note?.id ?? Number.NaN);
    await mine.push('a4');
    await theirs.push('b4');
    expect(await noteOf(under.raw)).toEqual(wider);
  });

  it('an emptied server: a note from 0 on, and numbers above all that are known', async () => {
    const { under, trial, lost } = await wentBack();
    const { version } = await trial.push('last');
    await under.raw.flushall();
    expect(await trial.tryPush('x')).toEqual({ kind: 'not_stored', code: 'no_marker' });
    await until('the marker', async () => (await under.raw.hexists(meta, 'marker')) === 1);
    const note = await noteOf(under.raw);
    expect(note).toMatchObject({ from: 0, phase: 'jobs' });
    expect(note?.id).toBeGreaterThan(Math.max(version, lost.version));
    expect((await trial.push('next')).version).toBeGreaterThan(note?.id ?? Number.NaN);
    expect(await noteOf(under.raw)).toEqual(note);
    await expect(trial.jobs.get({ topic: 't', id: 'old' })).rejects.toMatchObject({ failure: restoring });
  });

  it('an emptied server: also where this process has changed jobs in some buckets only', async () => {
    const buckets = 3;
    const { under, trial } = await openedEmpty(server, { writer: '7.1', buckets });
    const inLast = ids('job', 50).find((id) => bucketOf({ topic: 't', id }, buckets) === buckets - 1) ?? '';
    await trial.push(inLast);
    await under.raw.flushall();
    await trial.tryPush(inLast);
    for (let bucket = 0; bucket < buckets; bucket += 1)
      await until('a whole note', async () =>
        /^0 \d+ jobs$/.test((await under.raw.hget(`${prefixOf(bucket)}:n`, 'heal')) ?? ''),
      );
  });

  it('an emptied server of processes without a journal: no note', async () => {
    const { under, trial } = await openedEmpty(server);
    await trial.push('a');
    await under.raw.flushall();
    await trial.tryPush('x');
    await until('the marker', async () => (await under.raw.hexists(meta, 'marker')) === 1);
    expect(await noteOf(under.raw)).toBeNull();
  });

  it('after the healing numbers from before it make no note; a further loss does', async () => {
    const { under, trial } = await wentBack();
    await trial.push('next');
    const note = await noteOf(under.raw);
    await under.raw.hset(meta, 'heal', String(note?.id));
    await trial.push('later');
    expect(await under.raw.hget(meta, 'heal')).toBe(String(note?.id));
    expect(await trial.jobs.get({ topic: 't', id: 'absent' })).toBeNull();
    const back = await snapshot(under.raw);
    await trial.push('lost again');
    await back();
    await trial.push('and on');
    expect((await noteOf(under.raw))?.phase).toBe('ends');
  });
});

const trialRequest = {
  owner: { instance: 3, incarnation: 3 },
  max: 10,
  others: { room: 10, leaseMs: 60_000 },
  topics: new Map(),
};
