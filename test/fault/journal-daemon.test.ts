// With a journal, a daemon gets back what Redis has lost, and keeps what it has answered, without an
// operator: the losses that the total-queue run does not make. Real Redis, MariaDB and daemons.

import { join } from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { MariadbServer } from '../../scripts/services/mariadb.ts';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { startSentinelGroup } from '../../scripts/services/redis-sentinel.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic, forAll, jobsLeft, numbers, pauseTopic, resumeTopic } from '../support/producing.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

vi.setConfig({ testTimeout: 600_000 });

describe.skipIf((await lacks('redis')) || (await lacks('mysql')))('journal, daemons', async () => {
  let mysql: MariadbServer;
  let made = 0;
  beforeAll(async () => {
    mysql = await owned('file', mariadb());
  });

  async function start(urls: readonly string[], instances = 1): Promise<readonly Daemon[]> {
    const redis = urls.flatMap((url) => ['--redis', url]);
    const args = [...redis, '--mysql', await mysql.createDatabase(`journal${made++}`)];
    const first = await startDaemon({ args });
    const secretKeyFile = join(first.dataDir, 'secret.key');
    const daemons = [first];
    while (daemons.length < instances) daemons.push(await startDaemon({ args, config: { secretKeyFile } }));
    await addTopic(first, 't', 'http://127.0.0.1:9/');
    return daemons;
  }

  /** Jobs that are due long after the test. */
  async function push(daemon: Daemon, letter: string, count: number): Promise<readonly string[]> {
    const ids = numbers(count).map((n) => `${letter}${n}`);
    await forAll(ids, async (id) =>
      expect(await daemon.push('t', '1', { id, delay: '1h' })).toMatchObject({ status: 201 }),
    );
    return ids;
  }

  const job = (daemon: Daemon, id: string) => daemon.api('GET', `/v1/topics/t/jobs/${id}`);
  const cancel = async (daemon: Daemon, ids: readonly string[]) => {
    for (const id of ids)
      expect(await daemon.api('DELETE', `/v1/topics/t/jobs/${id}`)).toMatchObject({ status: 200 });
  };

  /** Every one of these jobs is back, and none of the ended ones. */
  async function areBack(daemon: Daemon, ids: readonly string[], ended: readonly string[]): Promise<void> {
    await forAll(ids, (id) =>
      until(`${id} is back`, async () => (await job(daemon, id)).body.state === 'delayed'),
    );
    await until('the healing is over', async () => {
      const { restores } = (await daemon.api('GET', '/v1/journal')).body;
      return restores.every(({ state }: { state: string }) => state === 'done');
    });
    for (const id of ended) {
      const { status, body } = await job(daemon, id);
      expect(status === 404 || body.state === 'cancelled', id).toBe(true);
    }
  }

  it('MariaDB unavailable, then Redis emptied: no lost job is called absent, and all come back', async () => {
    const redis = await owned('test', startRedis());
    const [daemon] = (await start([redis.url])) as [Daemon];
    const before = await push(daemon, 'before', 40);
    await mysql.process.kill();
    const after = await push(daemon, 'after', 40);
    await cancel(daemon, after.slice(0, 5));
    await redis.ask('FLUSHALL');
    const [read = '', moved = '', kept = '', removed = ''] = before;
    const restoring = { status: 503, body: { code: 'restoring' } };
    await until('the loss is noticed', async () => (await job(daemon, read)).body.code === 'restoring');
    expect(await daemon.api('POST', `/v1/topics/t/jobs/${moved}/run`)).toMatchObject(restoring);
    expect(await daemon.push('t', '1', { id: kept, mode: 'keep' })).toMatchObject(restoring);
    await cancel(daemon, [removed]);
    await push(daemon, 'later', 20);
    await mysql.process.start();
    await areBack(
      daemon,
      [...before.filter((id) => id !== removed), ...after.slice(5)],
      [removed, ...after.slice(0, 5)],
    );
  });

  it('Redis emptied between all steps of a chain of four topics: each step happens once', async () => {
    const redis = await owned('test', startRedis());
    const [daemon] = (await start([redis.url])) as [Daemon];
    const sink = await startSink();
    const chain = ['pay', 'bill', 'send', 'file'];
    for (const [n, topic] of [...chain.entries()].reverse())
      await addTopic(daemon, topic, sink.url, { onDone: chain[n + 1] ?? '' });
    for (const topic of chain) await pauseTopic(daemon, topic);
    const count = 30;
    await forAll(numbers(count), async (n) =>
      expect(await daemon.push('pay', '1', { id: `c${n}` })).toMatchObject({ status: 201 }),
    );
    const statsOf = async (name: string) =>
      (await daemon.api('GET', '/v1/stats')).body.topics.find(
        ({ topic }: { topic: string }) => topic === name,
      );
    const restores = async () => (await daemon.api('GET', '/v1/journal')).body.restores;
    for (const [n, topic] of chain.entries()) {
      await redis.ask('FLUSHALL');
      await until(`the jobs of ${topic} are back`, async () => {
        const all = await restores();
        const areDone = all.every(({ state }: { state: string }) => state === 'done');
        return all.length > n && areDone && (await statsOf(topic))?.states.ready === count;
      });
      await resumeTopic(daemon, topic);
      // A notifier counts a delivery once the journal has its end.
      await until(`${topic} is done`, async () => (await statsOf(topic))?.total.delivered === count);
    }
    await until('nothing is left', async () => (await jobsLeft(daemon)) === 0);
    for (const topic of chain) {
      const ids = sink.arrivals.filter((arrival) => arrival.topic === topic).map(({ id }) => id);
      expect([ids.length, new Set(ids).size], topic).toEqual([count, count]);
    }
  });

  it('Sentinel: the master stops while its replica lags', async () => {
    const group = await owned('test', startSentinelGroup());
    const [daemon] = (await start([group.url])) as [Daemon];
    const before = await push(daemon, 'before', 40);
    const [replica] = group.replicas as readonly [RedisServer];
    // The replica cannot connect again.
    await group.master.ask('ACL', 'SETUSER', 'default', '-psync', '-sync', '-replconf');
    await group.master.ask('CLIENT', 'KILL', 'TYPE', 'replica');
    const after = await push(daemon, 'after', 40);
    await cancel(daemon, before.slice(0, 5));
    await group.master.process.freeze();
    const role = async () => /^role:(\S+)/m.exec(await replica.ask('INFO', 'replication'))?.[1];
    await until('the replica is promoted', async () => (await role()) === 'master');
    await areBack(daemon, [...before.slice(5), ...after], before.slice(0, 5));
  });

  it('a shard lost for good, and removed with dq shard rm --lost', async () => {
    const [kept, lost] = [await owned('test', startRedis()), await owned('test', startRedis())];
    const [daemon] = (await start([kept.url, lost.url])) as [Daemon];
    const ids = await push(daemon, 'a', 60);
    await cancel(daemon, ids.slice(0, 10));
    await lost.ask('SAVE');
    await lost.process.kill();
    const { items } = (await daemon.api('GET', '/v1/shards')).body;
    const { id } = items.find(({ url }: { url: string }) => lost.url.endsWith(url.replace(/^.*:/, ':')));
    expect(await daemon.api('POST', `/v1/shards/${id}/drain`)).toMatchObject({ status: 200 });
    expect(await daemon.api('DELETE', `/v1/shards/${id}?jobs=lost`)).toEqual({
      status: 200,
      body: { deleted: true, restores: true },
    });
    // It returns with jobs that are on the other shard by now.
    await lost.process.start();
    expect(await daemon.api('POST', '/v1/shards', { url: lost.url })).toMatchObject({
      status: 409,
      body: { code: 'shard_refused', detail: expect.stringContaining('FLUSHDB') },
    });
    await areBack(daemon, ids.slice(10), ids.slice(0, 10));
  });

  it('two instances heal at once, while a shard is added', async () => {
    const [first, second] = [await owned('test', startRedis()), await owned('test', startRedis())];
    const [one, two] = (await start([first.url], 2)) as [Daemon, Daemon];
    await until('the topic is known', async () => (await job(two, 'none')).status === 404);
    const ids = [...(await push(one, 'a', 40)), ...(await push(two, 'b', 40))];
    await cancel(two, ids.slice(0, 5));
    await first.ask('FLUSHALL');
    expect(await one.api('POST', '/v1/shards', { url: second.url })).toMatchObject({ status: 201 });
    await areBack(two, ids.slice(5), ids.slice(0, 5));
  });
});
