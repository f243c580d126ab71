// Tests topics with ready jobs and without capacity in the embedded store: they add no cost to a reserve and
// do not change the order of turns.

import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { CapacityBase, LayeredCapacities, type TopicCapacities } from '../../src/core/layered-capacities.ts';
import type { TopicCapacity } from '../../src/ports/job-store.ts';
import { TopicCounters } from '../../src/store/sqlite/engine/topic-counters.ts';
import { KnownCapacities } from '../../src/store/sqlite/wire/capacity-delta.ts';
import { jobOf, owner } from '../conformance/trial.ts';
import { openSqliteStore, type SqliteStore } from '../support/sqlite-store.ts';

const leaseMs = 60_000;
const names = (count: number) => Array.from({ length: count }, (_, n) => `paused${n}`);
const blocked = (topics: readonly string[]) =>
  new Map<string, TopicCapacity>(topics.map((topic) => [topic, { room: 0, leaseMs }]));

let store: SqliteStore;
beforeEach(async () => {
  store = await openSqliteStore();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await store.close();
});

async function push(topics: readonly string[], id = '1'): Promise<void> {
  await store.client.store.jobs.push(topics.map((topic) => jobOf(id, { topic })));
}

async function reserve(topics: TopicCapacities, others = 5): Promise<string[]> {
  const request = { owner, max: 100, others: { room: others, leaseMs }, topics };
  return (await store.client.store.jobs.reserve(0, request)).jobs.map(({ topic, id }) => `${topic} ${id}`);
}

it('reserve: checks no paused topic twice, however many have ready jobs', async () => {
  const paused = names(1_000);
  await push(paused);
  expect(await reserve(blocked(paused))).toEqual([]);
  const looks = vi.spyOn(TopicCounters.prototype, 'topicName');
  for (const id of ['1', '2', '3']) {
    await push(['good'], id);
    expect(await reserve(blocked(paused))).toEqual([`good ${id}`]);
  }
  expect(looks.mock.calls.length).toBeLessThan(100);
});

it('reserve: takes from resumed topics in the order of their turns', async () => {
  const paused = names(300);
  await push(paused.slice(0, 200));
  await push(['between']);
  await push(paused.slice(200));
  const all = blocked(paused);
  expect(await reserve(all)).toEqual(['between 1']);
  // One topic gets its capacity by name, the other one that of the others.
  all.set('paused250', { room: 1, leaseMs });
  all.delete('paused7');
  expect(await reserve(all)).toEqual(['paused7 1', 'paused250 1']);
  expect(await reserve(all)).toEqual([]);
  await push(['paused7'], '2');
  expect(await reserve(all)).toEqual(['paused7 2']);
});

it('reserve: a topic that leaves the upper layer gets the base capacity again', async () => {
  const paused = names(300);
  const base = new CapacityBase(new Map([...blocked(paused), ['open', { room: 5, leaseMs }]]));
  const over = (rooms: Record<string, number>) =>
    new LayeredCapacities(
      base,
      new Map(Object.entries(rooms).map(([topic, room]) => [topic, { room, leaseMs }])),
    );
  await push(paused);
  expect(await reserve(over({}))).toEqual([]);
  expect(await reserve(over({ paused7: 1 }))).toEqual(['paused7 1']);
  await push(['paused7', 'open', 'unnamed'], '2');
  expect(await reserve(over({ open: 0, unnamed: 0 }))).toEqual([]);
  expect(await reserve(over({ paused200: 1, open: 0 }))).toEqual(['paused200 1', 'unnamed 2']);
  expect(await reserve(over({}))).toEqual(['open 2']);
  expect(await reserve(over({}))).toEqual([]);
  // Another base, with the same topics except one.
  const fewer = blocked(paused.filter((topic) => topic !== 'paused7'));
  expect(await reserve(new LayeredCapacities(new CapacityBase(fewer), new Map()))).toEqual(['paused7 2']);
});

it('reserve: without capacity for others takes only from named topics', async () => {
  await push(['a', 'b', 'c']);
  const named = new Map([['b', { room: 1, leaseMs }]]);
  expect(await reserve(named, 0)).toEqual(['b 1']);
  expect(await reserve(new Map(), 0)).toEqual([]);
  expect(await reserve(new Map(), 1)).toEqual(['a 1', 'c 1']);
});

it('reserve: a one-time delta leaves the table of the connection unchanged', async () => {
  const paused = names(1_000);
  const few = new Map<string, TopicCapacity>(['kept', 'good'].map((topic) => [topic, { room: 1, leaseMs }]));
  await push(paused);
  expect(await reserve(blocked(paused))).toEqual([]);
  const sent = vi.spyOn(KnownCapacities.prototype, 'with');
  const looks = vi.spyOn(TopicCounters.prototype, 'topicName');
  for (const id of ['1', '2', '3', '4']) {
    await push(['kept'], id);
    expect(await reserve(few, 0)).toEqual([`kept ${id}`]);
    await push(['other'], id);
    expect(await reserve(blocked(paused))).toEqual([`other ${id}`]);
  }
  const topics = sent.mock.calls.reduce((sum, [delta]) => sum + delta.capacities.length, 0);
  expect(topics).toBe(4 * few.size);
  expect(looks.mock.calls.length).toBeLessThan(100);
});
