// Tests backup and fsck of the embedded store through its socket, during writes.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../src/runtime/database.ts';
import { attemptOf, examined, jobOf, leaseOf, request } from '../conformance/trial.ts';
import {
  openSqliteStore,
  ownerPaths,
  type SqliteStore,
  temporaryDirectory,
} from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

let store: SqliteStore;
let elsewhere: ReturnType<typeof temporaryDirectory>;
let target: string;

beforeEach(async () => {
  elsewhere = temporaryDirectory();
  target = join(elsewhere.path, "it's a copy");
  store = await openSqliteStore();
});
afterEach(async () => {
  await store.close();
  elsewhere.remove();
});

const admin = () => store.client.store.admin;
const jobs = () => store.client.store.jobs;
const change = (sql: string) => store.owner.inspect((db) => db.exec(sql));

async function backup(directory = target) {
  expect(await admin().startBackup(directory)).toBe('started');
  await until('the backup to end', async () => (await admin().backup()).kind !== 'running');
  return admin().backup();
}

const fsck = () => examined(store.client.store);

/** In groups of 20, one transaction each. */
async function pushGroups(from: number, to: number): Promise<void> {
  for (let group = from; group < to; group += 1)
    await jobs().push(
      Array.from({ length: 20 }, (_, n) =>
        jobOf(`${group}.${n}`, { when: { delayMs: 3_600_000 }, body: Buffer.alloc(2_000, group) }),
      ),
    );
}

async function copied() {
  const path = target;
  const copy = await openSqliteStore({}, { path, remove() {} });
  const dump = copy.dump();
  await copy.close();
  return dump;
}

/** As another process would. */
function openElsewhere(path: string): void {
  const code = `const { DatabaseSync } = require('@photostructure/sqlite');
    new DatabaseSync(process.argv[1]).prepare('SELECT count(*) FROM job').get()`;
  const root = join(import.meta.dirname, '../..');
  execFileSync(process.execPath, ['-e', code, path], { cwd: root, stdio: 'pipe' });
}

describe('backup', () => {
  it('is a store of one moment, also during pushes', async () => {
    await pushGroups(0, 50);
    expect(await admin().startBackup(target)).toBe('started');
    await pushGroups(50, 100);
    await until('the backup to end', async () => (await admin().backup()).kind !== 'running');
    expect(await admin().backup()).toMatchObject({
      kind: 'done',
      result: { directory: target, bytes: statSync(join(target, 'jobs.db')).size },
    });
    const groups = new Map<string, number>();
    for (const { id } of (await copied()).jobs) {
      const group = id.split('.')[0] ?? '';
      groups.set(group, (groups.get(group) ?? 0) + 1);
    }
    expect(groups.size).toBeGreaterThanOrEqual(50);
    expect([...groups.values()].every((n) => n === 20)).toBe(true);
    expect([...groups.keys()].map(Number).sort((a, b) => a - b)).toEqual([...Array(groups.size).keys()]);
    expect(store.dump().jobs).toHaveLength(2_000);
  });

  it('keeps leases, dead letters, alerts, history and numbers', async () => {
    await jobs().push(['1', '2', '3', '4'].map((id) => jobOf(id)));
    const [first, second] = (await jobs().reserve(0, request(3))).jobs;
    if (first === undefined || second === undefined) throw new Error('four were pushed');
    await jobs().bury([{ ...leaseOf(first), reason: 'gone', attempt: attemptOf(first) }]);
    await jobs().ack([{ ...leaseOf(second), attempt: attemptOf(second) }]);
    expect(await backup()).toMatchObject({ kind: 'done' });
    expect(await copied()).toEqual(store.dump());
  });

  it('is private, and leaves no other file', async () => {
    await backup();
    expect(readdirSync(elsewhere.path)).toEqual(["it's a copy"]);
    expect(readdirSync(target)).toEqual(['jobs.db']);
    expect([target, join(target, 'jobs.db')].map((path) => statSync(path).mode & 0o777)).toEqual([
      0o700, 0o600,
    ]);
  });

  it('includes the registry', async () => {
    const registryPath = join(elsewhere.path, 'registry.db');
    const registry = openDatabase(registryPath);
    registry.exec(
      "PRAGMA journal_mode = WAL; CREATE TABLE topic(name TEXT); INSERT INTO topic VALUES ('orders')",
    );
    await store.close();
    store = await openSqliteStore({ registryPath });
    expect(await backup()).toMatchObject({ kind: 'done' });
    registry.close();
    const copy = openDatabase(join(target, 'registry.db'), { readOnly: true });
    expect(copy.prepare('SELECT name FROM topic').all()).toEqual([{ name: 'orders' }]);
    copy.close();
  });

  it('leaves one file, and the store checkpoints again', async () => {
    await pushGroups(0, 5);
    await backup();
    expect(() => openElsewhere(ownerPaths(store.directory).path)).toThrow(/database is locked/);
    const size = () => statSync(ownerPaths(store.directory).path).size;
    const before = size();
    await pushGroups(5, 300);
    expect(size()).toBeGreaterThan(before);
  });

  it.each([
    ['an existing directory', () => target, /already exists/],
    ['a relative path', () => 'somewhere', /not an absolute path/],
    ['a missing parent directory', () => join(target, 'below'), /ENOENT/],
  ])('rejects %s and works afterwards', async (_, directory, reason) => {
    if (directory() === target) mkdirSync(target);
    const failed = await backup(directory());
    expect(failed).toMatchObject({ kind: 'failed', reason: expect.stringMatching(reason) });
    expect(await backup(`${target} 2`)).toMatchObject({ kind: 'done' });
  });

  it('replaces an interrupted backup, and removes no other file', async () => {
    mkdirSync(`${target}.part`);
    writeFileSync(join(`${target}.part`, 'jobs.db'), 'half');
    expect(await backup()).toMatchObject({ kind: 'done' });
    mkdirSync(`${target} 2.part`);
    writeFileSync(join(`${target} 2.part`, 'mine'), 'whole');
    expect(await backup(`${target} 2`)).toMatchObject({ kind: 'failed' });
    expect(existsSync(join(`${target} 2.part`, 'mine'))).toBe(true);
  });

  it('ends without a file when the WAL grows too long', async () => {
    await store.close();
    store = await openSqliteStore({ frozenWalBytesMax: -1 });
    await pushGroups(0, 400);
    const failed = await backup();
    expect(failed).toMatchObject({ kind: 'failed', reason: expect.stringContaining('quieter time') });
    expect(readdirSync(elsewhere.path)).toEqual([]);
    await pushGroups(400, 401);
  });

  it('ends without a file when the store closes; the store is undamaged', async () => {
    await pushGroups(0, 200);
    const given = { path: store.directory, remove() {} };
    await admin().startBackup(target);
    await store.client.close();
    await store.owner.drain(1_000);
    expect(readdirSync(elsewhere.path).filter((name) => name !== "it's a copy")).toEqual([]);
    const again = await openSqliteStore({}, given);
    expect(again.dump().jobs).toHaveLength(4_000);
    await again.close();
  });

  it('runs alone: another task is busy', async () => {
    await pushGroups(0, 50);
    const answers = await Promise.all([admin().startBackup(target), admin().startFsck(), admin().backup()]);
    expect(answers).toEqual(['started', 'busy', { kind: 'running', startedAt: expect.any(Number) }]);
    await until('the backup to end', async () => (await admin().backup()).kind !== 'running');
    expect(await admin().fsck()).toEqual({ kind: 'none' });
    await fsck();
  });
});

describe('fsck', () => {
  const breaks: readonly (readonly [string, string, string, string])[] = [
    ['I1', 'jobs with an invalid state', 'UPDATE job SET state = 9 WHERE id = ?', 't/a'],
    ['I1', 'jobs without a body', 'DELETE FROM body WHERE n = (SELECT n FROM job WHERE id = ?)', 't/a'],
    ['I3', 'bodies without a job', "INSERT INTO body VALUES (99, x'00')", 'row 99'],
    ['I3', 'attempts without a job', "INSERT INTO attempts VALUES (99, '[]')", 'row 99'],
    ['I4', 'leases on unreserved jobs', 'UPDATE job SET owner_instance = 7 WHERE id = ?', 't/a'],
    ['I4', 'tokens on waiting or ended jobs', 'UPDATE job SET token = 7 WHERE id = ?', 't/a'],
    ['I1', 'dead_at or reason on live jobs', 'UPDATE job SET dead_at = 7 WHERE id = ?', 't/a'],
    ['I1', 'ended_at or ended_as on unended jobs', 'UPDATE job SET ended_as = 0 WHERE id = ?', 't/a'],
    ['I5', 'dead letters without an alert', 'DELETE FROM alert', 't/dead'],
    ['I5', 'settled alerts without a dead letter', 'UPDATE alert SET version = 7, state = 2', 'version 7'],
    ['numbers', 'versions or tokens above the sequence', 'UPDATE job SET version = 9e15 WHERE id = ?', 't/a'],
    ['numbers', 'jobs without a topic', 'UPDATE job SET topic = 99 WHERE id = ?', 'row'],
    [
      'counts',
      'counts without their jobs',
      'UPDATE tally SET n = 7 WHERE state = 1',
      'topic 1, priority 1, state 1',
    ],
    ['counts', 'jobs missing in the counts', 'DELETE FROM tally', 'topic 1, priority 1, state 1'],
  ];

  it.each(breaks)('%s: finds %s', async (invariant, what, sql, example) => {
    await jobs().push([jobOf('dead')]);
    const [job] = (await jobs().reserve(0, request(1))).jobs;
    if (job === undefined) throw new Error('it was pushed');
    await jobs().bury([{ ...leaseOf(job), reason: 'gone', attempt: attemptOf(job) }]);
    await jobs().push([jobOf('a'), jobOf('b')]);
    expect(await fsck()).toEqual({ jobs: 3, problems: [] });
    change(sql.replace('?', "x'61'"));
    const { problems } = await fsck();
    const found = problems.find(
      (problem) => problem.invariant === invariant && problem.what.startsWith(what),
    );
    expect(problems).toContain(found);
    expect(found?.examples.join('|')).toContain(example);
    expect(found?.count).toBeGreaterThanOrEqual(1);
  });

  it.each([
    ['an index', 'job_time'],
    ['a table', 'job'],
  ])('finds damage of %s', async (_, name) => {
    await pushGroups(0, 5);
    expect((await fsck()).problems).toEqual([]);
    const root = store.owner.inspect((db) =>
      db.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').get(name),
    ) as { rootpage: number };
    // In another process: opening and closing the file in this one would drop the store's lock.
    execFileSync(process.execPath, [
      '-e',
      `const fs = require('node:fs'); const fd = fs.openSync(process.argv[1], 'r+');
       fs.writeSync(fd, Buffer.alloc(64, 255), 0, 64, ${(root.rootpage - 1) * 4096 + 8})`,
      ownerPaths(store.directory).path,
    ]);
    expect((await fsck()).problems).toMatchObject([{ invariant: 'file', what: 'file damage' }]);
  });

  it('counts every violation and shows some', async () => {
    await pushGroups(0, 5);
    change('DELETE FROM body');
    expect((await fsck()).problems).toMatchObject([
      { what: 'jobs without a body', count: 100, examples: ['t/0.0', 't/0.1', 't/0.2', 't/0.3', 't/0.4'] },
    ]);
  });
});

/** Starts a query of hours, aborts it while it runs, and exits. */
const givesUp = `
const { readInThread } = await import(${JSON.stringify(join(import.meta.dirname, '../../src/store/sqlite/file/reading-thread.ts'))});
const abort = new AbortController();
const sql = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100000000000) SELECT count(*) FROM c';
const [reading] = await Promise.allSettled([
  readInThread([{ url: 'file::memory:', sql }], abort.signal),
  new Promise((resolve) => {
    const { user } = process.cpuUsage();
    const timer = setInterval(() => {
      if (process.cpuUsage().user - user < 1_000_000) return;
      clearInterval(timer);
      abort.abort(new Error('given up'));
      resolve();
    }, 20);
  }),
]);
process.exit(reading.reason.message === 'given up' ? 0 : 1);
`;

it('reading thread: an exiting process does not wait for it', async () => {
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', givesUp], {
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: 90_000,
  });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  expect(output).toContain('backup or fsck still running; ending by SIGKILL');
  // Not SIGTERM, with which this test would have ended it.
  expect(signal).toBe('SIGKILL');
});
