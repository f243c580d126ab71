// Tests which files the owner of the embedded store opens, and that it leaves the others unchanged.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../src/runtime/database.ts';
import { type Engine, openEngine } from '../../src/store/sqlite/engine/engine.ts';
import { layoutVersion, schema } from '../../src/store/sqlite/file/schema.ts';
import { StoreFileRefused } from '../../src/store/sqlite/file/store-file.ts';
import { jobOf, request } from '../conformance/trial.ts';
import { OwnerProcess } from '../support/owner-process.ts';
import { ownerPaths, temporaryDirectory } from '../support/sqlite-store.ts';

let directory: ReturnType<typeof temporaryDirectory>;
let path = '';
const owners: OwnerProcess[] = [];

beforeEach(() => {
  directory = temporaryDirectory();
  path = ownerPaths(directory.path).path;
});
afterEach(async () => {
  for (const owner of owners.splice(0)) await owner.kill();
  directory.remove();
});

/** Every file of the store with its bytes, by name, without the shared memory of the WAL. */
function files(): Record<string, string> {
  const names = readdirSync(directory.path).filter((name) => !/-shm$|\.sock$/.test(name));
  return Object.fromEntries(
    names.map((name) => [
      name,
      createHash('sha256')
        .update(readFileSync(join(directory.path, name)))
        .digest('hex'),
    ]),
  );
}

/** A store with jobs, closed or killed. */
async function filled(how: 'closed' | 'killed', jobs = 200): Promise<void> {
  if (how === 'closed') {
    withEngine((engine) => pushMany(engine, jobs));
    return;
  }
  // A killed owner leaves its WAL; so does a process that ends without closing.
  const script = `
    import { openEngine } from ${JSON.stringify(join(import.meta.dirname, '../../src/store/sqlite/engine/engine.ts'))};
    const engine = openEngine(process.argv[1]);
    for (let n = 0; n < ${jobs}; n += 1) {
      engine.begin('full');
      engine.push({ topic: 't', id: String(n), when: { delayMs: 0 }, mode: 'replace', priority: 'normal', contentType: null, body: Buffer.alloc(500, 7) });
      engine.commit();
    }
    process.kill(process.pid, 'SIGKILL');`;
  const run = spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script, path]);
  expect(run.signal, run.stderr.toString()).toBe('SIGKILL');
}

function withEngine<T>(use: (engine: Engine) => T): T {
  const engine = openEngine(path);
  try {
    return use(engine);
  } finally {
    engine.close();
  }
}

function pushMany(engine: Engine, jobs: number): void {
  engine.begin('full');
  for (let n = 0; n < jobs; n += 1) engine.push(jobOf(String(n), { body: Buffer.alloc(500, 7) }));
  engine.commit();
}

function overwrite(name: string, at: number, bytes: Buffer): void {
  const fd = openSync(name, 'r+');
  writeSync(fd, bytes, 0, bytes.length, at);
  closeSync(fd);
}

function refusal(): StoreFileRefused {
  const before = files();
  try {
    withEngine(() => undefined);
  } catch (error) {
    expect(files()).toEqual(before);
    if (error instanceof StoreFileRefused) return error;
    throw error;
  }
  throw new Error('was opened');
}

describe('a new store', () => {
  it('is private, and one file when closed', () => {
    withEngine((engine) => {
      pushMany(engine, 1);
      expect(statSync(path).mode & 0o777).toBe(0o600);
      expect(statSync(`${path}-wal`).mode & 0o777).toBe(0o600);
    });
    expect(readdirSync(directory.path)).toEqual(['jobs.db']);
  });

  it('replaces an interrupted creation', () => {
    writeFileSync(`${path}.new`, 'half');
    withEngine((engine) => expect(engine.jobCounts.counts().topics).toEqual({}));
  });

  it('is not created beside a WAL without its file', async () => {
    writeFileSync(`${path}-wal`, 'the only copy of some jobs');
    expect(refusal().why).toBe('incomplete');
    expect(existsSync(path)).toBe(false);
  });
});

describe('an existing store', () => {
  it('closed: has its jobs and counts, and no WAL', async () => {
    await filled('closed');
    withEngine((engine) => {
      expect(engine.found.wasUnclean).toBe(false);
      expect(engine.jobCounts.counts().topics).toEqual({
        t: { delayed: 0, ready: 200, reserved: 0, dead: 0 },
      });
    });
  });

  it.each([
    ['is not checked: the kernel has every write', () => {}, false],
    [
      'is checked after a restart of the machine',
      () => writeFileSync(`${path}.boot`, 'another boot\n'),
      true,
    ],
    ['is checked without a boot note', () => rmSync(`${path}.boot`), true],
  ] as const)('killed: has every committed job, and %s', async (_, change, wasChecked) => {
    await filled('killed');
    change();
    withEngine((engine) => {
      expect(engine.found).toEqual({ wasUnclean: true, wasChecked });
      expect(engine.jobCounts.counts().topics).toEqual({
        t: { delayed: 0, ready: 200, reserved: 0, dead: 0 },
      });
      expect(engine.db.prepare('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' });
    });
    expect(readdirSync(directory.path)).toEqual(['jobs.db']);
  });

  it('copied while open: the copy is checked, its parts may be of different moments', async () => {
    await filled('killed');
    const copy = join(directory.path, 'copy');
    mkdirSync(copy);
    for (const name of ['jobs.db', 'jobs.db-wal', 'jobs.db.boot'])
      cpSync(join(directory.path, name), join(copy, name));
    const engine = openEngine(join(copy, 'jobs.db'));
    expect(engine.found).toEqual({ wasUnclean: true, wasChecked: true });
    engine.close();
  });

  it('a lost lease has a number that no later lease has, also after the clock was set back', () => {
    let nowMs = 1_800_000_000_000;
    const opened = () => openEngine(path, { clock: () => nowMs });
    const lease = (engine: Engine) => {
      engine.begin('normal');
      const [job] = engine.moves.reserve(request(1)).jobs;
      engine.commit();
      return job?.token;
    };
    const first = opened();
    pushMany(first, 1);
    first.close();
    cpSync(path, `${path}.before`);
    nowMs += 1;
    const second = opened();
    nowMs -= 3_600_000;
    const lost = lease(second);
    second.close();
    // As a power cut leaves it, or a backup.
    cpSync(`${path}.before`, path);
    const third = opened();
    expect(lease(third)).not.toBe(lost);
    // Another power cut does not undo the first number after the lost ones.
    expect(third.durability).toBe('full');
    third.begin('normal');
    third.commit();
    expect(third.durability).toBe('normal');
    third.close();
  });

  it('after a failed write: the file is checked', async () => {
    await filled('killed');
    const [killed] = [openEngine(path)];
    killed.requireCheck();
    expect(existsSync(`${path}.boot`)).toBe(false);
    killed.close();
  });
});

describe('rejected and unchanged', () => {
  it('a file that is not a database', () => {
    writeFileSync(path, 'x'.repeat(5_000));
    expect(refusal()).toMatchObject({ why: 'foreign', message: expect.stringContaining(path) });
  });

  it('an empty file', () => {
    writeFileSync(path, '');
    expect(refusal().why).toBe('foreign');
  });

  it("another program's database", () => {
    const db = openDatabase(path);
    db.exec('PRAGMA journal_mode = WAL; CREATE TABLE job(n INTEGER PRIMARY KEY)');
    db.close();
    expect(refusal().why).toBe('foreign');
  });

  it.each([layoutVersion - 1, layoutVersion + 1])('a store of layout %s', (layout) => {
    const db = openDatabase(path);
    db.exec(schema);
    db.exec(`PRAGMA user_version = ${layout}`);
    db.close();
    expect(refusal()).toMatchObject({
      why: 'layout',
      message: expect.stringContaining(`layout ${layout}`),
    });
  });

  it('a store whose WAL has a newer layout', () => {
    const script = `
      import { openDatabase } from ${JSON.stringify(join(import.meta.dirname, '../../src/runtime/database.ts'))};
      const db = openDatabase(process.argv[1]);
      db.exec('PRAGMA journal_mode = WAL; PRAGMA user_version = ${layoutVersion + 1}');
      process.kill(process.pid, 'SIGKILL');`;
    withEngine(() => undefined);
    spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script, path]);
    writeFileSync(`${path}.boot`, readFileSync('/proc/sys/kernel/random/boot_id'));
    expect(refusal().why).toBe('layout');
  });

  it('an unclosed store with damaged pages', async () => {
    await filled('closed');
    overwrite(path, 12 * 4_096, Buffer.alloc(3 * 4_096, 0xa5));
    writeFileSync(`${path}-wal`, '');
    expect(refusal()).toMatchObject({
      why: 'damaged',
      message: expect.stringMatching(/damaged \((Tree|database disk image is malformed).*backup/s),
    });
  });

  it('a store that was not closed and lost its WAL', async () => {
    await filled('killed');
    rmSync(`${path}-wal`);
    expect(refusal().message).toMatch(
      /jobs\.db was not closed, and .*-wal is missing: restore it, or remove/,
    );
  });

  it('a closed store beside the WAL of another one', async () => {
    await filled('killed');
    const log = readFileSync(`${path}-wal`);
    for (const name of readdirSync(directory.path)) rmSync(join(directory.path, name));
    await filled('closed');
    writeFileSync(`${path}-wal`, log);
    expect(refusal().message).toMatch(/jobs\.db was closed, but .*-wal belongs to another file/);
  });

  it('a truncated store', async () => {
    await filled('closed');
    truncateSync(path, statSync(path).size - 4_096);
    expect(refusal().why).toBe('damaged');
  });

  it('a store that another process has open', async () => {
    owners.push(await OwnerProcess.start(directory.path));
    const before = files();
    expect(() => openEngine(path)).toThrow(/open in another process/);
    await expect(OwnerProcess.start(directory.path)).rejects.toThrow(/open in another process/);
    expect(files()).toEqual(before);
  });
});
