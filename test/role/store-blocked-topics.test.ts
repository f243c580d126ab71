// Topics with ready jobs and without capacity in the embedded store: they cost a reserve nothing, and change nothing of whose turn
// it is.

import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { CapacityBase, LayeredCapacities, type TopicCapacities } from '../../src/core/layered-capacities.ts';
import type { TopicCapacity } from '../../src/ports/job-store.ts';
import { TopicCounters } from '../../src/store/sqlite/engine/topic-counters.ts';
import { RoomsKnown } from '../../src/store/sqlite/wire/capacity-delta.ts';
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

it('reserve: looks at no paused topic again, however many have ready jobs', async () => {
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

it('reserve: takes from topics that are resumed, in the order of their turns', async () => {
  const paused = names(300);
  await push(paused.slice(0, 200));
  await push(['between']);
  await push(paused.slice(200));
  const all = blocked(paused);
  expect(await reserve(all)).toEqual(['between 1']);
  // One gets its room by its name, another one that of the others.
  all.set('paused250', { room: 1, leaseMs });
  all.delete('paused7');
  expect(await reserve(all)).toEqual(['paused7 1', 'paused250 1']);
  expect(await reserve(all)).toEqual([]);
  await push(['paused7'], '2');
  expect(await reserve(all)).toEqual(['paused7 2']);
});

it('reserve: a topic that leaves the over-layer has the capacity of the base again', async () => {
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
  // Another base, of the same topics but one.
  const fewer = blocked(paused.filter((topic) => topic !== 'paused7'));
  expect(await reserve(new LayeredCapacities(new CapacityBase(fewer), new Map()))).toEqual(['paused7 2']);
});

it('reserve: without room for others takes from the named topics, and from the others when there is some again', async () => {
  await push(['a', 'b', 'c']);
  const named = new Map([['b', { room: 1, leaseMs }]]);
  expect(await reserve(named, 0)).toEqual(['b 1']);
  expect(await reserve(new Map(), 0)).toEqual([]);
  expect(await reserve(new Map(), 1)).toEqual(['a 1', 'c 1']);
});

it('reserve: a short list without capacity for others leaves the table of the connection as it is', async () => {
  const paused = names(1_000);
  const few = new Map<string, TopicCapacity>(['kept', 'good'].map((topic) => [topic, { room: 1, leaseMs }]));
  await push(paused);
  expect(await reserve(blocked(paused))).toEqual([]);
  const sent = vi.spyOn(RoomsKnown.prototype, 'with');
  const looks = vi.spyOn(TopicCounters.prototype, 'topicName');
  for (const id of ['1', '2', '3', '4']) {
    await push(['kept'], id);
    expect(await reserve(few, 0)).toEqual([`kept ${id}`]);
    await push(['other'], id);
    expect(await reserve(blocked(paused))).toEqual([`other ${id}`]);
  }
  const topics = sent.mock.calls.reduce((sum, [changes]) => sum + changes.rooms.length, 0);
  expect(topics).toBe(4 * few.size);
  expect(looks.mock.calls.length).toBeLessThan(100);
});

it('reserve: an owner of an earlier version serves a short list without capacity for others', async () => {
  const { with: served } = RoomsKnown.prototype;
  vi.spyOn(RoomsKnown.prototype, 'with').mockImplementation(function (this: RoomsKnown, changes) {
    return changes.base < 0 ? null : served.call(this, changes);
  });
  await push(['a', 'b']);
  expect(await reserve(blocked(['a', 'b']))).toEqual([]);
  expect(await reserve(new Map([['b', { room: 1, leaseMs }]]), 0)).toEqual(['b 1']);
  expect(await reserve(blocked(['b']))).toEqual(['a 1']);
});
