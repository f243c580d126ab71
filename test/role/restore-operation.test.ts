// dq restore, in dq-upkeep: jobs that the journal has and Redis lacks come back once each, also when the
// process dies between two steps. Real Redis and MariaDB.

import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { OperationRecord } from '../../src/core/operation.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { StoreClock } from '../../src/process/store-clock.ts';
import { Operations } from '../../src/upkeep/operations/operations.ts';
import { farOffMs, jobOf } from '../conformance/trial.ts';
import { failedAttempt } from '../support/handmade.ts';
import { type JournalInstance, journalDatabase, journalInstance } from '../support/journal-instance.ts';
import { lacks, owned, workerMariadb, workerRedis } from '../support/services.ts';
import { until } from '../support/until.ts';
import { ids, owner, type Rig, startRig } from './rig.ts';

describe.skipIf((await lacks('redis')) || (await lacks('mysql')))('restore operation', async () => {
  const mysql = await workerMariadb();
  let made = 0;

  interface World {
    readonly rig: Rig;
    readonly one: JournalInstance;
    /** Removes all jobs from Redis, so that no process notices. */
    lose(): Promise<void>;
  }

  async function startWorld(): Promise<World> {
    const login = await journalDatabase(mysql, `restore${made++}`);
    const server = await workerRedis();
    await server.ask('FLUSHALL');
    const one = await journalInstance(server, login, 7);
    return {
      rig: await startRig(),
      one,
      async lose() {
        const keys = (await one.under.raw.keys('*')).filter((key) => !/:(n|t|T|u|o.*)$/.test(key));
        await one.under.raw.del(...keys);
      },
    };
  }

  const push = async ({ one }: World, names: readonly string[], delayMs: number) => {
    const outcomes = await one.store.jobs.push(names.map((id) => jobOf(id, { when: { delayMs } })));
    expect(outcomes.filter(({ kind }) => kind !== 'stored')).toEqual([]);
  };

  /** Until the journal has so many open rows. */
  const shipped = ({ one }: World, waiting: number, dead = 0) =>
    until('the rows', async () => {
      const [all, letters] = await Promise.all([
        one.journal.db.openKeys('waiting', {}, null),
        one.journal.db.openKeys('dead', {}, null),
      ]);
      return all.keys.length === waiting && letters.keys.length === dead;
    });

  const counts = async ({ one }: World) => (await one.under.store.admin.counts()).topics['t'];

  async function begin({ rig, one }: World, wish: Partial<OperationRecord>): Promise<string> {
    const now = await one.store.admin.clock();
    const record: OperationRecord = {
      id: randomBytes(6).toString('hex'),
      ...{ kind: 'restore', filter: {}, topics: ['*'], spreadMs: null, rate: null, at: null },
      ...{ dryRun: false, actor: 'test', state: 'not_started', createdAt: now, updatedAt: now },
      ...{
        moment: wish.kind === undefined ? {} : await one.store.admin.moment(),
        ...{ startedAt: null, movingAt: null, endedAt: null, matched: null, problem: null },
      },
      ...{ done: 0, skipped: 0, failed: 0, failures: [], overdue: 'fire' },
      ...wish,
    };
    const work = { ids: null, cursor: null, isListed: false, isCounting: false, step: [] };
    expect(await rig.registry.createOperation(record, work)).toBe('created');
    return record.id;
  }

  /** dq-upkeep's worker. `dies`: after so many calls of put its calls fail, and it releases nothing. */
  async function work({ rig, one }: World, incarnation: number, dies = Number.POSITIVE_INFINITY) {
    const { healing } = one.store;
    if (healing === undefined) throw new Error('no healing');
    let puts = 0;
    const fails = () => Promise.reject(new StoreError({ kind: 'unknown', code: 'no_answer' }));
    const ctx = rig.context({
      owner: { instance: owner(7).instance, incarnation },
      clock: new StoreClock(() => one.store.admin.clock()),
      journal: one.journal,
      store: {
        ...one.store,
        healing: {
          ...healing,
          put: async (...args) => {
            puts += 1;
            const outcomes = puts > dies ? await fails() : await healing.put(...args);
            // The last answer is lost.
            return puts >= dies ? fails() : outcomes;
          },
        },
      },
      registry: Object.assign(Object.create(rig.registry), {
        checkpointOperation: (...args: Parameters<typeof rig.registry.checkpointOperation>) =>
          puts >= dies ? fails() : rig.registry.checkpointOperation(...args),
      }),
    });
    await ctx.clock.read();
    const operations = new Operations(ctx);
    await operations.start();
    await owned('test', Promise.resolve({ stop: () => operations.drain(5_000) }));
    return { died: () => puts >= dies };
  }

  const ended = ({ rig }: World, id: string) =>
    until('the operation to end', async () => {
      const found = await rig.registry.operation(id);
      return found?.endedAt == null ? null : found;
    });

  it('lost jobs come back with their due times and deaths; a second run finds nothing', async () => {
    const world = await startWorld();
    const { one } = world;
    await push(world, ids('dead', 3), 0);
    const request = { owner: owner(9), max: 5, others: { room: 5, leaseMs: 60_000 }, topics: new Map() };
    const { jobs } = await one.store.jobs.reserve(0, request);
    await one.store.jobs.bury(jobs.map((job) => ({ ...job, reason: 'gone', attempt: failedAttempt })));
    await push(world, ids('later', 40), farOffMs);
    await push(world, ids('cancelled', 5), farOffMs);
    await one.store.jobs.cancel(ids('cancelled', 5).map((id) => ({ topic: 't', id })));
    await shipped(world, 40, 3);
    const before = await one.store.jobs.get({ topic: 't', id: 'later7' });
    expect(before).not.toBeNull();
    await world.lose();
    expect(await counts(world)).toBeUndefined();
    await work(world, 1);
    const dry = await ended(world, await begin(world, { dryRun: true }));
    expect(dry).toMatchObject({ state: 'finished', matched: 43, done: 0 });
    const first = await ended(world, await begin(world, { filter: { topic: 't' } }));
    expect(first).toMatchObject({ state: 'finished', done: 43, skipped: 0, failed: 0 });
    expect(await counts(world)).toEqual({ delayed: 40, ready: 0, reserved: 0, dead: 3 });
    const after = await one.store.jobs.get({ topic: 't', id: 'later7' });
    expect([after?.dueAt, after?.version]).toEqual([before?.dueAt, before?.version]);
    const second = await ended(world, await begin(world, {}));
    expect(second).toMatchObject({ state: 'finished', done: 0, skipped: 43, failed: 0 });
  });

  it('a filter by due time, and a single id', async () => {
    const world = await startWorld();
    await push(world, ids('soon', 4), farOffMs);
    await push(world, ids('late', 4), 10 * farOffMs);
    await shipped(world, 8);
    await world.lose();
    await work(world, 1);
    const middle = (await world.one.store.admin.clock()) + 5 * farOffMs;
    await ended(world, await begin(world, { filter: { until: middle } }));
    expect(await counts(world)).toMatchObject({ delayed: 4 });
    expect(await world.one.store.jobs.get({ topic: 't', id: 'soon3' })).not.toBeNull();
    const other = await ended(world, await begin(world, { filter: { topic: 'other' } }));
    expect(other.done).toBe(0);
  });

  it('overdue jobs: spread over ten minutes, or ended for good', async () => {
    const world = await startWorld();
    const { one } = world;
    await push(world, ids('a', 20), 0);
    await shipped(world, 20);
    await world.lose();
    await work(world, 1);
    await ended(world, await begin(world, { overdue: 'spread' }));
    const now = await one.store.admin.clock();
    const jobs = await Promise.all(ids('a', 20).map((id) => one.store.jobs.get({ topic: 't', id })));
    for (const job of jobs) expect((job?.dueAt ?? 0) - now).toBeLessThanOrEqual(600_000);
    expect(jobs.filter((job) => (job?.dueAt ?? 0) > now).length).toBeGreaterThan(15);

    await push(world, ids('b', 5), 0);
    await shipped(world, 25);
    await world.lose();
    const skipped = await ended(world, await begin(world, { overdue: 'skip', filter: { topic: 't' } }));
    // The spread ones are not due yet, but those at random within the first moments.
    expect(skipped.done).toBe(25);
    await until('their rows', async () => {
      const [row] = await one.journal.db.rows([{ topic: 't', id: 'b0' }]);
      return row?.state === 'purged';
    });
    await ended(world, await begin(world, {}));
    expect(await one.store.jobs.get({ topic: 't', id: 'b0' })).toBeNull();
  });

  it('clear waits while jobs are put back, whose ends it would miss', async () => {
    const world = await startWorld();
    await push(world, ids('a', 3), farOffMs);
    let isHealing = true;
    const ctx = world.rig.context({
      clock: new StoreClock(() => world.one.store.admin.clock()),
      ...{ journal: world.one.journal, store: world.one.store },
    });
    await ctx.clock.read();
    const operations = new Operations(ctx, () => isHealing);
    await operations.start();
    await owned('test', Promise.resolve({ stop: () => operations.drain(5_000) }));
    const id = await begin(world, { kind: 'clear', filter: { topic: 't' } });
    await until('it waits', async () => (await world.rig.registry.operation(id))?.problem !== null);
    expect(await counts(world)).toMatchObject({ delayed: 3 });
    isHealing = false;
    expect(await ended(world, id)).toMatchObject({ state: 'finished', done: 3 });
  });

  it('killed twice: each job once, and every one is counted', async () => {
    const world = await startWorld();
    await push(world, ids('a', 900), farOffMs);
    await push(world, ids('b', 900), farOffMs);
    await until('the shipping', () => world.one.recorder.state.lagMs === 0);
    await until('the rows', async () => {
      const [row] = await world.one.journal.db.rows([{ topic: 't', id: 'b899' }]);
      return row !== undefined;
    });
    await world.lose();
    const id = await begin(world, {});
    const first = await work(world, 1, 3);
    await until('the first death', () => first.died());
    const second = await work(world, 2, 5);
    await until('the second death', () => second.died());
    await work(world, 3);
    expect(await ended(world, id)).toMatchObject({ state: 'finished', done: 1_800, failed: 0 });
    expect(await counts(world)).toMatchObject({ delayed: 1_800 });
  });
});
