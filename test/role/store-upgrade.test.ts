// Tests that a start upgrades the stores of layout 1: the fixtures of test/support/layout-1 are what the last
// version with layout 1 stored, and what its dump read from them.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { extensionOf } from '../../src/core/extension.ts';
import { pullOwner } from '../../src/core/job.ts';
import { type Database, openDatabase, pragma } from '../../src/runtime/database.ts';
import { schema } from '../../src/store/sqlite/file/schema.ts';
import type { StateDump, StoreUnderTest } from '../conformance/store-under-test.ts';
import { jobOf, request, Trial } from '../conformance/trial.ts';
import { allKeys, onlyShard, openOn } from '../support/redis-store.ts';
import { lacks } from '../support/services.ts';
import { openSqliteStore, ownerPaths, temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

const fixture = (name: string): string =>
  readFileSync(join(import.meta.dirname, '../support/layout-1', name), 'utf8');

/** As in the fixtures. */
function plain(dump: StateDump): unknown {
  const jobs = dump.jobs.map((job) => ({
    ...job,
    body: job.body.length < 1_000 ? job.body.toString('base64') : `${job.body.length} bytes`,
  }));
  return JSON.parse(JSON.stringify({ ...dump, jobs }));
}

/** The upgraded store works, with jobs of both layouts. */
async function exerciseUpgraded(under: StoreUnderTest): Promise<void> {
  const trial = new Trial(under);
  await trial.jobs.push([{ ...jobOf('own'), extension: extensionOf({ leaseMs: 5_000 }) }]);
  const pulled = await trial.reserve(request(9, { a: 5, t: 5 }, pullOwner));
  expect(pulled.map(({ id, leaseMs }) => [id, leaseMs]).sort()).toEqual([
    ['0198c0de-0000-7000-8000-00000000abcd', 60_000],
    ['own', 5_000],
  ]);
  // The lease of the earlier version has expired.
  await until('it to be recovered', async () => (await trial.recover()).returned === 1);
  expect(await trial.known('reserved', 'c')).toMatchObject({ state: 'ready', strikes: 1 });
  expect(await trial.jobs.requeue([{ topic: 'd', id: 'dead' }])).toMatchObject([{ kind: 'requeued' }]);
  await trial.admin.startFsck();
  await until('it to be examined', async () => (await trial.admin.fsck()).kind !== 'running');
  expect(await trial.admin.fsck()).toMatchObject({ kind: 'done', result: { jobs: 6, problems: [] } });
}

describe('embedded store: a file of layout 1', () => {
  const layoutOf = (db: Database) => ({
    columns: db.prepare('PRAGMA table_info(job)').all(),
    indexes: db.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'index' ORDER BY name").all(),
    version: pragma(db, 'user_version'),
  });

  it('keeps every job, and gets the layout of a new file', async () => {
    const directory = temporaryDirectory();
    onTestFinished(() => directory.remove());
    const { path } = ownerPaths(directory.path);
    const old = openDatabase(path);
    old.exec(fixture('jobs.sql'));
    old.close();

    const { client, dump, close, owner } = await openSqliteStore({}, directory);
    onTestFinished(() => close());
    expect(plain(dump())).toEqual(JSON.parse(fixture('jobs.json')));
    const fresh = openDatabase(':memory:');
    fresh.exec(schema);
    expect(owner.inspect(layoutOf)).toEqual(layoutOf(fresh));
    fresh.close();
    await exerciseUpgraded({ store: client.store, dump: async () => dump(), close });
  });
});

describe.skipIf(await lacks('redis'))('Redis: a server of layout 1', () => {
  let server: RedisServer;
  let raw: Redis;
  beforeAll(async () => {
    server = await startRedis();
    raw = new Redis(server.url, { protocol: 2 });
  });
  afterAll(async () => {
    raw.disconnect();
    await server.stop();
  });

  async function restored(): Promise<void> {
    await raw.flushall();
    const { hashes, sets } = JSON.parse(fixture('redis.json')) as {
      readonly hashes: Readonly<Record<string, [string, string][]>>;
      readonly sets: Readonly<Record<string, [string, number][]>>;
    };
    const bytes = (hex: string) => Buffer.from(hex, 'hex');
    for (const [key, rows] of Object.entries(hashes))
      for (const [field, value] of rows) await raw.hset(key, bytes(field), bytes(value));
    for (const [key, members] of Object.entries(sets))
      for (const [member, score] of members) await raw.zadd(key, score, bytes(member));
  }
  const marker = () => raw.hget('{dq:0}:n', 'marker');

  it('keeps every job; a start writes the new marker', async () => {
    await restored();
    expect(await marker()).toMatch(/^dq 1 shard /);
    const before = (await marker()) ?? '';
    const opened = await openOn(server, { upgrades: true, isListed: true });
    onTestFinished(() => opened.close());
    expect(plain(await opened.dump())).toEqual(JSON.parse(fixture('redis-state.json')));
    expect(await marker()).toBe(before.replace('dq 1', 'dq 2'));
    await exerciseUpgraded(opened);
  });

  it('rejects a process that does not start the daemon, with the remedy, and changes nothing', async () => {
    await restored();
    const before = await allKeys(raw);
    const opened = await openOn(server);
    onTestFinished(() => opened.close());
    expect(onlyShard(opened.redis).foreign).toMatch(/earlier version.*run `dq restart` on every instance/);
    expect(await opened.store.jobs.push([jobOf('1')])).toMatchObject([
      { kind: 'not_stored', code: 'foreign_marker' },
    ]);
    expect(await allKeys(raw)).toEqual(before);
  });

  it('is not upgraded for another registry', async () => {
    await restored();
    const before = await allKeys(raw);
    const opened = await openOn(server, { upgrades: true, registryId: async () => 'r2' });
    onTestFinished(() => opened.close());
    expect(onlyShard(opened.redis).foreign).toMatch(/belongs to the registry r1/);
    expect(await allKeys(raw)).toEqual(before);
  });
});
