// Opens a job store on one real Redis server or group (services.ts), as the only shard of its list. The dump
// reads the keys themselves.

import { Redis } from 'ioredis';
import { onTestFinished } from 'vitest';
import type { RedisServer } from '../../scripts/services/redis.ts';
import type { EndedJob } from '../../src/core/job.ts';
import { filled } from '../../src/core/shard-list.ts';
import { deadReasonCodes, readSafe } from '../../src/core/stored-codes.ts';
import type { AlertEntry } from '../../src/ports/job-store.ts';
import { type Bucket, idOf, prefixOf } from '../../src/store/redis/scripts/keys.ts';
import {
  readAlert,
  readAttempts,
  readEnded,
  readEndedAttempts,
  readRecord,
  readStateRecord,
} from '../../src/store/redis/scripts/records.ts';
import { RedisStore, type RedisStoreOptions } from '../../src/store/redis/shard/redis-store.ts';
import type { Shard } from '../../src/store/redis/shard/shard.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import {
  type DumpedJob,
  inDumpOrder,
  type StateDump,
  type StoreUnderTest,
} from '../conformance/store-under-test.ts';
import { Trial } from '../conformance/trial.ts';
import type { SteppedClock } from './stepped-clock.ts';

/** Replaces the clock part of the scripts: reads the time from a key of the bucket. */
const steppedPart = `
local now = tonumber(call('GET', P .. ':test-clock'))
local us = now * 1000
`;
const clockKeyOf = (bucket: Bucket) => `${prefixOf(bucket)}:test-clock`;

/** The options of a store on this clock; empty for a real one. drivesShards is called after its start. */
export const onClock = (clock: SteppedClock | undefined): Partial<RedisStoreOptions> =>
  clock === undefined
    ? {}
    : { scriptParts: { clock: steppedPart }, clockKey: clockKeyOf(0), monotonic: () => clock.now };

/** From now on, each step writes the time to every bucket of the shards. */
export async function drivesShards(clock: SteppedClock | undefined, shards: readonly Shard[]): Promise<void> {
  const buckets = shards.flatMap((shard) =>
    shard.buckets.map((bucket) => ({ shard, key: clockKeyOf(bucket) })),
  );
  await clock?.drive(async (now) => {
    await Promise.all(buckets.map(({ shard, key }) => shard.command('SET', key, now)));
  });
}

export interface OpenedRedis extends StoreUnderTest {
  readonly redis: RedisStore;
  /** the only shard of its list */
  readonly shard: Shard;
  /** another connection, for reading and breaking keys */
  readonly raw: Redis;
}

export const testOptions = {
  title: 'test',
  log: silentLog,
  registryId: async () => 'r1',
  keepHistory: true,
  recoverHoldMs: 0,
  hints: true,
  onFatal: (error: Error) => {
    throw error;
  },
};

export type OneShardOptions = Partial<RedisStoreOptions> & {
  readonly url?: string;
  readonly buckets?: number;
  /** absent: the clock of the server */
  readonly clock?: SteppedClock | undefined;
};

const shardId = '5a'.repeat(8);

/** A store whose list has one shard. start() opens it. */
export function oneShard(server: RedisServer, more: OneShardOptions = {}): RedisStore {
  const { url = server.url, buckets = 1, clock, ...options } = more;
  // Servers of a test have no marker yet.
  const unlisted = { ...testOptions, isListed: false, refresh: async () => {} };
  const redis = new RedisStore({ ...unlisted, ...onClock(clock), ...options });
  redis.apply(filled([{ id: shardId, url, buckets, addedAt: 0 }]));
  return redis;
}

/** The shard of a started store. */
export function onlyShard(redis: RedisStore): Shard {
  const shard = redis.shard(shardId);
  if (shard === null) throw new Error('the store is not started');
  return shard;
}

export async function openOn(server: RedisServer, more: OneShardOptions = {}): Promise<OpenedRedis> {
  const redis = oneShard(server, more);
  await redis.start();
  const { clock } = more;
  await drivesShards(clock, [onlyShard(redis)]);
  const raw = new Redis(server.url, { protocol: 2 });
  // A test may end the server: the caller gets the failure.
  raw.on('error', () => {});
  return {
    redis,
    raw,
    clock,
    shard: onlyShard(redis),
    store: redis.store,
    dump: () => dumpOf(raw, clock?.now),
    async close() {
      await redis.close();
      raw.disconnect();
    },
  };
}

/** Empties the server first. */
export async function openEmpty(server: RedisServer, more: OneShardOptions = {}): Promise<OpenedRedis> {
  const raw = new Redis(server.url, { protocol: 2 });
  await raw.flushall();
  raw.disconnect();
  return openOn(server, more);
}

/** A store that closes with the running test. */
async function closedWithTest(opening: Promise<OpenedRedis>) {
  const under = await opening;
  onTestFinished(() => under.close());
  return { under, trial: new Trial(under), raw: under.raw };
}
export const openedOn = (server: RedisServer, more: OneShardOptions = {}) =>
  closedWithTest(openOn(server, more));
export const openedEmpty = (server: RedisServer, more: OneShardOptions = {}) =>
  closedWithTest(openEmpty(server, more));

/** Empties the masters of a group first. */
export async function openGroup(
  url: string,
  masters: readonly RedisServer[],
  more: OneShardOptions,
): Promise<OpenedRedis> {
  await Promise.all(masters.map((master) => master.ask('FLUSHALL')));
  const redis = oneShard(masters[0] as RedisServer, { url, ...more });
  await redis.start();
  const { clock } = more;
  await drivesShards(clock, [onlyShard(redis)]);
  const raws = masters.map((master) => new Redis(master.url, { protocol: 2 }));
  for (const raw of raws) raw.on('error', () => {});
  return {
    redis,
    raw: raws[0] as Redis,
    shard: onlyShard(redis),
    clock,
    store: redis.store,
    dump: () => dumpOfAll(raws, clock?.now),
    async close() {
      await redis.close();
      for (const raw of raws) raw.disconnect();
    },
  };
}

/** Every key with its content, in a fixed order: two of these are equal when nothing changed. */
export async function allKeys(raw: Redis): Promise<Record<string, unknown>> {
  const keys = (await raw.keys('*')).sort();
  const entries = await Promise.all(keys.map(async (key) => [key, await contentOf(raw, key)] as const));
  return Object.fromEntries(entries);
}

async function contentOf(raw: Redis, key: string): Promise<unknown> {
  const type = await raw.type(key);
  if (type === 'string') return raw.get(key);
  if (type === 'zset') return pairs(await ranked(raw, key));
  return (await rows(raw, key))
    .map(([field, value]) => [field.toString('hex'), value.toString('hex')])
    .sort();
}

const pairs = (flat: readonly Buffer[]) =>
  Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i]?.toString('hex'), String(flat[2 * i + 1])]);

/** Members and scores of a sorted set, by score. */
const ranked = async (raw: Redis, key: string) =>
  (await raw.callBuffer('ZRANGE', key, '0', '-1', 'WITHSCORES')) as Buffer[];

/** Fields and values of a hash. */
async function rows(raw: Redis, key: string): Promise<[Buffer, Buffer][]> {
  const flat = (await raw.callBuffer('HGETALL', key)) as Buffer[];
  return Array.from({ length: flat.length / 2 }, (_, i) => [
    flat[2 * i] as Buffer,
    flat[2 * i + 1] as Buffer,
  ]);
}

async function scores(raw: Redis, key: string): Promise<Map<string, number>> {
  const flat = await ranked(raw, key);
  return new Map(
    Array.from({ length: flat.length / 2 }, (_, i) => [
      (flat[2 * i] as Buffer).toString('hex'),
      Number(String(flat[2 * i + 1])),
    ]),
  );
}

/** One dump of all these servers. */
export async function dumpOfAll(raws: readonly Redis[], now?: number): Promise<StateDump> {
  const dumps = await Promise.all(raws.map((raw) => dumpOf(raw, now)));
  return inDumpOrder(
    dumps.flatMap(({ jobs }) => jobs),
    dumps.flatMap(({ alerts }) => alerts),
    dumps.flatMap(({ ended }) => ended),
  );
}

/** `now`: the storage clock, which decides whether a claim of an alert has expired */
export async function dumpOf(raw: Redis, now = Date.now()): Promise<StateDump> {
  const prefixes = [...new Set((await raw.keys('{dq:*}:n')).map((key) => key.slice(0, -2)))];
  const dumps = await Promise.all(prefixes.map((prefix) => dumpBucket(raw, prefix, now)));
  return inDumpOrder(
    dumps.flatMap(({ jobs }) => jobs),
    dumps.flatMap(({ alerts }) => alerts),
    dumps.flatMap(({ ended }) => ended),
  );
}

async function dumpBucket(raw: Redis, prefix: string, now: number) {
  const hash = async (name: string) =>
    new Map((await rows(raw, `${prefix}:${name}`)).map(([field, value]) => [field.toString('hex'), value]));
  const records = await hash('j');
  const mores = await hash('m');
  const bodies = await hash('b');
  const attempts = await hash('p');
  const ended = await hash('h');
  const alerts = await hash('o');
  const leases = new Map([...(await scores(raw, `${prefix}:l`)), ...(await scores(raw, `${prefix}:k`))]);
  const names = new Map(
    (await rows(raw, `${prefix}:T`)).map(([no, name]) => [Number(String(no)), String(name)]),
  );
  const keyOf = (field: string) => {
    const bytes = Buffer.from(field, 'hex');
    return {
      topic: names.get(bytes.readUIntBE(0, 3)) ?? '?',
      id: idOf(bytes.subarray(3)),
      no: bytes.readUIntBE(0, 3),
    };
  };
  const none = Buffer.alloc(0);
  const jobs: DumpedJob[] = [];
  for (const [field, bytes] of records) {
    const { topic, id, no } = keyOf(field);
    const record = readRecord(bytes, bodies.get(field) ?? none);
    const more = readStateRecord(mores.get(field) ?? none);
    const lease = [...leases].find(
      ([member]) => more.state === 2 && readSafe(Buffer.from(member, 'hex'), 0) === more.token,
    );
    jobs.push({
      topic,
      id,
      ...record,
      body: Buffer.from(record.body),
      state:
        more.state === 2
          ? 'reserved'
          : more.state === 3
            ? 'dead'
            : await whereWaiting(raw, prefix, no, field, record),
      failures: more.failures,
      strikes: more.strikes,
      attempts: readAttempts(attempts.get(field) ?? none),
      lease:
        more.state === 2
          ? {
              token: more.token,
              owner: { instance: more.instance, incarnation: more.incarnation },
              untilMs: lease?.[1] ?? Number.NaN,
            }
          : null,
      deadAt: more.state === 3 ? more.deadAt : null,
      deadReason: more.state === 3 ? (deadReasonCodes[more.reason] ?? null) : null,
    });
  }
  const ends: EndedJob[] = [...ended].map(([field, record]) => ({
    ...readEnded(keyOf(field), record),
    attempts: readEndedAttempts(record, attempts.get(field) ?? none),
  }));
  const entries: AlertEntry[] = [...alerts].map(([version, record]) =>
    readAlert(
      names.get(record.readUIntBE(16, 3)) ?? '?',
      readSafe(Buffer.from(version, 'hex'), 0),
      record,
      now,
    ),
  );
  return { jobs, alerts: entries, ended: ends };
}

/** From the sets: the record of a job does not store delayed or ready. */
async function whereWaiting(
  raw: Redis,
  prefix: string,
  no: number,
  field: string,
  { version }: { readonly version: number },
): Promise<'delayed' | 'ready'> {
  const head = Buffer.alloc(7);
  head.writeUInt8(Math.floor(version / 2 ** 48));
  head.writeUIntBE(version % 2 ** 48, 1, 6);
  const has = async (key: string) =>
    [...(await scores(raw, key)).keys()].some((member) => member.startsWith(head.toString('hex')));
  const delayed = await has(`${prefix}:d:${no}`);
  const ready = (await Promise.all([0, 1, 2].map((prio) => has(`${prefix}:r:${prio}:${no}`)))).filter(
    Boolean,
  );
  if (Number(delayed) + ready.length !== 1)
    throw new Error(`${field} is delayed or ready in ${Number(delayed) + ready.length} places`);
  return delayed ? 'delayed' : 'ready';
}

/** Returns a function that puts the state of now back. */
export async function snapshot(raw: Redis): Promise<() => Promise<void>> {
  const kept = await Promise.all(
    (await raw.keys('*')).map(async (key) => [key, await raw.dumpBuffer(key)] as const),
  );
  return async () => {
    // Not FLUSHALL, whose moment without a marker is another failure.
    const gone = (await raw.keys('*')).filter((key) => kept.every(([name]) => name !== key));
    if (gone.length > 0) await raw.del(...gone);
    for (const [key, dump] of kept) await raw.restore(key, 0, dump as Buffer, 'REPLACE');
  };
}
