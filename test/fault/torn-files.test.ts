// A start on damaged or foreign files fails with one sentence and exit code 1, and changes no byte of them.

import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../src/runtime/database.ts';
import { startDaemon } from '../support/daemon.ts';
import { addTopic, forAll, numbers } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
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
