// Tests the registry file: locks, damaged and foreign files, migrations, failures.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import type { Registry } from '../../src/ports/registry.ts';
import { SecretCipher } from '../../src/registry/sql/keys/encryption.ts';
import { sqlLimits } from '../../src/registry/sql/limits.ts';
import { openRegistryDb, openServedRegistry } from '../../src/registry/sql/registry-db.ts';
import { CommitError, RegistryAccess } from '../../src/registry/sql/registry-engine.ts';
import {
  type RegistrySchema,
  registrySchema,
  registrySchemaScript,
} from '../../src/registry/sql/schema/registry-schema.ts';
import { kyselyOver, sqliteEngine, toStoreError } from '../../src/registry/sql/sqlite/sqlite-engine.ts';
import { topicVerbs } from '../../src/registry/sql/tables/registry-topics.ts';
import { type PageSize, pageSize } from '../../src/registry/sql/tables/topic-pages.ts';
import type { Database } from '../../src/runtime/database.ts';
import { openDatabase } from '../../src/runtime/database.ts';
import { testDirectory } from '../support/directory.ts';
import { changesOf } from '../support/registry-pages.ts';
import { until } from '../support/until.ts';
import { draft, failureOf } from './registry/case.ts';
import { exerciseRegistry } from './registry/exercise.ts';

let directory = '';
let path = '';
const opened: Registry[] = [];
const databases: Database[] = [];

beforeEach(() => {
  directory = testDirectory();
  path = join(directory, 'registry.db');
});
afterEach(async () => {
  for (const registry of opened.splice(0)) await registry.close();
  for (const database of databases.splice(0)) database.close();
});

async function open(page: Partial<PageSize> = {}): Promise<Registry> {
  const registry = await openRegistryDb(path, { page });
  opened.push(registry);
  return registry;
}

/** The file opened by another process. */
function beside(): Database {
  const database = openDatabase(path);
  databases.push(database);
  return database;
}

exerciseRegistry({ open, run: async (sql) => beside().prepare(sql).all() as Record<string, unknown>[] });

it('a change of onDone or onDead and a removal scan no table', async () => {
  await open();
  const asked = new Set<string>();
  const database = beside();
  const recorded = Object.create(database, {
    prepare: {
      value: (text: string) => {
        asked.add(text);
        return database.prepare(text);
      },
    },
  }) as Database;
  const access = new RegistryAccess(sqliteEngine(kyselyOver<RegistrySchema>(recorded)));
  const topics = topicVerbs(access, () => new SecretCipher(Buffer.alloc(32)), pageSize());
  for (const name of ['end', 'other']) await topics.create(draft(name));
  await topics.create(draft('a', { onDead: 'end' }));
  expect(await topics.update(draft('a', { onDone: 'end', onDead: 'other' }), 3)).toMatchObject({
    kind: 'updated',
  });
  expect(await topics.namedBy('end')).toEqual({ topic: 'a', field: 'onDone' });
  expect(await topics.remove('end', 1)).toBe('in_use');
  const plans = [...asked]
    .filter((text) => /"topic"/.test(text))
    .flatMap((text) => database.prepare(`EXPLAIN QUERY PLAN ${text}`).all())
    .map((row) => String((row as { detail: unknown }).detail));
  expect(plans).toContainEqual(expect.stringMatching(/^SEARCH topic USING .*topic_on_dead/));
  expect(plans).not.toContainEqual(expect.stringMatching(/^SCAN/));
});

/** Lets a call wait 60 s for a lock. By default it waits less than this process, which holds the lock, may
 *  stand still. */
function waitLong(): void {
  const { registryBusyMs } = limits;
  onTestFinished(() => void Object.assign(limits, { registryBusyMs }));
  Object.assign(limits, { registryBusyMs: 60_000 });
}

describe('a lock of another connection', () => {
  it('is waited for without blocking the process', async () => {
    waitLong();
    const registry = await open();
    const other = beside();
    other.exec('BEGIN IMMEDIATE');
    const writing = registry.create(draft('a'));
    let turns = 0;
    await until('the process goes on meanwhile', () => {
      turns += 1;
      return turns > 5;
    });
    expect((await changesOf(registry, 0)).revision).toBe(0);
    other.exec('COMMIT');
    expect((await writing).kind).toBe('created');
  });

  it('answers not_stored if it stays, and has changed nothing', async () => {
    const registry = await open();
    const other = beside();
    other.exec('BEGIN IMMEDIATE');
    expect(await failureOf(registry.create(draft('a')))).toEqual({ kind: 'not_stored', code: 'busy' });
    other.exec('COMMIT');
    expect(await changesOf(registry, 0)).toEqual({ revision: 0, topics: [], deleted: [] });
    expect((await registry.create(draft('a'))).kind).toBe('created');
  });
});

describe('the file', () => {
  it('is private, its WAL too', async () => {
    const umask = process.umask(0);
    try {
      const registry = await open();
      await registry.create(draft('a'));
      for (const name of readdirSync(directory))
        expect([name, statSync(join(directory, name)).mode & 0o777]).toEqual([name, 0o600]);
      expect(readdirSync(directory)).toContain('registry.db-wal');
    } finally {
      process.umask(umask);
    }
  });

  it('close: rejects new calls, finishes the running one', async () => {
    waitLong();
    const registry = await open();
    const other = beside();
    other.exec('BEGIN IMMEDIATE');
    const writing = registry.create(draft('a'));
    const closing = registry.close();
    expect(await failureOf(registry.get('a'))).toEqual({ kind: 'not_stored', code: 'closed' });
    other.exec('COMMIT');
    expect((await writing).kind).toBe('created');
    await closing;
    await registry.close();
  });

  const text = (database: Database, statement: string) => {
    database.exec(statement);
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    database.close();
  };

  it.each<[string, () => void | Promise<void>, RegExp]>([
    [
      'no database',
      () => writeFileSync(path, 'x'.repeat(8192)),
      /registry\.db is damaged \(file is not a database\)/,
    ],
    [
      'damaged in a page',
      async () => {
        const registry = await openRegistryDb(path);
        for (let i = 0; i < 50; i++) await registry.create(draft(`t${i}`));
        await registry.close();
        text(openDatabase(path), '');
        const bytes = readFileSync(path);
        bytes.fill(0xa5, 4096 * 3, 4096 * 4);
        writeFileSync(path, bytes);
      },
      /registry\.db is damaged \(.+\); restore it from a backup/,
    ],
    [
      "somebody else's",
      () => text(openDatabase(path), 'CREATE TABLE notes (x)'),
      /registry\.db is not a dq schema: it has tables \(notes …\) but no table migration/,
    ],
    [
      'of a newer version',
      async () => {
        await (await openRegistryDb(path)).close();
        text(openDatabase(path), "INSERT INTO migration VALUES (99, 'later', 'x', 0)");
      },
      /was written by a newer dq: it has schema 99, this version knows \d+; start the newer dq/,
    ],
    [
      'of a step that was changed',
      async () => {
        await (await openRegistryDb(path)).close();
        text(openDatabase(path), "UPDATE migration SET checksum = 'x'");
      },
      /step 1 \(tables\) differs from this version's: use the dq that wrote it; its version number may be the same/,
    ],
  ])('is rejected and unchanged when it is %s', async (_, prepare, message) => {
    await prepare();
    const before = readFileSync(path);
    await expect(openRegistryDb(path)).rejects.toMatchObject({
      name: 'DqError',
      code: 'unavailable',
      message: expect.stringMatching(message),
    });
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it('a closed file beside a foreign WAL: is rejected and unchanged', async () => {
    const other = join(directory, 'other.db');
    const left = await openRegistryDb(other, { keyPath: join(directory, 'secret.key') });
    await left.create(draft('foreign'));
    const log = readFileSync(`${other}-wal`);
    await left.close();
    await (await openRegistryDb(path)).close();
    expect(readdirSync(directory)).not.toContain('registry.db-wal');
    const before = readFileSync(path);
    writeFileSync(`${path}-wal`, log);
    await expect(openRegistryDb(path)).rejects.toThrow(
      /^the registry .*registry\.db was closed, but .*registry\.db-wal belongs to another file: move it away/,
    );
    expect(readFileSync(path).equals(before)).toBe(true);
    rmSync(`${path}-wal`);
    await (await openRegistryDb(path)).close();
  });

  it('a file that was not closed: is opened with its WAL', async () => {
    const registry = await open();
    await registry.create(draft('a'));
    const copy = join(directory, 'copy.db');
    for (const end of ['', '-wal']) writeFileSync(`${copy}${end}`, readFileSync(`${path}${end}`));
    const copied = await openRegistryDb(copy, { keyPath: join(directory, 'secret.key') });
    expect((await copied.get('a'))?.topic).toBe('a');
    await copied.close();
  });

  it('a directory, or a missing parent: is rejected with one sentence', async () => {
    await expect(openRegistryDb(directory)).rejects.toThrow(/^cannot open the registry .*: /);
    await expect(openRegistryDb(join(directory, 'absent/registry.db'))).rejects.toThrow(
      /cannot open .*: ENOENT/,
    );
  });

  it('is migrated once when two open it at once', async () => {
    const [one, two] = await Promise.all([open(), open()]);
    expect(await changesOf(one as Registry, 0)).toEqual(await changesOf(two as Registry, 0));
    expect(beside().prepare('SELECT number FROM migration').all()).toHaveLength(
      registrySchema.migrations.length,
    );
  });

  it('sql/sqlite/registry.sql creates what the migrations create', async () => {
    const script = readFileSync(resolve(import.meta.dirname, '../../sql/sqlite/registry.sql'), 'utf8');
    expect(script).toBe(registrySchemaScript()); // else: npm run docs
    const schemaOf = (database: Database) =>
      database.prepare('SELECT type, name, sql FROM sqlite_master ORDER BY name').all();
    await open();
    const migrated = schemaOf(beside());
    path = join(directory, 'by-hand.db');
    beside().exec(script);
    expect(schemaOf(beside())).toEqual(migrated);
    expect((await (await open()).create(draft('a'))).kind).toBe('created');
  });

  // That of a distribution is older than the library of dq.
  const hasShell = spawnSync('sqlite3', ['--version']).status === 0;
  it.skipIf(!hasShell)('sql/sqlite/registry.sql: the sqlite3 of this machine runs it', async () => {
    const secondOf = (ms: number) => Math.round(ms / 1_000);
    const from = secondOf(Date.now());
    const shell = spawnSync('sqlite3', [path], { input: registrySchemaScript() });
    expect([String(shell.stderr), shell.status]).toEqual(['', 0]);
    const [times] = beside()
      .prepare('SELECT min(applied_at) AS least, max(applied_at) AS most FROM migration')
      .all();
    const { least, most } = times as { least: number; most: number };
    expect(secondOf(least)).toBeGreaterThanOrEqual(from);
    expect(secondOf(most)).toBeLessThanOrEqual(secondOf(Date.now()));
    expect((await (await open()).create(draft('a'))).kind).toBe('created');
  });
});

describe('the file of a process that serves it', () => {
  const served = async (servesRejected: boolean) => {
    const damages: string[] = [];
    let repairs = 0;
    const { registry, damage } = await openServedRegistry(path, {
      mustExist: true,
      servesRejected,
      onDamage: (why) => damages.push(why),
      onRepaired: () => {
        repairs += 1;
      },
    });
    opened.push(registry);
    return { registry, damage, damages, repairs: () => repairs };
  };
  type Served = Awaited<ReturnType<typeof served>>;
  /** Every call is rejected with this reason, which was reported once. */
  const expectRejecting = async ({ registry, damage, damages }: Served, why: RegExp) => {
    const calls = [
      () => registry.tokens(-1),
      () => registry.get('a'),
      () => registry.create(draft('b')),
      () => registry.id(),
    ];
    for (const call of calls)
      await expect(call()).rejects.toMatchObject({
        failure: { kind: 'not_stored', code: 'registry_damaged', why: expect.stringMatching(why) },
      });
    expect(damage()).toMatch(why);
    expect(damages).toEqual([damage()]);
  };
  const ended = ({ registry, repairs }: Served) =>
    until('the end of the process', async () => {
      await failureOf(registry.get('a'));
      return repairs() > 0;
    });
  /** A registry with one topic in its file, and one in its WAL. */
  const make = async () => {
    const before = await openRegistryDb(path);
    await before.create(draft('a'));
    await before.close();
    const serving = await served(false);
    await serving.registry.create(draft('c'));
    expect(serving.damage()).toBeNull();
    return serving;
  };
  const sizes = () => ['', '-wal'].map((end) => statSync(`${path}${end}`).size);

  it('cut off: every call is rejected, and close leaves both files as they are', async () => {
    const serving = await make();
    truncateSync(path, statSync(path).size / 2);
    await expectRejecting(serving, /registry\.db is damaged \(\d+ of \d+ bytes\); restore it from a backup/);
    const before = sizes();
    await serving.registry.close();
    expect(sizes()).toEqual(before);
    expect(serving.repairs()).toBe(0);
    const next = await served(true);
    await expectRejecting(next, /registry\.db is damaged \(.+\); restore it from a backup/);
    expect(sizes()).toEqual(before);
  });

  it('replaced: every call is rejected, and another process opens the file', async () => {
    const serving = await make();
    copyFileSync(path, `${path}.new`);
    renameSync(`${path}.new`, path);
    await expectRejecting(serving, /registry\.db was replaced while dq runs/);
    await ended(serving);
    expect(await failureOf(serving.registry.get('a'))).toMatchObject({ code: 'registry_damaged' });
    expect(serving.repairs()).toBe(1);
  });

  it('made smaller by a VACUUM of another process: another process opens it', async () => {
    const serving = await make();
    for (let n = 0; n < 300; n += 1) await serving.registry.create(draft(`t${n}`));
    for (let n = 0; n < 300; n += 1) {
      const topic = await serving.registry.get(`t${n}`);
      await serving.registry.remove(`t${n}`, topic?.revision ?? 0);
    }
    const database = beside();
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    await serving.registry.get('a');
    const before = statSync(path).size;
    database.exec('VACUUM; PRAGMA wal_checkpoint(TRUNCATE)');
    expect(statSync(path).size).toBeLessThan(before);
    await ended(serving);
    const next = await served(true);
    expect((await next.registry.get('a'))?.topic).toBe('a');
    expect(next.damage()).toBeNull();
  });

  it('a key file that is put back: another process opens the registry', async () => {
    const before = await openRegistryDb(path);
    await before.create(draft('a'));
    await before.close();
    const key = join(directory, 'secret.key');
    renameSync(key, `${key}.away`);
    const serving = await served(true);
    await expectRejecting(serving, /the key file .*secret\.key is missing/);
    expect(serving.repairs()).toBe(0);
    renameSync(`${key}.away`, key);
    await ended(serving);
    const next = await served(true);
    expect((await next.registry.get('a'))?.topic).toBe('a');
  });

  it('removed: close makes no new file', async () => {
    const serving = await make();
    rmSync(path);
    await expectRejecting(serving, /registry\.db is missing; put it back/);
    await serving.registry.close();
    expect(readdirSync(directory)).not.toContain('registry.db');
  });

  it('a key file that cannot be read for a while: another process opens the registry', async () => {
    await (await openRegistryDb(path)).close();
    const { registryAgainMs } = sqlLimits;
    onTestFinished(() => void Object.assign(sqlLimits, { registryAgainMs }));
    Object.assign(sqlLimits, { registryAgainMs: 0 });
    const key = join(directory, 'secret.key');
    renameSync(key, `${key}.away`);
    mkdirSync(key);
    await expect(served(false)).rejects.toThrow(/cannot read the key file .*secret\.key: /);
    const serving = await served(true);
    await failureOf(serving.registry.get('a'));
    expect(serving.damage()).toMatch(/cannot read the key file .*secret\.key: /);
    expect(serving.repairs()).toBe(1);
  });

  it.each([
    ['missing', () => rmSync(path), /registry\.db is missing; put it back/],
    ['empty', () => writeFileSync(path, ''), /registry\.db is damaged \(it is empty\)/],
    ['no database', () => writeFileSync(path, 'x'.repeat(8192)), /registry\.db is damaged \(file is not/],
  ])('%s at the open: ends a start; in a running daemon every call is rejected', async (_, tear, why) => {
    await (await openRegistryDb(path)).close();
    tear();
    await expect(served(false)).rejects.toThrow(why);
    const serving = await served(true);
    await expectRejecting(serving, why);
    await serving.registry.close();
    await expect(served(false)).rejects.toThrow(why);
  });
});

describe('failures', () => {
  it('a full file: answers not_stored, and continues', async () => {
    const database = beside();
    const db = kyselyOver<{ t: { x: string } }>(database);
    database.exec('CREATE TABLE t (x); PRAGMA max_page_count = 4');
    const filling = db.transaction().execute((trx) =>
      trx
        .insertInto('t')
        .values({ x: 'x'.repeat(100_000) })
        .execute(),
    );
    const error = toStoreError(await filling.catch((thrown: unknown) => thrown));
    expect(error).toMatchObject({ failure: { kind: 'not_stored', code: 'full' } });
    await db.transaction().execute((trx) => trx.insertInto('t').values({ x: 'small' }).execute());
    expect(await db.selectFrom('t').selectAll().execute()).toEqual([{ x: 'small' }]);
  });

  it('a rejected COMMIT: rolls back, and reports CommitError', async () => {
    const database = beside();
    const db = kyselyOver<{ child: { p: number } }>(database);
    database.exec(`PRAGMA foreign_keys = ON; CREATE TABLE parent (x INTEGER PRIMARY KEY);
      CREATE TABLE child (p REFERENCES parent(x) DEFERRABLE INITIALLY DEFERRED)`);
    const adding = db.transaction().execute((trx) => trx.insertInto('child').values({ p: 1 }).execute());
    await expect(adding).rejects.toBeInstanceOf(CommitError);
    const { rows } = await sql<{ n: number }>`SELECT count(*) AS n FROM child`.execute(db);
    expect(rows).toEqual([{ n: 0 }]);
    expect(database.isTransaction).toBe(false);
  });

  const raised = (errcode: number) => Object.assign(new Error('raised'), { errcode });
  it.each([
    [raised(13), { kind: 'not_stored', code: 'full' }],
    [raised(5), { kind: 'not_stored', code: 'busy' }],
    [raised(8 | (1 << 8)), { kind: 'not_stored', code: 'read_only' }],
    [raised(10), { kind: 'not_stored', code: 'io_error' }],
    [raised(18), { kind: 'not_stored', code: 'sqlite_18' }],
    [new CommitError(raised(10 | (3 << 8))), { kind: 'unknown', code: 'io_error' }],
    [new CommitError(raised(13)), { kind: 'not_stored', code: 'full' }],
    [new CommitError(raised(5)), { kind: 'not_stored', code: 'busy' }],
  ])('%s is %j', (error, failure) => {
    expect(toStoreError(error)).toMatchObject({ failure });
  });

  it('bugs stay unchanged', () => {
    const error = new TypeError('x');
    expect(toStoreError(error)).toBe(error);
  });
});
