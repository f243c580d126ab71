// dq on damaged, foreign and missing files: a start fails with one sentence and exit code 1, and changes no
// byte of them; damage that dq meets while it runs is a state with its remedy. The reasons why a file is
// rejected are in test/role/store-file, registry-db and start-checks.

import { createHash } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
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
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askAndForget, openDatabase } from '../../src/runtime/database.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { addTopic, forAll, numbers } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
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
  const root = testDirectory();
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

describe('dq start fails on', () => {
  it.each([
    [
      'a damaged jobs.db',
      (data: string) => truncateSync(join(data, 'jobs.db'), 40_000),
      /^dq: .*jobs\.db is damaged \(40000 of \d+ bytes\) and stays unchanged: restore a backup/,
    ],
    [
      'jobs without their registry.db',
      (data: string) => rmSync(join(data, 'registry.db')),
      /^dq: the registry .*registry\.db is missing; put it back, or restore it from a backup/,
    ],
  ] as const)('%s', async (_, tear, sentence) => {
    const data = copyOf(stopped());
    tear(data);
    await expectRefused(data, sentence);
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
  it('is a state with its remedy; the repaired file works, also with an empty registry of the script', async () => {
    const data = copyOf(stopped());
    const path = join(data, 'jobs.db');
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
    // The files of killed processes.
    for (const name of readdirSync(killed()).filter((each) => each.startsWith('jobs.db')))
      copyFileSync(join(killed(), name), join(data, name));
    const registry = join(data, 'registry.db');
    rmSync(registry);
    const empty = openDatabase(registry);
    empty.exec(readFileSync(resolve(import.meta.dirname, '../../sql/sqlite/registry.sql'), 'utf8'));
    empty.close();
    const repaired = await startDaemon({ directory: join(data, '..') });
    expect((await repaired.api('GET', '/v1/topics')).body.items).toEqual([]);
    expect((await repaired.api('GET', '/v1/stats')).body.states).toMatchObject({ delayed: 50 });
    await addTopic(repaired, 't', 'http://127.0.0.1:1/');
    expect((await repaired.api('GET', '/v1/topics')).body.items).toHaveLength(1);
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
async function expectUnusable({ daemon, path, sink }: Running, reason: RegExp): Promise<void> {
  const unready = await until('the damage to be named', async () => {
    const reply = await daemon.api('GET', '/readyz');
    return reply.body.check === 'registry' && reason.test(reply.body.detail) ? reply : null;
  });
  expect(unready.status).toBe(503);
  expect(unready.body.detail).toContain(path);
  const pid = daemon.pidOf('dq-store');
  const id = `${pid} ${reason.source}`;
  expect(await daemon.push('called', Buffer.from('x'), { id }, 'text/plain')).toMatchObject({ status: 201 });
  await until('the call', () => sink.arrivals.some((arrival) => arrival.id === id));
  expect(sink.arrivals.filter((arrival) => arrival.id === id)).toHaveLength(1);
  const change = await daemon.api('PUT', '/v1/topics/new', { callbackUrl: sink.url });
  expect(change).toMatchObject({ status: 503, body: { detail: expect.stringMatching(reason) } });
  expect(daemon.pidOf('dq-store')).toBe(pid);
}

/** Every command says so, and none of them ends the state. */
async function expectReported({ daemon, data }: Running, reason: RegExp): Promise<void> {
  const [status, doctor, fsck, reload, restart] = await Promise.all(
    ['status', 'doctor', 'fsck', 'reload', 'restart'].map((name) => runDq([name, '--data-dir', data])),
  );
  expect(`${status?.stdout}${status?.stderr}`).toMatch(reason);
  expect(doctor?.stdout).toMatch(new RegExp(`store +failed .*${reason.source}`));
  expect(fsck).toMatchObject({ code: 1, stdout: expect.stringMatching(reason) });
  for (const rejected of [reload, restart])
    expect(rejected).toMatchObject({ code: 1, stderr: expect.stringMatching(reason) });
  // Of one process, not one for each poll.
  const lines = daemon.log('error').filter((line) => String(line['reason']).includes('registry_damaged'));
  const kinds = lines.map(({ pid, message }) => `${pid} ${message}`);
  expect(kinds).toEqual([...new Set(kinds)]);
}

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

it('registry.db that becomes unusable while dq runs: a state; the file that is put back is opened', async () => {
  const running = await startWithRegistry();
  const { daemon, data, path } = running;
  expect((await daemon.api('GET', '/v1/stats')).body.states).toMatchObject({ delayed: 50 });
  const damaged = /registry\.db is damaged \(.+\); restore it from a backup/;

  // A crash of dq-store after the damage.
  const wal = readFileSync(`${path}-wal`);
  damageSeries(path);
  const before = readFileSync(path);
  await killStore(daemon);
  await expectUnusable(running, damaged);
  await expectReported(running, damaged);
  expect(readFileSync(path).equals(before)).toBe(true);
  expect(readFileSync(`${path}-wal`).subarray(0, wal.length).equals(wal)).toBe(true);
  rebuild(path);
  for (const end of ['-wal', '-shm']) rmSync(`${path}${end}`, { force: true });
  await expectGoesOn(running);

  // A statement meets the damage. No newer page in the log hides it.
  const emptied = openDatabase(path);
  emptied.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  emptied.close();
  const whole = readFileSync(path);
  damageSeries(path);
  const torn = readFileSync(path);
  expect(await runDq(['fsck', '--data-dir', data])).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/^registry +damage of registry\.db /m),
  });
  const series = async () => (await daemon.api('GET', '/v1/series?topic=t')).status;
  await until('a read of the page', async () => (await series()) === 503);
  await expectUnusable(running, damaged);
  expect(readFileSync(path).equals(torn)).toBe(true);
  writeFileSync(path, whole);
  await expectGoesOn(running);

  const missing = /registry\.db is missing; put it back, or restore it from a backup/;
  rmSync(path);
  await expectUnusable(running, missing);
  const open = `/proc/${daemon.pidOf('dq-store')}/fd`;
  const fd = readdirSync(open).find((name) => linkOf(join(open, name)) === `${path} (deleted)`);
  copyFileSync(join(open, fd ?? ''), `${path}.away`);
  await killStore(daemon);
  await expectUnusable(running, missing);
  expect(existsSync(path)).toBe(false);
  renameSync(`${path}.away`, path);
  await expectGoesOn(running);
  expect((await runDq(['reload', '--data-dir', data])).code).toBe(0);
  expect(await daemon.stop()).toBe(0);
});
