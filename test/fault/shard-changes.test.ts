// Shards are added and drained on real servers; each process reads a new list at a different time. A rule of
// the simulated worlds is that no job is lost or doubled meanwhile.

import { join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { draining, placesOf, withShard } from '../../src/core/shard-list.ts';
import type { PushJob } from '../../src/ports/job-store.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import { shardServers } from '../../src/store/redis/shard/shard-servers.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { removeShard } from '../../src/use-cases/change-shards.ts';
import { startRedisProxy } from '../support/redis-proxy.ts';
import { lacks, owned } from '../support/services.ts';
import { emptied, listOf, openShards, shardOf } from '../support/shards.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

const topic = 't';

const jobOf = (id: string, body: string, delayMs: number): PushJob => ({
  topic,
  id,
  when: { delayMs },
  mode: 'replace',
  priority: 'normal',
  contentType: null,
  body: Buffer.from(body),
});

const attempt = {
  ...({ attempt: 1, startedAt: 0, durationMs: 1, outcome: 'failed', reason: 'status' } as const),
  ...{ status: 500, replyExcerpt: '', notifier: 'n', host: 'h' },
};

const serverOptions = () => ({
  title: 'test',
  log: silentLog,
  keepHistory: true,
  registryId: async () => 'r1',
  onFatal: (error: Error) => {
    throw error;
  },
});

describe.skipIf(await lacks('redis'))('shards that change under load', () => {
  let servers: readonly RedisServer[] = [];
  beforeAll(async () => {
    servers = await Promise.all([0, 1, 2].map(() => owned('file', startRedis())));
  });

  it('a push with a window finds the last end at an earlier home, and no end beside a live job', async () => {
    await emptied(servers);
    const [a, b] = servers as [RedisServer, RedisServer];
    const site = await openShards({ list: listOf([a]) });
    onTestFinished(() => site.close());
    const { jobs } = site.store;
    const pushes = Array.from({ length: 60 }, (_, i) => jobOf(`job-${i}`, 'x', 0));
    const windowed = pushes.map((job) => ({ ...job, windowMs: 3_600_000 }));
    const kindsOf = (outcomes: readonly { readonly kind: string }[]) => [
      ...new Set(outcomes.map(({ kind }) => kind)),
    ];
    await jobs.push(pushes);
    await jobs.cancel(pushes);
    site.apply(withShard(site.list, shardOf(b, 'b')));
    const homes = new Set(pushes.map((job) => placesOf(site.list, job).home));
    expect(homes.size).toBe(2);
    expect(kindsOf(await jobs.push(windowed))).toEqual(['ended']);
    expect(kindsOf(await jobs.push(pushes))).toEqual(['stored']);
    const replaced = await jobs.push(windowed);
    expect(replaced.filter((outcome) => outcome.kind !== 'stored' || !outcome.replaced)).toEqual([]);
    await jobs.cancel(pushes);
    expect(kindsOf(await jobs.push(windowed))).toEqual(['ended']);
    // Where every shard drains, too.
    const drained = draining(draining(site.list, 'a'.repeat(16)), 'b'.repeat(16));
    site.apply(drained);
    expect(kindsOf(await jobs.push(windowed))).toEqual(['ended']);
  });

  it('calls to a new shard wait for its connection', async () => {
    await emptied(servers);
    const [a, b] = servers as [RedisServer, RedisServer];
    const site = await openShards({ list: listOf([a]) });
    const { jobs } = site.store;
    const before = jobs.partitions();
    site.apply(withShard(site.list, shardOf(b, 'b')));
    const [added] = jobs.partitions().filter((partition) => !before.includes(partition));
    expect(await jobs.recover(added ?? -1, 10)).toMatchObject({ returned: 0, more: false });
    await site.close();
  });

  it('an empty shard stays in the list while a move of a jobs.db is open', async () => {
    await emptied(servers);
    const [a, b] = servers as [RedisServer, RedisServer];
    const directory = temporaryDirectory();
    onTestFinished(() => directory.remove());
    const registry = await openRegistryDb(join(directory.path, 'registry.db'));
    onTestFinished(() => registry.close());
    const id = 'b'.repeat(16);
    const listed = { list: draining(listOf([a, b]), id) };
    const site = await openShards(listed);
    onTestFinished(() => site.close());
    const refresh = async () => site.apply((await registry.shards(-1)).list ?? listed.list);
    await registry.writeShards(listed.list, 0);
    const { arrivals } = site.store;
    await arrivals?.prepare(1);
    const remove = () => removeShard({ registry, servers: shardServers(site, serverOptions()), refresh }, id);
    await expect(remove()).rejects.toMatchObject({
      code: 'shard_in_use',
      message: expect.stringContaining('after the move'),
    });
    await arrivals?.close(1);
    expect(await remove()).toEqual({ lost: null });
  });

  it('earlier home unavailable: other ids are served, its ids get no answer', async () => {
    await emptied(servers);
    const [a, b] = servers as [RedisServer, RedisServer];
    const listed = { list: listOf([a]) };
    const site = await openShards(listed);
    const stays = { topic, id: 'stays' };
    await site.store.jobs.push([jobOf(stays.id, 'x', 3_600_000)]);
    listed.list = draining(withShard(listed.list, shardOf(b, 'b')), 'a'.repeat(16));
    site.apply(listed.list);
    const [moved, cancelled, nowhere] = ['moved', 'cancelled', 'nowhere'].map((id) => ({ topic, id }));
    await site.store.jobs.push(['moved', 'cancelled'].map((id) => jobOf(id, 'y', 3_600_000)));
    await a.process.kill();
    const { jobs } = site.store;
    await until(
      'its failure to be noticed',
      async () => (await jobs.push([jobOf('new', 'z', 0)]))[0]?.kind === 'not_stored',
    );
    expect((await jobs.get(moved as typeof stays))?.body.toString()).toBe('y');
    expect(await jobs.cancel([cancelled, nowhere, stays] as (typeof stays)[])).toMatchObject([
      { kind: 'cancelled' },
      { kind: 'not_stored' },
      { kind: 'not_stored' },
    ]);
    for (const key of [nowhere, stays])
      await expect(jobs.get(key as typeof stays)).rejects.toMatchObject({ failure: { kind: 'not_stored' } });
    const made = await jobs.push([{ ...jobOf('made', 'w', 0), anotherId: () => 'other' }]);
    expect(made).toMatchObject([{ kind: 'stored' }]);
    await site.close();
    await a.process.start();
  });

  it('claimed alerts of a shard with a new address are settled there or mailed again', async () => {
    await emptied(servers);
    const [a, b] = servers as [RedisServer, RedisServer];
    const listed = { list: listOf([a, b]) };
    const site = await openShards(listed);
    const { jobs, alerts } = site.store;
    await jobs.push(Array.from({ length: 20 }, (_, i) => jobOf(`job-${i}`, 'x', 0)));
    for (const partition of jobs.partitions()) {
      const reserved = await jobs.reserve(partition, {
        ...{ owner: { instance: 1, incarnation: 1 }, max: 50, topics: new Map() },
        others: { room: 50, leaseMs: 60_000 },
      });
      expect(reserved.jobs.length).toBeGreaterThan(1);
      await jobs.bury(reserved.jobs.map((job) => ({ ...job, reason: 'gone', attempt })));
    }
    const claimed = await alerts.claim(topic, 50, 100);
    expect(claimed).toHaveLength(20);
    const [first, ...sent] = claimed.map(({ version }) => version);
    const { url } = await startRedisProxy(a.port);
    site.apply(withShard(listed.list, { ...shardOf(a, 'a'), url }));
    await alerts.settle(sent, 'sent');
    await until('the claim to expire', async () => {
      const [again] = await alerts.claim(topic, 60_000, 100);
      return again?.version === first;
    });
    await alerts.settle([first ?? 0], 'sent');
    expect(await alerts.due(0)).toEqual([]);
    await site.close();
  });

  it('versions of an id rise over its moves, with any clocks of its shards', async () => {
    await emptied(servers);
    const [a, b] = servers as [RedisServer, RedisServer];
    const listed = { list: listOf([a]) };
    const site = await openShards(listed);
    await site.store.jobs.push([jobOf('1', 'x', 0)]);
    // As if the clock of the first were an hour ahead.
    const ahead = Date.now() * 1_000 + 3_600_000_000;
    await a.ask('HSET', '{dq:0}:n', 'seq', String(ahead));
    const [first] = await site.store.jobs.push([jobOf('1', 'y', 0)]);
    await site.store.jobs.cancel([{ topic, id: '1' }]);
    listed.list = draining(withShard(listed.list, shardOf(b, 'b')), 'a'.repeat(16));
    site.apply(listed.list);
    const [second] = await site.store.jobs.push([jobOf('1', 'z', 0)]);
    expect([first?.kind, second?.kind]).toEqual(['stored', 'stored']);
    if (first?.kind !== 'stored' || second?.kind !== 'stored') return;
    expect(first.version).toBeGreaterThan(ahead);
    expect(second.version).toBeGreaterThan(first.version);
    await site.close();
  });
});
