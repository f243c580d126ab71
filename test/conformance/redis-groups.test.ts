// The smoke cases on a Sentinel group and on a Cluster in one bucket (redis-whole.test.ts runs all). For a
// Cluster also: buckets on several nodes, distinct numbers among them, nodes that fail and return.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RedisServer } from '../../scripts/services/redis.ts';
import { type RedisCluster, startRedisCluster } from '../../scripts/services/redis-cluster.ts';
import { type SentinelGroup, startSentinelGroup } from '../../scripts/services/redis-sentinel.ts';
import { redisLimits } from '../../src/store/redis/limits.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { numbers } from '../support/producing.ts';
import { startRedisProxy } from '../support/redis-proxy.ts';
import { type OpenedRedis, oneShard, onlyShard, openGroup } from '../support/redis-store.ts';
import { lacks } from '../support/services.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { until } from '../support/until.ts';
import { smokeCases } from './smoke.ts';
import { examined, jobOf, request, Trial } from './trial.ts';

const missing = await lacks('redis');

describe.skipIf(missing)('sentinel', () => {
  let group: SentinelGroup;
  beforeAll(async () => {
    // No test here needs a failover, and a master of a busy machine is silent for seconds.
    group = await startSentinelGroup({ downAfterMs: 60_000 });
  });
  afterAll(() => group.stop());
  for (const each of smokeCases)
    it(each.title, () => each.run(() => openGroup(group.url, [group.master], { clock: new SteppedClock() })));

  it('start does not wait for unavailable sentinels; calls work when they return', async () => {
    for (const { process } of group.sentinels) await process.kill();
    const under = await openGroup(group.url, [group.master], {});
    try {
      const { jobs } = under.store;
      expect(await jobs.push([jobOf('early')])).toEqual([{ kind: 'not_stored', code: 'redis_away' }]);
      for (const { process } of group.sentinels) await process.start();
      await until(
        'a push to be stored',
        async () => (await jobs.push([jobOf('late')]))[0]?.kind === 'stored',
      );
    } finally {
      await under.close();
    }
  });

  it('failover: continues on the replica, with all replicated jobs', async () => {
    const failing = await startSentinelGroup();
    const under = await openGroup(failing.url, [failing.master], {});
    // Most of these wait for the first sentinel when another one reports the failover.
    const slow = await startRedisProxy(failing.sentinels[0]?.port ?? 0);
    const url = `${slow.url.replace('redis:', 'redis+sentinel:')}/${failing.name}`;
    const waiting = numbers(8).map(() => oneShard(failing.master, { url }));
    try {
      await Promise.all(waiting.map((store) => store.start()));
      const { jobs } = under.store;
      await jobs.push([jobOf('before')]);
      await until(
        'the replica to have it',
        async () => (await failing.replicas[0]?.ask('HLEN', '{dq:0}:j')) === '1',
      );
      slow.delay(() => 300);
      await failing.master.process.kill();
      const after = await until(
        'a push to be stored by the new master',
        async () => {
          const [outcome] = await jobs.push([jobOf('after')]);
          return outcome?.kind === 'stored' ? outcome : null;
        },
        { everyMs: 100 },
      );
      const before = await jobs.get({ topic: 't', id: 'before' });
      expect(before?.state).toBe('ready');
      expect(after.version).toBeGreaterThan(before?.version ?? Number.POSITIVE_INFINITY);
      for (const { store } of waiting)
        await until('it is found', async () => (await store.jobs.get({ topic: 't', id: 'before' })) !== null);
    } finally {
      await Promise.all([under, ...waiting].map((store) => store.close()));
      await failing.stop();
    }
  });
});

describe.skipIf(missing)('cluster', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    // As with Sentinel: no test here needs a failover.
    cluster = await startRedisCluster({ nodeTimeoutMs: 60_000 });
  });
  afterAll(() => cluster.stop());
  // Hints travel between nodes: late, in any order, or not at all. The poll ceiling covers that.
  for (const each of smokeCases.filter(({ title }) => !title.startsWith('hint')))
    it(each.title, () =>
      each.run(() => openGroup(cluster.url, cluster.masters, { clock: new SteppedClock() })),
    );

  async function spread(): Promise<{ under: OpenedRedis; trial: Trial }> {
    const under = await openGroup(cluster.url, cluster.masters, { buckets: 32 });
    return { under, trial: new Trial(under) };
  }

  it('32 buckets: every call covers all of them', async () => {
    const { under, trial } = await spread();
    const { jobs, dead, admin, alerts } = under.store;
    const ids = Array.from({ length: 200 }, (_, n) => String(n));
    const pushed = await jobs.push(ids.map((id) => jobOf(id)));
    expect(pushed.every(({ kind }) => kind === 'stored')).toBe(true);
    const versions = pushed.map((outcome) => ('version' in outcome ? outcome.version : 0));
    expect(new Set(versions).size).toBe(200);
    expect(new Set(versions.map((version) => version % 32)).size).toBe(32);
    expect((await admin.counts()).topics['t']).toMatchObject({ ready: 200 });
    const seen: string[] = [];
    for (let cursor: string | null = null; ; ) {
      const page = await jobs.search({}, 7, cursor);
      seen.push(...page.items.map(({ id }) => id));
      cursor = page.nextCursor;
      if (cursor === null) break;
    }
    expect(seen.length).toBe(200);
    expect(new Set(seen).size).toBe(200);
    const leases = (await Promise.all(jobs.partitions().map((p) => jobs.reserve(p, request(250))))).flatMap(
      (answer) => answer.jobs,
    );
    expect(leases).toHaveLength(200);
    for (const lease of leases.slice(0, 10)) expect(await trial.bury(lease)).toEqual({ kind: 'buried' });
    const rest = leases.slice(10);
    const attempt = {
      attempt: 1,
      startedAt: 0,
      durationMs: 1,
      outcome: 'delivered',
      reason: null,
      status: 200,
    } as const;
    const acks = await jobs.ack(
      rest.map((job) => ({ ...job, attempt: { ...attempt, replyExcerpt: '', notifier: 'n', host: 'h' } })),
    );
    expect(acks.every(({ kind }) => kind === 'acked')).toBe(true);
    const first = await dead.list({}, 4, null);
    const second = await dead.list({}, 100, first.nextCursor);
    expect([...first.items, ...second.items].map(({ id }) => id).sort()).toEqual(
      leases
        .slice(0, 10)
        .map(({ id }) => id)
        .sort(),
    );
    // One mail covers a topic, in whichever buckets its dead letters are.
    expect(await alerts.due(60_000)).toEqual(['t']);
    const [claimed] = await alerts.claim('t', 60_000, 1);
    await alerts.settle([claimed?.version ?? 0], 'sent');
    expect(await alerts.due(60_000)).toEqual([]);
    expect(await alerts.due(0)).toEqual(['t']);
    expect((await alerts.claim('t', 60_000, 100)).length).toBe(9);
    expect(await dead.requeue({}, 6)).toEqual({ requeued: 6, more: true });
    expect(await admin.purgeTopic('t', 100)).toEqual({ purged: 10, more: false });
    expect(await examined(under.store)).toEqual({ jobs: 0, problems: [] });
    await under.close();
  });

  it('frozen node: the other buckets work; all do after it thaws', async () => {
    const { under } = await spread();
    const ids = Array.from({ length: 64 }, (_, n) => String(n));
    const [first] = cluster.masters;
    await first?.process.freeze();
    const outcomes = await under.store.jobs.push(ids.map((id) => jobOf(id)));
    first?.process.thaw();
    const kinds = new Set(outcomes.map(({ kind }) => kind));
    expect(kinds).toEqual(new Set(['stored', 'unknown']));
    await until(
      'all to be stored',
      async () => {
        const again = await under.store.jobs.push(ids.map((id) => jobOf(id)));
        return again.every(({ kind }) => kind === 'stored');
      },
      { everyMs: 100 },
    );
    expect((await under.store.admin.counts()).topics['t']).toMatchObject({ ready: 64 });
    await under.close();
  });

  it('killed node: continues as soon as its replica is a master', async () => {
    const failing = await startRedisCluster({ replicas: 1 });
    const under = await openGroup(failing.url, failing.masters, { buckets: 32 });
    try {
      const { jobs } = under.store;
      const all = Array.from({ length: 64 }, (_, n) => jobOf(String(n)));
      const stored = async () => (await jobs.push(all)).filter(({ kind }) => kind === 'stored').length;
      expect(await stored()).toBe(64);
      const [node] = failing.masters;
      const [replica] = failing.replicas;
      await node?.process.kill();
      await until(
        'its replica to be a master',
        async () => (await replica?.ask('ROLE'))?.startsWith('master'),
        { everyMs: 50 },
      );
      // Within half of the interval at which slots are read anyway.
      await until('all buckets to be served', async () => (await stored()) === 64, {
        deadlineMs: redisLimits.slotsMs / 2,
        everyMs: 50,
      });
    } finally {
      await under.close();
      await failing.stop();
    }
  });

  it('is nearly full as soon as one node is', async () => {
    const [node] = cluster.masters as [RedisServer];
    const used = /^used_memory:(\d+)/m.exec(await node.ask('INFO', 'memory'))?.[1];
    await node.ask('CONFIG', 'SET', 'maxmemory', String(Math.ceil(Number(used) * 1.05)));
    try {
      for (let n = 0; n < 6; n += 1) {
        const redis = oneShard(node, { url: cluster.url });
        await redis.start();
        // Before the second reading.
        await until('it to be known', () => onlyShard(redis).isNearlyFull, {
          deadlineMs: redisLimits.memoryMs - 1_000,
        }).finally(() => redis.close());
      }
    } finally {
      await node.ask('CONFIG', 'SET', 'maxmemory', '0');
    }
  });

  it('hints: reach listeners that started while a node was down', async () => {
    const failing = await startRedisCluster({ config: ['cluster-require-full-coverage no'] });
    const [node, , down] = failing.masters as [RedisServer, RedisServer, RedisServer];
    const open = () => oneShard(node, { url: failing.url });
    const pusher = open();
    await pusher.start();
    await down.process.kill();
    // Each chooses one of three nodes for its hints.
    const listeners = Array.from({ length: 6 }, open);
    const reached = new Set<number>();
    for (const [n, { store }] of listeners.entries()) store.jobs.onHint(() => reached.add(n));
    try {
      await Promise.all(listeners.map((listener) => listener.start()));
      await down.process.start();
      reached.clear();
      let topics = 0;
      await until(
        'a hint to reach all',
        async () => {
          topics += 1;
          await pusher.store.jobs.push([{ ...jobOf('1'), topic: `t${topics}` }]);
          return reached.size === listeners.length;
        },
        { deadlineMs: 4 * redisLimits.resubscribeMs, everyMs: 50 },
      );
    } finally {
      await Promise.all([pusher, ...listeners].map((redis) => redis.close()));
      await failing.stop();
    }
  });

  it('moving slot: rejected until it has moved, then complete', async () => {
    const errors: string[] = [];
    const log = { ...silentLog, error: (message: string) => void errors.push(message) };
    const under = await openGroup(cluster.url, cluster.masters, { log });
    const { jobs, admin } = under.store;
    await jobs.push([jobOf('a'), jobOf('b')]);
    const held = await Promise.all(cluster.masters.map((node) => node.ask('DBSIZE')));
    const [from] = cluster.masters.filter((_, n) => held[n] !== '0') as [RedisServer];
    const [to] = cluster.masters.filter((_, n) => held[n] === '0') as [RedisServer];
    const [fromId, toId] = [await from.ask('CLUSTER', 'MYID'), await to.ask('CLUSTER', 'MYID')];
    const slot = await from.ask('CLUSTER', 'KEYSLOT', '{dq:0}');
    await to.ask('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId);
    await from.ask('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
    const keys = (await from.ask('CLUSTER', 'GETKEYSINSLOT', slot, '100')).split('\n');
    const jobsFirst = keys.sort((key) => (key.endsWith(':j') ? -1 : 1));
    const rejected = [{ kind: 'not_stored', code: 'redis_slot_moves' }];
    expect(await jobs.push([jobOf('b')])).toEqual(rejected);
    for (const [n, key] of jobsFirst.entries()) {
      await from.ask('MIGRATE', '127.0.0.1', String(to.port), key, '0', '5000');
      if (n === 0 || n === keys.length - 1) expect(await jobs.push([jobOf('c')])).toEqual(rejected);
    }
    for (const node of cluster.masters) await node.ask('CLUSTER', 'SETSLOT', slot, 'NODE', toId);
    await until('a push to be stored', async () => {
      const [outcome] = await jobs.push([jobOf('d')]);
      return outcome?.kind === 'stored';
    });
    expect((await admin.counts()).topics['t']).toMatchObject({ ready: 3 });
    expect(errors).toEqual([]);
    await under.close();
  });
});
