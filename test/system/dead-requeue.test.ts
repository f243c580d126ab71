// Requeues a topic whose jobs all died, with one command, after its endpoint was repaired. 2,000 jobs by
// default; another number with DQ_DEAD_JOBS=10000 npx vitest run test/system/dead-requeue.test.ts
import { expect, it } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { addTopic, groupBy, jobsLeft, numbers } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { ok, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const count = Number(process.env['DQ_DEAD_JOBS'] ?? 2_000);
/** jobs of one batch */
const step = 500;

it('dq dead requeue: each dead letter of a topic is delivered once, with its webhook-id', {
  timeout: 180_000,
}, async () => {
  const sink = await startSink(status(500));
  const daemon = await startDaemon();
  await addTopic(daemon, 'mended', sink.url, { maxAttempts: 1 });
  await addTopic(daemon, 'other', sink.url, { maxAttempts: 1 });
  await daemon.push('other', '{}', { id: 'stays' });
  const bodyOf = (n: number) => ({ n, text: 'später' });
  for (let from = 0; from < count; from += step) {
    const some = numbers(Math.min(step, count - from)).map((n) => from + n);
    const jobs = some.map((n) => ({ topic: 'mended', id: `job-${n}`, body: bodyOf(n) }));
    expect((await daemon.api('POST', '/v1/jobs', jobs)).status).toBe(200);
  }
  const dead = async () => (await daemon.api('GET', '/v1/stats')).body.states.dead as number;
  await until('all are dead', async () => (await dead()) === count + 1, 60_000, 100);
  expect(sink.arrivals).toHaveLength(count + 1);

  sink.answer(ok);
  const startedAt = Date.now();
  const requeued = await runDq(['dead', 'requeue', 'mended', '--all', '--data-dir', daemon.dataDir]);
  const requeuedAt = Date.now();
  expect(requeued, requeued.stderr).toMatchObject({ code: 0 });
  expect(requeued.stderr).toContain(`${count} requeued`);
  await until('its jobs are done', async () => (await jobsLeft(daemon)) === 1, 60_000, 100);
  if (process.env['DQ_DEAD_JOBS'] !== undefined)
    process.stdout.write(
      `${count} requeued in ${requeuedAt - startedAt} ms, delivered by ${Date.now() - startedAt} ms\n`,
    );

  expect((await daemon.api('GET', '/v1/dead')).body.items).toMatchObject([{ topic: 'other', id: 'stays' }]);
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
