// Tests the reasons why jobs of a topic are not called, through the API and `dq topic get`.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openDatabase } from '../../src/runtime/database.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { startHanging } from '../support/hanging.ts';
import { addTopic, numbers } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

interface Reason {
  readonly code: string;
  readonly message: string;
  readonly values: Readonly<Record<string, number | string>>;
}

async function reasonsOf(daemon: Daemon, topic: string): Promise<Reason[][]> {
  const { status, body } = await daemon.api('GET', `/v1/topics/${topic}/capacity`);
  expect([status, body.topic]).toEqual([200, topic]);
  expect(body.notifiers.map(({ notifier }: { notifier: string }) => notifier)).toEqual([
    'dq-notifier-0',
    'dq-notifier-1',
  ]);
  return [body.reasons, ...body.notifiers.map(({ reasons }: { reasons: Reason[] | null }) => reasons ?? [])];
}

/** Resolves with the reason of this code when dq reports it. `place`: 0 = the instance, 1 and 2 = its
 *  notifiers. */
async function reason(daemon: Daemon, topic: string, code: string, place = 1): Promise<Reason> {
  let last: Reason[][] = [];
  let found: Reason | undefined;
  await until(
    `${topic}: ${code}`,
    async () => {
      last = await reasonsOf(daemon, topic);
      found = last[place]?.find((each) => each.code === code);
      return found !== undefined;
    },
    30_000,
  ).catch((error: unknown) => {
    throw new Error(`${topic}: ${code} is not among ${JSON.stringify(last)}`, { cause: error });
  });
  return found as Reason;
}

function damage(daemon: Daemon, topic: string, column: string, text: string): void {
  const db = openDatabase(join(daemon.dataDir, 'registry.db'), { waitMs: 5_000 });
  db.exec(`BEGIN; UPDATE registry SET revision = revision + 1; UPDATE topic SET ${column} = '${text}',
    revision = (SELECT revision FROM registry) WHERE name = '${topic}'; COMMIT`);
  db.close();
}

it('capacity: names the reason why jobs of a topic are not called', async () => {
  const hanging = await startHanging();
  const sink = await startSink();
  // Not a port that was free a moment ago: a server of another test may have taken it.
  const dead = 'http://127.0.0.1:9/';
  hanging.hang();
  const daemon = await startDaemon({ config: { notifier: { workers: 2, slots: 16 } } });
  const push = async (topic: string, jobs: number) => {
    const batch = numbers(jobs).map((n) => ({ topic, body: n }));
    expect((await daemon.api('POST', '/v1/jobs', batch)).status).toBe(200);
  };
  const soon = { backoff: ['10ms'], maxAttempts: 100 };
  await addTopic(daemon, 'idle', sink.url);
  await addTopic(daemon, 'paused', sink.url);
  await addTopic(daemon, 'offline', sink.url);
  await addTopic(daemon, 'solo', hanging.urlOf(0), { concurrency: 1, timeout: '60s' });
  await addTopic(daemon, 'wide', hanging.urlOf(1), { concurrency: 1_000, timeout: '60s' });
  await addTopic(daemon, 'rated', sink.url, { rate: 2 });
  await addTopic(daemon, 'dead-a', dead, soon);
  await addTopic(daemon, 'dead-b', dead, soon);
  await addTopic(daemon, 'torn', sink.url);
  await addTopic(daemon, 'sealed', sink.url);

  expect(await reason(daemon, 'idle', 'no_ready_job', 0)).toMatchObject({
    message: 'no job of the topic is ready: 0 delayed, 0 reserved, 0 dead',
    values: { delayed: 0, reserved: 0, dead: 0 },
  });
  expect((await reasonsOf(daemon, 'idle')).slice(1)).toEqual([[], []]);

  await push('paused', 1);
  await daemon.api('POST', '/v1/topics/paused/pause');
  await daemon.api('POST', '/v1/topics/offline/offline');
  await reason(daemon, 'paused', 'paused');
  await reason(daemon, 'offline', 'offline', 2);

  await push('solo', 3);
  expect(await reason(daemon, 'solo', 'concurrency_reached')).toMatchObject({
    values: { running: 1, limit: 1, concurrency: 1, notifiers: 2 },
  });
  expect(await reason(daemon, 'solo', 'no_share', 2)).toMatchObject({
    values: { concurrency: 1, notifiers: 2, index: 1 },
  });
  expect(await reason(daemon, 'solo', 'slow_calls')).toMatchObject({ values: { running: 1 } });

  await push('wide', 40);
  expect(await reason(daemon, 'wide', 'half_of_slots')).toMatchObject({
    values: { running: 8, limit: 8, slots: 16 },
  });

  await push('rated', 60);
  const { values } = await reason(daemon, 'rated', 'rate_reached');
  expect(values).toMatchObject({ rate: 2, share: 1 });
  expect(values['waitMs']).toBeGreaterThan(0);
  expect(values['waitMs']).toBeLessThanOrEqual(1_000);

  await push('dead-a', 20);
  await push('dead-b', 20);
  expect((await reason(daemon, 'dead-a', 'ailing')).values['attemptsInRow']).toBeGreaterThanOrEqual(10);
  await until(
    'both topics of the origin are counted',
    async () => (await reason(daemon, 'dead-b', 'origin_ailing')).values['topics'] === 2,
  );

  damage(daemon, 'torn', 'settings', '{');
  damage(daemon, 'sealed', 'secrets', 'v1:AAAA');
  await reason(daemon, 'torn', 'unreadable_topic');
  await reason(daemon, 'sealed', 'cannot_be_called', 2);

  expect(await daemon.api('GET', '/v1/topics/absent/capacity')).toMatchObject({
    status: 404,
    body: { code: 'topic_not_found' },
  });

  // A notifier that answers late is left out.
  await until('dq topic get shows the reason', async () => {
    const shown = await runDq(['topic', 'get', 'paused', '--data-dir', daemon.dataDir]);
    expect(shown.code).toBe(0);
    expect(shown.stdout).toMatch(
      /^delivery +dq-notifier-0: the topic is paused \(dq topic resume paused\)$/m,
    );
    return true;
  });
  const json = await runDq(['topic', 'get', 'paused', '--json', '--data-dir', daemon.dataDir]);
  expect(JSON.parse(json.stdout)).toMatchObject({ topic: 'paused', state: 'paused' });

  // As a notifier of an older version, which ignores the request.
  process.kill(daemon.pidOf('dq-notifier-1'), 'SIGSTOP');
  await until('the other notifier alone answers', async () => {
    const { body } = await daemon.api('GET', '/v1/topics/paused/capacity');
    expect(body.notifiers).toMatchObject([
      { notifier: 'dq-notifier-0', reasons: [{ code: 'paused' }] },
      { notifier: 'dq-notifier-1', reasons: null },
    ]);
    return true;
  });
});
