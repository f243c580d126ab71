// The console in a real daemon: its port, sign-in by the command line, crashes and reloads.
import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { stringify } from 'yaml';
import { freePorts } from '../../scripts/services/free-port.ts';
import { alteredDq } from '../support/altered-dq.ts';
import { type Halves, halvesIn, sendTo } from '../support/console.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

const patience = { timeout: 180_000 };

function urlIn({ dataDir }: Daemon): string | null {
  return JSON.parse(readFileSync(join(dataDir, 'run/dq.json'), 'utf8')).console;
}

const portIn = (daemon: Daemon): number => Number(new URL(urlIn(daemon) ?? '').port);

async function signIn(port: number, body: unknown = {}): Promise<Halves> {
  const { status, json, headers } = await sendTo(
    port,
    'POST',
    '/v1/session',
    { 'content-type': 'application/json' },
    JSON.stringify(body),
  );
  expect(status).toBe(200);
  return { cookie: String(headers['set-cookie']).split(';')[0] as string, key: json.key };
}

const statusOf = async (port: number, halves: Halves, path = '/v1/me') =>
  (await sendTo(port, 'GET', path, halvesIn(halves))).status;

/** A port that another program holds. */
async function takenPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

const runsOn = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });

describe('one daemon, in this order', patience, async () => {
  const daemon = await startDaemon({ console: true, scope: 'file' });

  it('serves the console on a port of its own, and prints and records its address', async () => {
    const url = await daemon.consoleUrl();
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(url).not.toBe(daemon.url);
    await until('it is printed', () => daemon.output().includes(`\nconsole ${url}\n`));
    expect((await runDq(['status', '--data-dir', daemon.dataDir])).stderr).toContain(`console ${url}\n`);
    expect(daemon.workers().map(({ title }) => title)).toContain('dq-console');
    const halves = await signIn(portIn(daemon));
    expect(await statusOf(portIn(daemon), halves)).toBe(200);
    // The session is nothing on the port of the API.
    const api = await sendTo(Number(new URL(daemon.url).port), 'POST', '/v1/session', {}, '{}');
    expect(api.status).toBe(404);
  });

  it('a killed console comes back at its address, and the daemon never ends', async () => {
    const port = portIn(daemon);
    const halves = await signIn(port);
    for (let n = 0; n < 3; n += 1) {
      const pid = daemon.pidOf('dq-console');
      process.kill(pid, 'SIGKILL');
      await until('another console answers', async () => {
        const next = daemon.workers().find(({ title }) => title === 'dq-console');
        if (next === undefined || next.pid === pid) return false;
        return (await statusOf(port, halves).catch(() => 0)) === 200;
      });
    }
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
  });

  it('a reload keeps the console reachable at its address, and its sessions', async () => {
    const port = portIn(daemon);
    const halves = await signIn(port);
    const old = daemon.pidOf('dq-console');
    let done = false;
    const answers: number[] = [];
    const polling = (async () => {
      while (!done) answers.push(await statusOf(port, halves));
    })();
    expect((await runDq(['reload', '--data-dir', daemon.dataDir])).code).toBe(0);
    done = true;
    await polling;
    expect(new Set(answers)).toEqual(new Set([200]));
    expect(answers.length).toBeGreaterThan(3);
    expect(portIn(daemon)).toBe(port);
    expect(daemon.pidOf('dq-console')).not.toBe(old);
    expect(await statusOf(port, halves)).toBe(200);
  });

  // Last: a token exists from here on.
  it('dq console prints a link that signs in once; lists and ends sessions', async () => {
    const dq = (...args: string[]) => runDq(args, { env: { DQ_DATA_DIR: daemon.dataDir } });
    // Those of the tests before.
    expect((await dq('console', 'sign-out', '--all', '-y')).code).toBe(0);
    expect((await dq('token', 'add', 'me', '--scope', 'admin')).code).toBe(0);
    const { code, stdout, stderr } = await dq(
      'console',
      '--scope',
      'read',
      '--topic',
      'order.*',
      '--name',
      'li.wei',
    );
    expect(code, stderr).toBe(0);
    const [, base, link] = /^(\S+)\/#in=(dql_[\w-]{43})\n$/.exec(stdout) ?? [];
    expect(base).toBe(urlIn(daemon));
    const port = portIn(daemon);
    const halves = await signIn(port, { link });
    const { json } = await sendTo(port, 'GET', '/v1/me', halvesIn(halves));
    expect(json).toMatchObject({ name: 'li.wei', scopes: ['read'], topics: ['order.*'] });
    const again = await sendTo(
      port,
      'POST',
      '/v1/session',
      { 'content-type': 'application/json' },
      JSON.stringify({ link }),
    );
    expect(again.status).toBe(401);
    const sessions = await dq('console', 'sessions');
    expect(sessions.stdout).toMatch(
      /^ID +NAME .*\n[0-9a-f]{12} +li\.wei +read +order\.\* +link +127\.0\.0\.1 /,
    );
    const [id] = /^[0-9a-f]{12}/m.exec(sessions.stdout) ?? [];
    expect((await dq('console', 'sign-out')).code).toBe(2);
    expect((await dq('console', 'sign-out', '0123456789ab')).code).toBe(4);
    expect((await dq('console', 'sign-out', String(id))).code).toBe(0);
    await until('the session has ended', async () => (await statusOf(port, halves)) === 401);
    const second = await signIn(port, { link: /dql_[\w-]+/.exec((await dq('console')).stdout)?.[0] });
    expect((await dq('console', 'sign-out', '--all', '-y')).code).toBe(0);
    await until('all have ended', async () => (await statusOf(port, second)) === 401);
    const ssh = await runDq(['console'], {
      env: { DQ_DATA_DIR: daemon.dataDir, SSH_CONNECTION: '10.0.0.9 50000 10.0.0.5 22' },
    });
    expect(ssh.stderr).toMatch(new RegExp(`ssh -L ${port}:127\\.0\\.0\\.1:${port} \\S*10\\.0\\.0\\.5\n$`));
    const restarted = daemon.output();
    expect(restarted).not.toMatch(/dql_|dqk_/);
    expect(await daemon.stop()).toBe(0);
  });
});

describe('dq start', patience, () => {
  it('with console.enabled false there is none, and dq console says so', async () => {
    const daemon = await startDaemon({ args: ['--no-console'], console: true });
    expect(urlIn(daemon)).toBeNull();
    expect(daemon.workers().map(({ title }) => title)).not.toContain('dq-console');
    expect(daemon.output()).not.toContain('console');
    const run = await runDq(['console', '--data-dir', daemon.dataDir]);
    expect(run).toMatchObject({ code: 1, stdout: '' });
    expect(run.stderr).toMatch(/^dq: no console listens/);
  });

  it('a taken port that is set rejects the start with 78', async () => {
    const places = temporaryDirectory();
    onTestFinished(places.remove);
    const port = await takenPort();
    const run = await runDq(
      [
        'start',
        '--port',
        '0',
        '--console-port',
        String(port),
        '--data-dir',
        places.path,
        '--log-dir',
        places.path,
      ],
      { cwd: places.path },
    );
    expect(run.code).toBe(78);
    expect(run.stderr).toContain(`port ${port} is taken; choose another one with --console-port`);
  });

  it('a taken port that is the default makes the console listen on another one, and prints it', async () => {
    // Another program may hold it already.
    const holder = createServer().on('error', () => {});
    holder.listen(8_088, '127.0.0.1');
    await until('the port is taken', () => holder.listening || runsOn(8_088));
    onTestFinished(() => void holder.close());
    const [server = 0] = await freePorts(1);
    const daemon = await startDaemon({ console: true, port: server });
    const url = await daemon.consoleUrl();
    expect([8_088, server]).not.toContain(Number(new URL(url).port));
    await until('it is printed', () => daemon.output().includes(`\nconsole ${url}\n`));
    expect((await sendTo(portIn(daemon), 'GET', '/livez', {})).status).toBe(200);
  });

  it('another console.host rejects the start with 78 while no token exists, with --no-auth too', async () => {
    const places = temporaryDirectory();
    onTestFinished(places.remove);
    const run = await runDq(
      [
        ...['start', '--port', '0', '--console-host', '0.0.0.0', '--no-auth'],
        ...['--data-dir', places.path, '--log-dir', places.path],
      ],
      { cwd: places.path },
    );
    expect(run.code).toBe(78);
    expect(run.stderr).toMatch(/console\.host: 0\.0\.0\.0 can be reached from other machines/);
  });
});

describe('reload', patience, () => {
  it('a console.port that is taken rejects the reload; nothing changes', async () => {
    const directory = temporaryDirectory();
    onTestFinished(directory.remove);
    const config = (port: number) => ({ console: { port } });
    const daemon = await startDaemon({ console: true, config: config(0), directory: directory.path });
    const port = portIn(daemon);
    const taken = await takenPort();
    writeFileSync(join(directory.path, 'dq.yaml'), stringify(config(taken)));
    const run = await runDq(['reload', '--data-dir', daemon.dataDir]);
    expect(run.code).toBe(1);
    expect(run.stderr).toContain(`port ${taken} is taken`);
    expect((await sendTo(port, 'GET', '/livez', {})).status).toBe(200);
  });
});

describe('a console that fails', patience, () => {
  it('from the start on: the daemon starts without it, reloads without it, and gets it when it works', async () => {
    const altered = alteredDq();
    altered.breakDown('dq-console');
    const daemon = await startDaemon({ console: true, launcher: altered.launcher });
    expect(urlIn(daemon)).toBeNull();
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
    expect((await runDq(['reload', '--data-dir', daemon.dataDir])).code).toBe(0);
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
    altered.mend('dq-console');
    const url = await until('it is recorded', () => urlIn(daemon) ?? undefined);
    expect((await sendTo(Number(new URL(url).port), 'GET', '/livez', {})).status).toBe(200);
    expect(await daemon.stop()).toBe(0);
  });

  it('that hangs holds neither the start nor a reload', async () => {
    const altered = alteredDq();
    altered.hang('dq-console');
    const daemon = await startDaemon({ console: true, launcher: altered.launcher });
    expect(urlIn(daemon)).toBeNull();
    expect((await runDq(['reload', '--data-dir', daemon.dataDir])).code).toBe(0);
    expect((await daemon.api('GET', '/livez')).status).toBe(200);
  });
});
