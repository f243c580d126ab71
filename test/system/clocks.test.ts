// Tests daemons with a wrong clock. On Redis, whose clock is right, dq removes nothing, and receivers get the
// right time. On the embedded store a jump removes nothing, also when dq-store dies.
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, environment, startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { lacks, owned } from '../support/services.ts';
import { dqWithClock } from '../support/shifted-clock.ts';
import { ok, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const dayMs = 86_400_000;

const deadIn = async (daemon: Daemon) => {
  const { body } = await daemon.api('GET', '/v1/dead');
  return (body.items as { id: string }[]).map(({ id }) => id);
};

/** One dead letter with a settled alert: only its age keeps it. */
async function bury(daemon: Daemon, url: string): Promise<void> {
  await addTopic(daemon, 'dies', url, { maxAttempts: 1 });
  await daemon.push('dies', '{}', { id: 'dead' });
  await until('the alert to be settled', async () => {
    const { body } = await daemon.api('GET', '/v1/alerts');
    return body.items[0]?.state === 'nobody';
  });
}

describe.skipIf(await lacks('redis'))('a daemon whose clock is 400 days ahead of Redis', () => {
  it('keeps dead letters, signs with the time of Redis, and warns of the difference', async () => {
    const server = await owned('test', startRedis({ config: ['appendonly yes', 'appendfsync everysec'] }));
    const dq = dqWithClock(400 * dayMs);
    const sink = await startSink((arrival, response) =>
      arrival.topic === 'dies' ? status(500)(arrival, response) : ok(arrival, response),
    );
    const daemon = await startDaemon({ args: ['--redis', server.url], launcher: dq.launcher });
    await bury(daemon, sink.url);
    await addTopic(daemon, 'works', sink.url);
    await daemon.push('works', '{}', { id: 'delivered' });
    const arrival = await until('the callback', () => sink.arrivals.find(({ topic }) => topic === 'works'));
    expect(Math.abs(Number(arrival.headers['webhook-timestamp']) - Date.now() / 1_000)).toBeLessThan(60);
    const job = await until('its end', async () => {
      const { body } = await daemon.api('GET', '/v1/topics/works/jobs/delivered');
      return body.state === 'done' ? body : null;
    });
    expect(Math.abs(Date.parse(job.attempts[0].startedAt) - Date.now())).toBeLessThan(60_000);
    const sentence = `the clock of Redis at redis://127.0.0.1:${server.port} is 400d behind the clock of this machine`;
    const { body } = await daemon.api('GET', '/readyz');
    expect(body.warnings.join()).toContain(sentence);
    const doctor = spawnSync(
      process.execPath,
      [dq.launcher, 'doctor', '--json', '--data-dir', daemon.dataDir],
      {
        env: environment({ DQ_REDIS: server.url }),
        cwd: daemon.directory,
        encoding: 'utf8',
      },
    );
    const findings = JSON.parse(doctor.stdout) as { check: string; state: string; about: string }[];
    expect(findings.filter(({ check, state }) => check === 'redis' && state === 'warning')).toMatchObject([
      { about: expect.stringContaining(sentence) },
    ]);
    // One round of the janitor puts topics with only ended jobs at rest; after the second, it has requested
    // every removal.
    for (const topic of ['first', 'second']) {
      await addTopic(daemon, topic, sink.url);
      await daemon.push(topic, '{}');
      await until(
        `the janitor to put ${topic} at rest`,
        async () => (await server.ask('HGET', '{dq:0}:t', topic)).includes('at rest'),
        60_000,
        100,
      );
    }
    expect(await deadIn(daemon)).toEqual(['dead']);
  });
});

describe('a daemon on the embedded store whose clock jumps 400 days ahead', () => {
  it('removes nothing and warns, also after dq-store was killed', async () => {
    const dq = dqWithClock();
    const sink = await startSink(status(500));
    const daemon = await startDaemon({ launcher: dq.launcher });
    await bury(daemon, sink.url);
    const warnings = async () => (await daemon.api('GET', '/readyz')).body.warnings as string[];
    expect(await warnings()).toEqual([]);
    dq.shift(400 * dayMs);
    const warning = await until('the jump to be seen', async () => (await warnings())[0]);
    expect(warning).toBe(
      'the clock of this machine jumped ahead by 400d; nothing expires until it has stood for 1h',
    );
    expect(await deadIn(daemon)).toEqual(['dead']);
    process.kill(daemon.pidOf('dq-store'), 'SIGKILL');
    await until('the next dq-store to log it', () =>
      daemon
        .log('notice')
        .some(({ message }) => /^the clock of this machine is 400d after/.test(String(message))),
    );
    const after = await until('readyz to warn again', async () => (await warnings())[0]);
    expect(after).toContain('after the last time in jobs.db; nothing expires until it has stood for 1h');
    expect(await deadIn(daemon)).toEqual(['dead']);
  });
});
