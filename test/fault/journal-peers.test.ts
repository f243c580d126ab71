// Two instances on one Redis and one MariaDB: one acknowledges cancels and replacements that only its spool
// has, is killed, and Redis is emptied. The other one heals: it waits for the first, and calls no job that it
// ended. Real daemons and kill -9.

import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

vi.setConfig({ testTimeout: 300_000 });

const isMissing = (await lacks('redis')) || (await lacks('mysql'));
const jobs = 40;
/** Jobs are due this long after the first push: after the loss. */
const dueMs = 20_000;

async function startWorld() {
  const redis = await owned('test', startRedis());
  const mysql = await owned('test', mariadb());
  const args = ['--redis', redis.url, '--mysql', await mysql.createDatabase('peers')];
  const first = await startDaemon({ args, group: true });
  const secretKeyFile = join(first.dataDir, 'secret.key');
  const second = await startDaemon({ args, config: { secretKeyFile }, group: true });
  const sink = await startSink((_arrival, response) => void response.writeHead(200).end('{"code":200}'));
  await addTopic(first, 't', sink.url);
  await until('the topic', async () => (await second.api('GET', '/v1/topics/t')).status === 200);
  return { redis, args, first, second, sink };
}

/** The healing that the last loss needs. */
const healing = async (daemon: Daemon) =>
  (await daemon.api('GET', '/v1/journal')).body.restores.find(
    ({ kind }: { kind: string }) => kind === 'heal',
  );

async function push(daemon: Daemon, id: string, more: Record<string, string | number>, body = '1') {
  expect((await daemon.push('t', body, { id, ...more })).status).toBeOneOf([200, 201]);
}

it.skipIf(isMissing)(
  'kill -9: a healing waits for ends that only the spool of a dead instance has',
  async () => {
    const { redis, args, first, second, sink } = await startWorld();
    const dueAt = Date.now() + dueMs;
    const ids = Array.from({ length: jobs }, (_, n) => `job-${n}`);
    const [cancelled, replaced] = [ids.slice(0, 10), ids.slice(10, 20)];
    for (const id of ids) await push(first, id, { at: dueAt });
    await until('the journal has the pushes', async () => {
      const { body } = await first.api('GET', '/v1/journal');
      return body.lagMs === 0 && (await healing(second)) === undefined;
    });
    // From here on its changes stay in the spool.
    process.kill(first.pidOf('dq-upkeep'), 'SIGSTOP');
    for (const id of cancelled)
      expect(await first.api('DELETE', `/v1/topics/t/jobs/${id}`)).toMatchObject({ status: 200 });
    for (const id of replaced) await push(first, id, { delay: dueMs, mode: 'replace' }, '2');
    process.kill(-first.pid, 'SIGKILL');
    await until('it is gone', () => first.workers().length === 0);
    await redis.ask('FLUSHALL');
    await until('the second instance waits, or has healed', async () => {
      const { body } = await second.api('GET', '/readyz');
      const waits = 'the healing of Redis waits for an instance without a sign; see dq journal';
      return body.warnings?.includes(waits) || (await healing(second))?.state === 'done';
    });
    await until('the jobs are due', () => Date.now() > dueAt + 1_000, 60_000);
    await startDaemon({ args, directory: first.directory, group: true });
    const left = ids.filter((id) => !cancelled.includes(id));
    await until(
      'the others have arrived',
      () => {
        const arrived = new Set(sink.arrivals.map(({ id }) => id));
        return left.every((id) => arrived.has(id));
      },
      90_000,
    );
    const arrivals = sink.arrivals.map(({ id, body }) => `${id} ${body}`);
    expect(arrivals.filter((one) => cancelled.includes(one.split(' ')[0] ?? ''))).toEqual([]);
    expect(arrivals.filter((one) => replaced.some((id) => one === `${id} 1`))).toEqual([]);
    expect(
      await until('it is healed', async () => {
        const its = await healing(second);
        return its.state === 'done' && its;
      }),
    ).toMatchObject({ put: jobs - cancelled.length });
  },
);

it.skipIf(isMissing)(
  'a clean stop leaves nothing: the healing of another instance waits for none',
  async () => {
    const { redis, first, second, sink } = await startWorld();
    await push(first, 'ended', { delay: dueMs });
    await push(first, 'left', { delay: dueMs });
    expect(await first.api('DELETE', '/v1/topics/t/jobs/ended')).toMatchObject({ status: 200 });
    expect(await first.stop()).toBe(0);
    const { body } = await second.api('GET', '/v1/journal');
    const states = body.instances.map(({ state, self }: { state: string; self: boolean }) => [self, state]);
    expect(states.sort()).toEqual([
      [false, 'ended'],
      [true, 'lives'],
    ]);
    await redis.ask('FLUSHALL');
    await until('it is healed', async () => (await healing(second))?.state === 'done');
    await until('the job', () => sink.arrivals.length > 0, 60_000);
    expect(sink.arrivals.map(({ id }) => id)).toEqual(['left']);
  },
);
