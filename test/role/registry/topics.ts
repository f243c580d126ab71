// Topics of a registry, whole, damaged and written by two at once.

import { expect } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import { topicDefaults } from '../../../src/core/topic/topic.ts';
import type { TopicDraft } from '../../../src/ports/registry.ts';
import { StoreError } from '../../../src/ports/store-error.ts';
import { changesOf } from '../../support/registry-pages.ts';

import { created, draft, fact, failureOf, type RegistryCase } from './case.ts';

const failure = { kind: 'not_stored', code: 'unreadable_topic' };

export const unreadableCases: readonly RegistryCase[] = [
  ...(
    [
      ['settings', '{'],
      ['settings', '{"callbackUrl":"http://x/","timeoutMs":"3s"}'],
      ['state', 'archived'],
      ['secrets', 'v2:AAAA'],
    ] as const
  ).map(([column, text]) =>
    fact(
      `${column} ${text}: leaves the others readable, and is replaced or removed by its revision`,
      async ({ open, run }) => {
        const registry = await open();
        await created(registry, draft('a'));
        const whole = await created(registry, draft('b'));
        await run(`UPDATE topic SET ${column} = '${text}' WHERE name = 'a'`);
        const { topics } = await registry.changes({ revision: 0, name: null });
        expect(topics.map(({ name }) => name)).toEqual(['a', 'b']);
        const [a, b] = topics.map((record) => {
          try {
            return registry.read(record).open();
          } catch (error) {
            return error instanceof StoreError ? error.failure : error;
          }
        });
        expect([a, b]).toEqual([failure, whole]);
        expect(await failureOf(registry.get('a'))).toEqual(failure);
        const secrets = column === 'secrets' ? null : draft('a').secrets;
        expect(await registry.remains('a')).toEqual({ revision: 1, secrets, onDone: '', onDead: '' });
        expect(await registry.remains('none')).toBeNull();
        expect(await registry.turn('a', 'offline', 9)).toEqual({ kind: 'changed' });
        expect(await registry.turn('a', 'offline', 1)).toEqual({ kind: 'updated', revision: 3 });
        expect((await registry.update(draft('a'), 3)).kind).toBe('updated');
        expect(await registry.get('a')).toMatchObject(draft('a'));
        await run(`UPDATE topic SET ${column} = '${text}' WHERE name = 'a'`);
        expect(await registry.remove('a', 4)).toBe('removed');
      },
    ),
  ),
];

export const namingCases: readonly RegistryCase[] = [
  fact('is found, and keeps the topics that it names', async ({ open }) => {
    const registry = await open();
    for (const name of ['end', 'other']) await created(registry, draft(name));
    const a = await created(registry, draft('a', { onDone: 'other', onDead: 'end' }));
    expect(await registry.namedBy('end')).toEqual({ topic: 'a', field: 'onDead' });
    expect(await registry.namedBy('other')).toEqual({ topic: 'a', field: 'onDone' });
    expect(await registry.namedBy('a')).toBeNull();
    expect(await registry.remove('end', 1)).toBe('in_use');
    const changed = await registry.update(draft('a', { onDone: 'other' }), a.revision);
    expect(changed.kind).toBe('updated');
    expect(await registry.namedBy('end')).toBeNull();
    expect(await registry.remove('end', 1)).toBe('removed');
    expect(await registry.turn('a', 'offline', 4)).toMatchObject({ kind: 'updated' });
    expect(await registry.remove('other', 2)).toBe('in_use');
    expect(await registry.remove('a', 6)).toBe('removed');
    expect(await registry.remove('other', 2)).toBe('removed');
  }),
  fact('keeps them also with an unreadable record, which a repair may bring back', async ({ open, run }) => {
    const registry = await open();
    await created(registry, draft('end'));
    await created(registry, draft('a', { onDead: 'end' }));
    await run("UPDATE topic SET settings = '{' WHERE name = 'a'");
    expect(await registry.namedBy('end')).toEqual({ topic: 'a', field: 'onDead' });
    expect(await registry.remove('end', 1)).toBe('in_use');
  }),
  fact('makes no circle and no longer chain, over any number of topics', async ({ open }) => {
    const registry = await open();
    const last = limits.outcomeTopicsMax;
    await created(registry, draft(`t${last}`));
    for (let n = last - 1; n >= 1; n -= 1) await created(registry, draft(`t${n}`, { onDead: `t${n + 1}` }));
    const circle = Array.from({ length: last }, (_, n) => `t${n + 1}`);
    expect(await registry.update(draft(`t${last}`, { onDone: 't1' }), 1)).toMatchObject({
      problem: {
        field: 'onDone',
        message: `${[`t${last}`, ...circle].join(' → ')} is a circle; remove one step`,
      },
    });
    const tooLong = { problem: { message: `${last + 1} topics in a row; at most ${last}` } };
    expect(await registry.create(draft('t0', { onDone: 't1' }))).toMatchObject(tooLong);
    await created(registry, draft('end'));
    expect(await registry.update(draft(`t${last}`, { onDone: 'end' }), 1)).toMatchObject(tooLong);
    expect(await registry.create(draft('x', { onDone: 'none' }))).toMatchObject({
      problem: { field: 'onDone', unknown: 'none' },
    });
  }),
];

export const topicCases: readonly RegistryCase[] = [
  fact('create: stores a whole topic, and get returns it, also after closing', async ({ open }) => {
    const registry = await open();
    const wanted = draft('order.close', {
      title: '😀 订单 "close"\u0000',
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
  }),
  fact('create: leaves an existing topic unchanged', async ({ open }) => {
    const registry = await open();
    const topic = await created(registry, draft('a'));
    expect(await registry.create(draft('a', { title: 'other' }))).toEqual({ kind: 'exists' });
    expect(await registry.get('a')).toEqual(topic);
    expect((await changesOf(registry, 0)).revision).toBe(1);
  }),
  fact('get: compares names byte by byte, and finds nothing under invalid ones', async ({ open }) => {
    const registry = await open();
    await created(registry, draft('a'));
    for (const name of ['A', 'b', '', 'a\0b', "a' OR 1=1 --"]) expect(await registry.get(name)).toBeNull();
  }),
  fact('update: changes the expected revision, and keeps createdAt', async ({ open }) => {
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
  }),
  fact('update: changes nothing for another revision or a removed topic', async ({ open }) => {
    const registry = await open();
    const topic = await created(registry, draft('a'));
    await registry.update(draft('a', { title: 'second' }), topic.revision);
    expect(await registry.update(draft('a', { title: 'third' }), topic.revision)).toEqual({
      kind: 'changed',
    });
    expect(await registry.update(draft('b'), 1)).toEqual({ kind: 'absent' });
    expect(await registry.get('a')).toMatchObject({ title: 'second' });
    expect(await registry.get('b')).toBeNull();
    expect((await changesOf(registry, 0)).revision).toBe(2);
  }),
  fact('update: stores only fields of a topic', async ({ open, run }) => {
    const registry = await open();
    const topic = await created(registry, draft('a'));
    const outcome = await registry.update(
      { ...topic, createdAt: 1, revision: 99 } as TopicDraft,
      topic.revision,
    );
    expect(outcome).toMatchObject({ kind: 'updated', topic: { revision: 2, createdAt: topic.createdAt } });
    const [row] = await run('SELECT settings FROM topic');
    expect(Object.keys(JSON.parse(String(row?.['settings']))).sort()).toEqual(
      Object.keys(topicDefaults).sort(),
    );
  }),
  fact('remove: removes only the expected revision', async ({ open }) => {
    const registry = await open();
    const topic = await created(registry, draft('a'));
    expect(await registry.remove('a', topic.revision + 1)).toBe('changed');
    expect(await registry.remove('b', topic.revision)).toBe('absent');
    expect(await registry.get('a')).not.toBeNull();
    expect(await registry.remove('a', topic.revision)).toBe('removed');
    expect(await registry.get('a')).toBeNull();
    expect(await registry.remove('a', topic.revision)).toBe('absent');
  }),
];

const headers = { authorization: 'Bearer geheim-im-kopf', 'x-a': 'v1:b' };

export const headerCases: readonly RegistryCase[] = [
  fact('are encrypted in the row and read whole', async ({ open, run }) => {
    const registry = await open();
    const topic = await created(registry, draft('a', { headers }));
    expect(topic.headers).toEqual(headers);
    expect((await registry.get('a'))?.headers).toEqual(headers);
    expect((await changesOf(registry, 0)).topics[0]?.headers).toEqual(headers);
    const [row] = await run("SELECT settings FROM topic WHERE name = 'a'");
    expect(row?.['settings']).not.toMatch(/geheim|authorization/);
  }),
  fact('from the row of another topic are rejected', async ({ open, run }) => {
    const registry = await open();
    await created(registry, draft('a'));
    await created(registry, draft('b', { headers }));
    const [row] = await run("SELECT settings FROM topic WHERE name = 'b'");
    await run(`UPDATE topic SET settings = '${String(row?.['settings'])}' WHERE name = 'a'`);
    expect(await failureOf(registry.get('a'))).toEqual({ kind: 'not_stored', code: 'unreadable_topic' });
  }),
];

export const concurrentCases: readonly RegistryCase[] = [
  fact('create: one of two at once wins', async ({ open }) => {
    const [one, two] = [await open(), await open()];
    const outcomes = await Promise.all([one.create(draft('a')), two.create(draft('a'))]);
    expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['created', 'exists']);
  }),
  fact('update: one of many wins; no revision is drawn twice', async ({ open }) => {
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
    expect((await changesOf(one, 0)).revision).toBe(22);
    expect(await changesOf(two, 0)).toEqual(await changesOf(one, 0));
  }),
];
