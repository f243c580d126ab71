import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Registry } from '../../src/ports/registry.ts';
import { CommitError } from '../../src/registry/sql/commit-error.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import { registrySchema, registrySchemaScript } from '../../src/registry/sql/schema/registry-schema.ts';
import { kyselyOver } from '../../src/registry/sql/sqlite/sqlite-dialect.ts';
import { toStoreError } from '../../src/registry/sql/store-failure.ts';
import type { PageSize } from '../../src/registry/sql/tables/topic-pages.ts';
import type { Database } from '../../src/runtime/database.ts';
import { openDatabase } from '../../src/runtime/database.ts';
import { changesOf } from '../support/registry-pages.ts';
import { until } from '../support/until.ts';
import { draft, exerciseRegistry, failureOf } from './registry-cases.ts';

let directory = '';
let path = '';
const opened: Registry[] = [];
const databases: Database[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dq-registry-'));
  path = join(directory, 'registry.db');
});
afterEach(async () => {
  for (const registry of opened.splice(0)) await registry.close();
  for (const database of databases.splice(0)) database.close();
  rmSync(directory, { recursive: true, force: true });
});

async function open(page: Partial<PageSize> = {}): Promise<Registry> {
  const registry = await openRegistryDb(path, { page });
  opened.push(registry);
  return registry;
}

/** The file as somebody else has it open. */
function beside(): Database {
  const database = openDatabase(path);
  databases.push(database);
  return database;
}

exerciseRegistry({ open, run: async (sql) => beside().prepare(sql).all() as Record<string, unknown>[] });

describe('a lock of somebody else', () => {
  it('waits for a lock without blocking its process', async () => {
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

  it('answers not_stored when the lock is not given up, and has then changed nothing', async () => {
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
  it('can be read by its owner alone, its log too', async () => {
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

  it('refuses every call after close, and finishes the one that had begun', async () => {
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
      /registry\.db is no dq schema: it has tables \(notes …\) but no ledger/,
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
      /step 1 \(topics and statistics\) is another than the one this version knows/,
    ],
  ])('is refused and left alone when it is %s', async (_, prepare, message) => {
    await prepare();
    const before = readFileSync(path);
    await expect(openRegistryDb(path)).rejects.toMatchObject({
      name: 'DqError',
      code: 'unavailable',
      message: expect.stringMatching(message),
    });
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it('is refused with a sentence when it is a directory, or in none', async () => {
    await expect(openRegistryDb(directory)).rejects.toThrow(/^the registry .* cannot be opened: /);
    await expect(openRegistryDb(join(directory, 'absent/registry.db'))).rejects.toThrow(
      /cannot be opened: ENOENT/,
    );
  });

  it('is migrated once when two open it at once', async () => {
    const [one, two] = await Promise.all([open(), open()]);
    expect(await changesOf(one as Registry, 0)).toEqual(await changesOf(two as Registry, 0));
    expect(beside().prepare('SELECT number FROM migration').all()).toHaveLength(
      registrySchema.migrations.length,
    );
  });

  it('can be made by hand from sql/sqlite/registry.sql, which says what the migrations do', async () => {
    const script = readFileSync(resolve(import.meta.dirname, '../../sql/sqlite/registry.sql'), 'utf8');
    expect(script).toBe(registrySchemaScript()); // else: npx tsx scripts/render-schema.ts
    const schemaOf = (database: Database) =>
      database.prepare('SELECT type, name, sql FROM sqlite_master ORDER BY name').all();
    await open();
    const migrated = schemaOf(beside());
    path = join(directory, 'by-hand.db');
    beside().exec(script);
    expect(schemaOf(beside())).toEqual(migrated);
    expect((await (await open()).create(draft('a'))).kind).toBe('created');
  });
});

describe('failures', () => {
  it('answers not_stored when the file can grow no more, and goes on', async () => {
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

  it('rolls back what a COMMIT refused, and says that it was the COMMIT', async () => {
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

  it("leaves a programmer's error what it is", () => {
    const error = new TypeError('x');
    expect(toStoreError(error)).toBe(error);
  });
});
