// A notifier on several shards, which number their leases independently.
import { describe, expect, it, onTestFinished } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { placesOf } from '../../src/core/shard-list.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import type { JobStore, Partition, Store } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { lacks, owned } from '../support/services.ts';
import { listOf, openShards } from '../support/shards.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { ids, type Rig, startRig } from './rig.ts';

it.skipIf(await lacks('redis'))(
  'notifier: keeps a job whose token equals that of another shard',
  async () => {
    const servers = await Promise.all([owned('test', startRedis()), owned('test', startRedis())]);
    const list = listOf(servers);
    const sharded = await openShards({ list });
    await owned('test', Promise.resolve({ stop: () => sharded.close() }));
    const rig = await startRig();
    const sink = await startSink((arrival, response) => {
      if (arrival.id === short) return ok(arrival, response);
    });
    const homeOf = (id: string) => placesOf(list, { topic: 't', id }).home;
    const some = ids('j', 50);
    const short = some.find((id) => homeOf(id) === list.shards[0]?.id) ?? '';
    const long = some.find((id) => homeOf(id) === list.shards[1]?.id) ?? '';
    const outcomes = await sharded.store.jobs.push(
      [short, long].map((id) => ({
        ...{ topic: 't', id, when: { delayMs: 0 }, mode: 'replace', priority: 'normal', contentType: null },
        body: Buffer.from('1'),
      })),
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(['stored', 'stored']);
    await rig.topic('t', sink.url, { timeoutMs: 60_000 });

    // The clocks of two servers give equal tokens when they lease in the same µs: here the second lease is
    // shown with the token of the first.
    const tokens: number[] = [];
    let twin: { readonly partition: Partition; readonly id: string; readonly token: number } | undefined;
    const shown = (partition: Partition, { id, token }: { readonly id: string; readonly token: number }) => {
      tokens.push(token);
      if (tokens.length !== 2) return token;
      twin = { partition, id, token };
      return tokens[0] ?? 0;
    };
    const losing = new Set<Partition>();
    const lost = new Set<Partition>();
    /** Partitions that searched after their lost answer. Each one also searches by itself. */
    const searched = new Set<Partition>();
    const reserves = new Map<Partition, number>();
    const jobs: Partial<JobStore> = {
      async reserve(partition: Partition, request) {
        if (losing.delete(partition)) {
          lost.add(partition);
          throw new StoreError({ kind: 'unknown', code: 'no_answer' });
        }
        const reserved = await sharded.store.jobs.reserve(partition, request);
        reserves.set(partition, (reserves.get(partition) ?? 0) + 1);
        return { ...reserved, jobs: reserved.jobs.map((job) => ({ ...job, token: shown(partition, job) })) };
      },
      ack: (items) =>
        sharded.store.jobs.ack(
          items.map((item) => ({ ...item, token: twin?.id === item.id ? twin.token : item.token })),
        ),
      async releaseUnheld(partition, owner, held, upTo) {
        const real = twin?.partition === partition ? [...held, twin.token] : held;
        const released = await sharded.store.jobs.releaseUnheld(partition, owner, real, upTo);
        if (lost.has(partition)) searched.add(partition);
        return released;
      },
    };
    const store = { ...sharded.store, jobs: { ...sharded.store.jobs, ...jobs } };
    await rig.run(createNotifier(rig.context({ store })));
    await until('one to be delivered', () => rig.counted('t', 'delivered') === 1);
    await until('the other to be called', () => sink.open().length === 1);
    expect(tokens).toHaveLength(2);
    for (const partition of sharded.partitions) losing.add(partition);
    await until('a search for unheld leases on both', () => searched.size === 2);
    reserves.clear();
    // The first reserve brings a job that a search released. Its call has begun before the second one.
    await until('both to be asked for jobs', () =>
      sharded.partitions.every((partition) => (reserves.get(partition) ?? 0) >= 2),
    );
    expect(sink.arrivals.map(({ id }) => id).sort()).toEqual([short, long].sort());
    sink.finish(sink.open()[0]);
    await until('it to be delivered', () => rig.counted('t', 'delivered') === 2);
    expect(rig.lines.filter(({ message }) => message.startsWith('notifier: leases were lost'))).toEqual([]);
  },
);

interface Scene {
  readonly rig: Rig;
  readonly servers: readonly RedisServer[];
  readonly store: Store;
  /** partitions whose reserve has no answer */
  readonly asked: ReadonlySet<Partition>;
  /** equally many ids that live on this shard */
  idsOn(at: number, count: number): readonly string[];
  push(some: readonly string[], topic?: string): Promise<void>;
}

/** Three shards of the topic `t`, with limits above the duration of a test. */
async function threeShards(): Promise<Scene> {
  const servers = await Promise.all([0, 1, 2].map(() => owned('test', startRedis())));
  const list = listOf(servers);
  const sharded = await openShards({ list }, { callMs: 120_000, silentMs: 120_000 });
  await owned('test', Promise.resolve({ stop: () => sharded.close() }));
  const asked = new Set<Partition>();
  const { jobs } = sharded.store;
  const watched: Partial<JobStore> = {
    async reserve(partition, request) {
      asked.add(partition);
      return jobs.reserve(partition, request).finally(() => asked.delete(partition));
    },
  };
  return {
    rig: await startRig(),
    servers,
    store: { ...sharded.store, jobs: { ...jobs, ...watched } },
    asked,
    idsOn: (at, count) =>
      ids('j', count * 12)
        .filter((id) => placesOf(list, { topic: 't', id }).home === list.shards[at]?.id)
        .slice(0, count),
    async push(some, topic = 't') {
      const outcomes = await jobs.push(
        some.map((id) => ({
          ...{ topic, id, when: { delayMs: 0 }, mode: 'replace', priority: 'normal', contentType: null },
          body: Buffer.from('1'),
        })),
      );
      expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['stored']));
    },
  };
}

describe.skipIf(await lacks('redis'))('notifier: one frozen shard of three', () => {
  it.each([64, 1])('delays no job of the others, at a concurrency of %i', async (concurrency) => {
    const scene = await threeShards();
    const { rig, servers, store, asked } = scene;
    const sink = await startSink(ok);
    await rig.topic('t', sink.url, { concurrency, timeoutMs: 60_000 });
    await scene.push(scene.idsOn(0, 10));
    const [frozen] = servers as [RedisServer];
    await frozen.process.freeze();
    await rig.run(createNotifier(rig.context({ store })));
    await until('it is asked', () => asked.has(0));
    const others = [...scene.idsOn(1, 40), ...scene.idsOn(2, 40)];
    await scene.push(others);
    // Its connection and its call end later than this wait.
    await until('those of the others are delivered', () => rig.counted('t', 'delivered') === 80);
    expect(asked.has(0)).toBe(true);
    expect(sink.arrivals.map(({ id }) => id).sort()).toEqual([...others].sort());
    frozen.process.thaw();
    await until('and then its own', () => rig.counted('t', 'delivered') === 90);
    expect(sink.arrivals).toHaveLength(90);
  });

  it('delays no outcome of the others in the same tick', async () => {
    const scene = await threeShards();
    const { rig, servers, store } = scene;
    const sink = await startSink(() => {});
    await rig.topic('t', sink.url, { timeoutMs: 60_000 });
    await scene.push([0, 1, 2].flatMap((at) => scene.idsOn(at, 5)));
    await rig.run(createNotifier(rig.context({ store })));
    await until('all are called', () => sink.open().length === 15);
    const [frozen] = servers as [RedisServer];
    await frozen.process.freeze();
    for (const arrival of sink.open()) sink.finish(arrival);
    await until('those of the others are settled', () => rig.counted('t', 'delivered') === 10);
    frozen.process.thaw();
    await until('and then its own', () => rig.counted('t', 'delivered') === 15);
    expect(sink.arrivals).toHaveLength(15);
  });
});

it.skipIf(await lacks('redis'))(
  'notifier: simultaneous reserves exceed neither the slots nor a concurrency',
  async () => {
    // A call that becomes slow leaves its slot for another one. A pause of this process makes calls slow.
    const { slowCallMs } = notifierLimits;
    onTestFinished(() => void Object.assign(notifierLimits, { slowCallMs }));
    Object.assign(notifierLimits, { slowCallMs: 600_000 });
    const scene = await threeShards();
    const { rig, store } = scene;
    // Counted down before the answer is sent: its receiver frees capacity only then.
    const running = { t: 0, all: 0 };
    const most = { t: 0, all: 0 };
    const count = (topic: string, more: 1 | -1) => {
      running.all += more;
      if (topic === 't') running.t += more;
      most.all = Math.max(most.all, running.all);
      most.t = Math.max(most.t, running.t);
    };
    const sink = await startSink((arrival, response) => {
      count(arrival.topic, 1);
      setTimeout(
        () => {
          count(arrival.topic, -1);
          void ok(arrival, response);
        },
        5 + (Number(arrival.id.slice(1)) % 20),
      );
    });
    // A call that times out frees its slot before the receiver counts it down.
    for (const topic of ['t', 'u', 'v'])
      await rig.topic(topic, sink.url, { concurrency: topic === 't' ? 5 : 64, timeoutMs: 60_000 });
    for (const topic of ['t', 'u', 'v']) await scene.push(ids('j', 100), topic);
    await rig.run(createNotifier(rig.context({ store, config: { 'notifier.slots': 12 } })));
    await until('all are delivered', () => sink.arrivals.length >= 300 && sink.open().length === 0);
    expect(new Set(sink.arrivals.map(({ topic, id }) => `${topic} ${id}`)).size).toBe(300);
    expect(most.t).toBeLessThanOrEqual(5);
    expect(most.all).toBeLessThanOrEqual(12);
  },
);
