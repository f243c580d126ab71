// Tests the registry in MySQL: the cases of SQLite, and a server that is unavailable, frozen or replaced.

import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { inspect } from 'node:util';
import { sql } from 'kysely';
import { createConnection } from 'mysql2/promise';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DqError } from '../../src/core/errors.ts';
import { limits } from '../../src/core/limits.ts';
import { filled } from '../../src/core/shard-list.ts';
import { makeToken, type TokenRecord } from '../../src/core/token.ts';
import { parseMysqlUrl } from '../../src/core/url/server-url.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { sqlLimits } from '../../src/registry/sql/limits.ts';
import { kyselyOverMysql } from '../../src/registry/sql/mysql/mysql-engine.ts';
import { MysqlConnections } from '../../src/registry/sql/mysql/mysql-pool.ts';
import {
  type MysqlRegistry,
  type MysqlRegistryOptions,
  mysqlRegistry,
} from '../../src/registry/sql/mysql/mysql-registry.ts';
import { readSnapshotTopics } from '../../src/registry/sql/registry-snapshot.ts';
import { mysqlSchema, mysqlSchemaScript } from '../../src/registry/sql/schema/mysql-schema.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { startAnswerLoser } from '../support/answer-loser.ts';
import { testDirectory } from '../support/directory.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { startRedisProxy } from '../support/redis-proxy.ts';
import { copyState } from '../support/registry-copy.ts';
import { allStats, changesOf } from '../support/registry-pages.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { until } from '../support/until.ts';
import { words } from '../support/words.ts';
import { created, draft, failureOf } from './registry/case.ts';
import { exerciseRegistry } from './registry/exercise.ts';

describe.skipIf(await lacks('mysql'))('in MySQL', async () => {
  // Unhelpful server defaults: not strict, another character set whatever a client asks for, another
  // isolation level, chained transactions, and changes without a key rejected.
  const starting = mariadb({
    args: words`
      --sql-mode= --character-set-server=utf8mb3 --skip-character-set-client-handshake
      --transaction-isolation=READ-UNCOMMITTED --completion-type=CHAIN --sql-safe-updates=1
    `,
  });
  const server = await owned('file', starting);

  let directory = '';
  let database = '';
  let made = 0;
  const opened: MysqlRegistry[] = [];
  const warnings: string[] = [];

  beforeEach(async () => {
    directory = testDirectory();
    database = `dq${made++}`;
    if (!server.process.isRunning) await server.process.start();
    await asRoot(`CREATE DATABASE ${database}`);
    warnings.length = 0;
  });
  afterEach(async () => {
    for (const registry of opened.splice(0)) await registry.close();
  });

  const optionsOf = (more: Partial<MysqlRegistryOptions> = {}): MysqlRegistryOptions => {
    const parsed = parseMysqlUrl(server.url(database));
    if (!parsed.ok) throw new Error(parsed.message);
    return {
      ...{ server: parsed.value, keyPath: join(directory, 'secret.key') },
      ...{ snapshotPath: join(directory, 'registry-copy.json'), keepsSnapshot: false, migrates: true },
      warn: (sentence) => warnings.push(sentence),
      ...more,
    };
  };
  const make = (more: Partial<MysqlRegistryOptions> = {}): MysqlRegistry => {
    const registry = mysqlRegistry(optionsOf(more));
    opened.push(registry);
    return registry;
  };
  const open = async (more: Partial<MysqlRegistryOptions> = {}): Promise<MysqlRegistry> => {
    const registry = make(more);
    // Longer than a start waits: creating the tables may take long on a busy machine.
    await until('it is open', async () => (await changesOf(registry, 0)).revision >= 0);
    return registry;
  };
  const run = (sql: string) => asRoot(sql, database);
  /** One statement from outside. */
  const asRoot = async (sql: string, where = 'mysql'): Promise<readonly Record<string, unknown>[]> => {
    const connection = await createConnection(server.url(where));
    try {
      await connection.query('SET SESSION sql_safe_updates = 0');
      const [rows] = await connection.query(sql);
      return Array.isArray(rows) ? (rows as Record<string, unknown>[]) : [];
    } finally {
      await connection.end();
    }
  };

  describe('a registry', () => {
    // To create the tables takes most of the time of a case.
    let shared = '';
    const initial = ['migration', 'registry', 'leader', 'dq_journal'];
    beforeEach(async () => {
      if (shared === '') {
        shared = database;
        return;
      }
      database = shared;
      const tables = (await run('SHOW TABLES')).map((row) => String(Object.values(row)[0]));
      for (const name of tables) if (!initial.includes(name)) await run(`DELETE FROM ${name}`);
      await run('UPDATE registry SET revision = 0, key_check = NULL');
    });
    exerciseRegistry({ open: (page = {}) => open({ page }), run });
  });

  describe('the schema', () => {
    const schema = async () => {
      const tables = (await run('SHOW TABLES')).map((row) => String(Object.values(row)[0]));
      return Promise.all(tables.sort().map(async (name) => (await run(`SHOW CREATE TABLE ${name}`))[0]));
    };
    const script = resolve(import.meta.dirname, '../../sql/mysql/dq.sql');

    it('sql/mysql/dq.sql is repeatable, and creates what the migrations create', async () => {
      expect(readFileSync(script, 'utf8')).toBe(mysqlSchemaScript()); // else: npm run docs
      await open();
      const migrated = await schema();
      expect(migrated).not.toHaveLength(0);
      database = `dq${made++}`;
      await asRoot(`CREATE DATABASE ${database}`);
      await server.run(`source ${script}`, database);
      await server.run(`source ${script}`, database);
      expect(await schema()).toEqual(migrated);
      expect((await (await open()).create(draft('a'))).kind).toBe('created');
    });

    it('is created once by concurrent openers, and completed after an interruption', async () => {
      const [first = ''] = mysqlSchema.migrations[0]?.statements ?? [];
      await run(mysqlSchema.createTable);
      await run(first);
      const keyPath = join(directory, 'secret.key');
      await Promise.all(Array.from({ length: 4 }, () => open({ keyPath })));
      expect(await run('SELECT number FROM migration')).toEqual(
        mysqlSchema.migrations.map(({ number }) => ({ number })),
      );
      expect(await run('SELECT revision FROM registry')).toEqual([{ revision: 0 }]);
    });

    it.each<[string, readonly string[], RegExp]>([
      ["somebody else's", ['CREATE TABLE notes (x INT)'], /is not a dq schema: it has tables \(notes …\)/],
      [
        'a newer one',
        [mysqlSchema.createTable, "INSERT INTO migration VALUES (99, 'later', 'x', 0)"],
        /was written by a newer dq: it has schema 99/,
      ],
      [
        'another one of this number',
        [mysqlSchema.createTable, "INSERT INTO migration VALUES (1, 'x', 'y', 0)"],
        /step 1 \(x\) differs/,
      ],
    ])('is rejected and unchanged when it is %s', async (_, statements, message) => {
      for (const statement of statements) await run(statement);
      const before = await schema();
      const registry = make();
      // A start goes on when MySQL does not answer within a second.
      await until('it is rejected', async () => {
        const error: unknown = await registry.prove().catch((reason: unknown) => reason);
        return error instanceof Error && message.test(error.message);
      });
      expect(await failureOf(changesOf(registry, 0))).toEqual({ kind: 'not_stored', code: 'refused' });
      expect(await schema()).toEqual(before);
    });

    it('missing: not created without permission, found once it exists', async () => {
      const guest = make({ migrates: false });
      await expect(guest.prove()).rejects.toThrow(
        `has schema 0, this version needs ${mysqlSchema.migrations.length}: run dq migrate`,
      );
      expect(await run('SHOW TABLES')).toEqual([]);
      await open();
      expect(await changesOf(guest, 0)).toEqual({ revision: 0, topics: [], deleted: [] });
    });

    it('rejects too long texts instead of cutting them', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      const state = 'x'.repeat(21) as 'active';
      expect(await failureOf(registry.update(draft('a', { state }), 1))).toEqual({
        kind: 'not_stored',
        code: 'mysql_1406',
      });
      expect((await registry.get('a'))?.state).toBe('active');
    });
  });

  describe('the key', () => {
    it('of the first start is the key; another machine needs a copy', async () => {
      await created(await open(), draft('a'));
      const other = { keyPath: join(directory, 'other.key') };
      await expect(make(other).prove()).rejects.toThrow(/other\.key is missing.*copy it from another dq/);
      writeFileSync(other.keyPath, `v1:${Buffer.alloc(32).toString('base64')}\n`, { mode: 0o600 });
      const rejected = make(other);
      await expect(rejected.prove()).rejects.toThrow(/other\.key does not fit.*copy it from another dq/);
      expect(await failureOf(rejected.get('a'))).toEqual({ kind: 'not_stored', code: 'refused' });
      writeFileSync(other.keyPath, readFileSync(join(directory, 'secret.key')));
      expect((await rejected.get('a'))?.secrets).toEqual(draft('a').secrets);
    });
  });

  describe('an unavailable server', () => {
    it('fails every call with a reason, and is found again', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      await server.process.kill();
      const calls = [registry.get('a'), changesOf(registry, 1), registry.create(draft('b'))];
      for (const failure of await Promise.all(calls.map(failureOf)))
        expect(failure).toMatchObject({
          kind: 'not_stored',
          code: expect.stringMatching(/lost|unreachable/),
        });
      await server.process.start();
      await until('it answers again', async () => (await registry.get('a')) !== null);
      expect((await registry.create(draft('b'))).kind).toBe('created');
    });

    it('restarted: later calls do not fail', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      await server.process.kill();
      await server.process.start();
      expect((await registry.create(draft('b'))).kind).toBe('created');
    });

    it('closed idle connections: later calls do not fail', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      await server.run(
        "SELECT CONCAT('KILL ', id, ';') FROM information_schema.processlist WHERE db IS NOT NULL INTO OUTFILE 'kills.sql'",
      );
      await server.run(`source ${join(server.process.directory, 'data/kills.sql')}`);
      rmSync(join(server.process.directory, 'data/kills.sql'));
      expect((await registry.create(draft('b'))).kind).toBe('created');
    });

    it('read only: is read, and written when it accepts writes again', async () => {
      await open();
      // read_only does not stop administrators.
      await asRoot('CREATE USER IF NOT EXISTS plain');
      await asRoot(`GRANT ALL ON ${database}.* TO plain`);
      const { server: where } = optionsOf();
      const registry = await open({ server: { ...where, user: 'plain' } });
      await asRoot('SET GLOBAL read_only = 1');
      try {
        expect(await failureOf(registry.create(draft('a')))).toEqual({
          kind: 'not_stored',
          code: 'read_only',
        });
        expect(await registry.get('a')).toBeNull();
      } finally {
        await asRoot('SET GLOBAL read_only = 0');
      }
      expect((await registry.create(draft('a'))).kind).toBe('created');
    });

    it('frozen: every call ends by its deadline, and works again later', async () => {
      const time = useJumpingTime();
      const registry = await open();
      await created(registry, draft('a'));
      await server.process.freeze();
      try {
        const calls = Array.from({ length: 3 * sqlLimits.mysqlQueueMax }, (_, i) =>
          failureOf(i % 2 ? registry.get(`x${i}`) : registry.create(draft(`x${i}`))),
        );
        const codes = new Set(
          (await time.outlast(Promise.all(calls))).map((failure) => (failure as { code: string }).code),
        );
        expect([...codes].sort()).toEqual(['busy', 'timeout']);
        // Earlier calls have given up their connections: a new one does not wait longer.
        expect(await time.outlast(failureOf(registry.get('a')))).toMatchObject({ code: 'timeout' });
      } finally {
        server.process.thaw();
      }
      await until('it answers again', async () => (await registry.get('a')) !== null);
    });

    it('destroys connections without waiting for the server', async () => {
      const { server: where } = optionsOf();
      const connections = new MysqlConnections(where);
      const impatient = kyselyOverMysql(connections, 100);
      const patient = kyselyOverMysql(connections, limits.mysqlCallMs);
      try {
        const asked = () =>
          expect(sql`SELECT 1`.execute(impatient)).rejects.toMatchObject({ failure: 'timeout' });
        await Promise.all([sql`SELECT SLEEP(0.1)`.execute(patient), sql`SELECT SLEEP(0.1)`.execute(patient)]);
        expect(connections.open).toBe(2);
        await server.process.freeze();
        await Promise.all([asked(), asked()]);
        await until('both are destroyed', () => connections.open === 0);
        server.process.thaw();
        expect((await sql<{ n: number }>`SELECT 1 AS n`.execute(patient)).rows).toEqual([{ n: 1 }]);
      } finally {
        server.process.thaw();
        await connections.close();
      }
    });

    it('frozen: is closed in time', async () => {
      const time = useJumpingTime();
      const registry = await open();
      await server.process.freeze();
      try {
        const call = failureOf(registry.get('a'));
        await time.outlast(registry.close());
        await call;
      } finally {
        server.process.thaw();
      }
    });

    it.each([
      ['commit', 'unknown', 2],
      ['insert into `topic`', 'not_stored', 1],
    ])('lost answer to %s: leaves it %s', async (word, kind, revision) => {
      const registry = await open();
      await created(registry, draft('a'));
      const proxy = await startAnswerLoser(server.port, word);
      const through = await open({ server: { ...optionsOf().server, port: proxy.port } });
      proxy.arm();
      expect(await failureOf(through.create(draft('b')))).toEqual({ kind, code: 'lost' });
      expect((await changesOf(registry, 0)).revision).toBe(revision);
    });

    it('distant: accepts as many statistics as one call sends', async () => {
      const registry = await open();
      const topics = Array.from({ length: upkeepLimits.statsBatchMax / 2 }, (_, i) => `t${i}`);
      for (const topic of topics) await created(registry, draft(topic));
      const line = await startRedisProxy(server.port);
      line.delay(() => 15);
      const through = await open({ server: { ...optionsOf().server, port: line.port } });
      const deltas = topics.flatMap((topic) => [
        { topic, day: 20_300_131, name: 'pushed' as const, n: 1 },
        { topic, day: 20_300_131, name: 'delivered' as const, n: 2 },
      ]);
      await through.addStats(deltas);
      await through.addStats(deltas);
      const stats = await allStats(registry, 20_300_131);
      expect(stats).toHaveLength(topics.length);
      for (const { total } of stats) expect(total).toMatchObject({ pushed: 2, delivered: 4 });
    });

    it('sql_select_limit of the server does not cut our answers', async () => {
      await asRoot('SET GLOBAL sql_select_limit = 1');
      try {
        const registry = await open();
        for (const name of ['a', 'b', 'c']) await created(registry, draft(name));
        expect((await changesOf(registry, 0)).topics).toHaveLength(3);
      } finally {
        await asRoot('SET GLOBAL sql_select_limit = DEFAULT');
      }
    });

    it('errors hold no value of a statement', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      await run('ALTER TABLE topic DROP COLUMN settings');
      const error = await registry
        .create(draft('b', { secrets: [{ secret: 'whsec_canary', untilAt: null }], title: 'canary' }))
        .catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(StoreError);
      expect(inspect(error, { depth: 9, showHidden: true })).not.toMatch(/canary|insert into|v1:/);
    });
  });

  describe('locks', () => {
    it('of others are waited for, without any trace', async () => {
      const registry = await open();
      const other = await createConnection(server.url(database));
      try {
        await other.query('BEGIN');
        await other.query('SELECT revision FROM registry FOR UPDATE');
        expect(await failureOf(registry.create(draft('a')))).toEqual({ kind: 'not_stored', code: 'locked' });
        const later = registry.create(draft('b'));
        await other.query('COMMIT');
        expect((await later).kind).toBe('created');
        expect((await changesOf(registry, 0)).topics.map(({ topic }) => topic)).toEqual(['b']);
      } finally {
        await other.end();
      }
    });
  });

  it('a locked table: the server waits no longer than dq', async () => {
    const registry = await open();
    const other = await createConnection(server.url(database));
    try {
      await other.query('LOCK TABLES registry WRITE');
      expect(await failureOf(changesOf(registry, 0))).toEqual({ kind: 'not_stored', code: 'locked' });
    } finally {
      await other.end();
    }
  });

  describe('the copy in the data directory', () => {
    let path = '';
    beforeEach(() => {
      path = join(directory, 'registry-copy.json');
    });
    const isCopied = (registry: MysqlRegistry, revision: number) =>
      until(`the copy of revision ${revision}`, async () => {
        await changesOf(registry, 1);
        return copyState(path).revision === revision;
      });
    const { id, digest } = makeToken();
    const record: TokenRecord = {
      ...{ name: 'ops', id, digest, scopes: ['admin'], topics: ['*'] },
      ...{ createdAt: 5, expiresAt: 4_000_000_000_000, usedAt: null },
    };
    const list = filled([{ id: '00ff00ff00ff00ff', url: 'redis://:geheim@h', buckets: 1, addedAt: 5 }]);

    it('holds the registry encrypted, is private, and follows changes', async () => {
      const registry = await open({ keepsSnapshot: true });
      await created(registry, draft('a'));
      await registry.createToken(record);
      await isCopied(registry, 2);
      expect(statSync(path).mode & 0o777).toBe(0o600);
      expect(readFileSync(path, 'utf8')).not.toMatch(/whsec/);
    });

    it('grows by changes, and is rewritten when these exceed the rest', async () => {
      const registry = await open({ keepsSnapshot: true, page: { rows: 2 } });
      for (let i = 0; i < 5; i += 1) await created(registry, draft(`t${i}`));
      await isCopied(registry, 5);
      const [before, inode] = [readFileSync(path, 'utf8'), statSync(path).ino];
      await registry.remove('t1', 2);
      await registry.update(draft('t0', { title: 'new' }), 1);
      await isCopied(registry, 7);
      expect(readFileSync(path, 'utf8').slice(0, before.length)).toBe(before);
      expect(statSync(path).ino).toBe(inode);
      const place: string = JSON.parse(before.split('\n')[0] ?? '').of;
      const names = async () => (await readSnapshotTopics(path, place))?.topics.map(({ name }) => name);
      expect(await names()).toEqual(['t2', 't3', 't4', 't0']);
      // An unfinished line of a dying process is ignored.
      writeFileSync(path, `${readFileSync(path, 'utf8')}{"topics":[{"name":"t9`);
      expect(await names()).toEqual(['t2', 't3', 't4', 't0']);
      const title = 'x'.repeat(100_000);
      let { revision } = await registry.changes({ revision: 7, name: null });
      for (; statSync(path).ino === inode; revision += 1) {
        await registry.update(draft('t2', { title }), revision === 7 ? 3 : revision);
        await isCopied(registry, revision + 1);
      }
      expect(revision).toBeGreaterThan(12);
      expect(await names()).toEqual(['t3', 't4', 't0', 't2']);
      expect(statSync(path).size).toBeLessThan(2 * title.length);
    });

    it('answers the first reads while MySQL is unavailable; changes are rejected', async () => {
      const before = await open({ keepsSnapshot: true });
      const topic = await created(before, draft('a'));
      await before.createToken(record);
      await before.writeShards(list, 0);
      await isCopied(before, 3);
      const registryId = await before.id();
      await before.close();
      await server.process.kill();
      const registry = make();
      await registry.prove();
      expect(await changesOf(registry, 0)).toEqual({ revision: 3, topics: [topic], deleted: [] });
      expect(await registry.tokens(-1)).toEqual({ revision: 3, tokens: [record] });
      expect(await registry.id()).toBe(registryId);
      expect(await failureOf(changesOf(registry, 3))).toMatchObject({ code: 'unreachable' });
      expect(await failureOf(registry.create(draft('b')))).toMatchObject({ kind: 'not_stored' });
      expect(await failureOf(registry.get('a'))).toMatchObject({ code: 'unreachable' });
      await server.process.start();
      await until('it answers', async () => (await changesOf(registry, 3)).revision === 3);
      expect(await registry.shards(-1)).toEqual({ revision: 3, list });
      // From now on only current answers: the copy is not used.
      await server.process.kill();
      expect(await failureOf(changesOf(registry, 0))).toMatchObject({
        code: expect.stringMatching(/lost|unreachable/),
      });
    });

    it('answers within the start limit while MySQL is frozen, and never otherwise', async () => {
      const before = await open({ keepsSnapshot: true });
      await created(before, draft('a'));
      await isCopied(before, 1);
      await before.close();
      const fresh = make();
      await run('UPDATE registry SET revision = 7');
      expect((await changesOf(fresh, 0)).revision).toBe(7);
      await server.process.freeze();
      try {
        const registry = make();
        await registry.prove();
        expect((await changesOf(registry, 0)).topics).toHaveLength(1);
        await registry.tokens(-1);
      } finally {
        server.process.thaw();
      }
    });

    it.each<[string, (text: string) => string]>([
      ['of another registry', (text) => text.replace('127.0.0.1', '127.0.0.2')],
      ['no JSON', (text) => text.slice(5)],
      ['of another format', (text) => text.replace('"format":1', '"format":2')],
    ])('is not used when it is %s', async (_, change) => {
      const before = await open({ keepsSnapshot: true });
      await created(before, draft('a'));
      await isCopied(before, 1);
      await before.close();
      writeFileSync(path, change(readFileSync(path, 'utf8')));
      await server.process.kill();
      expect(await failureOf(changesOf(make(), 0))).toMatchObject({ code: 'unreachable' });
    });
  });

  it('a wrong password is named', async () => {
    const { server: where } = optionsOf();
    const registry = make({ server: { ...where, user: 'nobody', password: 'canary' } });
    const error = (await changesOf(registry, 0).catch((thrown: unknown) => thrown)) as StoreError;
    expect(error.failure).toEqual({ kind: 'not_stored', code: 'access_denied' });
    expect(String((error.cause as Error).message)).not.toContain('canary');
    expect(error.cause).not.toBeInstanceOf(DqError);
  });
});
