// A notifier on several shards, one of which does not answer.
import { describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { placesOf } from '../../src/core/shard-list.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import type { JobStore, Partition, Store } from '../../src/ports/job-store.ts';
import { lacks, owned } from '../support/services.ts';
import { listOf, openShards } from '../support/shards.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { ids, type Rig, startRig } from './rig.ts';

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
