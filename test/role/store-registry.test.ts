// Tests the registry through the store's socket: the same answers as from the file, and a message to all
// after a change.

import { rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { filled } from '../../src/core/shard-list.ts';
import { makeToken, type TokenRecord } from '../../src/core/token.ts';
import type { Registry } from '../../src/ports/registry.ts';
import { openRegistryDb, openServedRegistry } from '../../src/registry/sql/registry-db.ts';
import { connectStore, type StoreConnection } from '../../src/store/sqlite/client/client.ts';
import { kinds, protocolMagic, protocolNumber, Writer } from '../../src/store/sqlite/wire/protocol.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { allStats, changesOf } from '../support/registry-pages.ts';
import {
  openSqliteStore,
  ownerPaths,
  type SqliteStore,
  temporaryDirectory,
} from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';
import { draft } from './registry/case.ts';

let beside: ReturnType<typeof temporaryDirectory>;
let file: Registry;
let store: SqliteStore;
let other: StoreConnection;

beforeEach(async () => {
  beside = temporaryDirectory();
  file = await openRegistryDb(join(beside.path, 'registry.db'));
  store = await openSqliteStore({ registry: file });
  other = connectStore({ ...ownerPaths(store.directory), title: 'other', log: silentLog });
  await other.start();
});
afterEach(async () => {
  await other.close();
  await store.close();
  await file.close();
  beside.remove();
});

function token(): TokenRecord {
  const { id, digest } = makeToken();
  const times = { createdAt: 1, expiresAt: null, usedAt: null };
  return { name: 'a', id, digest, scopes: ['push'], topics: ['*'], ...times };
}

describe('registry through the socket', () => {
  it('sends no change message before the greeting', async () => {
    const socket = connect(ownerPaths(store.directory).socketPath);
    onTestFinished(() => void socket.destroy());
    const chunks: Buffer[] = [];
    socket.on('data', (chunk) => chunks.push(chunk));
    await until('the owner to have the connection', () => store.owner.clients === 3);
    await store.client.registry.create(draft('t'));
    const hello = new Writer();
    hello.begin(1, kinds.hello).u32(protocolMagic).u32(protocolNumber).text('late').end();
    socket.write(hello.done());
    await until('the greeting', () => chunks.length > 0);
    // After the length and the request number.
    expect(Buffer.concat(chunks).readUInt8(8)).toBe(kinds.hello);
  });

  it('returns what the file returns, for every method', async () => {
    const { registry } = store.client;
    const created = await registry.create(draft('t'));
    if (created.kind !== 'created') throw new Error(created.kind);
    expect(created.topic).toEqual(await file.get('t'));
    expect(await registry.get('t')).toEqual(created.topic);
    expect(await registry.get('u')).toBeNull();
    expect(await registry.create(draft('t'))).toEqual({ kind: 'exists' });
    expect(await changesOf(registry, 0)).toEqual(await changesOf(file, 0));
    const renamed = { ...draft('t'), title: 'новое' };
    expect(await registry.update(renamed, created.topic.revision + 1)).toEqual({ kind: 'changed' });
    const updated = await registry.update(renamed, created.topic.revision);
    expect(updated).toMatchObject({ kind: 'updated', topic: { title: 'новое' } });
    expect(await registry.addStats([{ topic: 't', day: 20_301_231, name: 'pushed', n: 3 }])).toBeUndefined();
    expect(await allStats(registry, 20_301_231)).toEqual(await allStats(file, 20_301_231));
    const made = token();
    expect(await registry.createToken(made)).toBe('created');
    expect(await registry.createToken(made)).toBe('exists');
    expect(await registry.tokens(-1)).toEqual(await file.tokens(-1));
    expect((await registry.tokens(-1)).tokens).toEqual([made]);
    expect(await registry.removeToken('a')).toBe('removed');
    expect(await registry.removeToken('a')).toBe('absent');
    const shards = filled([{ id: '00ff00ff00ff00ff', url: 'redis://h', buckets: 1, addedAt: 5 }]);
    expect(await registry.writeShards(shards, 1)).toBe('changed');
    expect(await registry.writeShards(shards, 0)).toBe('updated');
    expect(await registry.shards(-1)).toEqual(await file.shards(-1));
    expect((await registry.shards(-1)).list).toEqual(shards);
    expect(await registry.id()).toBe(await file.id());
    expect(await registry.remove('t', created.topic.revision)).toBe('changed');
    const revision = (await registry.get('t'))?.revision ?? -1;
    expect(await registry.remove('t', revision)).toBe('removed');
    expect(await file.get('t')).toBeNull();
  });

  it('notifies every client of a change, and of nothing else', async () => {
    let calls = 0;
    const stop = other.registry.onChange(() => {
      calls += 1;
    });
    const { registry } = store.client;
    await registry.create(draft('t'));
    await until('the message', () => calls === 1);
    await registry.create(draft('t'));
    await registry.get('t');
    await changesOf(registry, 0);
    await registry.addStats([{ topic: 't', day: 20_301_231, name: 'pushed', n: 1 }]);
    expect(await registry.remove('t', 999)).toBe('changed');
    const made = token();
    expect(await registry.removeToken('a')).toBe('absent');
    expect(await registry.createToken(made)).toBe('created');
    expect(await registry.createToken(made)).toBe('exists');
    await registry.tokens(-1);
    expect(await registry.removeToken('a')).toBe('removed');
    const second = await registry.create(draft('u'));
    expect(second.kind).toBe('created');
    await until('the next messages', () => calls >= 4);
    expect(calls).toBe(4);
    stop();
  });

  it('rejects as the registry rejects, and unknown methods', async () => {
    await file.close();
    await expect(store.client.registry.get('t')).rejects.toMatchObject({
      failure: { kind: 'not_stored', code: 'closed' },
    });
    rmSync(join(beside.path, 'registry.db'));
    const { registry: lost } = await openServedRegistry(join(beside.path, 'registry.db'), {
      mustExist: true,
      servesRejected: true,
      onDamage: () => {},
      onRepaired: () => {},
    });
    const damaged = await openSqliteStore({ registry: lost });
    await expect(damaged.client.registry.get('t')).rejects.toMatchObject({
      failure: {
        kind: 'not_stored',
        code: 'registry_damaged',
        why: expect.stringMatching(/registry\.db is missing; put it back/),
      },
    });
    await damaged.close();
    const bare = await openSqliteStore();
    await expect(bare.client.registry.get('t')).rejects.toMatchObject({
      failure: { kind: 'not_stored', code: 'no_registry' },
    });
    await bare.close();
  });
});
