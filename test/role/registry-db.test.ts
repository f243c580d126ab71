import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { makeToken, type TokenRecord } from '../../src/core/token.ts';
import { topicDefaults } from '../../src/core/topic.ts';
import type { Registry, StatDelta, TopicDraft } from '../../src/registry/registry.ts';
import { statNames } from '../../src/registry/registry.ts';
import type { Database } from '../../src/sql/database.ts';
import { openDatabase } from '../../src/sql/database.ts';
import { openRegistryDb } from '../../src/sql/registry-db.ts';
import { registryMigrations, registrySchemaScript } from '../../src/sql/registry-schema.ts';
import { CommitError, kyselyOver } from '../../src/sql/sqlite-dialect.ts';
import { toStoreError } from '../../src/sql/store-failure.ts';
import { StoreError } from '../../src/store/job-store.ts';
import { until } from '../support/until.ts';

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

async function open(): Promise<Registry> {
  const registry = await openRegistryDb(path);
  opened.push(registry);
  return registry;
}

/** The file as somebody else has it open. */
function beside(): Database {
  const database = openDatabase(path);
  databases.push(database);
  return database;
}

function draft(topic: string, more: Partial<TopicDraft> = {}): TopicDraft {
  return {
    ...topicDefaults,
    callbackUrl: 'http://127.0.0.1:9000/',
    topic,
    state: 'active',
    secrets: [{ secret: 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw', untilAt: null }],
    ...more,
  };
}

async function created(registry: Registry, topic: TopicDraft) {
  const outcome = await registry.create(topic);
  if (outcome.kind !== 'created') throw new Error(outcome.kind);
  return outcome.topic;
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'no failure',
    (error: unknown) => (error instanceof StoreError ? error.failure : error),
  );

describe('topics', () => {
  it('create: stores a topic whole, and get gives it back, also after closing', async () => {
    const registry = await open();
    const wanted = draft('order.close', {
      title: '订单 "close"\u0000',
      headers: { 'x-a': 'b' },
      backoff: { type: 'ladder', stepsMs: [1, 2] },
      secrets: [
        { secret: 'whsec_b', untilAt: null },
        { secret: 'whsec_a', untilAt: 5 },
      ],
      state: 'paused',
    });
    const before = Date.now();
    const topic = await created(registry, wanted);
    expect(topic).toMatchObject({ ...wanted, revision: 1 });
    expect(topic.createdAt).toBeGreaterThanOrEqual(before);
    expect(topic.updatedAt).toBe(topic.createdAt);
    expect(await registry.get('order.close')).toEqual(topic);
    await registry.close();
    expect(await (await open()).get('order.close')).toEqual(topic);
  });

  it('create: leaves an existing topic as it is', async () => {
    const registry = await open();
    const topic = await created(registry, draft('a'));
    expect(await registry.create(draft('a', { title: 'other' }))).toEqual({ kind: 'exists' });
    expect(await registry.get('a')).toEqual(topic);
    expect((await registry.changes(0)).revision).toBe(1);
  });

  it('get: finds names byte for byte, and nothing under a name that no topic can have', async () => {
    const registry = await open();
    await created(registry, draft('a'));
    for (const name of ['A', 'b', '', 'a\0b', "a' OR 1=1 --"]) expect(await registry.get(name)).toBeNull();
  });

  it('update: changes the topic of the expected revision, and keeps when it was created', async () => {
    const registry = await open();
    const topic = await created(registry, draft('a'));
    const outcome = await registry.update(draft('a', { title: 'new', state: 'offline' }), topic.revision);
    expect(outcome).toMatchObject({
      kind: 'updated',
      topic: { title: 'new', state: 'offline', revision: 2 },
    });
    const stored = await registry.get('a');
    expect(outcome).toEqual({ kind: 'updated', topic: stored });
    expect(stored?.createdAt).toBe(topic.createdAt);
  });

  it('update: changes nothing when the revision is another, or the topic is gone', async () => {
    const registry = await open();
    const topic = await created(registry, draft('a'));
    await registry.update(draft('a', { title: 'second' }), topic.revision);
    expect(await registry.update(draft('a', { title: 'third' }), topic.revision)).toEqual({
      kind: 'changed',
    });
    expect(await registry.update(draft('b'), 1)).toEqual({ kind: 'absent' });
    expect(await registry.get('a')).toMatchObject({ title: 'second' });
    expect(await registry.get('b')).toBeNull();
    expect((await registry.changes(0)).revision).toBe(2);
  });

  it('update: keeps only what a topic is made of', async () => {
    const registry = await open();
    const topic = await created(registry, draft('a'));
    const outcome = await registry.update(
      { ...topic, createdAt: 1, revision: 99 } as TopicDraft,
      topic.revision,
    );
    expect(outcome).toMatchObject({ kind: 'updated', topic: { revision: 2, createdAt: topic.createdAt } });
    const row = beside().prepare('SELECT settings FROM topic').get() as { settings: string };
    expect(Object.keys(JSON.parse(row.settings)).sort()).toEqual(
      [...Object.keys(topicDefaults), 'callbackUrl'].sort(),
    );
  });

  it('remove: removes the topic of the expected revision only', async () => {
    const registry = await open();
    const topic = await created(registry, draft('a'));
    expect(await registry.remove('a', topic.revision + 1)).toBe('changed');
    expect(await registry.remove('b', topic.revision)).toBe('absent');
    expect(await registry.get('a')).not.toBeNull();
    expect(await registry.remove('a', topic.revision)).toBe('removed');
    expect(await registry.get('a')).toBeNull();
    expect(await registry.remove('a', topic.revision)).toBe('absent');
  });

  it('reads a row of an older version with the defaults of what it lacks', async () => {
    const registry = await open();
    await created(registry, draft('a'));
    beside().exec(`UPDATE topic SET settings = '{"callbackUrl":"http://x/","later":1}'`);
    const topic = await registry.get('a');
    expect(topic).toMatchObject({ ...topicDefaults, callbackUrl: 'http://x/' });
    expect(topic).not.toHaveProperty('later');
  });

  it.each(['{', '{}', 'null'])('refuses to read a topic whose settings are %s', async (settings) => {
    const registry = await open();
    await created(registry, draft('a'));
    beside().prepare('UPDATE topic SET settings = ?').run(settings);
    expect(await failureOf(registry.get('a'))).toEqual({ kind: 'not_stored', code: 'damaged' });
    expect(await failureOf(registry.changes(0))).toEqual({ kind: 'not_stored', code: 'damaged' });
  });
});

describe('changes', () => {
  it('gives everything since 0, what came after a revision, and nothing at the present one', async () => {
    const registry = await open();
    expect(await registry.changes(0)).toEqual({ revision: 0, topics: [], deleted: [] });
    const a = await created(registry, draft('a'));
    const b = await created(registry, draft('b'));
    expect(await registry.changes(0)).toEqual({ revision: 2, topics: [a, b], deleted: [] });
    expect(await registry.changes(1)).toEqual({ revision: 2, topics: [b], deleted: [] });
    expect(await registry.changes(2)).toEqual({ revision: 2, topics: [], deleted: [] });
  });

  it('names a deleted topic until it is created again', async () => {
    const registry = await open();
    await created(registry, draft('a'));
    await registry.remove('a', 1);
    expect(await registry.changes(1)).toEqual({ revision: 2, topics: [], deleted: ['a'] });
    expect(await registry.changes(2)).toEqual({ revision: 2, topics: [], deleted: [] });
    const again = await created(registry, draft('a'));
    expect(await registry.changes(1)).toEqual({ revision: 3, topics: [again], deleted: [] });
    await registry.remove('a', 3);
    expect((await registry.changes(0)).deleted).toEqual(['a']);
  });

  it('never uses a revision twice, not after a removal and a restart either', async () => {
    const registry = await open();
    await created(registry, draft('a'));
    await registry.remove('a', 1);
    await registry.close();
    expect((await created(await open(), draft('a'))).revision).toBe(3);
  });
});

describe('statistics', () => {
  const delta = (name: StatDelta['name'], n: number, day = 20_300_131, topic = 'a'): StatDelta => ({
    topic,
    day,
    name,
    n,
  });
  const counts = (given: Partial<Record<StatDelta['name'], number>>) =>
    Object.fromEntries(statNames.map((name) => [name, given[name] ?? 0]));

  it('adds up totals and today, and starts a new day at zero', async () => {
    const registry = await open();
    await created(registry, draft('a'));
    await registry.addStats([delta('pushed', 2), delta('pushed', 3), delta('dead', 1)]);
    await registry.addStats([delta('pushed', 10)]);
    expect(await registry.stats('a', 20_300_131)).toEqual([
      { topic: 'a', total: counts({ pushed: 15, dead: 1 }), today: counts({ pushed: 15, dead: 1 }) },
    ]);
    await registry.addStats([delta('pushed', 4, 20_300_201)]);
    expect(await registry.stats('a', 20_300_201)).toEqual([
      { topic: 'a', total: counts({ pushed: 19, dead: 1 }), today: counts({ pushed: 4 }) },
    ]);
  });

  it('counts what arrives for a day that is over in the total alone', async () => {
    const registry = await open();
    await created(registry, draft('a'));
    await registry.addStats([delta('retried', 1, 20_300_201), delta('retried', 7, 20_300_131)]);
    expect(await registry.stats('a', 20_300_201)).toMatchObject([
      { total: { retried: 8 }, today: { retried: 1 } },
    ]);
  });

  it('answers one topic, or all that have any', async () => {
    const registry = await open();
    for (const name of ['a', 'b', 'c']) await created(registry, draft(name));
    await registry.addStats([delta('pushed', 1), delta('pushed', 2, 20_300_131, 'b')]);
    expect((await registry.stats(null, 20_300_131)).map(({ topic }) => topic)).toEqual(['a', 'b']);
    expect((await registry.stats('b', 20_300_131)).map(({ total }) => total.pushed)).toEqual([2]);
    expect(await registry.stats('c', 20_300_131)).toEqual([]);
  });

  it('keeps none of a topic that is not registered, nor of one that was removed', async () => {
    const registry = await open();
    const topic = await created(registry, draft('a'));
    await registry.addStats([delta('pushed', 1), delta('pushed', 1, 20_300_131, 'unknown')]);
    expect((await registry.stats(null, 20_300_131)).map((stats) => stats.topic)).toEqual(['a']);
    await registry.remove('a', topic.revision);
    await registry.addStats([delta('delivered', 1)]);
    expect(await registry.stats(null, 20_300_131)).toEqual([]);
  });

  it('adds all of a call or nothing of it', async () => {
    const registry = await open();
    await created(registry, draft('a'));
    const broken = delta('dead', Number.NaN);
    await expect(registry.addStats([delta('pushed', 1), broken])).rejects.toThrow();
    expect(await registry.stats('a', 20_300_131)).toEqual([]);
  });
});

describe('onChange', () => {
  it('tells of own writes that changed something, until unsubscribed', async () => {
    const registry = await open();
    let told = 0;
    const unsubscribe = registry.onChange(() => {
      told += 1;
    });
    const topic = await created(registry, draft('a'));
    expect(told).toBe(1);
    await registry.create(draft('a'));
    await registry.update(draft('a'), 99);
    await registry.remove('a', 99);
    await registry.addStats([{ topic: 'a', day: 1, name: 'dead', n: 1 }]);
    expect(told).toBe(1);
    await registry.update(draft('a'), topic.revision);
    await registry.remove('a', 2);
    expect(told).toBe(3);
    unsubscribe();
    await registry.create(draft('b'));
    expect(told).toBe(3);
  });
});

describe('two connections to one file', () => {
  it('create: one of two at once wins', async () => {
    const [one, two] = [await open(), await open()];
    const outcomes = await Promise.all([one.create(draft('a')), two.create(draft('a'))]);
    expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['created', 'exists']);
  });

  it('update: of many that expect one revision, one wins; no revision is given twice', async () => {
    const [one, two] = [await open(), await open()];
    const topic = await created(one, draft('a'));
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        (i % 2 ? one : two).update(draft('a', { title: String(i) }), topic.revision),
      ),
    );
    expect(outcomes.filter(({ kind }) => kind === 'updated')).toHaveLength(1);
    const topics = await Promise.all(
      Array.from({ length: 20 }, (_, i) => created(i % 2 ? one : two, draft(`b${i}`))),
    );
    expect(new Set(topics.map(({ revision }) => revision)).size).toBe(20);
    expect((await one.changes(0)).revision).toBe(22);
    expect(await two.changes(0)).toEqual(await one.changes(0));
  });

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
    expect((await registry.changes(0)).revision).toBe(0);
    other.exec('COMMIT');
    expect((await writing).kind).toBe('created');
  });

  it('answers not_stored when the lock is not given up, and has then changed nothing', async () => {
    const registry = await open();
    const other = beside();
    other.exec('BEGIN IMMEDIATE');
    expect(await failureOf(registry.create(draft('a')))).toEqual({ kind: 'not_stored', code: 'busy' });
    other.exec('COMMIT');
    expect(await registry.changes(0)).toEqual({ revision: 0, topics: [], deleted: [] });
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
    expect(await one?.changes(0)).toEqual(await two?.changes(0));
    expect(beside().prepare('SELECT number FROM migration').all()).toHaveLength(registryMigrations.length);
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

describe('access tokens', () => {
  const token = (name: string, more: Partial<TokenRecord> = {}): TokenRecord => {
    const { id, digest } = makeToken();
    return { name, id, digest, scopes: ['push', 'read'], topics: ['order.*'], createdAt: 5, ...more };
  };

  it('are kept whole and listed by name, also after closing', async () => {
    const registry = await open();
    const [a, b] = [token('a'), token('b', { scopes: ['admin'], topics: ['*', 'x'] })];
    expect(await registry.createToken(b)).toBe('created');
    expect(await registry.createToken(a)).toBe('created');
    expect(await registry.tokens(-1)).toEqual({ revision: 2, tokens: [a, b] });
    await registry.close();
    expect((await (await open()).tokens(-1)).tokens).toEqual([a, b]);
  });

  it('say null to who knows them all, whatever else changes the revision', async () => {
    const registry = await open();
    const { revision } = await registry.tokens(-1);
    expect(revision).toBe(0);
    expect(await registry.tokens(0)).toEqual({ revision: 0, tokens: null });
    await created(registry, draft('t'));
    expect(await registry.tokens(0)).toEqual({ revision: 1, tokens: [] });
  });

  it('a name is taken once, and nothing changes when it is taken again', async () => {
    const registry = await open();
    const first = token('a');
    await registry.createToken(first);
    expect(await registry.createToken(token('a'))).toBe('exists');
    expect(await registry.tokens(-1)).toEqual({ revision: 1, tokens: [first] });
  });

  it('are removed by name, byte for byte', async () => {
    const registry = await open();
    await registry.createToken(token('a'));
    for (const name of ['A', 'b', '', 'a\0b', '%']) expect(await registry.removeToken(name)).toBe('absent');
    expect(await registry.removeToken('a')).toBe('removed');
    expect(await registry.removeToken('a')).toBe('absent');
    expect(await registry.tokens(1)).toEqual({ revision: 2, tokens: [] });
  });

  it('listeners are told of made and removed ones, and of nothing else', async () => {
    const registry = await open();
    let told = 0;
    registry.onChange(() => {
      told += 1;
    });
    await registry.createToken(token('a'));
    await registry.createToken(token('a'));
    await registry.removeToken('b');
    await registry.tokens(-1);
    expect(told).toBe(1);
    await registry.removeToken('a');
    expect(told).toBe(2);
  });

  it('are at most limits.tokensMax', async () => {
    const registry = await open();
    await registry.createToken(token('first'));
    const db = beside();
    db.exec(
      `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ${limits.tokensMax})
       INSERT INTO token SELECT 't' || i, 'id' || i, digest, scopes, topics, created_at FROM token, n`,
    );
    expect(await registry.createToken(token('another'))).toBe('full');
    expect(await registry.removeToken('t2')).toBe('removed');
    expect(await registry.createToken(token('another'))).toBe('created');
  });

  it.each(['scopes', 'topics', 'digest'])('a row with a broken %s gives nobody a right', async (column) => {
    const registry = await open();
    await registry.createToken(token('a'));
    beside().exec(`UPDATE token SET ${column} = '"*"'`);
    expect(await failureOf(registry.tokens(-1))).toEqual({ kind: 'not_stored', code: 'damaged' });
    expect(await registry.removeToken('a')).toBe('removed');
  });
});
