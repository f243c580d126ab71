// Tests the main path of a daemon: jobs arrive once, never early, byte for byte; failed attempts repeat by
// the topic's retry settings.
import { expect, it } from 'vitest';
import { payload, sha256 } from '../support/payloads.ts';
import { addTopic, forAll, groupBy, numbers } from '../support/producing.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';
import { type Arrival, ok, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const daemon = await sharedDaemon();
/** Each shape of a body in each topic, several times. */
const jobs = 300;

it('delivers 300 jobs of five topics once each, none early, bytes and webhook-id unchanged', async () => {
  const failed = new Set<string>();
  const failsFirst = (id: string) => Number(id.slice(1)) % 10 === 0;
  const sink = await startSink((arrival, response) => {
    if (!failsFirst(arrival.id) || failed.has(arrival.id)) return ok(arrival, response);
    failed.add(arrival.id);
    return status(500)(arrival, response);
  });
  const topics = ['order.closed', 'refund', 'delivery', 'B-2', 'x_y'];
  for (const [n, topic] of topics.entries()) {
    const priority = ['high', 'normal', 'low'][n % 3];
    await addTopic(daemon, topic, sink.url, { priority, backoff: ['100ms'] });
  }
  const pushed = new Map<string, { sha256: string; dueAt: number; contentType: string }>();
  await forAll(numbers(jobs), async (n) => {
    const topic = topics[n % topics.length] as string;
    const { body, contentType } = payload(n);
    const reply = await daemon.push(topic, body, { id: `j${n}`, delay: (n * 7) % 1_000 }, contentType);
    expect(reply).toMatchObject({ status: 201, body: { topic, id: `j${n}` } });
    pushed.set(`j${n}`, { sha256: sha256(body), dueAt: Date.parse(reply.body.dueAt), contentType });
  });
  const totals = async () => {
    const all = await Promise.all(topics.map((topic) => daemon.api('GET', `/v1/topics/${topic}/stats`)));
    const sum = (name: string) => all.reduce((n, { body }) => n + (body.total[name] ?? 0), 0);
    return `${sum('pushed')} pushed, ${sum('delivered')} delivered, ${sum('retried')} retried`;
  };
  await until(
    'the statistics count them',
    async () => (await totals()) === `${jobs} pushed, ${jobs} delivered, ${jobs / 10} retried`,
  );
  const byId = groupBy(sink.arrivals, (arrival) => arrival.id);
  expect(byId.size).toBe(jobs);
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
  expect(new Set(sink.arrivals.map((arrival) => arrival.webhookId)).size).toBe(jobs);
});

it('failing endpoint: maxAttempts calls, none before its time, then a dead letter that a requeue delivers', async () => {
  const backoffMs = [60, 180, 300, 420];
  const sink = await startSink(status(500, {}, 'no'));
  const backoff = backoffMs.map((ms) => `${ms}ms`);
  await addTopic(daemon, 'broken', sink.url, { maxAttempts: 5, backoff, jitter: 0 });
  await daemon.push('broken', '{"n":1}', { id: 'one' });

  const [dead] = await until('the job is dead', async () => {
    const { body } = await daemon.api('GET', '/v1/dead?topic=broken');
    return body.items.length > 0 && body.items;
  });
  expect(dead).toMatchObject({ id: 'one', deadReason: 'attempts_exhausted', attempt: 5, status: 500 });
  expect(sink.arrivals.map((arrival) => arrival.attempt)).toEqual([1, 2, 3, 4, 5]);
  for (const [n, arrival] of sink.arrivals.slice(1).entries()) {
    // From the arrival, before the reply: this process may notice the end of the reply late.
    const gap = arrival.arrivedAt - (sink.arrivals[n] as Arrival).arrivedAt;
    // Both ends are whole milliseconds, read in another process.
    expect(gap, `gap ${n + 1}`).toBeGreaterThanOrEqual((backoffMs[n] as number) - 1);
  }
  const { body } = await daemon.api('GET', '/v1/alerts');
  const alerts = body.items.filter(({ topic }: { topic: string }) => topic === 'broken');
  expect(alerts).toMatchObject([{ id: 'one', deadReason: 'attempts_exhausted', attempt: 5 }]);

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
  expect((await daemon.api('GET', '/v1/dead?topic=broken')).body.items).toEqual([]);
});

it('callback: its receiver may replace or cancel the called job', async () => {
  const replies: Record<string, unknown> = {};
  const sink = await startSink(async (arrival, response) => {
    if (replies[arrival.id] !== undefined) return ok(arrival, response);
    replies[arrival.id] = null;
    const reply =
      arrival.id === 'replaced'
        ? await daemon.push('receiver', '"new"', { id: 'replaced' })
        : await daemon.api('DELETE', `/v1/topics/receiver/jobs/${arrival.id}`);
    replies[arrival.id] = reply.body;
    // This attempt fails: dq must not retry a replaced or cancelled job.
    response.writeHead(500).end('x');
  });
  await addTopic(daemon, 'receiver', sink.url, { backoff: ['50ms'] });
  for (const id of ['replaced', 'cancelled']) await daemon.push('receiver', '"old"', { id });
  await until('both have ended', async () => {
    const { states } = (await daemon.api('GET', '/v1/topics/receiver/stats')).body;
    const left = Object.values(states as Record<string, number>).reduce((sum, n) => sum + n, 0);
    return replies['replaced'] && replies['cancelled'] && left === 0;
  });
  expect(replies).toMatchObject({
    replaced: { replaced: true, inFlight: true },
    cancelled: { cancelled: true, inFlight: true },
  });
  const arrived = sink.arrivals.map(({ id, attempt, body }) => `${id} ${attempt} ${body}`).sort();
  expect(arrived).toEqual(['cancelled 1 "old"', 'replaced 1 "new"', 'replaced 1 "old"']);
});
