// A start on damaged or foreign files fails with one sentence and exit code 1, and changes no byte of them.

import { createHash } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { askAndForget, openDatabase } from '../../src/runtime/database.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic, forAll, numbers } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, owned } from '../support/services.ts';
import { type Sink, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

/** Data directories to copy: of a stopped daemon, and of one whose processes were all killed. */
let originals: string;
const stopped = () => join(originals, 'stopped');
const killed = () => join(originals, 'killed');

beforeAll(() => {
  originals = mkdtempSync(join(tmpdir(), 'dq-torn-'));
});
afterAll(() => rmSync(originals, { recursive: true, force: true }));

it('setup: a store with jobs', async () => {
  const daemon = await startDaemon();
  await addTopic(daemon, 't', 'http://127.0.0.1:9/');
  await forAll(numbers(50), async (n) => {
    const reply = await daemon.push(
      't',
      Buffer.alloc(2_000, 1),
      { id: String(n), delay: 3_600_000 },
      'text/plain',
    );
    expect(reply).toMatchObject({ status: 201 });
  });
  // SIGSTOP stops all writes: a copy then equals the files after a kill of all processes.
  for (const { pid } of daemon.workers()) process.kill(pid, 'SIGSTOP');
  cpSync(daemon.dataDir, killed(), { recursive: true, filter: (path) => !path.includes('/run') });
  for (const { pid } of daemon.workers()) process.kill(pid, 'SIGCONT');
  expect(await daemon.stop()).toBe(0);
  cpSync(daemon.dataDir, stopped(), { recursive: true, filter: (path) => !path.includes('/run') });
  expect(existsSync(join(killed(), 'jobs.db-wal'))).toBe(true);
  expect(existsSync(join(stopped(), 'jobs.db-wal'))).toBe(false);
});

function copyOf(original: string): string {
  const root = mkdtempSync(join(tmpdir(), 'dq-torn-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const data = join(root, 'data');
  cpSync(original, data, { recursive: true });
  return data;
}

/** Header fields that opening in WAL mode and closing change: the mode, and the counters of changes. */
const ofOpening = [
  [18, 20],
  [24, 28],
  [92, 100],
] as const;

function bytesOf(path: string): Buffer {
  const bytes = readFileSync(path);
  // A start opens an intact registry before it rejects jobs.db.
  if (path.endsWith('registry.db')) for (const [from, to] of ofOpening) bytes.subarray(from, to).fill(0);
  return bytes;
}

/** Files of the store and the registry. An index of a WAL (-shm) is only memory; an empty WAL holds
 *  nothing. */
function contents(data: string): Record<string, string> {
  const names = readdirSync(data).filter(
    (name) =>
      /^(jobs|registry)\.db/.test(name) &&
      !name.endsWith('-shm') &&
      !(name.endsWith('-wal') && statSync(join(data, name)).size === 0),
  );
  return Object.fromEntries(
    names.map((name) => [
      name,
      createHash('sha256')
        .update(bytesOf(join(data, name)))
        .digest('hex'),
    ]),
  );
}

async function expectRefused(data: string, sentence: RegExp): Promise<void> {
  const before = contents(data);
  const run = await runDq(['start', '--port', '0', '--data-dir', data, '--log-dir', join(data, 'logs')]);
  expect(run.stderr).toMatch(sentence);
  expect(run.stderr.trimEnd().split('\n')).toHaveLength(1);
  expect(run).toMatchObject({ code: 1, stdout: '' });
  expect(contents(data)).toEqual(before);
}

const noise = (bytes: number) => Buffer.alloc(bytes, 'no database ');
const foreign = (path: string) => {
  const db = openDatabase(path);
  db.exec('CREATE TABLE foreign_table(n INTEGER PRIMARY KEY)');
  db.close();
};

interface Torn {
  readonly what: string;
  readonly of: () => string;
  readonly tear: (data: string) => void;
  readonly sentence: RegExp;
}

const cases: readonly Torn[] = [
  {
    what: 'jobs.db cut off',
    of: stopped,
    tear: (data) => truncateSync(join(data, 'jobs.db'), 40_000),
    sentence: /^dq: .*jobs\.db is damaged \(40000 of \d+ bytes\) and stays unchanged: restore a backup/,
  },
  {
    what: 'jobs.db of random bytes',
    of: stopped,
    tear: (data) => writeFileSync(join(data, 'jobs.db'), noise(70_000)),
    sentence: /^dq: .*jobs\.db is not a SQLite file/,
  },
  {
    what: 'an empty jobs.db',
    of: stopped,
    tear: (data) => writeFileSync(join(data, 'jobs.db'), ''),
    sentence: /^dq: .*jobs\.db is not a SQLite file/,
  },
  {
    what: "another program's jobs.db",
    of: stopped,
    tear: (data) => {
      rmSync(join(data, 'jobs.db'));
      foreign(join(data, 'jobs.db'));
    },
    sentence: /^dq: .*jobs\.db is not a dq job store/,
  },
  {
    what: 'jobs.db of a newer dq',
    of: stopped,
    tear: (data) => {
      const db = openDatabase(join(data, 'jobs.db'));
      db.exec('PRAGMA user_version = 900');
      db.close();
    },
    sentence: /^dq: .*jobs\.db has layout 900, this dq knows \d+: use the dq that wrote it/,
  },
  {
    what: 'jobs.db that lost its log',
    of: killed,
    tear: (data) => rmSync(join(data, 'jobs.db-wal')),
    sentence: /^dq: .*jobs\.db was not closed, and .*-wal is missing: restore it, or remove/,
  },
  {
    what: 'a log that lost its jobs.db',
    of: killed,
    tear: (data) => rmSync(join(data, 'jobs.db')),
    sentence: /^dq: .*jobs\.db is missing, but .*-wal exists/,
  },
  {
    what: 'a foreign log beside jobs.db',
    of: stopped,
    tear: (data) => copyFileSync(join(killed(), 'jobs.db-wal'), join(data, 'jobs.db-wal')),
    sentence: /^dq: .*jobs\.db was closed, but .*-wal belongs to another file/,
  },
  {
    what: 'jobs.db with damaged pages after a power cut',
    of: killed,
    tear: (data) => {
      const bytes = readFileSync(join(data, 'jobs.db'));
      writeFileSync(join(data, 'jobs.db'), bytes.fill(0xa5, 2 * 4_096, bytes.length));
      writeFileSync(join(data, 'jobs.db.boot'), 'the boot before\n');
    },
    sentence: /^dq: .*jobs\.db is damaged \(.*\) and stays unchanged/,
  },
  {
    what: 'registry.db cut off',
    of: stopped,
    tear: (data) => truncateSync(join(data, 'registry.db'), 9_000),
    sentence: /^dq: the registry .*registry\.db is damaged \(.*\); restore it from a backup/,
  },
  {
    what: 'registry.db of random bytes',
    of: stopped,
    tear: (data) => {
      rmSync(join(data, 'registry.db-wal'), { force: true });
      writeFileSync(join(data, 'registry.db'), noise(70_000));
    },
    sentence: /^dq: the registry .*registry\.db is damaged \(file is not a database\)/,
  },
  {
    what: 'an empty registry.db beside jobs',
    of: stopped,
    tear: (data) => {
      rmSync(join(data, 'registry.db-wal'), { force: true });
      writeFileSync(join(data, 'registry.db'), '');
    },
    sentence: /^dq: the registry .*registry\.db is damaged \(it is empty\); restore it from a backup/,
  },
  {
    what: 'jobs without their registry.db',
    of: stopped,
    tear: (data) => rmSync(join(data, 'registry.db')),
    sentence: /^dq: the registry .*registry\.db is missing; put it back, or restore it from a backup/,
  },
  {
    what: 'a log that lost its registry.db',
    of: killed,
    tear: (data) => rmSync(join(data, 'registry.db')),
    sentence: /^dq: the registry .*registry\.db is missing; put it back, or restore it from a backup/,
  },
  {
    what: 'a foreign log beside registry.db',
    of: stopped,
    tear: (data) => copyFileSync(join(killed(), 'registry.db-wal'), join(data, 'registry.db-wal')),
    sentence: /^dq: the registry .*registry\.db was closed, but .*registry\.db-wal belongs to another file/,
  },
  {
    what: "another program's registry.db",
    of: stopped,
    tear: (data) => {
      for (const end of ['', '-wal', '-shm']) rmSync(join(data, `registry.db${end}`), { force: true });
      foreign(join(data, 'registry.db'));
    },
    sentence: /^dq: the registry .*registry\.db is not a dq schema: it has tables/,
  },
];

describe('dq start fails on', () => {
  it.each(cases)('$what', async ({ of, tear, sentence }) => {
    const data = copyOf(of());
    tear(data);
    await expectRefused(data, sentence);
  });
});

describe('dq start continues', () => {
  it('with the files of killed processes', async () => {
    const data = copyOf(killed());
    const daemon = await startDaemon({ directory: join(data, '..') });
    expect((await daemon.api('GET', '/v1/stats')).body.states).toMatchObject({ delayed: 50 });
  });

  it('with an empty registry of the script beside jobs: they wait for their topic', async () => {
    const data = copyOf(stopped());
    const path = join(data, 'registry.db');
    rmSync(path);
    const registry = openDatabase(path);
    registry.exec(readFileSync(resolve(import.meta.dirname, '../../sql/sqlite/registry.sql'), 'utf8'));
    registry.close();
    const daemon = await startDaemon({ directory: join(data, '..') });
    expect((await daemon.api('GET', '/v1/topics')).body.items).toEqual([]);
    expect((await daemon.api('GET', '/v1/stats')).body.states).toMatchObject({ delayed: 50 });
    await addTopic(daemon, 't', 'http://127.0.0.1:1/');
    expect((await daemon.api('GET', '/v1/topics')).body.items).toHaveLength(1);
  });
});

/** Damages the later half of the pages that hold bodies: a start reads none of them. */
function damageBodies(path: string): void {
  const bytes = readFileSync(path);
  const body = Buffer.alloc(200, 1);
  const pages = numbers(bytes.length / 4_096).map((n) => n * 4_096);
  const ofBodies = pages.filter((at) => bytes.subarray(at, at + 4_096).includes(body));
  for (const at of ofBodies.slice(ofBodies.length / 2)) bytes.fill(0xa5, at, at + 4_096);
  writeFileSync(path, bytes);
}

describe('a damaged page that dq-store meets while it runs', () => {
  it('is a state with its remedy; the repaired file works after dq restart', async () => {
    const data = copyOf(stopped());
    const path = join(data, 'jobs.db');
    const whole = readFileSync(path);
    damageBodies(path);
    const daemon = await startDaemon({ directory: join(data, '..') });
    const restarts = async () => {
      const { stdout } = await runDq(['status', '--json', '--data-dir', data]);
      const { processes } = JSON.parse(stdout) as { processes: { title: string; restarts: number }[] };
      return processes.find(({ title }) => title === 'dq-store')?.restarts;
    };
    await forAll(numbers(50), (n) => daemon.api('POST', `/v1/topics/t/jobs/${n}/run`));
    const unready = await until('the damage to be named', async () => {
      const reply = await daemon.api('GET', '/readyz');
      return String(reply.body.detail).includes('is damaged') ? reply : null;
    });
    expect(unready).toMatchObject({ status: 503, body: { check: 'store' } });
    expect(unready.body.detail).toMatch(
      /^store: .*jobs\.db is damaged \(.+\) and stays unchanged: restore a backup/,
    );
    // One death, after which the whole file was checked; more of them would find the same.
    expect(await restarts()).toBe(1);
    const pid = daemon.pidOf('dq-store');
    for (const id of ['new1', 'new2', 'new3']) {
      const push = await daemon.push('t', Buffer.from('x'), { id }, 'text/plain');
      expect(push).toMatchObject({ status: 503, body: { code: 'not_stored' } });
      expect(push.body.detail).toMatch(/store_damaged.*`dq doctor` names the cause/);
    }
    expect((await daemon.api('GET', '/v1/topics/t')).status).toBe(200);
    const status = await runDq(['status', '--data-dir', data]);
    expect(status.stdout + status.stderr).toContain('jobs.db is damaged (');
    const doctor = await runDq(['doctor', '--data-dir', data]);
    expect(doctor.stdout).toMatch(/store +failed +.*jobs\.db is damaged \(/);
    const fsck = await runDq(['fsck', '--data-dir', data]);
    expect(fsck.code).toBe(1);
    expect(fsck.stderr).toMatch(/store_damaged.*`dq doctor` names the cause/);
    expect(
      daemon.log('error').some(({ message }) => /serves no jobs: .* is damaged/.test(String(message))),
    ).toBe(true);
    expect(daemon.pidOf('dq-store')).toBe(pid);
    expect(await daemon.stop()).toBe(0);

    // Still damaged: the next start says so, and ends.
    await expectRefused(data, /^dq: .*jobs\.db is damaged \(.+\) and stays unchanged: restore a backup/);
    for (const end of ['-wal', '.boot']) rmSync(`${path}${end}`, { force: true });
    writeFileSync(path, whole);
    const repaired = await startDaemon({ directory: join(data, '..') });
    expect((await repaired.api('GET', '/v1/stats')).body.states).toMatchObject({ delayed: 50 });
  });
});

/** Rebuilds a registry from its readable pages, with the steps of the manual and the library of dq. */
function rebuild(path: string): void {
  const damaged = openDatabase(path, { readOnly: true });
  const rebuilt = openDatabase(`${path}.rebuilt`);
  const schema = damaged.prepare('SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL').all();
  for (const { type, name, sql } of schema as { type: string; name: string; sql: string }[]) {
    rebuilt.exec(sql);
    if (type !== 'table') continue;
    try {
      for (const row of damaged.prepare(`SELECT * FROM "${name}"`).all() as Record<string, never>[]) {
        const columns = Object.keys(row);
        const places = columns.map(() => '?').join(', ');
        rebuilt
          .prepare(`INSERT INTO "${name}" ("${columns.join('", "')}") VALUES (${places})`)
          .run(...Object.values(row));
      }
    } catch {
      // The rows of damaged pages are missing.
    }
  }
  damaged.close();
  rebuilt.close();
  renameSync(`${path}.rebuilt`, path);
}

/** Damages the pages of the table of series only, which no start and no poll reads. */
function damageSeries(path: string): void {
  const db = openDatabase(path, { readOnly: true });
  const root = Number(askAndForget(db, 'rootpage', "sqlite_master WHERE name = 'series'"));
  db.close();
  // In place: a write of the whole file empties it first, which dq would notice.
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(4_096, 0xa5), 0, 4_096, (root - 1) * 4_096);
  closeSync(file);
}

interface Running {
  readonly daemon: Daemon;
  readonly data: string;
  readonly path: string;
  readonly sink: Sink;
}

async function startWithRegistry(): Promise<Running> {
  const data = copyOf(stopped());
  const daemon = await startDaemon({ directory: join(data, '..') });
  const sink = await startSink();
  await addTopic(daemon, 'called', sink.url);
  // The notifiers know the topic once they have called it: an unusable registry names no new one.
  await daemon.push('called', Buffer.from('x'), { id: 'known' }, 'text/plain');
  await until('the first call', () => sink.arrivals.some(({ id }) => id === 'known'));
  return { daemon, data, path: join(data, 'registry.db'), sink };
}

async function killStore(daemon: Daemon): Promise<void> {
  const pid = daemon.pidOf('dq-store');
  process.kill(pid, 'SIGKILL');
  await until('the next dq-store', () =>
    daemon.workers().some((worker) => worker.title === 'dq-store' && worker.pid !== pid),
  );
}

/** The registry is unusable with this reason, and the jobs of the known topics go on. */
async function expectUnusable({ daemon, data, path, sink }: Running, reason: RegExp): Promise<void> {
  const unready = await until('the damage to be named', async () => {
    const reply = await daemon.api('GET', '/readyz');
    return reply.body.check === 'registry' ? reply : null;
  });
  expect(unready.status).toBe(503);
  expect(unready.body.detail).toMatch(reason);
  expect(unready.body.detail).toContain(path);
  const pid = daemon.pidOf('dq-store');
  for (const n of numbers(3)) {
    const id = `${pid}-${n}`;
    expect(await daemon.push('called', Buffer.from('x'), { id }, 'text/plain')).toMatchObject({
      status: 201,
    });
    await until('the call', () => sink.arrivals.some((arrival) => arrival.id === id));
    expect(sink.arrivals.filter((arrival) => arrival.id === id)).toHaveLength(1);
    const change = await daemon.api('PUT', '/v1/topics/new', { callbackUrl: sink.url });
    expect(change).toMatchObject({ status: 503 });
    expect(change.body.detail).toContain('registry_damaged');
    expect(change.body.detail).toMatch(reason);
  }
  const status = await runDq(['status', '--data-dir', data]);
  expect(status.stdout + status.stderr).toMatch(reason);
  const doctor = await runDq(['doctor', '--data-dir', data]);
  expect(doctor.stdout).toMatch(new RegExp(`store +failed .*${reason.source}`));
  const fsck = await runDq(['fsck', '--data-dir', data]);
  expect(fsck).toMatchObject({ code: 1, stdout: expect.stringMatching(reason) });
  for (const command of ['reload', 'restart']) {
    const rejected = await runDq([command, '--data-dir', data]);
    expect(rejected).toMatchObject({ code: 1, stderr: expect.stringMatching(reason) });
  }
  expect(daemon.pidOf('dq-store')).toBe(pid);
  // Of one process, not one for each poll.
  const lines = daemon.log('error').filter((line) => String(line['reason']).includes('registry_damaged'));
  const kinds = lines.map(({ pid, message }) => `${pid} ${message}`);
  expect(kinds).toEqual([...new Set(kinds)]);
}

const errorLines = (daemon: Daemon, text: RegExp) =>
  daemon.log('error').filter(({ message }) => text.test(String(message)));

/** A descriptor may be closed meanwhile. */
function linkOf(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

async function expectGoesOn({ daemon }: Running): Promise<void> {
  await until('the registry to be read', async () => (await daemon.api('GET', '/readyz')).status === 200);
  expect(
    (await daemon.api('GET', '/v1/topics')).body.items.map(({ topic }: { topic: string }) => topic),
  ).toEqual(['called', 't']);
  expect((await daemon.api('GET', '/v1/stats')).body.states).toMatchObject({ delayed: 50 });
}

describe('registry.db that becomes unusable while dq runs', () => {
  it('damaged before a crash of dq-store: is a state; the rebuilt file is opened without a restart', async () => {
    const running = await startWithRegistry();
    const { daemon, path } = running;
    const wal = readFileSync(`${path}-wal`);
    damageSeries(path);
    const before = readFileSync(path);
    await killStore(daemon);
    await expectUnusable(running, /registry\.db is damaged \(.+\); restore it from a backup/);
    expect(errorLines(daemon, /serves no registry/)).toHaveLength(1);
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(readFileSync(`${path}-wal`).subarray(0, wal.length).equals(wal)).toBe(true);
    rebuild(path);
    for (const end of ['-wal', '-shm']) rmSync(`${path}${end}`, { force: true });
    await expectGoesOn(running);
    expect((await runDq(['reload', '--data-dir', running.data])).code).toBe(0);
    expect(await daemon.stop()).toBe(0);
  });

  it('replaced by what dq cannot open: is a state, and jobs go on', async () => {
    const running = await startWithRegistry();
    const { daemon, path } = running;
    renameSync(path, `${path}.away`);
    mkdirSync(path);
    await until('the failure to be named', async () =>
      /cannot open the registry .*registry\.db: /.test((await daemon.api('GET', '/readyz')).body.detail),
    );
    const pid = daemon.pidOf('dq-store');
    expect(await daemon.push('called', Buffer.from('x'), { id: 'a' }, 'text/plain')).toMatchObject({
      status: 201,
    });
    await until('the call', () => running.sink.arrivals.some(({ id }) => id === 'a'));
    expect(daemon.pidOf('dq-store')).toBe(pid);
    rmSync(path, { recursive: true });
    renameSync(`${path}.away`, path);
    await expectGoesOn(running);
    expect(await daemon.stop()).toBe(0);
  });

  it('without its key at a crash of dq-store: is a state; the key that is put back is read', async () => {
    const running = await startWithRegistry();
    const { daemon, data } = running;
    const key = join(data, 'secret.key');
    renameSync(key, `${key}.away`);
    await killStore(daemon);
    const unready = await until('the key to be named', async () => {
      const reply = await daemon.api('GET', '/readyz');
      return reply.body.check === 'registry' ? reply : null;
    });
    expect(unready.body.detail).toMatch(/the key file .*secret\.key is missing/);
    renameSync(`${key}.away`, key);
    await expectGoesOn(running);
  });

  it('damage that a statement meets: is a state of the same dq-store', async () => {
    const running = await startWithRegistry();
    const { daemon, data, path } = running;
    const pid = daemon.pidOf('dq-store');
    const whole = readFileSync(path);
    damageSeries(path);
    const before = readFileSync(path);
    const fsck = await runDq(['fsck', '--data-dir', data]);
    expect(fsck.stdout).toMatch(/^registry +damage of registry\.db /m);
    expect(fsck.code).toBe(1);
    await until(
      'a read of the page',
      async () => (await daemon.api('GET', '/v1/series?topic=t')).status === 503,
    );
    await expectUnusable(running, /registry\.db is damaged \(.+\); restore it from a backup/);
    expect(daemon.pidOf('dq-store')).toBe(pid);
    expect(readFileSync(path).equals(before)).toBe(true);
    writeFileSync(path, whole);
    await expectGoesOn(running);
  });

  it('emptied: is a state, and stays empty; the file that is put back is opened', async () => {
    const running = await startWithRegistry();
    const { daemon, path } = running;
    const whole = readFileSync(path);
    truncateSync(path, 0);
    await expectUnusable(running, /registry\.db is damaged \(it is empty\); restore it from a backup/);
    await killStore(daemon);
    await expectUnusable(running, /registry\.db is damaged \(it is empty\); restore it from a backup/);
    expect(statSync(path).size).toBe(0);
    writeFileSync(path, whole);
    await expectGoesOn(running);
  });

  it('removed: is a state, and no new one is made; the file that is put back is opened', async () => {
    const running = await startWithRegistry();
    const { daemon, path } = running;
    rmSync(path);
    await expectUnusable(running, /registry\.db is missing; put it back, or restore it from a backup/);
    const open = `/proc/${daemon.pidOf('dq-store')}/fd`;
    const fd = readdirSync(open).find((name) => linkOf(join(open, name)) === `${path} (deleted)`);
    copyFileSync(join(open, fd ?? ''), `${path}.away`);
    await killStore(daemon);
    await expectUnusable(running, /registry\.db is missing; put it back, or restore it from a backup/);
    expect(existsSync(path)).toBe(false);
    renameSync(`${path}.away`, path);
    await expectGoesOn(running);
  });
});

describe.skipIf(await lacks('redis'))('registry.db that is removed while dq runs on Redis', () => {
  it('is a state after a crash of dq-store, and jobs go on', async () => {
    const redis = await owned('test', startRedis());
    const daemon = await startDaemon({ args: ['--redis', redis.url] });
    const sink = await startSink();
    await addTopic(daemon, 'called', sink.url);
    const path = join(daemon.dataDir, 'registry.db');
    renameSync(path, `${path}.away`);
    await killStore(daemon);
    await until('the loss to be named', async () =>
      String((await daemon.api('GET', '/readyz')).body.detail).includes(`${path} is missing`),
    );
    const pid = daemon.pidOf('dq-store');
    for (const id of ['a', 'b', 'c']) {
      expect((await daemon.push('called', 'x', { id }, 'text/plain')).status).toBe(201);
      await until('the call', () => sink.arrivals.some((arrival) => arrival.id === id));
    }
    expect(daemon.pidOf('dq-store')).toBe(pid);
    expect(existsSync(path)).toBe(false);
    renameSync(`${path}.away`, path);
    await until('the file to be opened', async () => (await daemon.api('GET', '/readyz')).status === 200);
  });
});
