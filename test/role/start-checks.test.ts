// Tests the checks that a start and a restart make before they change anything.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { freePorts } from '../../scripts/services/free-port.ts';
import { startRedis } from '../../scripts/services/redis.ts';
import { whyNotStart } from '../../src/cli/start/start-checks.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/options.ts';
import { allRights, makeToken } from '../../src/core/token.ts';
import { ControlSocket } from '../../src/master/control/control-socket.ts';
import { DataDirectory } from '../../src/master/data/data-directory.ts';
import type { Listening } from '../../src/master/main.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import { closeStoreFile, openStoreFile } from '../../src/store/sqlite/file/store-file.ts';
import { testDirectory } from '../support/directory.ts';
import { listening } from '../support/listening.ts';
import { lacks, owned } from '../support/services.ts';

let root = '';
beforeEach(() => {
  root = testDirectory();
});

function why(
  dataDir: string,
  flags: Readonly<Record<string, unknown>> = {},
  listening: Listening | null = null,
  pidFile: string | null = null,
): Promise<string | null> {
  const loaded = loadConfig({
    flags: { dataDir, 'server.port': '0', ...flags },
    env: {},
    cwd: root,
  });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const config: Config = loaded.config;
  return whyNotStart({ config, pidFile, running: 1, listening });
}

it('start checks: accept a usable directory, and create nothing', async () => {
  expect(await why(join(root, 'a/b/c'))).toBeNull();
  mkdirSync(join(root, 'data'));
  expect(await why(join(root, 'data'))).toBeNull();
});

it('start checks: name a file or a read-only place as data directory', async () => {
  writeFileSync(join(root, 'file'), '');
  expect(await why(join(root, 'file'))).toMatch(/^cannot use the data directory .*file: it is a file$/);
  expect(await why('/proc/1/dq')).toMatch(/^cannot create the data directory \/proc\/1\/dq: E/);
});

it('start checks: name a pid file that cannot be written', async () => {
  const pidFile = join(root, 'pids/dq.pid');
  const ofPidFile = () => why(join(root, 'data'), {}, null, pidFile);
  expect(await ofPidFile()).toMatch(/^cannot write the pid file \S+\/pids\/dq\.pid: ENOENT/);
  mkdirSync(join(root, 'pids'));
  expect(await ofPidFile()).toBeNull();
});

it('start checks: name a missing and a different key file', async () => {
  const key = join(root, 'data/secret.key');
  mkdirSync(join(root, 'data'));
  await (await openRegistryDb(join(root, 'data/registry.db'))).close();
  rmSync(key);
  expect(await why(join(root, 'data'))).toMatch(/^the key file \S+secret\.key is missing/);
  writeFileSync(key, `v1:${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 });
  expect(await why(join(root, 'data'))).toMatch(/^the key file \S+ does not fit/);
});

it('start checks: a data directory of another daemon is in use', async () => {
  const data = await DataDirectory.open(join(root, 'data'));
  onTestFinished(() => data.close());
  const control = new ControlSocket({ url: () => null } as never);
  onTestFinished(() => control.close());
  await control.listen(data.controlSocket);
  expect(await why(join(root, 'data'))).toBe(
    `the data directory ${join(root, 'data')} is in use: already running (pid ${process.pid})`,
  );
});

it('start checks: an address of other machines needs a token', async () => {
  const dataDir = join(root, 'data');
  const flags = { 'server.host': '0.0.0.0' };
  const sentence = /^server\.host: 0\.0\.0\.0 can be reached from other machines and no access token exists/;
  expect(await why(dataDir, flags)).toMatch(sentence);
  expect(await why(dataDir, { ...flags, noAuth: true })).toBeNull();
  mkdirSync(dataDir);
  const registry = await openRegistryDb(join(dataDir, 'registry.db'));
  onTestFinished(() => registry.close());
  expect(await why(dataDir, flags)).toMatch(sentence);
  await registry.createToken({
    ...makeToken(),
    ...allRights,
    ...{ name: 'ops', createdAt: 0, expiresAt: null, usedAt: null },
  });
  expect(await why(dataDir, flags)).toBeNull();
});

it('start checks: accept an unavailable MySQL, for which a start does not wait', async () => {
  expect(await why(join(root, 'data'), { 'mysql.url': 'mysql://u:p@127.0.0.1:1/dq' })).toBeNull();
});

it('start checks: name a foreign jobs.db and a newer layout', async () => {
  const path = join(root, 'data/jobs.db');
  mkdirSync(join(root, 'data'));
  closeStoreFile(openStoreFile(path).db);
  await (await openRegistryDb(join(root, 'data/registry.db'))).close();
  expect(await why(join(root, 'data'))).toBeNull();
  const bytes = readFileSync(path);
  bytes.writeUInt32BE(99, 60);
  writeFileSync(path, bytes);
  expect(await why(join(root, 'data'))).toMatch(/jobs\.db has layout 99, this dq knows \d+/);
  writeFileSync(path, 'text');
  expect(await why(join(root, 'data'))).toBe(`${path} is not a SQLite file`);
});

it('start checks: name a missing, an empty and a damaged registry.db', async () => {
  const path = join(root, 'data/registry.db');
  mkdirSync(join(root, 'data'));
  await (await openRegistryDb(path)).close();
  closeStoreFile(openStoreFile(join(root, 'data/jobs.db')).db);
  const bytes = readFileSync(path);
  rmSync(path);
  expect(await why(join(root, 'data'))).toMatch(/^the registry .*registry\.db is missing; put it back/);
  writeFileSync(path, '');
  expect(await why(join(root, 'data'))).toMatch(/^the registry .*registry\.db is damaged \(it is empty\)/);
  writeFileSync(path, bytes.fill(0xa5, bytes.length / 2));
  expect(await why(join(root, 'data'))).toMatch(/^the registry .*registry\.db is damaged \(.+\); restore/);
});

describe('start checks: the port', () => {
  const listenOn = async (host: string, port = 0): Promise<number> => {
    const server: Server = createServer();
    onTestFinished(() => void server.close());
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port, exclusive: true }, resolve);
    });
    return (server.address() as AddressInfo).port;
  };
  const on = (host: string, port: number, own: Listening | null) =>
    why(join(root, 'data'), { 'server.host': host, 'server.port': String(port), noAuth: true }, own);
  const taken = (port: number, host: string) =>
    `another program uses port ${port} on ${host}; choose a port with --port`;

  it('of the running daemon passes, on its own address and on all', async () => {
    const port = await listenOn('127.0.0.1');
    const own = { host: '127.0.0.1', port };
    for (const host of ['127.0.0.1', 'localhost', '0.0.0.0']) expect(await on(host, port, own)).toBeNull();
    const all = await listenOn('0.0.0.0');
    expect(await on('127.0.0.1', all, { host: '0.0.0.0', port: all })).toBeNull();
    // Of a master that does not report its address.
    expect(await on('127.0.0.1', port, null)).toBeNull();
  });

  it('an address of another machine is rejected', async () => {
    const [port = 0] = await freePorts(1);
    expect(await on('192.0.2.1', port, null)).toMatch(/^cannot listen on 192\.0\.2\.1:\d+: .*EADDRNOTAVAIL/);
  });

  it('the port of another program is rejected, also on another address', async () => {
    const port = await listenOn('127.0.0.1');
    const [free = 0] = await freePorts(1);
    expect(await on('127.0.0.1', port, { host: '127.0.0.1', port: free })).toBe(taken(port, '127.0.0.1'));
    const own = { host: '127.0.0.1', port };
    await listenOn('127.0.0.2', port);
    expect(await on('127.0.0.2', port, own)).toBe(taken(port, '127.0.0.2'));
    // Under a wildcard: another address of this machine.
    const others = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    const other =
      others.find(({ address, family }) => family === 'IPv4' && !address.startsWith('127.')) ??
      others.find(({ address }) => address === '::1');
    if (other === undefined) throw new Error('this machine has one address only');
    await listenOn(other.address, port);
    const wildcard = other.family === 'IPv4' ? '0.0.0.0' : '::';
    expect(await on(wildcard, port, own)).toBe(taken(port, other.address));
  });
});

describe.skipIf(await lacks('redis'))('start checks: Redis', () => {
  const marker = (registry: string) => `dq 1 shard 00000000000000aa registry ${registry} buckets 1`;

  it('of another registry is named; one without a marker, of this registry or unavailable passes', async () => {
    const dataDir = join(root, 'data');
    mkdirSync(dataDir);
    const server = await owned('test', startRedis());
    const redis = server.url;
    expect(await why(dataDir, { redis })).toBeNull();
    await server.ask('HSET', '{dq:0}:n', 'marker', marker('0123456789abcdef'));
    const sentence = `redis://127.0.0.1:${server.port}: this Redis is not ours: it belongs to the registry 0123456789abcdef`;
    expect(await why(dataDir, { redis })).toContain(`${sentence}, and this one is new`);
    const registry = await openRegistryDb(join(dataDir, 'registry.db'));
    onTestFinished(() => registry.close());
    const id = await registry.id();
    expect(await why(dataDir, { redis })).toContain(`${sentence}, and this one is ${id}`);
    await server.ask('HSET', '{dq:0}:n', 'marker', marker(id));
    expect(await why(dataDir, { redis })).toBeNull();
    // A listed shard counts, not the configuration, and its id too.
    await registry.writeShards(
      {
        number: 1,
        earlier: [],
        shards: [{ id: 'bb', url: redis, buckets: 1, active: true, settled: 0, addedAt: 0 }],
      },
      0,
    );
    const unavailable = 'redis://127.0.0.1:1';
    expect(await why(dataDir, { redis: unavailable })).toContain('it is shard 00000000000000aa, not bb');
    await server.stop();
    expect(await why(dataDir, { redis: unavailable })).toBeNull();
  });
});

it('start checks: the console needs its port if it is set, and a token for an address of other machines', async () => {
  const port = await listening(createServer());
  const flags = { 'console.port': String(port) };
  const running = { host: '127.0.0.1', port: 1 };
  const place = { host: '127.0.0.1', port };
  const dataDir = join(root, 'data');
  expect(await why(dataDir, flags, { ...running, console: place })).toBeNull();
  expect(await why(dataDir, flags, { ...running, console: { host: '127.0.0.1', port: 2 } })).toBe(
    `another program uses port ${port} on 127.0.0.1; choose a port with --console-port`,
  );
  expect(
    await why(dataDir, { ...flags, 'console.enabled': false }, { ...running, console: place }),
  ).toBeNull();
  expect(await why(dataDir, { 'console.host': '0.0.0.0', noAuth: true })).toMatch(
    /^console\.host: 0\.0\.0\.0 can be reached from other machines and no access token exists/,
  );
});

it('start checks: ports that the running daemon frees pass, for whichever listener', async () => {
  const [one, two] = [await listening(createServer()), await listening(createServer())];
  const host = '127.0.0.1';
  const dataDir = join(root, 'data');
  const flags = { 'server.port': String(two), 'compat.php.port': String(one) };
  const running = { host, port: one };
  expect(await why(dataDir, flags, { ...running, compat: [{ host, port: two }] })).toBeNull();
  expect(await why(dataDir, flags, { ...running, console: { host, port: two } })).toBeNull();
  expect(await why(dataDir, flags, { ...running, port: 1, compat: [{ host, port: two }] })).toBe(
    `another program uses port ${one} on ${host}; choose a port with --tcp-port`,
  );
});
