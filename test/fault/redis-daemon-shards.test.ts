// A daemon on three Redis of which one fails: its jobs wait, dq rejects pushes of its ids, and the other
// shards work.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { startRedisServers } from '../../scripts/services/redis.ts';
import { limits } from '../../src/core/limits.ts';
import { startDaemon } from '../support/daemon.ts';
import { startLoad, startReceiver } from '../support/load.ts';
import { addTopic, forAll, numbers } from '../support/producing.ts';
import { metricOf, rejectedIds, untilEmptyAndWhole } from '../support/redis-trouble.ts';
import { lacks, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

describe.skipIf(await lacks('redis'))('a daemon on three Redis', () => {
  it.each(['killed', 'frozen'] as const)('one %s: the others are served', async (how) => {
    const config = ['appendonly yes', 'appendfsync always'];
    const servers = await owned(
      'test',
      startRedisServers(3, { config }).then((all) => ({
        all,
        stop: async () => void (await Promise.all(all.map((one) => one.stop()))),
      })),
    );
    const [ill] = servers.all;
    if (ill === undefined) throw new Error('three were started');
    const receiver = await startReceiver();
    const daemon = await startDaemon({ args: servers.all.flatMap(({ url }) => ['--redis', url]) });
    await addTopic(daemon, 't', receiver.url);
    const load = startLoad({ url: () => daemon.url, topic: 't', perSecond: 60 });
    await until('pushes are stored', () => load.acknowledged.size > 100);
    expect(load.failures).toEqual([]);
    if (how === 'killed') await ill.process.kill();
    else await ill.process.freeze();
    // Many at once: they share store calls.
    await forAll(numbers(64), (n) => daemon.push('t', '1', { id: `burst-${n}` }));
    await until('pushes are rejected', () => load.failures.length > 10);
    const before = load.acknowledged.size;
    await until('the others are stored', () => load.acknowledged.size > before + 100);
    const ready = await until('/readyz names it', async () => {
      const reply = await daemon.api('GET', '/readyz');
      return JSON.stringify(reply.body).includes(`:${ill.port}`) ? reply : null;
    });
    expect(ready.status).toBe(200);
    const arrivedBefore = receiver.arrivals.size;
    await until('the others are delivered', () => receiver.arrivals.size > arrivedBefore + 50);
    if (how === 'killed') {
      // A job with a generated id goes to a shard that answers.
      await forAll(numbers(20), async () => expect((await daemon.push('t', '1')).status).toBe(201));
      await ill.process.start();
    } else {
      await sleep(2_000);
      ill.process.thaw();
    }
    const failed = load.failures.length;
    await until(
      'no push is rejected any more',
      async () => {
        const [rejected, taken] = [load.failures.length, load.acknowledged.size];
        await until('pushes are stored', () => load.acknowledged.size > taken + 60);
        return load.failures.length === rejected;
      },
      60_000,
    );
    const result = await load.stop();
    await untilEmptyAndWhole(daemon);
    const rejected = rejectedIds(result);
    const times = daemon
      .log('request')
      .filter(({ status }) => status === 201)
      .map(({ ms }) => Number(ms))
      .sort((a, b) => b - a);
    console.log(
      `${how}: ${result.acknowledged.size} acknowledged, ${rejected.not_stored.size} not stored, ${rejected.unknown.size} unknown (${failed} during the failure); slowest stored ${times.slice(0, 5).map(Math.round).join(' ')} ms`,
    );
    // A call waits for limits.redisCallMs.
    expect(times[0]).toBeLessThan(limits.redisCallMs);
    expect([...result.acknowledged].filter((id) => receiver.arrivals.get(id) !== 1)).toEqual([]);
    expect([...rejected.not_stored].filter((id) => receiver.arrivals.has(id))).toEqual([]);
    expect(await metricOf(daemon, 'dq_leases_recovered_total')).toBe(0);
  });
});
