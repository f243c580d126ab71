// A push that is repeated around the end of its job makes one job, on both stores.
import { describe, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { startDaemon } from '../support/daemon.ts';
import type { RunningDaemon } from '../support/daemon-process.ts';
import { addTopic, numbers } from '../support/producing.ts';
import { lacks, owned } from '../support/services.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const topic = 'idempotent';

async function repeats(daemon: RunningDaemon): Promise<void> {
  const push = () => daemon.push(topic, '{}', { id: 'once', mode: 'keep' });
  const pushes: ReturnType<typeof push>[] = [];
  const repeat = () => pushes.push(...numbers(50).map(push));
  const sink = await startSink((arrival, response) => {
    repeat();
    return ok(arrival, response);
  });
  await addTopic(daemon, topic, sink.url, { idempotency: '1h' });
  pushes.push(push());
  await until('the end', async () => {
    const { body } = await daemon.api('GET', `/v1/topics/${topic}/jobs/once`);
    return body.state === 'done';
  });
  repeat();
  const replies = await Promise.all(pushes);
  expect(replies.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(replies.filter(({ status, body }) => status === 200 && body.duplicate)).toHaveLength(100);
  const [last] = replies.slice(-1);
  expect(last?.body).toMatchObject({ state: 'done', endedAt: expect.any(String) });
  expect(sink.arrivals).toHaveLength(1);
}

describe('100 repeats around the end of a job', async () => {
  it('make one job on the embedded store', async () => repeats(await sharedDaemon()));

  it.skipIf(await lacks('redis'))('make one job on Redis', async () => {
    const server = await owned('test', startRedis());
    await repeats(await startDaemon({ args: ['--redis', server.url] }));
  });
});
