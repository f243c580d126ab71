// A daemon with a bad network to Redis: replies are lost after the work was done, calls are slow, hints never
// arrive. No job is lost or called twice.
import { describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { startDaemon } from '../support/daemon.ts';
import { startLoad, startReceiver } from '../support/load.ts';
import { addTopic, forAll, jobsLeft, numbers } from '../support/producing.ts';
import { startRedisProxy } from '../support/redis-proxy.ts';
import {
  commandRate,
  metricOf,
  rejectedIds,
  untilEmptyAndWhole,
  untilReady,
} from '../support/redis-trouble.ts';
import { startScriptedRedis } from '../support/scripted-redis.ts';
import { lacks, owned } from '../support/services.ts';
import { ok, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

/** A daemon behind a proxy; the server has loaded its scripts. */
async function behindProxy() {
  const server = await owned('test', startRedis());
  const proxy = await startRedisProxy(server.port);
  const sink = await startSink(ok);
  const daemon = await startDaemon({ args: ['--redis', proxy.url], config: { retry: { unit: '200ms' } } });
  await addTopic(daemon, 't', sink.url);
  expect((await daemon.push('t', '1', { id: 'first' })).status).toBe(201);
  await until('the first to arrive', () => sink.arrivals.length === 1);
  const arrived = (id: string) => sink.arrivals.filter((arrival) => arrival.id === id);
  return { server, proxy, sink, daemon, arrived };
}

describe.skipIf(await lacks('redis'))('a daemon behind a bad network', () => {
  it('a push with a lost reply is unknown; its repeat is delivered once', async () => {
    const { proxy, daemon, arrived } = await behindProxy();
    for (const [id, mode, repeated] of [
      ['kept', 'keep', { status: 200, body: { duplicate: true } }],
      ['replaced', 'replace', { status: 200, body: { replaced: true } }],
    ] as const) {
      proxy.loseAnswers('push', 1);
      const query = { id, mode, delay: 3_600_000 };
      expect(await daemon.push('t', '1', query)).toMatchObject({
        status: 503,
        body: { code: 'unknown', id },
      });
      await untilReady(daemon);
      expect(await daemon.push('t', '1', query)).toMatchObject(repeated);
      expect(await daemon.api('POST', `/v1/topics/t/jobs/${id}/run`)).toMatchObject({ status: 200 });
    }
    await untilEmptyAndWhole(daemon);
    expect([arrived('kept').length, arrived('replaced').length]).toEqual([1, 1]);
  });

  it('jobs of a reserve with a lost reply are released without a strike', async () => {
    const { proxy, daemon, arrived } = await behindProxy();
    proxy.loseAnswers('reserve', 1_000);
    await daemon.push('t', '1', { id: 'a' });
    await until('it is reserved', async () => {
      const { body } = await daemon.api('GET', '/v1/topics/t/jobs/a');
      return body.state === 'reserved';
    });
    proxy.loseAnswers('reserve', 0);
    await until('it arrives', () => arrived('a').length === 1);
    await untilEmptyAndWhole(daemon);
    expect(arrived('a')).toHaveLength(1);
    expect(await metricOf(daemon, 'dq_leases_recovered_total')).toBe(0);
  });

  it('an ack with a lost reply is repeated and counts once', async () => {
    const { proxy, daemon, arrived } = await behindProxy();
    proxy.loseAnswers('ack', 1);
    await daemon.push('t', '1', { id: 'a' });
    await until('the answer is lost', () => proxy.toLose() === 0);
    await until('it is repeated', async () => (await metricOf(daemon, 'dq_settles_repeated_total')) > 0);
    await untilEmptyAndWhole(daemon);
    expect(arrived('a')).toHaveLength(1);
    const stats = await until('both are counted', async () => {
      const { body } = await daemon.api('GET', '/v1/topics/t/stats');
      return body.total.delivered >= 2 ? body : null;
    });
    expect(stats.total.delivered).toBe(2);
  });

  it('a retry with a lost reply is scheduled once', async () => {
    const { proxy, daemon, sink, arrived } = await behindProxy();
    sink.answer((arrival, response) => (arrival.attempt === 1 ? status(500) : ok)(arrival, response));
    proxy.loseAnswers('retry', 1);
    await daemon.push('t', '1', { id: 'a' });
    await until('the answer is lost', () => proxy.toLose() === 0);
    await untilEmptyAndWhole(daemon);
    expect(arrived('a').map(({ attempt }) => attempt)).toEqual([1, 2]);
    await until(
      'its repeat is counted',
      async () => (await metricOf(daemon, 'dq_settles_repeated_total')) > 0,
    );
  });

  it('calls of 200 to 800 ms: no job is lost, doubled or struck', async () => {
    const server = await owned('test', startRedis());
    const proxy = await startRedisProxy(server.port);
    proxy.delay(() => 100 + Math.random() * 300);
    const receiver = await startReceiver();
    const daemon = await startDaemon({ args: ['--redis', proxy.url] });
    await addTopic(daemon, 't', receiver.url);
    const load = startLoad({ url: () => daemon.url, topic: 't', perSecond: 30 });
    await until('pushes are stored', () => load.acknowledged.size > 80, 60_000);
    const result = await load.stop();
    // No fsck: it takes one call per kind of key.
    await until('nothing is left', async () => (await jobsLeft(daemon)) === 0, 90_000, 100);
    expect(rejectedIds(result)).toEqual({ not_stored: new Set(), unknown: new Set() });
    const times = [...result.acknowledged].map((id) => receiver.arrivals.get(id) ?? 0);
    expect(times.filter((n) => n !== 1)).toEqual([]);
    expect(await metricOf(daemon, 'dq_leases_recovered_total')).toBe(0);
  });

  it.each([
    ['Redis', null],
    ['a managed server', "-ERR READONLY You can't write against a read only instance\r\n"],
  ])('a switchover behind one address, in the words of %s: no job is lost', async (_, words) => {
    const master = await owned('test', startRedis());
    const next = await owned('test', startRedis({ config: [`replicaof 127.0.0.1 ${master.port}`] }));
    const address = await startScriptedRedis(master.port);
    const receiver = await startReceiver();
    const daemon = await startDaemon({ args: ['--redis', address.url] });
    await addTopic(daemon, 't', receiver.url);
    const load = startLoad({ url: () => daemon.url, topic: 't', perSecond: 50, delayMs: 2_000 });
    await until('pushes are stored', () => load.acknowledged.size > 100, 60_000);
    // Redis itself moves the role when the replica has every write.
    const roleOf = async (server: RedisServer) => (await server.ask('ROLE')).split('\n')[0];
    await until('the replica is connected', async () => (await master.ask('WAIT', '1', '50')) === '1');
    let old = Number.POSITIVE_INFINITY;
    if (words !== null)
      address.answer(([name = ''], connection) =>
        connection <= old && name.startsWith('EVAL') ? words : null,
      );
    await master.ask('FAILOVER', 'TO', '127.0.0.1', String(next.port));
    await until('the replica is the master', async () => (await roleOf(next)) === 'master', 60_000);
    // Connections stay with the former master.
    old = address.connections();
    address.leadTo(next.port);
    const stored = load.acknowledged.size;
    await until('pushes are stored again', () => load.acknowledged.size > stored + 100, 60_000);
    const result = await load.stop();
    await untilEmptyAndWhole(daemon);
    // Those in flight at the change may be unknown.
    rejectedIds(result);
    expect([...result.acknowledged].filter((id) => !receiver.arrivals.has(id))).toEqual([]);
    expect(await next.ask('HLEN', '{dq:0}:j')).toBe('0');
  });

  it('without hints: delivers, with at most 50 commands/s when idle', async () => {
    const { server, proxy, sink, daemon } = await behindProxy();
    proxy.loseHints();
    const due = new Map<string, number>();
    await forAll(numbers(100), async (n) => {
      const { body } = await daemon.push('t', '1', { id: `${n}`, delay: (n % 4) * 500 });
      due.set(`${n}`, Date.parse(body.dueAt));
    });
    await until('all arrive', () => sink.arrivals.length === 101);
    const lateMs = sink.arrivals.slice(1).map(({ id, arrivedAt }) => arrivedAt - (due.get(id) ?? Number.NaN));
    expect(Math.min(...lateMs)).toBeGreaterThanOrEqual(0);
    expect(proxy.hintsLost()).toBeGreaterThan(0);
    await untilEmptyAndWhole(daemon);

    const rate = await commandRate([server], 5_000);
    console.log(
      `latest ${Math.max(...lateMs)} ms late, ${proxy.hintsLost()} hints lost; idle: ${rate.toFixed(1)} commands a second, those inside scripts counted`,
    );
    expect(rate).toBeLessThanOrEqual(50);
    expect(rate).toBeGreaterThan(5);
  });
});
