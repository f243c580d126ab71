// A daemon with a bad network to Redis: replies are lost after the work was done, calls are slow, hints never
// arrive. No job is lost or called twice.
import { expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { startDaemon } from '../support/daemon.ts';
import { addTopic, forAll, numbers } from '../support/producing.ts';
import { startRedisProxy } from '../support/redis-proxy.ts';
import { metricOf, untilEmptyAndWhole, untilReady } from '../support/redis-trouble.ts';
import { lacks, owned } from '../support/services.ts';
import { ok, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

it.skipIf(await lacks('redis'))(
  'lost replies, slow calls and lost hints: no job is lost, doubled or struck',
  { timeout: 300_000 },
  async () => {
    const server = await owned('test', startRedis());
    const proxy = await startRedisProxy(server.port);
    const sink = await startSink((arrival, response) =>
      (arrival.id === 'retried' && arrival.attempt === 1 ? status(500) : ok)(arrival, response),
    );
    const daemon = await startDaemon({ args: ['--redis', proxy.url], config: { retry: { unit: '200ms' } } });
    await addTopic(daemon, 't', sink.url);
    const push = async (id: string, more = {}) =>
      expect(await daemon.push('t', '1', { id, ...more })).toMatchObject({ status: 201 });
    const attempts = (id: string) => sink.arrivals.flatMap((one) => (one.id === id ? one.attempt : []));
    const repeats = () => metricOf(daemon, 'dq_settles_repeated_total');
    // The server loads its scripts.
    await push('first');
    await untilEmptyAndWhole(daemon);

    // A push with a lost reply is unknown; its repeat is delivered once.
    for (const [id, mode, repeated] of [
      ['kept', 'keep', { status: 200, body: { duplicate: true } }],
      ['replaced', 'replace', { status: 200, body: { replaced: true } }],
    ] as const) {
      proxy.loseAnswers('push', 1);
      const query = { id, mode, delay: 3_600_000 };
      const unknown = { status: 503, body: { code: 'unknown', id } };
      expect(await daemon.push('t', '1', query)).toMatchObject(unknown);
      await untilReady(daemon);
      expect(await daemon.push('t', '1', query)).toMatchObject(repeated);
      expect(await daemon.api('POST', `/v1/topics/t/jobs/${id}/run`)).toMatchObject({ status: 200 });
    }
    await untilEmptyAndWhole(daemon);

    // Jobs of a reserve with a lost reply are released.
    proxy.loseAnswers('reserve', 1_000);
    await push('reserved');
    await until('it is reserved', async () => {
      const { body } = await daemon.api('GET', '/v1/topics/t/jobs/reserved');
      return body.state === 'reserved';
    });
    proxy.loseAnswers('reserve', 0);
    await untilEmptyAndWhole(daemon);

    // An ack and a retry with a lost reply are repeated, and count once.
    for (const [verb, id] of [
      ['ack', 'acked'],
      ['retry', 'retried'],
    ] as const) {
      const before = await repeats();
      proxy.loseAnswers(verb, 1);
      await push(id);
      await until('the answer is lost', () => proxy.toLose() === 0);
      await until('it is repeated', async () => (await repeats()) > before);
      await untilEmptyAndWhole(daemon);
    }

    proxy.delay(() => 100 + Math.random() * 300);
    const slow = numbers(40).map((n) => `slow${n}`);
    await forAll(slow, (id) => push(id));
    await until('all arrive', () => slow.every((id) => attempts(id).length > 0), 120_000);
    proxy.delay(() => 0);
    await untilEmptyAndWhole(daemon);

    proxy.loseHints();
    const unseen = numbers(40).map((n) => `unseen${n}`);
    await forAll(unseen, (id) => push(id, { delay: 500 }));
    await untilEmptyAndWhole(daemon);
    expect(proxy.hintsLost()).toBeGreaterThan(0);

    for (const id of ['first', 'kept', 'replaced', 'reserved', 'acked', ...slow, ...unseen])
      expect(attempts(id), id).toEqual([1]);
    expect(attempts('retried')).toEqual([1, 2]);
    expect(await metricOf(daemon, 'dq_leases_recovered_total')).toBe(0);
    const { total } = await until('all are counted', async () => {
      const { body } = await daemon.api('GET', '/v1/topics/t/stats');
      return body.total.delivered >= 86 && body;
    });
    expect(total.delivered).toBe(86);
  },
);
