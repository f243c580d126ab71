// Tests topics with ready jobs and without capacity in the embedded store: they add no cost to a reserve.

import { afterEach, beforeEach, expect, it, vi } from 'vitest';
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

async function reserve(topics: ReadonlyMap<string, TopicCapacity>, others = 5): Promise<string[]> {
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
