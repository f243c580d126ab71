// Tests the copy of registry.db to a real MariaDB: each row of each table, and what a crash leaves.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { describe, expect, it, onTestFinished } from 'vitest';
import { firstAuditId } from '../../src/core/audit.ts';
import { parseMysqlUrl } from '../../src/core/url/server-url.ts';
import {
  copyRegistry,
  putAside,
  readMoveNote,
  removeCopy,
  writeMoveNote,
} from '../../src/registry/sql/move-registry.ts';
import { mysqlRegistry } from '../../src/registry/sql/mysql/mysql-registry.ts';
import { openServedRegistry } from '../../src/registry/sql/registry-db.ts';
import { openDatabase } from '../../src/runtime/database.ts';
import { testDirectory } from '../support/directory.ts';
import { changesOf } from '../support/registry-pages.ts';
import { lacks, workerMariadb } from '../support/services.ts';
import { until } from '../support/until.ts';
import { created, draft, failureOf } from './registry/case.ts';

/** Rows of each table, more than one page. The names are those of users, in any language. */
const content = `
  WITH RECURSIVE numbers(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1200)
  INSERT INTO topic SELECT 'T 主题 😀 ' || n, 'paused', '{"n":' || n || '}', '[]', n, n, n + 1, 'T ' || n, '' FROM numbers;
  INSERT INTO topic_tombstone SELECT 'gone ' || name, revision FROM topic;
  INSERT INTO topic_stat SELECT name, 'pushed', revision, 20300131, 7 FROM topic;
  INSERT INTO topic_stat SELECT name, 'dead', 9007199254740991, 20300131, 0 FROM topic;
  INSERT INTO token SELECT name, 'id' || revision, 'digest', '["read"]', '["*"]', 1, NULL, 2 FROM topic;
  INSERT INTO schedule SELECT name, '{"s":"' || name || '"}', 3, NULL, revision, 0, 1, 'later' FROM topic;
  INSERT INTO operation SELECT 'op' || revision, '{}', '{"ids":[]}', 1, 2, '1.2', 3, 4 FROM topic;
  INSERT INTO audit SELECT printf('%012x', revision), name, '::1', 'createTopic', name, NULL, NULL, 201, NULL FROM topic;
  INSERT INTO series SELECT name, 60, revision, 1, 2, randomblob(revision % 50) FROM topic;
  INSERT INTO series VALUES ('', 3600, 4102444800, 1, 2, x'00ff');
  INSERT INTO session (id, cookie_digest, key_digest, name, scopes, topics, signed_in_by, address, browser, created_at, used_at, ends_at)
    VALUES ('s', 'c', 'k', 'n', '[]', '[]', 'token', '::1', '', 1, 1, 1);
  UPDATE registry SET revision = 1300`;
const tables = [
  'topic',
  'topic_tombstone',
  'topic_stat',
  'token',
  'schedule',
  'operation',
  'audit',
  'series',
];

describe.skipIf(await lacks('mysql'))('move-registry', async () => {
  const mysql = await workerMariadb();
  let made = 0;

  async function setUp() {
    const dataDir = testDirectory();
    const path = join(dataDir, 'registry.db');
    const keyPath = join(dataDir, 'secret.key');
    const events = { onDamage: () => {}, onRepaired: () => {} };
    const served = await openServedRegistry(path, { ...events, keyPath, servesRejected: false });
    onTestFinished(() => served.registry.close());
    if (served.source === undefined) throw new Error('no source');
    const { db, gate } = served.source;
    made += 1;
    const url = await mysql.createDatabase(`copy${made}`);
    const parsed = parseMysqlUrl(url);
    if (!parsed.ok) throw new Error(parsed.message);
    const connection = await createConnection({ uri: url, supportBigNumbers: true });
    onTestFinished(() => connection.end());
    const rows = async (sql: string) => (await connection.query(sql))[0] as Record<string, unknown>[];
    const target = async () => {
      const snapshotPath = join(dataDir, 'registry-copy.json');
      const options = { keyPath, snapshotPath, keepsSnapshot: false, migrates: true, warn: () => {} };
      const registry = mysqlRegistry({ server: parsed.value, ...options });
      onTestFinished(() => registry.close());
      // Longer than a start waits: creating the tables may take long on a busy machine.
      await until(
        'it is open',
        async () => (await registry.changes({ revision: 0, name: null })).revision >= 0,
      );
      return registry;
    };
    const copy = (close = () => gate.close(db)) =>
      copyRegistry(db, parsed.value, { dataDir, keyPath, close });
    return {
      ...{ dataDir, path, registry: served.registry, db, gate, server: parsed.value, rows, target, copy },
    };
  }

  it('each row is as in registry.db, apart from sessions; topics keep their secrets', async () => {
    const { path, registry, rows, copy, target } = await setUp();
    const secrets = [{ secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', untilAt: null }];
    const { revision: ofMine } = await created(registry, draft('mine', { secrets }));
    const file = openDatabase(path);
    file.exec(content);
    await copy();
    for (const table of tables) {
      const order = Object.keys((await rows(`SELECT * FROM ${table} LIMIT 1`))[0] ?? {}).map(
        (name) => `\`${name}\``,
      );
      const sorted = (all: readonly object[]) => all.map((row) => JSON.stringify(Object.values(row))).sort();
      const own = file.prepare(`SELECT ${order.join().replaceAll('`', '"')} FROM ${table}`).all() as object[];
      const asText = (row: object) =>
        Object.fromEntries(
          Object.entries(row).map(([name, value]) => [
            name,
            value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value,
          ]),
        );
      const found = (await rows(`SELECT ${order} FROM ${table}`)).map((row) =>
        Object.fromEntries(
          Object.entries(row).map(([name, value]) => [
            name,
            Buffer.isBuffer(value) ? value.toString() : value,
          ]),
        ),
      );
      expect(sorted(found), table).toEqual(sorted(own.map(asText)));
    }
    file.close();
    expect(await rows('SELECT * FROM session')).toEqual([]);
    const moved = await target();
    expect(await moved.id()).toBe(await registry.id());
    const { topics, revision } = await moved.changes({ revision: 0, name: null });
    const mine = topics.find(({ name }) => name === 'mine');
    expect([mine?.revision, revision]).toEqual([ofMine, 1300]);
    expect(mine === undefined ? null : moved.read(mine).open().secrets).toEqual(secrets);
  });

  it('an audit entry of an earlier request that is written during the copy is copied', async () => {
    const { path, gate, db, rows, copy } = await setUp();
    const file = openDatabase(path);
    const now = Date.now();
    const write = (at: number) =>
      file.exec(
        `INSERT INTO audit VALUES ('${firstAuditId(at)}', 'n', '::1', 'createTopic', 't', NULL, NULL, 201, NULL)`,
      );
    write(now);
    await copy(async () => {
      write(now - 1_000);
      await gate.close(db);
    });
    file.close();
    expect(await rows('SELECT id FROM audit ORDER BY id')).toEqual(
      [now - 1_000, now].map((at) => ({ id: firstAuditId(at) })),
    );
  });

  it('changes are rejected from the end of the first part on; those before it are copied', async () => {
    const { registry, gate, db, copy, target } = await setUp();
    await created(registry, draft('early'));
    await copy(async () => {
      await created(registry, draft('meanwhile'));
      await gate.close(db);
    });
    expect(await failureOf(registry.create(draft('late')))).toMatchObject({
      kind: 'not_stored',
      code: 'registry_moves',
      why: 'the registry moves to MySQL; try again in some seconds',
    });
    expect((await changesOf(await target(), 0)).topics.map(({ topic }) => topic).sort()).toEqual([
      'early',
      'meanwhile',
    ]);
    gate.open();
    await created(registry, draft('late'));
  });

  it('a copy that a crash left is replaced or removed; one that was in force is not', async () => {
    const { dataDir, registry, gate, server, rows, copy, target } = await setUp();
    await created(registry, draft('a'));
    await copy();
    const note = readMoveNote(dataDir);
    expect(note).toMatchObject({ state: 'copied', id: await registry.id() });
    if (note === null) throw new Error('no note');
    await writeMoveNote(dataDir, { ...note, state: 'copying' });
    gate.open();
    await created(registry, draft('b'));
    expect(await registry.writeShards({ number: 2, shards: [], earlier: [] }, 0)).toBe('updated');
    await copy();
    const names = async () =>
      (await rows('SELECT name FROM topic ORDER BY name')).map(({ name }) => String(name));
    expect(await names()).toEqual(['a', 'b']);
    gate.open();
    await removeCopy(server, dataDir);
    expect([await names(), readMoveNote(dataDir), await rows('SELECT * FROM shard_list')]).toEqual([
      [],
      null,
      [],
    ]);
    const { revision } = await registry.shards(-1);
    expect(await registry.writeShards({ number: 3, shards: [], earlier: [] }, revision)).toBe('updated');
    await copy();
    gate.open();
    // In force: it has a topic more.
    const moved = await target();
    await changesOf(moved, 0);
    expect((await moved.shards(-1)).list?.number).toBe(3);
    await created(moved, draft('own'));
    await expect(copy()).rejects.toThrow(
      /^registry: \S+ has 3 topics, 0 tokens, 0 schedules; give an empty database$/,
    );
    expect(await names()).toEqual(['a', 'b', 'own']);
  });

  it('a target with its own list of Redis servers keeps its id; put aside, the file has another name', async () => {
    const { dataDir, registry, copy, target } = await setUp();
    await created(registry, draft('a'));
    const before = await target();
    const id = await before.id();
    expect(await before.writeShards({ number: 1, shards: [], earlier: [] }, 0)).toBe('updated');
    const { revision } = await changesOf(before, 0);
    await copy();
    const after = await target();
    expect(await after.id()).toBe(id);
    expect((await after.shards(-1)).list?.number).toBe(1);
    // A process that has read MySQL before finds what is new.
    expect((await changesOf(after, revision)).topics.map(({ topic }) => topic)).toEqual(['a']);
    putAside(dataDir);
    expect(['registry.db', 'registry.db.moved'].map((name) => existsSync(join(dataDir, name)))).toEqual([
      false,
      true,
    ]);
  });
});
