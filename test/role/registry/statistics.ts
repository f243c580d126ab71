// Statistics and series of a registry.

import { expect } from 'vitest';
import { statNames } from '../../../src/core/series.ts';
import type { Registry, SeriesRow, StatDelta } from '../../../src/ports/registry.ts';
import { allStats } from '../../support/registry-pages.ts';

import { created, draft, fact, type RegistryCase } from './case.ts';

const row = (more: Partial<SeriesRow> = {}): SeriesRow => ({
  ...{ topic: 'a', step: 60, at: 600, instance: 4_294_967_295, incarnation: 1_893_456_000_000 },
  packed: 'AQI=',
  ...more,
});
const read = (registry: Registry, topics: readonly string[], step = 60) =>
  registry.series({ topics, step, from: 0, to: 10_000 });

export const seriesCases: readonly RegistryCase[] = [
  fact('are kept by topic, step, time and writer; a repeat replaces', async ({ open }) => {
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
  }),
  fact('a write removes expired rows of some topics, in turn', async ({ open }) => {
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
  }),
  fact('of a topic are removed with it', async ({ open }) => {
    const registry = await open();
    const { revision } = await created(registry, draft('a'));
    await registry.putSeries([row(), row({ topic: 'b' })], 600, '');
    await registry.remove('a', revision);
    expect(await read(registry, ['a', 'b'])).toEqual([row({ topic: 'b' })]);
  }),
  fact('a write of 603 rows is one call', async ({ open }) => {
    const registry = await open();
    const many = Array.from({ length: 603 }, (_, n) => row({ topic: `t${n}`, packed: 'x'.repeat(120) }));
    await registry.putSeries(many, 600, '');
    expect(await read(registry, ['t602'])).toHaveLength(1);
  }),
];

const delta = (name: StatDelta['name'], n: number, day = 20_300_131, topic = 'a'): StatDelta => ({
  topic,
  day,
  name,
  n,
});
const counts = (given: Partial<Record<StatDelta['name'], number>>) =>
  Object.fromEntries(statNames.map((name) => [name, given[name] ?? 0]));

export const statisticsCases: readonly RegistryCase[] = [
  fact('adds up totals and today, and starts a new day at zero', async ({ open }) => {
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
  }),
  fact('counts late deltas of an earlier day only in the total', async ({ open }) => {
    const registry = await open();
    await created(registry, draft('a'));
    await registry.addStats([delta('retried', 1, 20_300_201), delta('retried', 7, 20_300_131)]);
    expect(await registry.stats('a', 20_300_201)).toMatchObject({
      total: { retried: 8 },
      today: { retried: 1 },
    });
  }),
  fact('returns one topic, or all that have statistics', async ({ open }) => {
    const registry = await open();
    for (const name of ['a', 'b', 'c']) await created(registry, draft(name));
    await registry.addStats([delta('pushed', 1), delta('pushed', 2, 20_300_131, 'b')]);
    expect((await allStats(registry, 20_300_131)).map(({ topic }) => topic)).toEqual(['a', 'b']);
    expect((await registry.stats('b', 20_300_131))?.total.pushed).toBe(2);
    expect(await registry.stats('c', 20_300_131)).toBeNull();
  }),
  fact('keeps none of unregistered or removed topics', async ({ open }) => {
    const registry = await open();
    const topic = await created(registry, draft('a'));
    await registry.addStats([delta('pushed', 1), delta('pushed', 1, 20_300_131, 'unknown')]);
    expect((await allStats(registry, 20_300_131)).map((stats) => stats.topic)).toEqual(['a']);
    await registry.remove('a', topic.revision);
    await registry.addStats([delta('delivered', 1)]);
    expect(await allStats(registry, 20_300_131)).toEqual([]);
  }),
  fact('adds a call completely or not at all', async ({ open }) => {
    const registry = await open();
    await created(registry, draft('a'));
    const broken = delta('dead', Number.NaN);
    await expect(registry.addStats([delta('pushed', 1), broken])).rejects.toThrow();
    expect(await registry.stats('a', 20_300_131)).toBeNull();
  }),
];
