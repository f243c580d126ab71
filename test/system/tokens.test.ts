// Tests access tokens in a real daemon: its commands create and remove them, and they are in force in all
// servers.
import { once } from 'node:events';
import { chownSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { type Daemon, openFilesOf, startDaemon } from '../support/daemon.ts';
import { filesUnder } from '../support/directory.ts';
import { commandsOf, runDq, runDqProcess } from '../support/run-dq.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

// No machine has this address: an accepted start fails at listening, so no test listens to others.
const start = (dataDir: string, ...args: string[]) =>
  runDq(['start', '--port', '0', '--host', '192.0.2.1', '--data-dir', dataDir, ...args], {
    cwd: join(dataDir, '..'),
  });
const notOurs = {
  code: 1,
  stderr: expect.stringMatching(/^dq: 192\.0\.2\.1 is not an address of this machine/),
};

/** The statuses of each server for GET /v1/topics. The kernel chooses the server of a connection, so the
 *  test finds it before sending: a rejected connection is closed. */
async function statusesOf(daemon: Daemon, servers: number, token?: string): Promise<number[]> {
  const lines = new Map<string, Socket>();
  const opened: Socket[] = [];
  try {
    while (lines.size < servers) {
      const socket = connect(Number(new URL(daemon.url).port), '127.0.0.1');
      opened.push(socket);
      await once(socket, 'connect');
      const title = await until('a server has accepted it', () => serverOf(daemon, socket.localPort ?? 0));
      lines.set(title, socket);
    }
    return await Promise.all([...lines.values()].map((socket) => ask(socket, token)));
  } finally {
    for (const socket of opened) socket.destroy();
  }
}

async function ask(socket: Socket, token?: string): Promise<number> {
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  const authorization = token === undefined ? '' : `authorization: Bearer ${token}\r\n`;
  socket.write(`GET /v1/topics HTTP/1.1\r\nhost: 127.0.0.1\r\n${authorization}connection: close\r\n\r\n`);
  await once(socket, 'close');
  return Number(text.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length));
}

/** The server at the other end of a connection from `port`. */
function serverOf(daemon: Daemon, port: number): string | undefined {
  const hex = (n: number) => `:${n.toString(16).toUpperCase().padStart(4, '0')}`;
  const [here, there] = [hex(Number(new URL(daemon.url).port)), hex(port)];
  const sockets = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, remote]) => local?.endsWith(here) && remote?.endsWith(there))
    .map((fields) => `socket:[${fields[9]}]`);
  const servers = daemon.workers().filter(({ title }) => title.startsWith('dq-server'));
  return servers.find(({ pid }) => openFilesOf(pid).some((path) => sockets.includes(path)))?.title;
}

it('tokens: made without a daemon, they allow a start for other machines; in force in all servers', async () => {
  const directory = temporaryDirectory();
  onTestFinished(directory.remove);
  const dataDir = join(directory.path, 'data');
  // A process, because it becomes the owner of the directory.
  const add = (name: string, ...args: string[]) =>
    runDqProcess(['token', 'add', name, '--data-dir', dataDir, ...args], { cwd: directory.path });
  expect((await add('me')).stderr).toContain('the directory does not exist');
  expect(await start(dataDir)).toMatchObject({
    code: 78,
    stderr: `dq: server.host: 192.0.2.1 can be reached from other machines and no access token exists; make one while dq is stopped (dq token add me --scope admin --data-dir ${dataDir}), or add --no-auth to accept requests without a token\n`,
  });
  const logs = ['--log-dir', join(directory.path, 'elsewhere')];
  expect(await start(dataDir, '--no-auth', ...logs)).toMatchObject(notOurs);
  // As in a directory that a service manager made for its own user.
  const owner = process.getuid?.() === 0 ? 65_534 : process.getuid?.();
  const files = () => readdirSync(dataDir, { recursive: true }).map((name) => join(dataDir, String(name)));
  for (const path of [directory.path, dataDir, ...files()]) chownSync(path, owner ?? 0, owner ?? 0);
  for (const [args, says] of [
    [['a b'], 'name: must be'],
    [['me', '--scope', 'write'], '--scope: must be some of push, pull, read, operate, admin'],
    [['me', '--topic', 'a b'], '--topic: must be'],
  ] as const) {
    const [name, ...rest] = args;
    expect(await add(name, ...rest)).toMatchObject({ code: 2, stderr: expect.stringContaining(says) });
  }
  const made = await add('me', '--scope', 'admin,read');
  expect(made).toMatchObject({
    ...{ code: 0, stdout: expect.stringMatching(/^dqk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}\n$/) },
    stderr:
      'dq: no daemon is running; token me with the scopes admin,read, shown only once, valid from the next start:\n',
  });
  expect(await add('me')).toMatchObject({
    ...{ code: 1, stderr: 'dq: name: the token me exists; choose another name or remove it\n' },
  });
  for (const path of files()) expect(statSync(path).uid, path).toBe(owner);
  expect(await start(dataDir)).toMatchObject(notOurs);

  const daemon = await startDaemon({ dataDir, args: ['--servers', '2'], console: true });
  await until('it says how to sign in', () =>
    /^console http:\S+ \(sign in: dq console\)$/m.test(daemon.output()),
  );
  const dq = commandsOf(daemon);
  const admin = made.stdout.trim();
  const everywhere = (status: number, token?: string) =>
    until(`${status} from both servers`, async () =>
      (await statusesOf(daemon, 2, token)).every((one) => one === status),
    );
  await everywhere(401);
  await everywhere(200, admin);
  await everywhere(401, `${admin.slice(0, -1)}-`);
  const token = (await dq(['token', 'add', 'shop', '--topic', 'order.*', '--topic', 'bill.*'])).stdout.trim();
  await everywhere(200, token);

  const [head, ...rows] = (await dq(['token', 'ls'])).stdout.trimEnd().split('\n');
  expect(head).toMatch(/^NAME +BEGINS WITH +SCOPES +TOPICS +CREATED AT +LAST USED AT +EXPIRES AT$/);
  expect(rows[0]).toMatch(/^me +dqk_[0-9a-f]{12}_ +admin,read +\* +\d{4}-/);
  expect(rows[1]?.split(/ +/).slice(0, 4)).toEqual([
    ...['shop', token.slice(0, 17), 'push,read', 'order.*,bill.*'],
  ]);
  expect(rows).toHaveLength(2);

  const far = (args: readonly string[], env: Record<string, string> = {}) =>
    runDq([...args, '--url', daemon.url], { env });
  expect(await far(['topic', 'ls'])).toMatchObject({
    code: 1,
    stderr: 'dq: authorization: is required; send Authorization: Bearer dqk_… (give --token or DQ_TOKEN)\n',
  });
  const callback = ['--callback', 'http://127.0.0.1:9/', '--delay', '1h'];
  for (const topic of ['order.close', 'other'])
    expect((await far(['topic', 'add', topic, ...callback], { DQ_TOKEN: admin })).code).toBe(0);
  expect((await far(['push', 'order.close', '{}', '--token', token])).code).toBe(0);
  expect(await far(['push', 'other', '{}', '--token', token])).toMatchObject({
    ...{ code: 1, stderr: 'dq: token: does not cover the topic "other"; use one that does\n' },
  });
  expect(await far(['topic', 'pause', 'order.close', '--token', token])).toMatchObject({
    ...{ code: 1, stderr: 'dq: token: lacks the scope operate; use one that has it\n' },
  });

  expect((await dq(['token', 'rm', 'shop'])).stderr).toMatch(/-y agrees/);
  expect((await dq(['token', 'rm', 'shop', '-y'])).code).toBe(0);
  expect((await dq(['token', 'rm', 'shop', '-y'])).code).toBe(4);
  await everywhere(401, token);
  expect((await dq(['token', 'rm', 'me', '-y'])).code).toBe(0);
  await everywhere(200);

  const warning = 'dq: warning: it is the first token: from now on dq rejects every call';
  expect((await dq(['token', 'add', 'first'])).stderr).toContain(warning);
  expect((await dq(['token', 'add', 'second'])).stderr).not.toContain('warning');

  for (const { path, text } of filesUnder(daemon.dataDir, daemon.logDir))
    for (const secret of [token, admin]) expect(text.includes(secret.slice(17)), path).toBe(false);
});
