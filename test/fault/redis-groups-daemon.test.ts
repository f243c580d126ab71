// What a daemon asks of an idle Redis and an idle Cluster, and a switchover of its server behind one address.
// Failovers under load are in total-queue-stores.test.ts.
import { describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { startRedisCluster } from '../../scripts/services/redis-cluster.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { startDaemon } from '../support/daemon.ts';
import { startLoad, startReceiver } from '../support/load.ts';
import { addTopic, forAll, numbers } from '../support/producing.ts';
import { startRedisProxy } from '../support/redis-proxy.ts';
import { commandRate, rejectedIds, untilEmptyAndWhole } from '../support/redis-trouble.ts';
import { startScriptedRedis } from '../support/scripted-redis.ts';
import { lacks, owned } from '../support/services.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

/** Starts a daemon that has delivered its jobs. */
async function startIdle(url: string): Promise<void> {
  const sink = await startSink(ok);
  const daemon = await startDaemon({ args: ['--redis', url] });
  await addTopic(daemon, 't', sink.url);
  const ids = numbers(64).map(String);
  await forAll(ids, async (id) => expect((await daemon.push('t', '1', { id })).status).toBe(201));
  await until('all arrive', () => sink.arrivals.length === ids.length);
  await untilEmptyAndWhole(daemon);
}

/** Commands per second, also inside scripts; long enough for every rare poll to run once. */
const rateOf = async (servers: readonly RedisServer[]) =>
  Math.round(await commandRate(servers, upkeepLimits.retentionManyMs));

describe.skipIf(await lacks('redis'))('a daemon on Redis', () => {
  it('idle: asks a server 20 times a second at most, without hints 50 times, and a Cluster 190 times', async () => {
    const [server, unheard, cluster] = await Promise.all([
      owned('test', startRedis()),
      owned('test', startRedis()),
      owned('test', startRedisCluster()),
    ]);
    const proxy = await startRedisProxy(unheard.port);
    proxy.loseHints();
    for (const { url } of [server, proxy, cluster]) await startIdle(url);
    // At the same time: the measurement of each takes a minute.
    const [alone, without, many] = await Promise.all([
      rateOf([server]),
      rateOf([unheard]),
      rateOf(cluster.masters),
    ]);
    // One bucket: 9 with all polls. Polls each 100 ms, as without a proven subscription, would make it 35.
    expect(alone).toBeLessThanOrEqual(20);
    expect(without).toBeLessThanOrEqual(50);
    // 32 buckets, 1 s: the timer and both notifiers poll each bucket once a second, 96 in all; 156 with all
    // other polls. For a minute after a failed call, as on a busy machine, somewhat more.
    expect(many).toBeLessThanOrEqual(190);
    expect(Math.min(alone, without, many)).toBeGreaterThan(5);
  });

  it('a switchover behind one address: no job is lost', async () => {
    const master = await owned('test', startRedis());
    const next = await owned('test', startRedis({ config: [`replicaof 127.0.0.1 ${master.port}`] }));
    const address = await startScriptedRedis(master.port);
    const receiver = await startReceiver();
    const daemon = await startDaemon({ args: ['--redis', address.url] });
    await addTopic(daemon, 't', receiver.url);
    const load = startLoad({ url: () => daemon.url, topic: 't', perSecond: 50, delayMs: 2_000 });
    await until('pushes are stored', () => load.acknowledged.size > 100);
    // Redis itself moves the role when the replica has every write.
    await until('the replica is connected', async () => (await master.ask('WAIT', '1', '50')) === '1');
    await master.ask('FAILOVER', 'TO', '127.0.0.1', String(next.port));
    const roleOf = async (server: RedisServer) => (await server.ask('ROLE')).split('\n')[0];
    await until('the replica is the master', async () => (await roleOf(next)) === 'master');
    // Connections stay with the former master.
    address.leadTo(next.port);
    const stored = load.acknowledged.size;
    await until('pushes are stored again', () => load.acknowledged.size > stored + 100);
    const result = await load.stop();
    await untilEmptyAndWhole(daemon);
    // Those in flight at the change may be unknown.
    rejectedIds(result);
    expect([...result.acknowledged].filter((id) => !receiver.arrivals.has(id))).toEqual([]);
    expect(await next.ask('HLEN', '{dq:0}:j')).toBe('0');
  });
});
