// Tests counts of more topics than one page holds.
import { expect, it, onTestFinished } from 'vitest';
import { sqliteLimits } from '../../src/store/sqlite/limits.ts';
import { openSqliteStore } from '../support/sqlite-store.ts';

it('counts: reads all pages, each topic once, and the oldest of all', async () => {
  let now = Date.now();
  const { client, close, owner } = await openSqliteStore({ clock: () => now });
  onTestFinished(close);
  const { jobs, admin } = client.store;
  const names = Array.from({ length: 2 * sqliteLimits.countsPageTopics + 5 }, (_, i) => `t${i}`);
  const push = (topics: readonly string[]) =>
    jobs.push(
      topics.map((topic) => ({
        topic,
        id: 'a',
        when: { delayMs: 0 },
        mode: 'replace',
        priority: 'normal',
        contentType: null,
        body: Buffer.from('{}'),
      })),
    );
  await push(names);
  // The oldest job is in the last page after the first topics were pushed again.
  now += 5_000;
  await push(names.slice(0, -3));
  now += 2_000;
  const one = { delayed: 0, ready: 1, reserved: 0, dead: 0 };
  const all = {
    topics: Object.fromEntries(names.map((name) => [name, one])),
    oldestOverdueMs: 7_000,
    oldest: { topic: names.at(-3), id: 'a', dueAt: now - 7_000 },
  };
  expect(await admin.counts()).toEqual(all);
  const young = { oldestOverdueMs: 2_000, oldest: { topic: names[0] } };
  expect(await admin.counts(names.slice(-3))).toMatchObject(young);
  expect(owner.jobs).toBe(names.length);
});
