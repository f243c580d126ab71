// Defines what a registry does, with any database: each case runs on all of them.

import { describe, expect, it } from 'vitest';
import { type AuditEntry, type AuditFilter, firstAuditId, makeAuditId } from '../../src/core/audit.ts';
import { limits } from '../../src/core/limits.ts';
import type { OperationRecord } from '../../src/core/operation.ts';
import type { ScheduleRecord } from '../../src/core/schedule-record.ts';
import {
  digestHalves,
  linkDigestOf,
  makeSessionHalves,
  makeSignInLink,
  type SessionRecord,
  type SignInLink,
} from '../../src/core/session.ts';
import { filled, noShards } from '../../src/core/shard-list.ts';
import { makeToken, type TokenRecord } from '../../src/core/token.ts';
import { topicDefaults } from '../../src/core/topic/topic.ts';
import type {
  ChangePlace,
  Registry,
  SeriesRow,
  StatDelta,
  TopicChanges,
  TopicDraft,
} from '../../src/ports/registry.ts';
import { statNames } from '../../src/ports/registry.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { sqlLimits } from '../../src/registry/sql/limits.ts';
import type { PageSize } from '../../src/registry/sql/tables/topic-pages.ts';
import { allStats, changesOf } from '../support/registry-pages.ts';

export interface RegistryUnderTest {
  /** Another connection to the test's registry; the first call creates it. Closed with the test. */
  readonly open: (page?: Partial<PageSize>) => Promise<Registry>;
  /** Runs SQL from outside; returns the rows. */
  readonly run: (sql: string) => Promise<readonly Record<string, unknown>[]>;
}

export function draft(topic: string, more: Partial<TopicDraft> = {}): TopicDraft {
  return {
    ...topicDefaults,
    callbackUrl: 'http://127.0.0.1:9000/',
    topic,
    state: 'active',
    secrets: [{ secret: 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw', untilAt: null }],
    ...more,
  };
}

export async function created(registry: Registry, topic: TopicDraft) {
  const outcome = await registry.create(topic);
  if (outcome.kind !== 'created') throw new Error(outcome.kind);
  return outcome.topic;
}

export const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'no failure',
    (error: unknown) => (error instanceof StoreError ? error.failure : error),
  );

export function exerciseRegistry({ open, run }: RegistryUnderTest): void {
  describe('pages of changes', () => {
    const start: ChangePlace = { revision: 0, name: null };
    const pagesFrom = async (registry: Registry, onPage: () => Promise<void> = async () => {}) => {
      const pages: TopicChanges[] = [];
      for (let place: ChangePlace | null = start; place !== null; ) {
        const page: TopicChanges = await registry.changes(place);
        pages.push(page);
        place = page.next;
        await onPage();
      }
      return pages;
    };

    it('bound their rows, and hold each change once, by revision', async () => {
      const registry = await open({ rows: 3 });
      for (let i = 0; i < 8; i += 1) await created(registry, draft(`t${i}`));
      await registry.remove('t1', 2);
      await registry.remove('t2', 3);
      const pages = await pagesFrom(registry);
      for (const { topics, deleted } of pages) expect(topics.length + deleted.length).toBeLessThanOrEqual(6);
      expect(pages.flatMap(({ topics }) => topics.map(({ name }) => name))).toEqual(
        ['t0', 't3', 't4', 't5', 't6', 't7'], // biome-ignore format: one line
      );
      expect(pages.flatMap(({ deleted }) => deleted)).toEqual([
        { name: 't1', revision: 9 },
        { name: 't2', revision: 10 },
      ]);
      expect(pages.at(-1)).toMatchObject({ revision: 10, next: null });
      expect(pages.length).toBeGreaterThan(2);
    });

    it('bound their bytes, and hold at least one topic', async () => {
      const registry = await open({ bytes: 5_000 });
      const headers = { 'x-large': 'v'.repeat(1_000) };
      for (let i = 0; i < 8; i += 1) await created(registry, draft(`t${i}`, { headers }));
      await created(registry, draft('z', { headers: { a: headers['x-large'].repeat(9) } }));
      const pages = await pagesFrom(registry);
      expect(pages.flatMap(({ topics }) => topics)).toHaveLength(9);
      for (const { topics } of pages) expect(topics.length).toBeLessThanOrEqual(2);
      expect(pages.filter(({ topics }) => topics.length === 2).length).toBeGreaterThan(1);
    });

    it('continue by name within one revision', async () => {
      const registry = await open({ rows: 2 });
      for (let i = 0; i < 5; i += 1) await created(registry, draft(`t${i}`));
      await run('UPDATE topic SET revision = 5');
      const names = (await pagesFrom(registry)).flatMap(({ topics }) => topics.map(({ name }) => name));
      expect(names).toEqual(['t0', 't1', 't2', 't3', 't4']);
    });

    it('miss nothing that is committed between two of them', async () => {
      const [reader, writer] = [await open({ rows: 2 }), await open()];
      const revisions = new Map<string, number>();
      const create = async (name: string) =>
        void revisions.set(name, (await created(writer, draft(name))).revision);
      for (let i = 0; i < 30; i += 1) await create(`t${i}`);
      let step = 0;
      // Topics before and after the reader's place are changed, removed and created in turn until the reader
      // has caught up.
      const change = async () => {
        step += 1;
        if (step > 12) return;
        const name = `t${(step * 7) % 30}`;
        const revision = revisions.get(name);
        if (revision === undefined) await create(name);
        else if (step % 3 === 0) {
          await writer.remove(name, revision);
          revisions.delete(name);
        } else {
          const outcome = await writer.update(draft(name, { title: `${step}` }), revision);
          if (outcome.kind === 'updated') revisions.set(name, outcome.topic.revision);
        }
        if (step % 4 === 0) await create(`new${step}`);
      };
      const known = new Map<string, number>();
      for (const { topics, deleted } of await pagesFrom(reader, change)) {
        for (const { name, revision } of topics) known.set(name, revision);
        for (const { name, revision } of deleted) if ((known.get(name) ?? 0) < revision) known.delete(name);
      }
      expect(step).toBeGreaterThan(12);
      expect(new Map([...known].sort())).toEqual(new Map([...revisions].sort()));
    });

    it('of statistics hold whole topics', async () => {
      const registry = await open({ rows: 7 });
      const names = ['a', 'b', 'c', 'd', 'e'];
      for (const name of names) await created(registry, draft(name));
      const day = 20_300_131;
      await registry.addStats(
        names.flatMap((topic) => statNames.slice(0, 3).map((name) => ({ topic, day, name, n: 2 }))),
      );
      const first = await registry.statsPage('', day);
      expect(first.next).not.toBeNull();
      const all = await allStats(registry, day);
      expect(all.map(({ topic }) => topic)).toEqual(names);
      for (const { total } of all) expect(Object.values(total)).toEqual([2, 2, 2, 0, 0]);
    });
  });

  describe('a topic with an unreadable record', () => {
    const failure = { kind: 'not_stored', code: 'unreadable_topic' };

    it.each([
      ['settings', '{'],
      ['settings', '{"callbackUrl":"http://x/","timeoutMs":"3s"}'],
      ['state', 'archived'],
      ['secrets', 'v2:AAAA'],
    ])(
      '%s %s: leaves the others readable, and is replaced or removed by its revision',
      async (column, text) => {
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
        expect(await registry.remains('a')).toEqual({ revision: 1, secrets });
        expect(await registry.remains('none')).toBeNull();
        expect(await registry.turn('a', 'offline', 9)).toEqual({ kind: 'changed' });
        expect(await registry.turn('a', 'offline', 1)).toEqual({ kind: 'updated', revision: 3 });
        expect((await registry.update(draft('a'), 3)).kind).toBe('updated');
        expect(await registry.get('a')).toMatchObject(draft('a'));
        await run(`UPDATE topic SET ${column} = '${text}' WHERE name = 'a'`);
        expect(await registry.remove('a', 4)).toBe('removed');
      },
    );
  });

  describe('topics', () => {
    it('create: stores a whole topic, and get returns it, also after closing', async () => {
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

    it('create: leaves an existing topic unchanged', async () => {
      const registry = await open();
      const topic = await created(registry, draft('a'));
      expect(await registry.create(draft('a', { title: 'other' }))).toEqual({ kind: 'exists' });
      expect(await registry.get('a')).toEqual(topic);
      expect((await changesOf(registry, 0)).revision).toBe(1);
    });

    it('get: compares names byte by byte, and finds nothing under invalid ones', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      for (const name of ['A', 'b', '', 'a\0b', "a' OR 1=1 --"]) expect(await registry.get(name)).toBeNull();
    });

    it('update: changes the expected revision, and keeps createdAt', async () => {
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

    it('update: changes nothing for another revision or a removed topic', async () => {
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
    });

    it('update: stores only fields of a topic', async () => {
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
    });

    it('remove: removes only the expected revision', async () => {
      const registry = await open();
      const topic = await created(registry, draft('a'));
      expect(await registry.remove('a', topic.revision + 1)).toBe('changed');
      expect(await registry.remove('b', topic.revision)).toBe('absent');
      expect(await registry.get('a')).not.toBeNull();
      expect(await registry.remove('a', topic.revision)).toBe('removed');
      expect(await registry.get('a')).toBeNull();
      expect(await registry.remove('a', topic.revision)).toBe('absent');
    });

    it('reads settings that a row lacks as their defaults, and ignores unknown ones', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      await run(`UPDATE topic SET settings = '{"callbackUrl":"http://x/","later":1}'`);
      const topic = await registry.get('a');
      expect(topic).toMatchObject({ ...topicDefaults, callbackUrl: 'http://x/' });
      expect(topic).not.toHaveProperty('later');
    });

    it.each(['{', '{}', 'null'])('rejects a topic whose settings are %s', async (settings) => {
      const registry = await open();
      await created(registry, draft('a'));
      await run(`UPDATE topic SET settings = '${settings}'`);
      const failure = { kind: 'not_stored', code: 'unreadable_topic' };
      expect(await failureOf(registry.get('a'))).toEqual(failure);
      expect(await failureOf(changesOf(registry, 0))).toEqual(failure);
    });
  });

  describe('headers', () => {
    const headers = { authorization: 'Bearer geheim-im-kopf', 'x-a': 'v1:b' };
    const settings = async () =>
      String((await run("SELECT settings FROM topic WHERE name = 'a'"))[0]?.['settings']);

    it('are encrypted in the row and read whole', async () => {
      const registry = await open();
      const topic = await created(registry, draft('a', { headers }));
      expect(topic.headers).toEqual(headers);
      expect((await registry.get('a'))?.headers).toEqual(headers);
      expect((await changesOf(registry, 0)).topics[0]?.headers).toEqual(headers);
      expect(await settings()).not.toMatch(/geheim|authorization/);
    });

    it('from the row of another topic are rejected', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      await created(registry, draft('b', { headers }));
      const [row] = await run("SELECT settings FROM topic WHERE name = 'b'");
      await run(`UPDATE topic SET settings = '${String(row?.['settings'])}' WHERE name = 'a'`);
      expect(await failureOf(registry.get('a'))).toEqual({ kind: 'not_stored', code: 'unreadable_topic' });
    });
  });

  describe('changes', () => {
    it('returns everything since 0, later changes, or nothing at the current revision', async () => {
      const registry = await open();
      expect(await changesOf(registry, 0)).toEqual({ revision: 0, topics: [], deleted: [] });
      const a = await created(registry, draft('a'));
      const b = await created(registry, draft('b'));
      expect(await changesOf(registry, 0)).toEqual({ revision: 2, topics: [a, b], deleted: [] });
      expect(await changesOf(registry, 1)).toEqual({ revision: 2, topics: [b], deleted: [] });
      expect(await changesOf(registry, 2)).toEqual({ revision: 2, topics: [], deleted: [] });
    });

    it('names a deleted topic until it is created again', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      await registry.remove('a', 1);
      expect(await changesOf(registry, 1)).toEqual({ revision: 2, topics: [], deleted: ['a'] });
      expect(await changesOf(registry, 2)).toEqual({ revision: 2, topics: [], deleted: [] });
      const again = await created(registry, draft('a'));
      expect(await changesOf(registry, 1)).toEqual({ revision: 3, topics: [again], deleted: [] });
      await registry.remove('a', 3);
      expect((await changesOf(registry, 0)).deleted).toEqual(['a']);
    });

    it('never repeats a revision, even after a removal and a restart', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      await registry.remove('a', 1);
      await registry.close();
      expect((await created(await open(), draft('a'))).revision).toBe(3);
    });
  });

  describe('series', () => {
    const row = (more: Partial<SeriesRow> = {}): SeriesRow => ({
      ...{ topic: 'a', step: 60, at: 600, instance: 4_294_967_295, incarnation: 1_893_456_000_000 },
      packed: 'AQI=',
      ...more,
    });
    const read = (registry: Registry, topics: readonly string[], step = 60) =>
      registry.series({ topics, step, from: 0, to: 10_000 });

    it('are kept by topic, step, time and writer; a repeat replaces', async () => {
      const registry = await open();
      const rows = [
        row({ topic: '' }),
        row({ packed: 'old=' }),
        row({ at: 660 }),
        row({ step: 600 }),
        row({ topic: 'A' }),
        row({ incarnation: 1_893_456_000_001 }),
      ];
      expect(await registry.putSeries(rows, 600, '')).toBe('');
      await registry.putSeries([row()], 600, '');
      expect(await read(registry, ['', 'a'])).toEqual([
        row({ topic: '' }),
        row(),
        row({ incarnation: 1_893_456_000_001 }),
        row({ at: 660 }),
      ]);
      expect(await read(registry, ['a'], 600)).toEqual([row({ step: 600 })]);
      expect(await registry.series({ topics: ['a'], step: 60, from: 660, to: 660 })).toEqual([
        row({ at: 660 }),
      ]);
      await registry.putSeries([], 600, '');
      expect(await registry.series({ topics: [], step: 60, from: 0, to: 660 })).toEqual([]);
    });

    it('a write removes expired rows of some topics, in turn', async () => {
      const registry = await open();
      const names = Array.from({ length: 15 }, (_, n) => `t${String(n).padStart(2, '0')}`);
      await registry.putSeries(
        ['', ...names].map((topic) => row({ topic })),
        600,
        'z',
      );
      // Later than the minutes of one topic are kept, and earlier than those of all topics are.
      const later = 600 + 4 * 3_600;
      const sweptTo = await registry.putSeries([], later, '');
      expect(sweptTo).toBe('t09');
      const left = async () => (await read(registry, ['', ...names])).map(({ topic }) => topic);
      expect(await left()).toEqual(['', ...names.slice(10)]);
      expect(await registry.putSeries([], later, sweptTo)).toBe('');
      expect(await left()).toEqual(['']);
      await registry.putSeries([], 600 + 25 * 3_600, '');
      expect(await left()).toEqual([]);
    });

    it('of a topic are removed with it', async () => {
      const registry = await open();
      const { revision } = await created(registry, draft('a'));
      await registry.putSeries([row(), row({ topic: 'b' })], 600, '');
      await registry.remove('a', revision);
      expect(await read(registry, ['a', 'b'])).toEqual([row({ topic: 'b' })]);
    });

    it('a write of 603 rows is one call', async () => {
      const registry = await open();
      const many = Array.from({ length: 603 }, (_, n) => row({ topic: `t${n}`, packed: 'x'.repeat(120) }));
      await registry.putSeries(many, 600, '');
      expect(await read(registry, ['t602'])).toHaveLength(1);
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
      expect(await registry.stats('a', 20_300_131)).toEqual({
        topic: 'a',
        total: counts({ pushed: 15, dead: 1 }),
        today: counts({ pushed: 15, dead: 1 }),
      });
      await registry.addStats([delta('pushed', 4, 20_300_201)]);
      expect(await registry.stats('a', 20_300_201)).toEqual({
        topic: 'a',
        total: counts({ pushed: 19, dead: 1 }),
        today: counts({ pushed: 4 }),
      });
    });

    it('counts late deltas of an earlier day only in the total', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      await registry.addStats([delta('retried', 1, 20_300_201), delta('retried', 7, 20_300_131)]);
      expect(await registry.stats('a', 20_300_201)).toMatchObject({
        total: { retried: 8 },
        today: { retried: 1 },
      });
    });

    it('returns one topic, or all that have statistics', async () => {
      const registry = await open();
      for (const name of ['a', 'b', 'c']) await created(registry, draft(name));
      await registry.addStats([delta('pushed', 1), delta('pushed', 2, 20_300_131, 'b')]);
      expect((await allStats(registry, 20_300_131)).map(({ topic }) => topic)).toEqual(['a', 'b']);
      expect((await registry.stats('b', 20_300_131))?.total.pushed).toBe(2);
      expect(await registry.stats('c', 20_300_131)).toBeNull();
    });

    it('keeps none of unregistered or removed topics', async () => {
      const registry = await open();
      const topic = await created(registry, draft('a'));
      await registry.addStats([delta('pushed', 1), delta('pushed', 1, 20_300_131, 'unknown')]);
      expect((await allStats(registry, 20_300_131)).map((stats) => stats.topic)).toEqual(['a']);
      await registry.remove('a', topic.revision);
      await registry.addStats([delta('delivered', 1)]);
      expect(await allStats(registry, 20_300_131)).toEqual([]);
    });

    it('adds a call completely or not at all', async () => {
      const registry = await open();
      await created(registry, draft('a'));
      const broken = delta('dead', Number.NaN);
      await expect(registry.addStats([delta('pushed', 1), broken])).rejects.toThrow();
      expect(await registry.stats('a', 20_300_131)).toBeNull();
    });
  });

  describe('onChange', () => {
    it('notifies of own effective writes, until unsubscribed', async () => {
      const registry = await open();
      let calls = 0;
      const unsubscribe = registry.onChange(() => {
        calls += 1;
      });
      const topic = await created(registry, draft('a'));
      expect(calls).toBe(1);
      await registry.create(draft('a'));
      await registry.update(draft('a'), 99);
      await registry.remove('a', 99);
      await registry.addStats([{ topic: 'a', day: 1, name: 'dead', n: 1 }]);
      expect(calls).toBe(1);
      await registry.update(draft('a'), topic.revision);
      await registry.remove('a', 2);
      expect(calls).toBe(3);
      unsubscribe();
      await registry.create(draft('b'));
      expect(calls).toBe(3);
    });
  });

  describe('two connections to one registry', () => {
    it('create: one of two at once wins', async () => {
      const [one, two] = [await open(), await open()];
      const outcomes = await Promise.all([one.create(draft('a')), two.create(draft('a'))]);
      expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['created', 'exists']);
    });

    it('update: one of many wins; no revision is drawn twice', async () => {
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
    });
  });

  describe('the id of the registry', () => {
    it('is the same for concurrent and later openers, and unique', async () => {
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
    });
  });

  describe('the shard list', () => {
    const url = 'redis://:geheim@10.0.0.1:6379';
    const list = filled([{ id: '00ff00ff00ff00ff', url, buckets: 1, addedAt: 5 }]);

    it('is empty first, then kept whole and encrypted, also after closing', async () => {
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
    });

    it('changes only with its expected revision, which other changes leave alone', async () => {
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
    });

    it('is not written into another registry in place of this one', async () => {
      const registry = await open();
      await run("UPDATE registry_id SET id = '0123456789abcdef'");
      const failure = { kind: 'not_stored', code: 'another_registry' };
      expect(await failureOf(registry.writeShards(list, 0))).toEqual(failure);
      expect(await run('SELECT * FROM shard_list')).toEqual([]);
    });

    it('notifies of its changes only, and rejects a damaged row', async () => {
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
    });
  });

  describe('a change of a schedule', () => {
    const first: ScheduleRecord = {
      ...{ name: 's', topic: 't', cron: null, everyMs: 100, timezone: 'UTC', body: '{}', isBase64: false },
      ...{ contentType: null, missed: 'skip', isPaused: false, revision: 1, createdAt: 0, updatedAt: 0 },
    };
    const end = { name: 's', dueAt: 100, nextAt: 200, madeAt: 100, problem: null };
    const stored = async (registry: Registry) => {
      await registry.removeSchedule('s');
      await registry.createSchedule(first, 100);
      return registry;
    };

    it('keeps the next instant and its claim, unless its times change', async () => {
      const registry = await stored(await open());
      const [claimed] = await registry.claimSchedules(100, 150, 10);
      expect(claimed).toMatchObject({ dueAt: 100, claimedUntil: 150 });
      await registry.updateSchedule({ ...first, body: '[]', revision: 2 }, 777, 120);
      expect(await registry.schedule('s')).toMatchObject({ body: '[]', nextAt: 100, earlier: [] });
      expect(await registry.claimSchedules(149, 199, 10)).toEqual([]);
      await registry.endTicks([{ ...end, revision: 2, claimedUntil: 150 }]);
      await registry.updateSchedule({ ...first, everyMs: 50, revision: 3 }, 150, 120);
      expect(await registry.schedule('s')).toMatchObject({ nextAt: 150, earlier: [] });
    });

    it('leaves an instant that was claimed after the change read the clock, with the replaced topic', async () => {
      const registry = await stored(await open());
      await registry.claimSchedules(101, 150, 10);
      await registry.updateSchedule({ ...first, topic: 'u', everyMs: 70, revision: 2 }, 140, 99);
      const before = { cron: null, everyMs: 100, timezone: 'UTC', createdAt: 0, isPaused: false };
      const earlier = [{ ...before, topic: 't', until: 100 }];
      expect(await registry.schedule('s')).toMatchObject({ topic: 'u', nextAt: 100, earlier });
      expect(await registry.claimSchedules(149, 199, 10)).toEqual([]);
    });

    it('leaves an instant that is due, with the replaced times and topic', async () => {
      const registry = await stored(await open());
      await registry.updateSchedule({ ...first, everyMs: 70, revision: 2 }, 210, 180);
      await registry.updateSchedule({ ...first, topic: 'u', isPaused: true, revision: 3 }, null, 190);
      const before = { cron: null, timezone: 'UTC', createdAt: 0, isPaused: false, topic: 't' };
      const earlier = [
        { ...before, everyMs: 100, until: 180 },
        { ...before, everyMs: 70, until: 190 },
      ];
      expect(await registry.schedule('s')).toMatchObject({ nextAt: 100, isPaused: true, earlier });
      for (let revision = 4; revision < 4 + limits.earlierTimesMax - earlier.length; revision++)
        await registry.updateSchedule({ ...first, everyMs: revision, revision }, 210, 200);
      const last = { ...first, revision: 2 + limits.earlierTimesMax };
      expect(await registry.updateSchedule(last, 210, 200)).toBe('full');
      const one = await registry.schedule('s');
      expect(one).toMatchObject({ nextAt: 100, revision: last.revision - 1 });
      expect(one?.earlier).toHaveLength(limits.earlierTimesMax);
      // Its instants are made: the next change forgets them.
      await registry.endTicks([{ ...end, revision: last.revision - 1, nextAt: 300, claimedUntil: null }]);
      await registry.updateSchedule(last, 350, 250);
      expect(await registry.schedule('s')).toMatchObject({ nextAt: 350, earlier: [] });
    });

    it('a claim by a clock that was ahead excludes nothing, and a repeated instant counts as claimed', async () => {
      const registry = await stored(await open());
      await registry.claimSchedules(90_000_000, 90_000_050, 10);
      const [claimed] = await registry.claimSchedules(100, 150, 10);
      expect(claimed).toMatchObject({ dueAt: 100, wasClaimed: true });
      await registry.endTicks([
        { ...end, revision: 1, claimedUntil: 150, nextAt: 90_000_000, madeAt: 89_999_900 },
      ]);
      await registry.endTicks([{ ...end, dueAt: 90_000_000, revision: 1, claimedUntil: null, madeAt: null }]);
      await registry.claimSchedules(200, 250, 10);
      const ended = { ...end, dueAt: 200, nextAt: 300, madeAt: 200, revision: 1, claimedUntil: 250 };
      await registry.endTicks([ended]);
      expect(await registry.schedule('s')).toMatchObject({ nextAt: 300, madeAt: 89_999_900 });
      expect(await registry.claimSchedules(300, 350, 10)).toEqual([
        expect.objectContaining({ dueAt: 300, wasClaimed: true }),
      ]);
    });

    it('after a claim: the end of the claim frees the instant, and does not move it', async () => {
      const registry = await stored(await open());
      await registry.claimSchedules(100, 150, 10);
      await registry.updateSchedule({ ...first, everyMs: 70, revision: 2 }, 140, 120);
      await registry.endTicks([{ ...end, revision: 1, claimedUntil: 149 }]);
      expect(await registry.claimSchedules(149, 199, 10)).toEqual([]);
      await registry.endTicks([{ ...end, revision: 1, claimedUntil: 150 }]);
      expect(await registry.claimSchedules(149, 199, 10)).toEqual([
        expect.objectContaining({ dueAt: 100, wasClaimed: true }),
      ]);
    });
  });

  describe('access tokens', () => {
    const life = { createdAt: 5, expiresAt: null, usedAt: null };
    const token = (name: string, more: Partial<TokenRecord> = {}): TokenRecord => {
      const { id, digest } = makeToken();
      return { name, id, digest, scopes: ['push', 'read'], topics: ['order.*'], ...life, ...more };
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

    it('keep their end and their last use, which never moves back, and no revision changes', async () => {
      const registry = await open();
      const [a, b] = [token('a', { expiresAt: 4_000_000_000_000 }), token('b')];
      await registry.createToken(a);
      await registry.createToken(b);
      await registry.useTokens([
        { id: a.id, usedAt: 900 },
        { id: 'unknown', usedAt: 900 },
      ]);
      await registry.useTokens([
        { id: a.id, usedAt: 800 },
        { id: b.id, usedAt: 700 },
      ]);
      const tokens = [
        { ...a, usedAt: 900 },
        { ...b, usedAt: 700 },
      ];
      expect(await registry.tokens(-1)).toEqual({ revision: 2, tokens });
    });

    it('are null for a caller that has this revision', async () => {
      const registry = await open();
      const { revision } = await registry.tokens(-1);
      expect(revision).toBe(0);
      expect(await registry.tokens(0)).toEqual({ revision: 0, tokens: null });
      await created(registry, draft('t'));
      expect(await registry.tokens(0)).toEqual({ revision: 1, tokens: [] });
    });

    it('names are unique; a second creation changes nothing', async () => {
      const registry = await open();
      const first = token('a');
      await registry.createToken(first);
      expect(await registry.createToken(token('a'))).toBe('exists');
      expect(await registry.tokens(-1)).toEqual({ revision: 1, tokens: [first] });
    });

    it('are removed by name, byte by byte', async () => {
      const registry = await open();
      await registry.createToken(token('a'));
      for (const name of ['A', 'b', '', 'a\0b', '%']) expect(await registry.removeToken(name)).toBe('absent');
      expect(await registry.removeToken('a')).toBe('removed');
      expect(await registry.removeToken('a')).toBe('absent');
      expect(await registry.tokens(1)).toEqual({ revision: 2, tokens: [] });
    });

    it('notify of creations and removals only', async () => {
      const registry = await open();
      let calls = 0;
      registry.onChange(() => {
        calls += 1;
      });
      await registry.createToken(token('a'));
      await registry.createToken(token('a'));
      await registry.removeToken('b');
      await registry.tokens(-1);
      expect(calls).toBe(1);
      await registry.removeToken('a');
      expect(calls).toBe(2);
    });

    it('are at most limits.tokensMax', async () => {
      const registry = await open();
      await registry.createToken(token('first'));
      const more = Array.from({ length: limits.tokensMax - 1 }, (_, i) => i + 2);
      const rows = more.map((i) => `('t${i}', 'id${i}', '${'0'.repeat(64)}', '["read"]', '["*"]', 0)`);
      await run(`INSERT INTO token (name, id, digest, scopes, topics, created_at) VALUES ${rows.join(', ')}`);
      expect(await registry.createToken(token('another'))).toBe('full');
      expect(await registry.removeToken('t2')).toBe('removed');
      expect(await registry.createToken(token('another'))).toBe('created');
    });

    it.each(['scopes', 'topics', 'digest'])('a row with a damaged %s grants no rights', async (column) => {
      const registry = await open();
      await registry.createToken(token('a'));
      await run(`UPDATE token SET ${column} = '"*"'`);
      expect(await failureOf(registry.tokens(-1))).toEqual({ kind: 'not_stored', code: 'damaged' });
      expect(await registry.removeToken('a')).toBe('removed');
    });
  });

  describe('console sessions', () => {
    let made = 0;
    const session = (more: Partial<SessionRecord> = {}): SessionRecord => {
      made += 1;
      return {
        id: makeSessionHalves().id,
        ...digestHalves(`cookie ${made}`, `key ${made}`),
        ...{ name: 'li.wei', scopes: ['read', 'operate'], topics: ['order.*'], tokenId: null },
        ...{ signedInBy: 'link', address: '::1', createdAt: made, usedAt: made, endsAt: 1_000_000 },
        ...more,
      };
    };
    const link = (more: Partial<SignInLink> = {}): SignInLink => ({
      digest: linkDigestOf(makeSignInLink()) as string,
      name: 'li.wei',
      scopes: ['admin'],
      topics: ['*', 'x'],
      tokenId: 'abc',
      endsAt: 1_000,
      ...more,
    });
    const idsOf = async (registry: Registry) =>
      ((await registry.sessions(-1)).sessions ?? []).map(({ id }) => id);

    it('are kept whole and listed by their beginning, also after closing', async () => {
      const registry = await open();
      const [a, b] = [session(), session({ tokenId: 'abc', signedInBy: 'token', scopes: [], topics: ['*'] })];
      expect(await registry.createSession(b)).toBe('created');
      expect(await registry.createSession(a)).toBe('created');
      expect(await registry.sessions(-1)).toEqual({ revision: 2, sessions: [a, b] });
      expect(await registry.sessions(2)).toEqual({ revision: 2, sessions: null });
      await registry.close();
      expect((await (await open()).sessions(-1)).sessions).toEqual([a, b]);
    });

    it('record later uses only', async () => {
      const registry = await open();
      const a = session({ usedAt: 500 });
      await registry.createSession(a);
      expect(await registry.useSession(a.id, 499)).toBe('absent');
      expect(await registry.useSession(a.id, 600)).toBe('updated');
      expect(await registry.useSession('0123456789ab', 700)).toBe('absent');
      expect(await registry.sessions(1)).toEqual({ revision: 2, sessions: [{ ...a, usedAt: 600 }] });
    });

    it('are removed by id, or all', async () => {
      const registry = await open();
      const [a, b, c] = [session(), session(), session()];
      for (const one of [a, b, c]) await registry.createSession(one);
      for (const id of ['0123456789ab', '', `${a.id}\0`, '%', a.id.toUpperCase().replace(/\d/g, 'A')])
        expect(await registry.removeSessions(id)).toBe('absent');
      expect(await registry.removeSessions(b.id)).toBe('removed');
      expect(await registry.removeSessions(b.id)).toBe('absent');
      expect(await idsOf(registry)).toEqual([a.id, c.id]);
      expect(await registry.removeSessions(null)).toBe('removed');
      expect(await registry.removeSessions(null)).toBe('absent');
      expect(await idsOf(registry)).toEqual([]);
    });

    it('a new one drops those that have ended, and beyond limits.sessionsMax the one unused for longest', async () => {
      const registry = await open();
      const ended = session({ endsAt: 2_000 });
      await registry.createSession(ended);
      const kept = session({ createdAt: 1_999 });
      await registry.createSession(kept);
      expect(await idsOf(registry)).toContain(ended.id);
      await registry.createSession(session({ createdAt: 2_000 }));
      expect(await idsOf(registry)).not.toContain(ended.id);
      const hex = (n: number, length: number) => n.toString(16).padStart(length, '0');
      const rows = Array.from(
        { length: limits.sessionsMax - 2 },
        (_, i) =>
          `('${hex(i, 12)}', '${hex(i, 64)}', '${hex(i, 64)}', 'n', '[]', '[]', NULL, 'link', '', 0, ${i + 100_000}, 9000000)`,
      );
      await run(
        `INSERT INTO session (id, cookie_digest, key_digest, name, scopes, topics, token_id, signed_in_by, address, created_at, used_at, ends_at) VALUES ${rows.join(', ')}`,
      );
      await registry.useSession(kept.id, 90_000);
      await registry.createSession(session({ createdAt: 3_000, usedAt: 200_000 }));
      const ids = await idsOf(registry);
      expect(ids).toHaveLength(limits.sessionsMax);
      expect(ids).toContain(kept.id);
      await registry.createSession(session({ createdAt: 3_000, usedAt: 200_001 }));
      expect(await idsOf(registry)).not.toContain(kept.id);
      expect(await idsOf(registry)).toHaveLength(limits.sessionsMax);
    });

    it('beyond limits.sessionsPerTokenMax of one token the one unused for longest is dropped', async () => {
      const registry = await open();
      const others = [session({ tokenId: 'def' }), session()];
      for (const one of others) await registry.createSession(one);
      const own = Array.from({ length: limits.sessionsPerTokenMax + 1 }, () => session({ tokenId: 'abc' }));
      for (const one of own) await registry.createSession(one);
      expect(await idsOf(registry)).toEqual([...others, ...own.slice(1)].map(({ id }) => id));
    });

    it('a row with a damaged column grants no rights, and hides no other session', async () => {
      const registry = await open();
      const [a, b] = [session(), session()];
      await registry.createSession(a);
      await registry.createSession(b);
      for (const change of ['scopes = \'"*"\'', "key_digest = 'x'", "signed_in_by = 'nobody'"]) {
        await run(`UPDATE session SET ${change} WHERE id = '${a.id}'`);
        expect(await idsOf(registry), change).toEqual([b.id]);
      }
      expect(await registry.removeSessions(a.id)).toBe('removed');
    });

    it('a change of them notifies; a link does not', async () => {
      const registry = await open();
      let calls = 0;
      registry.onChange(() => {
        calls += 1;
      });
      const a = session();
      await registry.createSession(a);
      await registry.useSession(a.id, 999);
      await registry.useSession(a.id, 999);
      await registry.removeSessions(a.id);
      await registry.removeSessions(a.id);
      expect(calls).toBe(3);
      const one = link();
      await registry.createSignInLink(one, 0);
      await registry.takeSignInLink(one.digest, 0);
      expect(calls).toBe(3);
    });

    it('a sign-in link is taken once, before its end', async () => {
      const registry = await open();
      const [a, b] = [link(), link({ endsAt: 500, tokenId: null })];
      expect(await registry.createSignInLink(a, 0)).toBe('created');
      await registry.createSignInLink(b, 0);
      for (const digest of ['', 'x', '0'.repeat(64), a.digest.toUpperCase()])
        expect(await registry.takeSignInLink(digest, 0)).toBeNull();
      expect(await registry.takeSignInLink(a.digest, 999)).toEqual(a);
      expect(await registry.takeSignInLink(a.digest, 999)).toBeNull();
      expect(await registry.takeSignInLink(b.digest, 500)).toBeNull();
      expect(await registry.takeSignInLink(b.digest, 0)).toBeNull();
    });

    it('of two takers of one link at once, one gets it', async () => {
      const [here, there] = [await open(), await open()];
      const one = link();
      await here.createSignInLink(one, 0);
      const taken = await Promise.all([here, there].map((by) => by.takeSignInLink(one.digest, 0)));
      expect(taken.filter((found) => found !== null)).toEqual([one]);
    });

    it('audit entries: a repeat adds nothing; lists follow their bounds and filters', async () => {
      const registry = await open();
      const entry = (at: number, more: Partial<AuditEntry> = {}): AuditEntry => ({
        ...{ id: makeAuditId(at), at, actor: 'Li', address: '::1', action: 'patchTopic', topic: 'T' },
        ...{ jobId: null, detail: null, status: 200, code: null },
        ...more,
      });
      const changes = [{ field: 'title', before: null, after: '标题 😀' }];
      const a = entry(1_000, { detail: { changes } });
      const b = entry(2_000, { actor: 'li', topic: 't', jobId: '任务' });
      const c = entry(3_000, { topic: null, code: 'unknown', status: 503 });
      await registry.addAudit([a, b]);
      await registry.addAudit([b, c]);
      const found = async (filter: AuditFilter, before: string | null = null, limit = 10) =>
        (await registry.audit(filter, before, limit)).items;
      expect(await registry.audit({}, null, 10)).toEqual({ items: [c, b, a], next: null });
      expect(await registry.audit({}, null, 1)).toEqual({ items: [c], next: c.id });
      expect(await found({}, c.id)).toEqual([b, a]);
      expect(await found({ topic: 'T' })).toEqual([a]);
      expect(await found({ topic: 't', jobId: '任务' })).toEqual([b]);
      expect(await found({ actor: 'li' })).toEqual([b]);
      expect(await found({ action: 'other' })).toEqual([]);
      expect(await found({ since: 2_000, until: 3_000 })).toEqual([b]);
      expect(await registry.trimAudit(firstAuditId(2_000))).toEqual({ more: false });
      expect(await found({})).toEqual([c, b]);
    });

    it('a list of audit entries examines at most sqlLimits.auditScanMax and says where it stopped', async () => {
      const registry = await open();
      const count = sqlLimits.auditScanMax + 1;
      const all = Array.from({ length: count }, (_, at) => ({
        ...{ id: makeAuditId(at), at, actor: at === 0 ? 'rare' : 'x', address: '', action: 'a', topic: null },
        ...{ jobId: null, detail: null, status: 200, code: null },
      }));
      for (let n = 0; n < count; n += limits.auditBatchMax)
        await registry.addAudit(all.slice(n, n + limits.auditBatchMax));
      const first = await registry.audit({ actor: 'rare' }, null, 10);
      expect(first).toEqual({ items: [], next: all[1]?.id });
      const second = await registry.audit({ actor: 'rare' }, first.next, 10);
      expect(second).toEqual({ items: [all[0]], next: null });
      expect(await registry.trimAudit(firstAuditId(count))).toEqual({ more: true });
    });

    it('unused links are at most limits.signInLinksMax; the one that ends first goes', async () => {
      const registry = await open();
      const links = Array.from({ length: limits.signInLinksMax + 1 }, (_, i) => link({ endsAt: 1_000 + i }));
      for (const one of links) await registry.createSignInLink(one, 0);
      expect(await registry.takeSignInLink((links[0] as SignInLink).digest, 0)).toBeNull();
      expect(await registry.takeSignInLink((links[1] as SignInLink).digest, 0)).toEqual(links[1]);
    });
  });

  describe('operations', () => {
    const record = (id: string, createdAt: number): OperationRecord => ({
      ...{ id, kind: 'requeue', filter: { topic: 'T 主题' }, topics: ['*'], spreadMs: null, rate: null },
      ...{ at: null, dryRun: false, actor: 'Li', state: 'not_started', createdAt, updatedAt: createdAt },
      ...{
        moment: { 'jobs.db': createdAt },
        ...{ startedAt: null, movingAt: null, endedAt: null, matched: null, problem: null },
      },
      ...{ done: 0, skipped: 0, failed: 0, failures: [] },
    });
    const work = { ids: ['a', '😀'], cursor: null, isListed: false, isCounting: false, step: [] };

    it('the oldest is claimed first; a lease excludes other instances until it ends', async () => {
      const [here, there] = [await open(), await open()];
      for (const [id, at] of [
        ['b', 2],
        ['a', 1],
      ] as const)
        expect(await here.createOperation(record(id, at), work)).toBe('created');
      expect((await there.operations()).map(({ id }) => id)).toEqual(['b', 'a']);
      const first = await here.claimOperation('1.1', 1_000, 2_000);
      expect(first).toMatchObject({ record: record('a', 1), work });
      expect((await there.claimOperation('2.1', 1_500, 2_500))?.record.id).toBe('b');
      expect(await there.claimOperation('2.1', 1_500, 2_500)).toBeNull();
      const taken = await there.claimOperation('2.1', 2_000, 3_000);
      expect(taken?.record.id).toBe('a');
      expect(taken?.token).toBeGreaterThan(first?.token ?? 0);
    });

    it('a lease by a clock that was ahead excludes nothing', async () => {
      const registry = await open();
      await registry.createOperation(record('a'.repeat(12), 1), work);
      await registry.claimOperation('1.1', 90_000_000, 90_001_000);
      expect(await registry.claimOperation('2.1', 1_000, 2_000)).toMatchObject({ wasReleased: false });
      expect(await registry.claimOperation('3.1', 1_000, 2_000)).toBeNull();
    });

    it('a later process of its instance takes a lease at once; a closed operation is never claimed', async () => {
      const registry = await open();
      const id = 'a'.repeat(12);
      await registry.createOperation(record(id, 1), work);
      await registry.claimOperation('11.1', 1_000, 2_000);
      expect(await registry.claimOperation('11.1', 1_500, 2_500)).toBeNull();
      // Another instance, whose number is a beginning of the first one.
      expect(await registry.claimOperation('1.1', 1_500, 2_500)).toBeNull();
      const next = await registry.claimOperation('11.2', 1_500, 2_500);
      expect(next).toMatchObject({ wasReleased: false });
      const checkpoint = { record: record(id, 1), work, leaseUntil: null, isClosed: false };
      await registry.checkpointOperation(next?.token ?? 0, checkpoint);
      const last = await registry.claimOperation('2.1', 1_500, 2_500);
      expect(last).toMatchObject({ wasReleased: true });
      await registry.checkpointOperation(last?.token ?? 0, { ...checkpoint, isClosed: true });
      expect(await registry.claimOperation('2.2', 9_000, 9_999)).toBeNull();
    });

    it('of ended ones the oldest are dropped, and open ones never', async () => {
      const registry = await open();
      await registry.createOperation(record('open', 1), work);
      const rows = Array.from({ length: limits.operationsKept }, (_, n) => {
        const id = `e${String(n).padStart(3, '0')}`;
        return `('${id}', '${JSON.stringify({ id })}', '{}', 0, 1, NULL, 0, ${n + 2})`;
      });
      await run(
        `INSERT INTO operation (id, record, work, is_open, token, holder, lease_until, created_at) VALUES ${rows.join(', ')}`,
      );
      await registry.createOperation(record('new', 999), work);
      const left = (await registry.operations()).map(({ id }) => id);
      expect(left).toHaveLength(limits.operationsKept);
      expect([left[0], left.at(-2), left.at(-1)]).toEqual(['new', 'e002', 'open']);
    });

    it('of many claims at once, one gets the lease', async () => {
      const registries = await Promise.all([open(), open(), open(), open()]);
      await registries[0]?.createOperation(record('a', 1), work);
      const claims = await Promise.all(
        registries.map((one, n) => one.claimOperation(`${n}.1`, 1_000, 2_000)),
      );
      expect(claims.filter((claim) => claim !== null)).toHaveLength(1);
    });

    it('a checkpoint of a lost lease stores nothing; a stop stays', async () => {
      const registry = await open();
      const id = 'a'.repeat(12);
      await registry.createOperation(record(id, 1), work);
      const old = await registry.claimOperation('1.1', 1_000, 2_000);
      const next = await registry.claimOperation('2.1', 2_000, 3_000);
      const checkpoint = (done: number) => ({
        record: { ...record(id, 1), state: 'running' as const, done },
        work: { ...work, isListed: true },
        leaseUntil: 4_000,
        isClosed: false,
      });
      expect(await registry.checkpointOperation(old?.token ?? 0, checkpoint(1))).toBe('lost');
      expect((await registry.operation(id))?.done).toBe(0);
      expect(await registry.checkpointOperation(next?.token ?? 0, checkpoint(2))).toBe('updated');
      expect(await registry.operation(id)).toMatchObject({ state: 'running', done: 2 });
      expect(await registry.stopOperation(id, 9)).toMatchObject({ state: 'stopped', endedAt: 9 });
      expect(await registry.checkpointOperation(next?.token ?? 0, checkpoint(3))).toBe('stopped');
      expect(await registry.operation(id)).toMatchObject({ state: 'stopped', done: 3, endedAt: 9 });
      expect(await registry.stopOperation('b'.repeat(12), 9)).toBeNull();
    });

    it('a damaged row blocks no other', async () => {
      const registry = await open();
      for (const id of ['a', 'b']) await registry.createOperation(record(id, id === 'a' ? 1 : 2), work);
      await run("UPDATE operation SET work = 'x' WHERE id = 'a'");
      await registry.claimOperation('1.1', 1_000, 2_000);
      expect((await registry.claimOperation('1.1', 1_000, 2_000))?.record.id).toBe('b');
    });

    it('at most limits.operationsOpenMax are open', async () => {
      const registry = await open();
      for (let n = 0; n < limits.operationsOpenMax; n += 1)
        expect(await registry.createOperation(record(`${n}`, n), work)).toBe('created');
      expect(await registry.createOperation(record('x', 99), work)).toBe('full');
    });
  });
}
