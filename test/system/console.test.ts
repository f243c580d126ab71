// The console in a real daemon: its port, sign-in by the command line, the trial, its death, hangs and
// reloads.
import { writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { stringify } from 'yaml';
import { freePorts } from '../../scripts/services/free-port.ts';
import { consolePort, type Halves, halvesIn, sendTo, sessionAt } from '../support/console.ts';
import { startDaemon } from '../support/daemon.ts';
import { listening } from '../support/listening.ts';
import { endedConsoles } from '../support/reloading.ts';
import { runDq } from '../support/run-dq.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';
import { acceptedAt } from '../support/sockets.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

const patience = { timeout: 180_000 };
const json = { 'content-type': 'application/json' };

const statusOf = async (port: number, halves: Halves, path = '/v1/me') =>
  (await sendTo(port, 'GET', path, halvesIn(halves))).status;
const answers = (port: number) =>
  sendTo(port, 'GET', '/livez', {}).then(
    ({ status }) => status === 200,
    () => false,
  );

const runsOn = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });

describe('one daemon, in this order', patience, async () => {
  const [server = 0] = await freePorts(1);
  const defaultPort = createServer().on('error', () => {});
  defaultPort.listen(8_088, '127.0.0.1');
  await until('the default port is taken', () => defaultPort.listening || runsOn(8_088));
  // The policy forbids the loopback address in two ways: only the trial may use it.
  const config = { profile: 'small', egress: { policy: 'public', deny: ['127.0.0.0/8'] } };
  const daemon = await startDaemon({ console: true, scope: 'file', port: server, config });
  defaultPort.close();
  const dq = (...args: string[]) => runDq(args, { env: { DQ_DATA_DIR: daemon.dataDir } });
  const successorOf = (pid: number) =>
    until('another console has begun', () => {
      const next = daemon.workers().find(({ title }) => title === 'dq-console');
      return next !== undefined && next.pid !== pid && next.pid;
    });

  it('where the default port is taken, serves the console on another one, prints and records it', async () => {
    const url = await daemon.consoleUrl();
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect([8_088, server]).not.toContain(Number(new URL(url).port));
    await until('it is printed', () => daemon.output().includes(`\nconsole ${url}\n`));
    expect((await dq('status')).stderr).toContain(`console ${url} (not running: `);
    expect(daemon.workers().map(({ title }) => title)).not.toContain('dq-console');
    // Its bytes are there before the process is.
    const port = await consolePort(daemon);
    const replies = await Promise.all(Array.from({ length: 20 }, () => sendTo(port, 'GET', '/', {})));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    expect(daemon.workers().filter(({ title }) => title === 'dq-console')).toHaveLength(1);
    expect((await dq('status')).stderr).toContain(`console ${url}\n`);
    const halves = await sessionAt(port);
    expect(await statusOf(port, halves)).toBe(200);
    // The session is nothing on the port of the API.
    expect((await sendTo(server, 'POST', '/v1/session', {}, '{}')).status).toBe(404);
  });

  it('the trial is delivered under a policy that forbids its address, and ends with its console', async () => {
    const port = await consolePort(daemon);
    const halves = await sessionAt(port);
    const call = (method: string) => sendTo(port, method, '/v1/trial', halvesIn(halves));
    const topic = () => daemon.api('GET', '/v1/topics/trial.hello');
    const begun = await call('POST');
    expect(begun.json).toMatchObject({ trial: { topic: 'trial.hello', delay: '3s', request: null } });
    const received = await until('the request', async () => (await call('GET')).json.trial.request);
    expect(received).toMatchObject({
      method: 'POST',
      path: '/hello',
      body: '{"hello":"dq"}',
      attempt: 1,
      signature: 'ok',
      headers: expect.arrayContaining([{ name: 'dq-topic', value: 'trial.hello' }]),
    });
    expect(received.latenessMs).toBeGreaterThanOrEqual(0);
    // The same receiver for another topic, and another port for the topic of the trial.
    const { callbackUrl, id } = begun.json.trial;
    const other = await daemon.api('POST', '/v1/topics', { topic: 'other', callbackUrl });
    expect(other).toMatchObject({ status: 400, body: { code: 'invalid' } });
    const moved = await daemon.api('PATCH', '/v1/topics/trial.hello', { callbackUrl: 'http://127.0.0.1:1/' });
    expect(moved.status).toBe(400);
    // It runs again in the same topic.
    const second = (await call('POST')).json.trial;
    expect(second.callbackUrl).toBe(callbackUrl);
    expect(second.id).not.toBe(id);
    const removal = call('DELETE');
    await until('the console shows no trial', async () => (await call('GET')).json.trial === null);
    expect((await topic()).status).toBe(404);
    expect((await removal).json).toEqual({ deleted: true });
    expect((await daemon.api('GET', '/v1/jobs')).body.items).toEqual([]);
    await expect(fetch(callbackUrl)).rejects.toThrow();
    // That of a killed console is removed by the next one.
    expect((await call('POST')).status).toBe(201);
    process.kill(daemon.pidOf('dq-console'), 'SIGKILL');
    await until('the topic is removed', async () => (await topic()).status === 404);
    expect((await daemon.api('GET', '/v1/jobs')).body.items).toEqual([]);
    // A topic of the same name stays.
    const own = { topic: 'trial.hello', callbackUrl: 'https://example.org/hello' };
    await daemon.api('POST', '/v1/topics', own);
    await until('the console answers', () => answers(port));
    for (const method of ['POST', 'DELETE'])
      expect((await call(method)).json).toMatchObject({ status: 409, code: 'topic_exists' });
    expect((await topic()).body.callbackUrl).toBe(own.callbackUrl);
    await daemon.api('DELETE', '/v1/topics/trial.hello');
  });

  it('a killed console comes back at its address, which it never lost', async () => {
    const port = await consolePort(daemon);
    const halves = await sessionAt(port);
    const others = () => daemon.workers().filter(({ title }) => title !== 'dq-console');
    const before = others();
    const pid = daemon.pidOf('dq-console');
    // One is on its way to the process, and the others wait for that one.
    process.kill(pid, 'SIGSTOP');
    const waiting = Array.from({ length: 5 }, () => statusOf(port, halves));
    await until('the master has accepted them', () => acceptedAt(daemon.pid, port) === 5);
    process.kill(pid, 'SIGKILL');
    await successorOf(pid);
    expect(await Promise.all(waiting)).toEqual(Array(5).fill(200));
    expect(await statusOf(port, halves)).toBe(200);
    expect(others()).toEqual(before);
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
  });

  it('a console that gets SIGTERM answers all that it was given; the next connection starts another', async () => {
    const port = await consolePort(daemon);
    const halves = await sessionAt(port);
    const pid = daemon.pidOf('dq-console');
    process.kill(pid, 'SIGSTOP');
    const waiting = Array.from({ length: 5 }, () => statusOf(port, halves));
    await until('the master has accepted them', () => acceptedAt(daemon.pid, port) === 5);
    process.kill(pid, 'SIGTERM');
    process.kill(pid, 'SIGCONT');
    expect(await Promise.all(waiting)).toEqual(Array(5).fill(200));
    expect(await statusOf(port, halves)).toBe(200);
    await successorOf(pid);
    await until('the log says so', () =>
      daemon
        .log('notice')
        .some(({ message }) => String(message).startsWith('dq-console ends: it got SIGTERM;')),
    );
  });

  it('a reload keeps the console reachable at its address, and its sessions; a taken port rejects it', async () => {
    const port = await consolePort(daemon);
    const halves = await sessionAt(port);
    const old = daemon.pidOf('dq-console');
    const replies = await until('a reload whose console is ready in time', async () => {
      const before = endedConsoles(daemon);
      const reload = dq('reload');
      let done = false;
      void reload.finally(() => {
        done = true;
      });
      const all: unknown[] = [];
      await until('the reload has ended', async () => {
        all.push(await statusOf(port, halves).catch(String));
        return done;
      });
      expect((await reload).code).toBe(0);
      return endedConsoles(daemon) === before ? all : null;
    });
    expect(new Set(replies)).toEqual(new Set([200]));
    expect(replies.length).toBeGreaterThan(3);
    expect(await consolePort(daemon)).toBe(port);
    expect(daemon.pidOf('dq-console')).not.toBe(old);
    expect(await statusOf(port, halves)).toBe(200);
    const taken = await listening(createServer());
    const changed = stringify({ ...config, console: { port: taken } });
    writeFileSync(join(daemon.directory, 'dq.yaml'), changed);
    const rejected = await dq('reload');
    expect(rejected.code).toBe(1);
    expect(rejected.stderr).toContain(`port ${taken} is taken`);
    expect(await answers(port)).toBe(true);
  });

  // Last: a token exists from here on.
  it('dq console prints a link that signs in once; lists and ends sessions', async () => {
    const port = await consolePort(daemon);
    // Those of the tests before.
    expect((await dq('console', 'sign-out', '--all', '-y')).code).toBe(0);
    expect((await dq('token', 'add', 'me', '--scope', 'admin')).code).toBe(0);
    const rights = ['--scope', 'read', '--topic', 'order.*', '--name', 'li.wei'];
    const { code, stdout, stderr } = await dq('console', ...rights);
    expect(code, stderr).toBe(0);
    const [, base, link] = /^(\S+)\/#in=(dql_[\w-]{43})\n$/.exec(stdout) ?? [];
    expect(base).toBe(await daemon.consoleUrl());
    const halves = await sessionAt(port, { link });
    const me = (await sendTo(port, 'GET', '/v1/me', halvesIn(halves))).json;
    expect(me).toMatchObject({ name: 'li.wei', scopes: ['read'], topics: ['order.*'] });
    const again = await sendTo(port, 'POST', '/v1/session', json, JSON.stringify({ link }));
    expect(again.status).toBe(401);
    const sessions = await dq('console', 'sessions');
    expect(sessions.stdout).toMatch(
      /^ID +NAME .*\n[0-9a-f]{12} +li\.wei +read +order\.\* +link +127\.0\.0\.1 /,
    );
    const [id] = /^[0-9a-f]{12}/m.exec(sessions.stdout) ?? [];
    for (const [given, exit] of [
      [[], 2],
      [['0123456789ab'], 4],
      [[String(id)], 0],
    ] as const)
      expect((await dq('console', 'sign-out', ...given)).code, given.join()).toBe(exit);
    await until('the session has ended', async () => (await statusOf(port, halves)) === 401);
    const second = await sessionAt(port, { link: /dql_[\w-]+/.exec((await dq('console')).stdout)?.[0] });
    expect((await dq('console', 'sign-out', '--all', '-y')).code).toBe(0);
    await until('all have ended', async () => (await statusOf(port, second)) === 401);
    const ssh = await runDq(['console'], {
      env: { DQ_DATA_DIR: daemon.dataDir, SSH_CONNECTION: '10.0.0.9 50000 10.0.0.5 22' },
    });
    expect(ssh.stderr).toMatch(new RegExp(`ssh -L ${port}:127\\.0\\.0\\.1:${port} \\S*10\\.0\\.0\\.5\n$`));
    expect(daemon.output()).not.toMatch(/dql_|dqk_/);
    // A console that hangs does not hold the stop.
    process.kill(daemon.pidOf('dq-console'), 'SIGSTOP');
    expect(await daemon.stop()).toBe(0);
  });
});

describe('dq start', patience, () => {
  it('with console.enabled false there is none, and dq console says so', async () => {
    const daemon = await sharedDaemon();
    expect(daemon.workers().map(({ title }) => title)).not.toContain('dq-console');
    const run = await runDq(['console', '--data-dir', daemon.dataDir]);
    expect(run).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^dq: no console listens/),
    });
  });

  it('rejects with 78 a taken port that is set, and another host while no token exists', async () => {
    const places = temporaryDirectory();
    onTestFinished(places.remove);
    const at = ['start', '--port', '0', '--data-dir', places.path, '--log-dir', places.path];
    const port = await listening(createServer());
    for (const [args, message] of [
      [['--console-port', String(port)], `port ${port} is taken; choose another one with --console-port`],
      [
        ['--console-host', '0.0.0.0', '--no-auth'],
        'console.host: 0.0.0.0 can be reached from other machines',
      ],
    ] as const) {
      const run = await runDq([...at, ...args], { cwd: places.path });
      expect(run.code, message).toBe(78);
      expect(run.stderr).toContain(message);
    }
  });
});
