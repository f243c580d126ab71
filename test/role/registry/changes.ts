// Changes of topics: pages, revisions and hints.

import { expect } from 'vitest';
import { statNames } from '../../../src/core/series.ts';
import type { ChangePlace, Registry, TopicChanges } from '../../../src/ports/registry.ts';
import { allStats, changesOf } from '../../support/registry-pages.ts';

import { created, draft, fact, type RegistryCase } from './case.ts';

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

export const pageCases: readonly RegistryCase[] = [
  fact('bound their rows, and hold each change once, by revision', async ({ open }) => {
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
  }),
  fact('bound their bytes, and hold at least one topic', async ({ open }) => {
    const registry = await open({ bytes: 5_000 });
    const headers = { 'x-large': 'v'.repeat(1_000) };
    for (let i = 0; i < 8; i += 1) await created(registry, draft(`t${i}`, { headers }));
    await created(registry, draft('z', { headers: { a: headers['x-large'].repeat(9) } }));
    const pages = await pagesFrom(registry);
    expect(pages.flatMap(({ topics }) => topics)).toHaveLength(9);
    for (const { topics } of pages) expect(topics.length).toBeLessThanOrEqual(2);
    expect(pages.filter(({ topics }) => topics.length === 2).length).toBeGreaterThan(1);
  }),
  fact('continue by name within one revision', async ({ open, run }) => {
    const registry = await open({ rows: 2 });
    for (let i = 0; i < 5; i += 1) await created(registry, draft(`t${i}`));
    await run('UPDATE topic SET revision = 5');
    const names = (await pagesFrom(registry)).flatMap(({ topics }) => topics.map(({ name }) => name));
    expect(names).toEqual(['t0', 't1', 't2', 't3', 't4']);
  }),
  fact('miss nothing that is committed between two of them', async ({ open }) => {
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
  }),
  fact('of statistics hold whole topics', async ({ open }) => {
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
    for (const { total } of all) expect(Object.values(total)).toEqual([2, 2, 2, 0, 0, 0]);
  }),
];

export const changeCases: readonly RegistryCase[] = [
  fact('returns everything since 0, later changes, or nothing at the current revision', async ({ open }) => {
    const registry = await open();
    expect(await changesOf(registry, 0)).toEqual({ revision: 0, topics: [], deleted: [] });
    const a = await created(registry, draft('a'));
    const b = await created(registry, draft('b'));
    expect(await changesOf(registry, 0)).toEqual({ revision: 2, topics: [a, b], deleted: [] });
    expect(await changesOf(registry, 1)).toEqual({ revision: 2, topics: [b], deleted: [] });
    expect(await changesOf(registry, 2)).toEqual({ revision: 2, topics: [], deleted: [] });
  }),
  fact('names a deleted topic until it is created again', async ({ open }) => {
    const registry = await open();
    await created(registry, draft('a'));
    await registry.remove('a', 1);
    expect(await changesOf(registry, 1)).toEqual({ revision: 2, topics: [], deleted: ['a'] });
    expect(await changesOf(registry, 2)).toEqual({ revision: 2, topics: [], deleted: [] });
    const again = await created(registry, draft('a'));
    expect(await changesOf(registry, 1)).toEqual({ revision: 3, topics: [again], deleted: [] });
    await registry.remove('a', 3);
    expect((await changesOf(registry, 0)).deleted).toEqual(['a']);
  }),
  fact('never repeats a revision, even after a removal and a restart', async ({ open }) => {
    const registry = await open();
    await created(registry, draft('a'));
    await registry.remove('a', 1);
    await registry.close();
    expect((await created(await open(), draft('a'))).revision).toBe(3);
  }),
];

export const hintCases: readonly RegistryCase[] = [
  fact('notifies of own effective writes, until unsubscribed', async ({ open }) => {
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
  }),
];
