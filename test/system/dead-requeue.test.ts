// Requeues a topic whose jobs all died, with one command, after its endpoint was repaired.
import { expect, it } from 'vitest';
import { addTopic, groupBy, numbers } from '../support/producing.ts';
import { commandsOf } from '../support/run-dq.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';
import { ok, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const count = 1_000;
/** jobs of one batch */
const step = 500;

it('dq dead requeue: each dead letter of a topic is delivered once, with its webhook-id', async () => {
  const sink = await startSink(status(500));
  const daemon = await sharedDaemon();
  await addTopic(daemon, 'mended', sink.url, { maxAttempts: 1 });
  await addTopic(daemon, 'unmended', sink.url, { maxAttempts: 1 });
  await daemon.push('unmended', '{}', { id: 'stays' });
  const bodyOf = (n: number) => ({ n, text: 'später' });
  for (let from = 0; from < count; from += step) {
    const some = numbers(Math.min(step, count - from)).map((n) => from + n);
    const jobs = some.map((n) => ({ topic: 'mended', id: `job-${n}`, body: bodyOf(n) }));
    expect((await daemon.api('POST', '/v1/jobs', jobs)).status).toBe(200);
  }
  const statesOf = async (topic: string) =>
    (await daemon.api('GET', `/v1/topics/${topic}/stats`)).body.states;
  await until('all are dead', async () => {
    return (await statesOf('mended')).dead + (await statesOf('unmended')).dead === count + 1;
  });
  expect(sink.arrivals).toHaveLength(count + 1);

  sink.answer(ok);
  const requeued = await commandsOf(daemon)(['dead', 'requeue', 'mended', '--all']);
  expect(requeued, requeued.stderr).toMatchObject({ code: 0 });
  expect(requeued.stderr).toContain(`${count} requeued`);
  await until('its jobs are done', async () => {
    const left = Object.values((await statesOf('mended')) as Record<string, number>);
    return left.reduce((sum, n) => sum + n, 0) === 0;
  });

  expect((await daemon.api('GET', '/v1/dead?topic=unmended')).body.items).toMatchObject([{ id: 'stays' }]);
  const byId = groupBy(
    sink.arrivals.filter(({ topic }) => topic === 'mended'),
    ({ id }) => id,
  );
  expect(byId.size).toBe(count);
  for (const [id, arrivals] of byId) {
    expect(arrivals.map(({ attempt }) => attempt).join(), id).toBe('1,1');
    expect(new Set(arrivals.map(({ webhookId }) => webhookId)).size, id).toBe(1);
    const body = JSON.stringify(bodyOf(Number(id.slice('job-'.length))));
    expect(arrivals.map((arrival) => arrival.body.toString()).join('|'), id).toBe(`${body}|${body}`);
  }
  expect(new Set(sink.arrivals.map(({ webhookId }) => webhookId)).size).toBe(count + 1);
});
