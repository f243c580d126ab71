// Operations of upkeep on both stores: which jobs match, and how many. Deaths, late calls, stops, spreads and
// steps of the clock are in the simulated worlds (test/sim/operation-rules.ts).
import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import type { JobState } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import type { OperationRecord, OperationWork } from '../../src/core/operation.ts';
import { withShard } from '../../src/core/shard-list.ts';
import type { Store } from '../../src/ports/job-store.ts';
import type { Registry } from '../../src/ports/registry.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import type { RoleContext } from '../../src/process/role.ts';
import { StoreClock } from '../../src/process/store-clock.ts';
import { Operations } from '../../src/upkeep/operations/operations.ts';
import { failedAttempt } from '../support/handmade.ts';
import { type JumpingTime, useJumpingTime } from '../support/jumping-time.ts';
import { openEmpty } from '../support/redis-store.ts';
import { lacks, owned, workerRedis } from '../support/services.ts';
import { listOf, openShards, shardOf } from '../support/shards.ts';
import { ids, owner, type Rig, startRig } from './rig.ts';

interface Bench {
  readonly time: JumpingTime;
  readonly rig: Rig;
  readonly store: Store;
  readonly registry: Registry;
}

async function openBench(kind: 'sqlite' | 'redis'): Promise<Bench> {
  const time = useJumpingTime();
  const rig = await startRig({ clock: time.wall });
  if (kind === 'sqlite') return { time, rig, store: rig.store, registry: rig.registry };
  const under = await openEmpty(await workerRedis());
  await owned('test', Promise.resolve({ stop: () => under.close() }));
  return { time, rig, store: under.store, registry: rig.registry };
}

const hour = 3_600_000;

async function push(store: Store, topic: string, names: readonly string[], delayMs = 0): Promise<void> {
  const outcomes = await store.jobs.push(
    names.map((id) => ({
      ...({ topic, id, when: { delayMs }, mode: 'replace', priority: 'normal' } as const),
      ...{ contentType: null, body: Buffer.from('{}') },
    })),
  );
  for (const { kind } of outcomes) expect(kind).toBe('stored');
}

/** Reserves and buries every ready job. */
async function buryReady(store: Store, attempt = failedAttempt): Promise<number> {
  const others = { room: 1_000, leaseMs: 60_000 };
  let buried = 0;
  for (;;) {
    const request = { owner: owner(9), max: limits.reserveMax, others, topics: new Map() };
    const { jobs } = await store.jobs.reserve(0, request);
    if (jobs.length === 0) return buried;
    const items = jobs.map((job) => ({ ...job, reason: 'attempts_exhausted', attempt }) as const);
    for (const { kind } of await store.jobs.bury(items)) expect(kind).toBe('buried');
    buried += jobs.length;
  }
}

async function die(store: Store, topic: string, names: readonly string[], attempt = failedAttempt) {
  await push(store, topic, names);
  expect(await buryReady(store, attempt)).toBe(names.length);
}

async function count(store: Store, topic: string, state: JobState): Promise<number> {
  return (await store.admin.counts()).topics[topic]?.[state] ?? 0;
}

type Wish = Partial<OperationRecord> &
  Partial<Pick<OperationWork, 'versions'>> & { readonly ids?: readonly string[] };

async function begin({ registry, store }: Bench, { ids: named, versions, ...wish }: Wish): Promise<string> {
  const now = await store.admin.clock();
  const record: OperationRecord = {
    id: randomBytes(6).toString('hex'),
    ...{ kind: 'requeue', filter: { topic: 't' }, topics: ['*'], spreadMs: null, rate: null, at: null },
    ...{ dryRun: false, actor: 'test', state: 'not_started', createdAt: now, updatedAt: now },
    ...{
      moment: await store.admin.moment(),
      ...{ startedAt: null, movingAt: null, endedAt: null, matched: null, problem: null },
    },
    ...{ done: 0, skipped: 0, failed: 0, failures: [] },
    ...wish,
  };
  const ofIds = versions === undefined ? {} : { versions };
  const work = { ids: named ?? null, ...ofIds, cursor: null, isListed: false, isCounting: false, step: [] };
  expect(await registry.createOperation(record, work)).toBe('created');
  return record.id;
}

interface Worker {
  readonly operations: Operations;
  readonly calls: { requeued: number };
}

/** `onRequeued`: after the store has moved jobs, before the answer arrives. */
async function work({ rig, store, registry }: Bench, onRequeued?: () => void): Promise<Worker> {
  const calls = { requeued: 0 };
  const requeue: Store['dead']['requeue'] = async (...args) => {
    const outcome = await store.dead.requeue(...args);
    calls.requeued += outcome.requeued;
    onRequeued?.();
    return outcome;
  };
  const ctx: RoleContext = rig.context({
    owner: { instance: 7, incarnation: 1 },
    clock: new StoreClock(() => store.admin.clock()),
    store: { ...store, dead: { ...store.dead, requeue } },
    registry,
  });
  await ctx.clock.read();
  const operations = new Operations(ctx);
  await operations.start();
  await owned('test', Promise.resolve({ stop: () => operations.drain(5_000) }));
  return { operations, calls };
}

const ended = ({ registry, time }: Bench, id: string) =>
  time.passUntil('the operation to end', async () => {
    const found = await registry.operation(id);
    return found?.endedAt == null ? null : found;
  });

const kinds = (await lacks('redis')) ? (['sqlite'] as const) : (['sqlite', 'redis'] as const);

describe.each(kinds)('operations on %s', (kind) => {
  it('a filter of another build, with a member that this one does not know, moves no job', async () => {
    const bench = await openBench(kind);
    await die(bench.store, 't', ['a']);
    await work(bench);
    const filter = { topic: 't', reason: 'expired' } as OperationRecord['filter'];
    const found = await ended(bench, await begin(bench, { kind: 'purge', filter }));
    expect(found).toMatchObject({ state: 'failed', done: 0, problem: expect.stringContaining(' reason ') });
    expect(await count(bench.store, 't', 'dead')).toBe(1);
  });

  it('requeue: a filter by prefix, reason of the last attempt and status', async () => {
    const bench = await openBench(kind);
    await die(bench.store, 't', ['x1', 'x2', 'y1']);
    await die(bench.store, 't', ['x3'], { ...failedAttempt, reason: 'timeout', status: null });
    await work(bench);
    const finish = async (filter: OperationRecord['filter']) =>
      ended(bench, await begin(bench, { kind: 'purge', filter: { topic: 't', ...filter }, dryRun: true }));
    expect(await finish({})).toMatchObject({ matched: 4, done: 0 });
    expect(await finish({ idPrefix: 'x' })).toMatchObject({ matched: 3, state: 'finished' });
    expect(await finish({ lastReason: 'timeout' })).toMatchObject({ matched: 1 });
    expect(await finish({ status: '5xx' })).toMatchObject({ matched: 3 });
    expect(await finish({ status: 'none' })).toMatchObject({ matched: 1 });
    expect(await finish({ status: '502' })).toMatchObject({ matched: 0 });
    expect(await finish({ deadReason: 'gone' })).toMatchObject({ matched: 0 });
    expect(await count(bench.store, 't', 'dead')).toBe(4);
  });

  it('requeue: a list that begins again leaves jobs that died again', async () => {
    const bench = await openBench(kind);
    const { dead } = bench.store;
    await die(bench.store, 't', ids('a', 600));
    let begunAgain = 0;
    const list: Store['dead']['list'] = async (filter, limit, cursor) => {
      if (cursor === null || begunAgain > 0) return dead.list(filter, limit, cursor);
      // As after a change of the shards: the first page has moved, and its jobs are the newest dead letters.
      begunAgain = await buryReady(bench.store);
      throw new StoreError({ kind: 'not_stored', code: 'bad_cursor' });
    };
    const id = await begin(bench, {});
    await work({ ...bench, store: { ...bench.store, dead: { ...dead, list } } });
    expect(await ended(bench, id)).toMatchObject({ done: 600, skipped: 0, matched: 600 });
    expect(begunAgain).toBe(500);
    expect(await count(bench.store, 't', 'dead')).toBe(500);
  });

  it('the topics of the caller bound it', async () => {
    const bench = await openBench(kind);
    await die(bench.store, 'a.x', ids('a', 3));
    await die(bench.store, 'b.x', ids('b', 3));
    const id = await begin(bench, { filter: {}, topics: ['a.*'] });
    await work(bench);
    expect(await ended(bench, id)).toMatchObject({ done: 3, matched: 3 });
    expect(await count(bench.store, 'b.x', 'dead')).toBe(3);
  });

  it('purge, run, reschedule and cancel: no job that came after the start', async () => {
    const bench = await openBench(kind);
    const { store } = bench;
    await die(store, 't', ids('d', 3));
    await push(store, 't', ids('a', 600), 3_600_000);
    await work(bench);
    const at = (await store.admin.clock()) + 7_200_000;
    const end = async (wish: Wish) => ended(bench, await begin(bench, wish));
    expect(await end({ kind: 'purge' })).toMatchObject({ done: 3 });
    expect(await end({ kind: 'reschedule', at })).toMatchObject({ done: 600, skipped: 0, matched: 600 });
    expect((await store.jobs.get({ topic: 't', id: 'a5' }))?.dueAt).toBe(at);
    expect(await end({ kind: 'run', filter: { topic: 't', idPrefix: 'a1' } })).toMatchObject({ done: 111 });
    expect(await count(store, 't', 'ready')).toBe(111);
    expect(await end({ kind: 'cancel', filter: { topic: 't', state: 'ready' } })).toMatchObject({
      done: 111,
    });
    expect(await end({ kind: 'cancel' })).toMatchObject({ done: 489, matched: 489 });
    expect(await store.admin.counts()).toMatchObject({ topics: {} });
    expect(bench.rig.counted('t', 'cancelled')).toBe(600);
  });
});

describe.skipIf(await lacks('redis'))('operations on several Redis', () => {
  it('take the jobs of their request from each, also where clocks and shard lists differ', async () => {
    const time = useJumpingTime();
    const rig = await startRig({ clock: time.wall });
    const servers = await Promise.all(['a', 'b', 'c'].map(() => owned('test', startRedis({}))));
    const [a, b, c] = servers as [RedisServer, RedisServer, RedisServer];
    await b.ask('HSET', '{dq:0}:n', 'seq', String((Date.now() + hour) * 1_000));
    const listed = { list: listOf([a, b]) };
    const view = async () => {
      const shards = await openShards(listed);
      await owned('test', Promise.resolve({ stop: () => shards.close() }));
      return shards;
    };
    const [intake, upkeep] = [await view(), await view()];
    await push(intake.store, 't', ids('a', 60), 9 * hour);
    // A producer knows the new list before the intake and upkeep do.
    listed.list = withShard(listed.list, shardOf(c, 'c'));
    const producer = await view();
    await push(producer.store, 't', ids('m', 60), 9 * hour);
    const bench = { time, rig, store: intake.store, registry: rig.registry };
    const id = await begin(bench, { kind: 'cancel' });
    await push(producer.store, 't', ids('n', 60), 9 * hour);
    await work({ ...bench, store: upkeep.store });
    expect(await ended(bench, id)).toMatchObject({ state: 'finished', done: 120, skipped: 0, failed: 0 });
    expect(await count(producer.store, 't', 'delayed')).toBe(60);
    for (const server of servers) expect(Number(await server.ask('HLEN', '{dq:0}:j'))).toBeGreaterThan(0);
  });
});
