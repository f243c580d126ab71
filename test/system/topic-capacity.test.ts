// Tests the reasons why jobs of a topic are not called, through the API and `dq topic get`. Each reason:
// unit/capacity; a silent notifier: role/intake-operation.
import { expect, it } from 'vitest';
import type { RunningDaemon } from '../support/daemon.ts';
import { addTopic, numbers } from '../support/producing.ts';
import { commandsOf } from '../support/run-dq.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

interface Reason {
  readonly code: string;
  readonly message: string;
  readonly values: Readonly<Record<string, number | string>>;
}

/** Of the instance, then of each notifier. */
async function reasonsOf(daemon: RunningDaemon, topic: string): Promise<Reason[][]> {
  const { status, body } = await daemon.api('GET', `/v1/topics/${topic}/capacity`);
  expect([status, body.topic, body.notifiers[0].notifier]).toEqual([200, topic, 'dq-notifier-0']);
  return [body.reasons, ...body.notifiers.map(({ reasons }: { reasons: Reason[] | null }) => reasons ?? [])];
}

/** Resolves with the reason of this code when dq reports it. `place`: 0 = the instance, 1 = its first
 *  notifier. */
async function reason(daemon: RunningDaemon, topic: string, code: string, place = 1): Promise<Reason> {
  let last: Reason[][] = [];
  let found: Reason | undefined;
  await until(`${topic}: ${code}`, async () => {
    last = await reasonsOf(daemon, topic);
    found = last[place]?.find((each) => each.code === code);
    return found !== undefined;
  }).catch((error: unknown) => {
    throw new Error(`${topic}: ${code} is not among ${JSON.stringify(last)}`, { cause: error });
  });
  return found as Reason;
}

it('capacity: names the reason why jobs of a topic are not called', async () => {
  const daemon = await sharedDaemon();
  const sink = await startSink(() => {});
  const topic = (name: string) => `capacity.${name}`;
  const push = async (name: string, jobs: number) => {
    const batch = numbers(jobs).map((n) => ({ topic: topic(name), body: n }));
    expect((await daemon.api('POST', '/v1/jobs', batch)).status).toBe(200);
  };
  for (const name of ['idle', 'paused', 'offline']) await addTopic(daemon, topic(name), sink.url);
  await addTopic(daemon, topic('solo'), sink.url, { concurrency: 1, timeout: '60s' });

  expect(await reason(daemon, topic('idle'), 'no_ready_job', 0)).toMatchObject({
    message: 'no job of the topic is ready: 0 delayed, 0 reserved, 0 dead',
    values: { delayed: 0, reserved: 0, dead: 0 },
  });
  expect((await reasonsOf(daemon, topic('idle'))).slice(1).flat()).toEqual([]);

  await push('paused', 1);
  await daemon.api('POST', `/v1/topics/${topic('paused')}/pause`);
  await daemon.api('POST', `/v1/topics/${topic('offline')}/offline`);
  await reason(daemon, topic('paused'), 'paused');
  await reason(daemon, topic('offline'), 'offline');

  await push('solo', 3);
  expect(await reason(daemon, topic('solo'), 'concurrency_reached')).toMatchObject({
    values: { running: 1, limit: 1, concurrency: 1 },
  });
  for (const open of sink.open()) sink.finish(open);

  expect(await daemon.api('GET', `/v1/topics/${topic('absent')}/capacity`)).toMatchObject({
    status: 404,
    body: { code: 'topic_not_found' },
  });

  const dq = commandsOf(daemon);
  const shown = new RegExp(`^calls +the topic is paused \\(dq topic resume ${topic('paused')}\\)$`, 'm');
  // What all notifiers say stands once, without their names.
  await until('dq topic get shows the reason', async () =>
    shown.test((await dq(['topic', 'get', topic('paused')])).stdout),
  );
  const json = await dq(['topic', 'get', topic('paused'), '--json']);
  expect(JSON.parse(json.stdout)).toMatchObject({ topic: topic('paused'), state: 'paused' });
});
