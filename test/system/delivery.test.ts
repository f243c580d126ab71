// Tests the main path of a daemon: jobs arrive once, never early, byte for byte; failed attempts repeat by
// the topic's retry settings.
import { expect, it } from 'vitest';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { startDaemon } from '../support/daemon.ts';
import { payload, sha256 } from '../support/payloads.ts';
import { addTopic, forAll, groupBy, jobsLeft, numbers, resumeTopic } from '../support/producing.ts';
import { type Arrival, ok, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

it('delivers 2,000 jobs of five topics once each, none early, bytes and webhook-id unchanged', async () => {
  const failed = new Set<string>();
  const failsFirst = (id: string) => Number(id.slice(1)) % 10 === 0;
  const sink = await startSink((arrival, response) => {
    if (!failsFirst(arrival.id) || failed.has(arrival.id)) return ok(arrival, response);
    failed.add(arrival.id);
    return status(500)(arrival, response);
  });
  const daemon = await startDaemon({ config: { retry: { unit: '100ms' } } });
  const topics = ['order.close', 'refund', 'a', 'B-2', 'x_y'];
  for (const [n, topic] of topics.entries()) {
    await addTopic(daemon, topic, sink.url, { priority: ['high', 'normal', 'low'][n % 3], timeout: '30s' });
  }
  const pushed = new Map<string, { sha256: string; dueAt: number; contentType: string }>();
  await forAll(numbers(2_000), async (n) => {
    const topic = topics[n % topics.length] as string;
    const { body, contentType } = payload(n);
    const reply = await daemon.push(topic, body, { id: `j${n}`, delay: (n * 7) % 5_000 }, contentType);
    expect(reply).toMatchObject({ status: 201, body: { topic, id: `j${n}` } });
    pushed.set(`j${n}`, { sha256: sha256(body), dueAt: Date.parse(reply.body.dueAt), contentType });
  });
  await until('nothing is left', async () => (await jobsLeft(daemon)) === 0, 90_000, 50);

  const byId = groupBy(sink.arrivals, (arrival) => arrival.id);
  expect(byId.size).toBe(2_000);
  for (const [id, job] of pushed) {
    const arrivals = byId.get(id) as Arrival[];
    expect(
      arrivals.map((arrival) => arrival.attempt),
      id,
    ).toEqual(failsFirst(id) ? [1, 2] : [1]);
    expect(new Set(arrivals.map((arrival) => arrival.webhookId)).size, id).toBe(1);
    for (const arrival of arrivals) {
      expect(arrival.sha256, id).toBe(job.sha256);
      expect(arrival.headers['content-type'], id).toBe(job.contentType);
      expect(arrival.arrivedAt, id).toBeGreaterThanOrEqual(job.dueAt);
    }
  }
  expect(new Set(sink.arrivals.map((arrival) => arrival.webhookId)).size).toBe(2_000);
  const totals = async () => {
    const { topics } = (await daemon.api('GET', '/v1/stats')).body as {
      topics: { total: Record<string, number> }[];
    };
    const sum = (name: string) => topics.reduce((n, { total }) => n + (total[name] ?? 0), 0);
    return `${sum('pushed')} pushed, ${sum('delivered')} delivered, ${sum('retried')} retried`;
  };
  await until(
    'the statistics count them',
    async () => (await totals()) === '2000 pushed, 2000 delivered, 200 retried',
    90_000,
    100,
  );
});

it('failing endpoint: maxAttempts calls after 1, 3, 5 … units, then a dead letter', async () => {
  const unitMs = 60;
  const sink = await startSink(status(500, {}, 'no'));
  const daemon = await startDaemon({ config: { retry: { unit: `${unitMs}ms` } } });
  await addTopic(daemon, 'broken', sink.url, { maxAttempts: 5 });
  await daemon.push('broken', '{"n":1}', { id: 'one' });

  const dead = await until('the job is dead', async () => {
    const { body } = await daemon.api('GET', '/v1/dead?topic=broken');
    return body.items.length > 0 ? body.items : null;
  });
  expect(dead).toHaveLength(1);
  expect(dead[0]).toMatchObject({ id: 'one', reason: 'attempts_exhausted', attempt: 5, status: 500 });
  expect(sink.arrivals.map((arrival) => arrival.attempt)).toEqual([1, 2, 3, 4, 5]);
  for (const [n, arrival] of sink.arrivals.slice(1).entries()) {
    // From the arrival, before the reply: this process may notice the end of the reply late.
    const gap = arrival.arrivedAt - (sink.arrivals[n] as Arrival).arrivedAt;
    // Both ends are whole milliseconds, read in another process.
    expect(gap, `gap ${n + 1}`).toBeGreaterThanOrEqual((2 * n + 1) * unitMs - 1);
  }
  const alerts = await daemon.api('GET', '/v1/alerts');
  expect(alerts.body.items).toMatchObject([{ id: 'one', reason: 'attempts_exhausted', attempt: 5 }]);

  sink.answer(ok);
  const requeued = await daemon.api('POST', '/v1/dead/requeue', { topic: 'broken' });
  expect(requeued).toMatchObject({ status: 200, body: { requeued: 1, more: false } });
  const again = await until('it arrives again', () => sink.arrivals[5]);
  expect(again.attempt).toBe(1);
  expect(again.webhookId).toBe(sink.arrivals[0]?.webhookId);
  await until(
    'it is done',
    async () => (await daemon.api('GET', '/v1/topics/broken/jobs/one')).body.state === 'done',
  );
  expect((await daemon.api('GET', '/v1/dead')).body.items).toEqual([]);
  expect(await daemon.stop()).toBe(0);
});

it('delivers one topic while the endpoint of another hangs with 2,000 jobs due', async () => {
  const hanging = await startSink(() => {});
  const sink = await startSink();
  const daemon = await startDaemon();
  await addTopic(daemon, 'hangs', hanging.url, { concurrency: 10_000, timeout: '60s', state: 'paused' });
  await addTopic(daemon, 'fine', sink.url);
  for (const part of [0, 1_000]) {
    const jobs = numbers(1_000).map((n) => ({ topic: 'hangs', id: `h${part + n}`, body: 1 }));
    expect((await daemon.api('POST', '/v1/jobs', jobs)).status).toBe(200);
  }
  await resumeTopic(daemon, 'hangs');
  await until('many calls hang', () => hanging.open().length >= notifierLimits.untriedAtOnce);

  for (const n of numbers(100)) await daemon.push('fine', '1', { id: `f${n}` });
  await until('the other topic is delivered', () => sink.arrivals.length === 100);
  // Every call still hangs, so no other call waited for a timeout; and they use half of the slots at most.
  expect(hanging.open().length).toBe(hanging.arrivals.length);
  expect(hanging.open().length).toBeLessThanOrEqual(512);
});
