// Tests `dq move` of a registry to a real MariaDB, and what a failure, a rejected restart and a kill leave.
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { listening } from '../support/listening.ts';
import { createTopic, forAll, numbers } from '../support/producing.ts';
import { lacks, owned, workerMariadb } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { switchedDaemon } from '../support/switched-daemon.ts';
import { until } from '../support/until.ts';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const idle = 'http://127.0.0.1:9/';

describe.skipIf(await lacks('mysql'))('dq move: registry.db to MySQL', async () => {
  const server = await workerMariadb();
  let made = 0;
  const newDatabase = () => server.createDatabase(`moved${++made}`);
  const moved = ({ dataDir }: { dataDir: string }) => ({
    before: existsSync(join(dataDir, 'registry.db')),
    after: existsSync(join(dataDir, 'registry.db.moved')),
  });

  it.skipIf(await lacks('redis'))(
    'both at once: secrets sign, tokens are valid, schedules fire once each instant, each job is delivered once',
    async () => {
      const redis = await owned('test', startRedis({ config: ['appendonly yes'] }));
      const sink = await startSink();
      const daemon = switchedDaemon();
      const { configure, dq } = daemon;
      configure({});
      expect(await dq('start', '-d')).toMatchObject({ code: 0 });
      await createTopic(daemon.now, { topic: 't', callbackUrl: sink.url, secret, timeout: '10s' });
      await createTopic(daemon.now, { topic: 'gone', callbackUrl: idle });
      await dq('topic', 'rm', 'gone', '-y');
      await forAll(numbers(100), async (n) => {
        const delay = n < 50 ? '1h' : '20s';
        expect((await daemon.now.push('t', `{"n":${n}}`, { id: `${n}`, delay })).status).toBe(201);
      });
      await dq('schedule', 'add', 's', '--topic', 't', '--every', '1s', '--missed', 'last');
      const { stdout: token } = await dq('token', 'add', 'mine', '--scope', 'admin');
      const asked = (path: string) =>
        fetch(daemon.now.url + path, { headers: { authorization: `Bearer ${token.trim()}` } });
      const instants = () => sink.arrivals.filter(({ id }) => id.startsWith('schedule:')).length;
      await until('two instants', () => instants() >= 2);

      configure({ redis: [redis.url], mysql: { url: await newDatabase() } });
      const plan = await dq('move', '--plan');
      expect(plan).toMatchObject({ code: 0, stderr: '' });
      expect(plan.stdout).toMatch(
        /^registry {3}1 topic, 1 token, 1 schedule: registry\.db → MySQL 127\.0\.0\.1:\d+\/moved\d+ \(empty\)\njobs {7}\d+: jobs\.db → redis:\S+ \(needs about \d+ MiB, no limit is set\)\n$/,
      );
      const { pid } = daemon.now;
      expect(await dq('move', '-y')).toMatchObject({
        code: 0,
        stderr: expect.stringMatching(/dq: the registry is in MySQL[\s\S]*dq: all jobs are on Redis/),
      });
      expect(daemon.now.pid).not.toBe(pid);
      expect(moved(daemon)).toEqual({ before: false, after: true });

      for (const [path, status] of [
        ['/v1/topics/t', 200],
        ['/v1/topics/gone', 404],
        ['/v1/topics/t/jobs/7', 200],
      ] as const)
        expect([path, (await asked(path)).status]).toEqual([path, status]);
      expect(await (await asked('/readyz')).json()).toMatchObject({ warnings: [] });
      expect((await dq('audit', '--json')).stdout).toContain('createTopic');
      const from = instants();
      await until('two more instants', () => instants() >= from + 2);
      expect((await dq('run', 't', '7')).code).toBe(0);
      await until('the due ones arrive', () => sink.arrivals.length - instants() === 51);
      const ids = sink.arrivals.map(({ id }) => id);
      expect(ids.length).toBe(new Set(ids).size);
      for (const { body, headers } of sink.arrivals)
        new Webhook(secret).verify(body, headers as Record<string, string>);
      expect((await dq('topic', 'set', 't', '--title', 'changed')).code).toBe(0);
      expect((await dq('move', '-y')).stderr).toContain('nothing is left to move');
    },
  );

  it.skipIf(await lacks('redis'))(
    'a Redis that takes no writes at first: the move waits for it',
    async () => {
      const redis = await owned(
        'test',
        startRedis({ config: ['appendonly yes', 'min-replicas-to-write 1'] }),
      );
      const daemon = switchedDaemon();
      const { configure, dq } = daemon;
      configure({});
      await dq('start', '-d');
      await createTopic(daemon.now, { topic: 't', callbackUrl: idle });
      await daemon.now.push('t', '1', { id: '1', delay: '1h' });
      configure({ redis: [redis.url] });
      const done = dq('move', '-y');
      const moving = async () => (await daemon.now.api('GET', '/v1/move')).body.state === 'moving';
      await until('the move is open', () => moving().catch(() => false));
      await redis.ask('CONFIG', 'SET', 'min-replicas-to-write', '0');
      const { code, stderr } = await done;
      expect(code).toBe(0);
      expect(stderr).toMatch(/^dq: the daemon runs, and is not ready: store: .*replicas/m);
      expect((await daemon.now.api('GET', '/v1/topics/t/jobs/1')).body.state).toBe('delayed');
    },
  );

  describe.skipIf(await lacks('redis'))('MySQL is in force, jobs.db has a job, and redis is new', () => {
    async function left() {
      const redis = await owned('test', startRedis({ config: ['appendonly yes'] }));
      const mysql = { url: await newDatabase() };
      const daemon = switchedDaemon();
      const { configure, dq } = daemon;
      configure({});
      await dq('start', '-d');
      await createTopic(daemon.now, { topic: 't', callbackUrl: idle });
      await daemon.now.push('t', '{}', { id: 'waits', delay: '1h' });
      configure({ mysql });
      const { stderr } = await dq('restart');
      expect(stderr).toContain('; dq move brings them to a MySQL without topics; else move registry.db away');
      const movedJob = async () => ({
        ...{ move: await dq('move', '-y') },
        ...{ store: (await daemon.now.api('GET', '/v1/store')).body.kind },
        ...{ job: (await daemon.now.api('GET', '/v1/topics/t/jobs/waits')).status },
        ...{ left: (await daemon.now.api('GET', '/v1/move')).body.state },
      });
      return { daemon, movedJob, becomesRedis: () => configure({ mysql, redis: [redis.url] }) };
    }
    const whole = { store: 'redis', job: 200, left: 'none' };

    it('registry.db moves without a restart; then the daemon starts with redis, and the job moves', async () => {
      const { daemon, movedJob, becomesRedis } = await left();
      becomesRedis();
      const stderr = expect.stringMatching(
        /the registry is in MySQL[\s\S]+restarted[\s\S]+all jobs are on Redis/,
      );
      expect(await movedJob()).toMatchObject({ ...whole, move: { code: 0, stderr } });
      expect(moved(daemon)).toEqual({ before: false, after: true });
    });

    it('a MySQL with topics stays the registry, registry.db stays where it is, and the job moves', async () => {
      const { daemon, movedJob, becomesRedis } = await left();
      await createTopic(daemon.now, { topic: 't', callbackUrl: idle });
      becomesRedis();
      const stdout = expect.stringMatching(
        /^registry {3}is in MySQL \S+ \(1 topic, 0 tokens, 0 schedules\); registry\.db \(1 topic, .+\) is not in force: move it away$/m,
      );
      expect(await movedJob()).toMatchObject({ ...whole, move: { code: 0, stdout } });
      expect(moved(daemon)).toEqual({ before: true, after: false });
    });
  });

  it('a master that is killed after the copy: the next start has what its configuration names', async () => {
    const sink = await startSink(() => {});
    const daemon = switchedDaemon();
    const { configure, dq } = daemon;
    configure({});
    await dq('start', '-d');
    await createTopic(daemon.now, { topic: 't', callbackUrl: sink.url, secret, timeout: '1m' });
    // The restart waits for a call that hangs.
    await daemon.now.push('t', '{}', { id: 'hangs' });
    await until('it is called', () => sink.arrivals.length === 1);
    configure({ mysql: { url: await newDatabase() } });
    const note = () => {
      const path = join(daemon.dataDir, 'registry-move.json');
      return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as { state: string }).state : null;
    };
    const killed = async () => {
      const moving = dq('move', '-y');
      await until('the copy is whole', () => note() === 'copied');
      process.kill(daemon.now.pid, 'SIGKILL');
      expect((await moving).code).not.toBe(0);
    };
    await killed();
    configure({});
    expect((await dq('start', '-d')).code).toBe(0);
    expect((await daemon.now.api('PATCH', '/v1/topics/t', { title: 'in the file' })).status).toBe(200);
    expect([note(), moved(daemon)]).toEqual(['copying', { before: true, after: false }]);

    await until('it is called again', () => sink.arrivals.length === 2);
    configure({ mysql: { url: server.url(`moved${made}`) } });
    await killed();
    expect((await dq('start', '-d')).code).toBe(0);
    expect((await daemon.now.api('GET', '/v1/topics/t')).body.title).toBe('in the file');
    expect([note(), moved(daemon)]).toEqual([null, { before: false, after: true }]);
  });

  it('a rejected restart, and a kill of dq-store: registry.db stays in force, and a repeat moves it', async () => {
    const url = await newDatabase();
    const daemon = switchedDaemon();
    const { configure, dq } = daemon;
    configure({});
    await dq('start', '-d');
    await createTopic(daemon.now, { topic: 't', callbackUrl: idle, secret });
    const change = async (title: string) => (await daemon.now.api('PATCH', '/v1/topics/t', { title })).status;

    const port = await listening(createServer());
    configure({ mysql: { url }, server: { port } });
    const rejected = await dq('move', '-y');
    expect(rejected).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/nothing has moved, the daemon still runs: another program uses port/),
    });
    expect(await change('after the rejection')).toBe(200);

    configure({ mysql: { url } });
    expect((await dq('move', '--plan')).stdout).toContain('(empty)');
    // The row that every writer locks: the copy waits for it, and changes are rejected meanwhile.
    const blocking = await createConnection(url);
    onTestFinished(() => blocking.destroy());
    await blocking.beginTransaction();
    await blocking.query('SELECT revision FROM registry WHERE only = 1 FOR UPDATE');
    const moving = dq('move', '-y');
    await until('changes are rejected', async () => (await change('meanwhile')) === 503);
    const store = daemon.now.pidOf('dq-store');
    process.kill(store, 'SIGKILL');
    expect(await moving).toMatchObject({ code: 1, stderr: expect.stringContaining('run dq move again') });
    await blocking.rollback();
    await until('changes are accepted', async () => (await change('after the kill')) === 200);
    expect(moved(daemon)).toEqual({ before: true, after: false });

    expect((await dq('move', '-y')).code).toBe(0);
    expect((await daemon.now.api('GET', '/v1/topics/t')).body.title).toBe('after the kill');
    expect(moved(daemon)).toEqual({ before: false, after: true });
    expect(readFileSync(daemon.file, 'utf8')).toContain('mysql');
  });
});
