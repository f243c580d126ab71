// A daemon whose jobs move from jobs.db to Redis while dq-upkeep, dq-store and Redis are killed: no job is
// lost or called twice, changes of jobs on their way take effect, and leases of pull clients go on.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic, forAll, jobsLeft, numbers } from '../support/producing.ts';
import { expectWhole, untilReady } from '../support/redis-trouble.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, owned } from '../support/services.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const jobs = 2_000;
const move = async (daemon: Daemon) => (await daemon.api('GET', '/v1/move')).body;

/** Pushes until it is stored: the process that takes it may be killed. Returns 201, or 200 for a job that is
 *  kept. */
async function pushed(daemon: Daemon, id: string, query: Record<string, string | number>): Promise<number> {
  return until(`push ${id}`, async () => {
    const { status } = await daemon.push('t', '1', { id, mode: 'keep', ...query });
    return status < 300 ? status : null;
  });
}

describe.skipIf(await lacks('redis'))('a daemon whose jobs move to Redis', () => {
  it('kill -9 of dq-upkeep, dq-store and Redis: none is lost or called twice', async () => {
    const redis = await owned('test', startRedis({ config: ['appendonly yes', 'appendfsync always'] }));
    const sink = await startSink(ok);
    const first = await startDaemon();
    const { directory } = first;
    await addTopic(first, 't', sink.url);
    expect(
      (await first.api('POST', '/v1/topics', { topic: 'p', delivery: 'pull', lease: '1h' })).status,
    ).toBe(201);
    await first.push('p', '"pulled"', { id: 'pulled' });
    const { body: taken } = await until('a lease', async () => {
      const reply = await first.api('POST', '/v1/topics/p/pull');
      return reply.body.items?.length === 1 ? reply : null;
    });
    await first.api('POST', '/v1/topics/t/pause');
    await forAll(numbers(jobs), (n) => pushed(first, `old-${n}`, { delay: n % 2 === 0 ? '0s' : '1h' }));
    expect(await first.stop()).toBe(0);

    const config = { redis: [redis.url] };
    const daemon = await startDaemon({ directory, config });
    await untilReady(daemon);
    expect(await move(daemon)).toMatchObject({ state: 'held', jobs: jobs + 1, total: null });
    expect(await daemon.push('t', '1', { id: 'old-1', mode: 'keep' })).toMatchObject({
      ...{ status: 503, body: { code: 'not_stored' } },
    });
    expect(await pushed(daemon, 'new-0', { delay: '0s' })).toBe(201);
    expect(await daemon.api('POST', '/v1/move')).toMatchObject({
      status: 202,
      body: { state: 'moving', total: jobs + 1 },
    });
    await daemon.api('POST', '/v1/topics/t/resume');

    let n = 1;
    const pushes = async () => {
      for (const end = n + 20; n < end; n += 1) await pushed(daemon, `new-${n}`, { delay: '0s' });
    };
    for (const victim of ['dq-upkeep', 'dq-store', 'redis', 'dq-upkeep', 'redis', 'dq-store'] as const) {
      await until('the move goes on', async () => {
        const { state } = await move(daemon);
        return state === 'moving' || state === 'none';
      });
      if (victim === 'redis') {
        await redis.process.kill();
        await redis.process.start();
      } else process.kill(daemon.pidOf(victim), 'SIGKILL');
      await pushes();
      // Stored before the move, and perhaps on its way.
      expect(await pushed(daemon, `old-${2 * n + 1}`, {})).toBe(200);
    }
    const cancelled = 'old-1001';
    await until('cancelled', async () =>
      [204, 200, 404].includes((await daemon.api('DELETE', `/v1/topics/t/jobs/${cancelled}`)).status),
    );
    expect((await daemon.api('POST', `/v1/topics/t/jobs/old-1003/run`)).status).toBe(200);
    const [{ lease }] = taken.items;
    await until('the end of the lease', async () => {
      const { body } = await daemon.api('POST', '/v1/leases/ack', { leases: [lease] });
      return body.results?.[0]?.status === 200;
    });
    await until('the end of the move', async () => (await move(daemon)).state === 'none', { everyMs: 200 });

    const called = jobs / 2 + n + 1;
    await until('all that are due are called', () => sink.arrivals.length >= called, { everyMs: 100 });
    await until('they are settled', async () => (await jobsLeft(daemon)) === jobs / 2 - 2);
    await expectWhole(daemon);
    const ids = sink.arrivals.map(({ id }) => id);
    expect(ids.length).toBe(new Set(ids).size);
    expect(ids).not.toContain(cancelled);
    expect(await daemon.stop()).toBe(0);
  });

  it('dq status shows an open move; a start without redis meanwhile ends with 78', async () => {
    const redis = await owned('test', startRedis());
    const first = await startDaemon();
    await addTopic(first, 't', 'http://127.0.0.1:9/');
    await first.push('t', '1', { delay: '1h' });
    await first.stop();
    const { directory } = first;
    const daemon = await startDaemon({ directory, config: { redis: [redis.url] } });
    await redis.process.kill();
    await until(
      'the move is open',
      async () => (await daemon.api('POST', '/v1/move')).body.state === 'moving',
    );
    expect((await runDq(['status', '--data-dir', daemon.dataDir])).stderr).toContain(
      'move to Redis: 1 of 1 jobs are left in jobs.db',
    );
    await daemon.stop();
    writeFileSync(join(directory, 'dq.yaml'), stringify({ console: { enabled: false } }));
    const { code, stderr } = await runDq([
      'start',
      '-c',
      join(directory, 'dq.yaml'),
      '--data-dir',
      daemon.dataDir,
      '--log-dir',
      daemon.logDir,
      '--port',
      '0',
    ]);
    expect(code).toBe(78);
    expect(stderr).toContain('to Redis is open, 1 jobs left; start with redis');
  });
});
