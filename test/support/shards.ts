// Opens a job store on several real Redis servers, with a shard list in place of a registry.

import { Redis } from 'ioredis';
import type { RedisServer } from '../../scripts/services/redis.ts';
import type { ReservedJob } from '../../src/core/job.ts';
import { filled, type ShardList } from '../../src/core/shard-list.ts';
import type { JobStore, Partition, Recovered, Store } from '../../src/ports/job-store.ts';
import { RedisStore, type RedisStoreOptions } from '../../src/store/redis/shard/redis-store.ts';
import type { StoreUnderTest } from '../conformance/store-under-test.ts';
import { drivesShards, dumpOfAll, onClock, testOptions } from './redis-store.ts';
import { SteppedClock } from './stepped-clock.ts';

/** The list that every process of a test reads. */
export interface Listed {
  list: ShardList;
}

export const shardOf = (server: RedisServer, digit: string) => ({
  id: digit.repeat(16),
  url: server.url,
  buckets: 1,
  addedAt: 0,
});

export const listOf = (servers: readonly RedisServer[]): ShardList =>
  filled(servers.map((server, i) => shardOf(server, 'abcdef'[i] ?? '0')));

export async function emptied(servers: readonly RedisServer[]): Promise<void> {
  for (const server of servers) {
    const raw = new Redis(server.url, { protocol: 2 });
    await raw.flushall();
    raw.disconnect();
  }
}

/** One process's view: it reads a changed list when the test calls apply, or a shard names a newer list. */
export async function openShards(listed: Listed, more: Partial<RedisStoreOptions> = {}): Promise<RedisStore> {
  const redis: RedisStore = new RedisStore({
    ...testOptions,
    refresh: async () => redis.apply(listed.list),
    ...more,
  });
  redis.apply(listed.list);
  await redis.start();
  return redis;
}

/** Runs a call on one partition as calls on each partition in turn, as a role does, until the result is
 *  complete. */
function asOnePartition({ jobs }: Store): JobStore {
  const inTurn = async <T>(ask: (partition: Partition) => Promise<T>): Promise<readonly T[]> => {
    const answers: T[] = [];
    for (const partition of jobs.partitions()) answers.push(await ask(partition));
    return answers;
  };
  const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);
  const recovery = async (max: number, ask: (partition: Partition, max: number) => Promise<Recovered>) => {
    let left = max;
    const answers = await inTurn(async (partition) => {
      const recovered = await ask(partition, left);
      left -= recovered.returned + recovered.poisoned.length;
      return recovered;
    });
    const pulled = answers.flatMap((answer) => answer.pulled ?? []);
    pulled.sort((a, b) => a.until - b.until);
    return {
      returned: sum(answers.map(({ returned }) => returned)),
      poisoned: answers.flatMap(({ poisoned }) => poisoned),
      more: answers.some(({ more }) => more) || pulled.length > max,
      ...(pulled.length > 0 ? { pulled: pulled.slice(0, max) } : {}),
    };
  };
  return {
    ...jobs,
    partitions: () => [0],
    async promote(_, max) {
      let left = max;
      const answers = await inTurn(async (partition) => {
        const promoted = await jobs.promote(partition, left);
        left -= promoted.moved;
        return promoted;
      });
      const waits = answers.flatMap(({ waitMs }) => waitMs ?? []);
      return {
        moved: sum(answers.map(({ moved }) => moved)),
        waitMs: waits.length === 0 ? null : Math.min(...waits),
      };
    },
    async reserve(_, request) {
      const topics = new Map(request.topics);
      const reserved: ReservedJob[] = [];
      let more = false;
      let now: number | null = null;
      const atLeaseLimit = new Set<string>();
      for (const partition of jobs.partitions()) {
        // A topic's capacity counts over all partitions.
        const left = request.max - reserved.length;
        const answer = await jobs.reserve(partition, { ...request, max: left, topics });
        for (const { topic } of answer.jobs) {
          const { room, leaseMs } = topics.get(topic) ?? request.others;
          topics.set(topic, { room: room - 1, leaseMs });
        }
        reserved.push(...answer.jobs);
        more ||= answer.more;
        now = answer.now ?? now;
        for (const topic of answer.atLeaseLimit ?? []) atLeaseLimit.add(topic);
      }
      return { jobs: reserved, more, now, ...(atLeaseLimit.size > 0 && { atLeaseLimit: [...atLeaseLimit] }) };
    },
    recover: (_, max) => recovery(max, (partition, left) => jobs.recover(partition, left)),
    recoverOwners: (_, instance, which, max) =>
      recovery(max, (partition, left) => jobs.recoverOwners(partition, instance, which, left)),
    releaseUnheld: async (_, owner, held, upTo) => {
      const found = await inTurn((partition) => jobs.releaseUnheld(partition, owner, held, upTo));
      return {
        released: sum(found.map(({ released }) => released)),
        left: sum(found.map(({ left }) => left)),
        last: Math.max(...found.map(({ last }) => last)),
      };
    },
    onHint: (listener) => jobs.onHint((hint) => listener({ ...hint, partition: 0 })),
  };
}

/** Empties the servers and opens a store on them, on a stepped clock. `active`: those that get new ids; the
 *  others drain. */
export async function underTest(
  servers: readonly RedisServer[],
  active: (at: number) => boolean = () => true,
): Promise<StoreUnderTest> {
  await emptied(servers);
  const all = listOf(servers);
  const list = { ...all, shards: all.shards.map((shard, at) => ({ ...shard, active: active(at) })) };
  const clock = new SteppedClock();
  const redis = await openShards({ list }, onClock(clock));
  await drivesShards(
    clock,
    list.shards.flatMap(({ id }) => redis.shard(id) ?? []),
  );
  const raws = servers.map(({ url }) => new Redis(url, { protocol: 2 }));
  return {
    store: { ...redis.store, jobs: asOnePartition(redis.store) },
    clock,
    dump: () => dumpOfAll(raws, clock.now),
    async close() {
      await redis.close();
      for (const raw of raws) raw.disconnect();
    },
  };
}
