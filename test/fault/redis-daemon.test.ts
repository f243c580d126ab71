// A daemon whose Redis is killed or frozen under load: acknowledged jobs are delivered, rejected ones never,
// and no job gets a strike. DQ_REDIS_KILLS=20 and DQ_REDIS_STOP_MS=30000 make it longer.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { limits } from '../../src/core/limits.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { startLoad, startReceiver } from '../support/load.ts';
import { addTopic, forAll, numbers, pauseTopic, resumeTopic } from '../support/producing.ts';
import {
  metricOf,
  rejectedIds,
  residentBytes,
  untilEmptyAndWhole,
  untilReady,
} from '../support/redis-trouble.ts';
import { lacks, owned } from '../support/services.ts';
import { ok, type Sink, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

vi.setConfig({ testTimeout: 300_000 });

const kills = Number(process.env['DQ_REDIS_KILLS'] ?? 3);
const stopMs = Number(process.env['DQ_REDIS_STOP_MS'] ?? 10_000);
/** The guarantee is 3 s; 2.5 to 2.8 s were measured. The rest is for an overloaded machine. */
const answerMsMax = limits.redisCallMs + 5_000;

const alwaysSynced = { config: ['appendonly yes', 'appendfsync always'] };
/** Leases of timeout + this expire while no notifier can settle. */
const shortLeases = { lease: { margin: '2200ms' } };
const outageMs = 7_000;

/** Their callbacks run from before the failure until during it. */
const heldJobs = 20;

/** They begin together: each is answered within 4 s. */
async function holdCallbacks(daemon: Daemon, held: Sink): Promise<void> {
  await pauseTopic(daemon, 'held');
  await forAll(numbers(heldJobs), async (n) => {
    expect(await daemon.push('held', '1', { id: `h${n}` })).toMatchObject({ status: 201 });
  });
  await resumeTopic(daemon, 'held');
  await until('callbacks are running', () => held.open().length === heldJobs);
}

function finishAll(held: Sink): void {
  for (const arrival of held.open()) held.finish(arrival);
  held.answer(ok);
}

const resident = (daemon: Daemon) =>
  daemon.workers().reduce((sum, { pid }) => sum + residentBytes(pid), residentBytes(daemon.pid));

describe.skipIf(await lacks('redis'))('a daemon on Redis', () => {
  it(`Redis killed ${kills} times: no acknowledged job is lost or doubled`, async () => {
    const server = await owned('test', startRedis(alwaysSynced));
    const receiver = await startReceiver();
    const held = await startSink(() => {});
    const daemon = await startDaemon({ args: ['--redis', server.url], config: shortLeases });
    await addTopic(daemon, 't', receiver.url, { timeout: '4s' });
    await addTopic(daemon, 'held', held.url, { timeout: '4s' });
    const load = startLoad({ url: () => daemon.url, topic: 't', perSecond: 100 });
    for (let kill = 0; kill < kills; kill += 1) {
      const before = load.acknowledged.size;
      await until('pushes are stored', () => load.acknowledged.size > before + 100);
      const rejectedBefore = load.failures.length;
      await server.process.kill();
      await until('pushes are rejected', () => load.failures.length > rejectedBefore + 10);
      await server.process.start();
    }
    await untilReady(daemon);
    await holdCallbacks(daemon, held);
    await server.process.kill();
    finishAll(held);
    await sleep(outageMs);
    await server.process.start();
    const before = load.acknowledged.size;
    await until('pushes are stored again', () => load.acknowledged.size > before + 100);
    const result = await load.stop();
    await untilEmptyAndWhole(daemon);
    const rejected = rejectedIds(result);
    const lost = [...result.acknowledged].filter((id) => !receiver.arrivals.has(id));
    const phantoms = [...receiver.arrivals.keys()].filter((id) => rejected.not_stored.has(id));
    const doubled = [...receiver.arrivals.values()].filter((times) => times > 1).length;
    const recovered = [...rejected.unknown].filter((id) => receiver.arrivals.has(id)).length;
    console.log(
      `${result.acknowledged.size} acknowledged, ${rejected.not_stored.size} not stored, ${rejected.unknown.size} unknown (${recovered} of them stored), ${doubled} doubled; slowest answer ${result.slowestMs} ms`,
    );
    expect({ lost, phantoms, doubled }).toEqual({ lost: [], phantoms: [], doubled: 0 });
    expect(await metricOf(daemon, 'dq_leases_recovered_total')).toBe(0);
    expect(held.arrivals).toHaveLength(heldJobs);
  });

  it(`Redis frozen for ${stopMs} ms: pushes answer in time, memory stays, no strikes`, async () => {
    const server = await owned('test', startRedis(alwaysSynced));
    const receiver = await startReceiver();
    const held = await startSink(() => {});
    const daemon = await startDaemon({ args: ['--redis', server.url], config: shortLeases });
    await addTopic(daemon, 't', receiver.url, { timeout: '4s' });
    await addTopic(daemon, 'held', held.url, { timeout: '4s' });
    const load = startLoad({ url: () => daemon.url, topic: 't', perSecond: 100 });
    await until('pushes are stored', () => load.acknowledged.size > 100);
    await holdCallbacks(daemon, held);
    const before = resident(daemon);
    await server.process.freeze();
    finishAll(held);
    await sleep(stopMs);
    const grown = resident(daemon) - before;
    server.process.thaw();
    const acknowledged = load.acknowledged.size;
    await until('pushes are stored again', () => load.acknowledged.size > acknowledged + 100);
    await untilReady(daemon);
    const result = await load.stop();
    await untilEmptyAndWhole(daemon);
    const rejected = rejectedIds(result);
    const lost = [...result.acknowledged].filter((id) => !receiver.arrivals.has(id));
    const phantoms = [...receiver.arrivals.keys()].filter((id) => rejected.not_stored.has(id));
    // The daemon's own measurement: pushes of the load wait for each other's connections.
    const slowestMs = Math.max(...daemon.log('request').map(({ ms }) => Math.round(Number(ms))));
    const doubled = [...receiver.arrivals].filter(([, times]) => times > 1).map(([id]) => id);
    console.log(
      `${result.acknowledged.size} acknowledged, ${rejected.not_stored.size} not stored, ${rejected.unknown.size} unknown, ${doubled.length} doubled; slowest answer ${slowestMs} ms; ${Math.round(grown / 2 ** 20)} MiB more in all processes`,
    );
    expect({ lost, phantoms, doubled }).toEqual({ lost: [], phantoms: [], doubled: [] });
    expect(Math.min(rejected.unknown.size, rejected.not_stored.size)).toBeGreaterThan(0);
    expect(slowestMs).toBeLessThan(answerMsMax);
    expect(grown).toBeLessThan(128 * 2 ** 20);
    expect(await metricOf(daemon, 'dq_leases_recovered_total')).toBe(0);
    // Their outcomes were kept, although their leases expired.
    expect(held.arrivals).toHaveLength(heldJobs);
  });
});
