// The id of a registry and its shard list.

import { expect } from 'vitest';
import { filled, noShards } from '../../../src/core/shard-list.ts';
import { changesOf } from '../../support/registry-pages.ts';

import { created, draft, fact, failureOf, type RegistryCase } from './case.ts';

export const idCases: readonly RegistryCase[] = [
  fact('is the same for concurrent and later openers, and unique', async ({ open, run }) => {
    const registry = await open();
    const id = await registry.id();
    expect(id).toMatch(/^[0-9a-f]{16}$/);
    await registry.close();
    await run('DELETE FROM registry_id');
    const both = await Promise.all([open(), open()]);
    const [drawn, same] = await Promise.all(both.map((one) => one.id()));
    expect(drawn).toMatch(/^[0-9a-f]{16}$/);
    expect([same, drawn === id]).toEqual([drawn, false]);
    expect(await run('SELECT id FROM registry_id')).toEqual([{ id: drawn }]);
  }),
];

const url = 'redis://:geheim@10.0.0.1:6379';
const list = filled([{ id: '00ff00ff00ff00ff', url, buckets: 1, addedAt: 5 }]);

export const shardListCases: readonly RegistryCase[] = [
  fact('is empty first, then kept whole and encrypted, also after closing', async ({ open, run }) => {
    const registry = await open();
    expect(await registry.shards(-1)).toEqual({ revision: 0, list: noShards });
    expect(await registry.shards(0)).toEqual({ revision: 0, list: null });
    expect(await registry.writeShards(list, 0)).toBe('updated');
    await registry.close();
    const again = await open();
    const { revision } = await again.shards(0);
    expect(await again.shards(-1)).toEqual({ revision, list });
    expect(await again.shards(0)).toEqual({ revision, list });
    expect(await again.shards(revision)).toEqual({ revision, list: null });
    expect(JSON.stringify(await run('SELECT * FROM shard_list'))).not.toContain('geheim');
  }),
  fact('changes only with its expected revision, which other changes leave alone', async ({ open }) => {
    const [one, two] = [await open(), await open()];
    const outcomes = await Promise.all([one.writeShards(list, 0), two.writeShards(list, 0)]);
    expect(outcomes.sort()).toEqual(['changed', 'updated']);
    const { revision } = await one.shards(-1);
    await created(one, draft('a'));
    expect((await two.shards(-1)).revision).toBe(revision);
    expect(await one.writeShards({ ...list, number: 2 }, revision)).toBe('updated');
    expect((await two.shards(revision)).list).toMatchObject({ number: 2 });
    // The registry copy and all caches follow this revision.
    expect((await changesOf(one, 0)).revision).toBe((await one.shards(-1)).revision);
  }),
  fact('is not written into another registry in place of this one', async ({ open, run }) => {
    const registry = await open();
    await run("UPDATE registry_id SET id = '0123456789abcdef'");
    const failure = { kind: 'not_stored', code: 'another_registry' };
    expect(await failureOf(registry.writeShards(list, 0))).toEqual(failure);
    expect(await run('SELECT * FROM shard_list')).toEqual([]);
  }),
  fact('notifies of its changes only, and rejects a damaged row', async ({ open, run }) => {
    const registry = await open();
    let calls = 0;
    registry.onChange(() => {
      calls += 1;
    });
    await registry.writeShards(list, 3);
    await registry.shards(-1);
    expect(calls).toBe(0);
    await registry.writeShards(list, 0);
    expect(calls).toBe(1);
    await run(`UPDATE shard_list SET list = 'v1:AAAA'`);
    expect(await failureOf(registry.shards(-1))).toEqual({ kind: 'not_stored', code: 'damaged' });
  }),
];
