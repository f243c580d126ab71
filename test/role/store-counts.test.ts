// Tests counts of more topics than one page holds.
import { expect, it, onTestFinished } from 'vitest';
import type { LateJob } from '../../src/core/incident.ts';
import { limits } from '../../src/core/limits.ts';
import { openEngine } from '../../src/store/sqlite/engine/engine.ts';
import { firstCounts } from '../../src/store/sqlite/engine/job-counts.ts';
import { sqliteLimits } from '../../src/store/sqlite/limits.ts';
import { jobOf } from '../conformance/trial.ts';
import { openSqliteStore, ownerPaths, temporaryDirectory } from '../support/sqlite-store.ts';

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
    oldest: expect.toSatisfy((jobs: readonly LateJob[]) => jobs.length === limits.oldestMax),
  };
  const { oldest, ...counted } = await admin.counts();
  expect({ ...counted, oldest }).toEqual(all);
  const firstNames = oldest.slice(0, 3).map(({ topic }) => topic);
  expect(firstNames.toSorted()).toEqual(names.slice(-3));
  expect(oldest.map(({ dueAt }) => now - dueAt)).toEqual([
    ...Array<number>(3).fill(7_000),
    ...Array<number>(limits.oldestMax - 3).fill(2_000),
  ]);
  expect((await admin.counts(names.slice(-3))).oldestOverdueMs).toBe(2_000);
  expect(owner.jobs).toBe(names.length);
});

it('counts: due delayed jobs of held topics, however many, hide no later one', async () => {
  let now = Date.now();
  const { client, close } = await openSqliteStore({ clock: () => now });
  onTestFinished(close);
  const { jobs, admin } = client.store;
  const delayed = (id: string, topic: string, delayMs: number) => jobOf(id, { topic, when: { delayMs } });
  for (let n = 0; n <= sqliteLimits.countsDelayed; n += 500)
    await jobs.push(Array.from({ length: 500 }, (_, i) => delayed(`${n + i}`, 'held', 1)));
  await jobs.push([delayed('late', 'called', 5)]);
  now += 1_000;
  expect((await admin.counts(['held'])).oldest).toMatchObject([{ topic: 'called', id: 'late' }]);
});

it('counts: a later call does not read the due delayed jobs of held topics again', () => {
  let now = Date.now();
  const directory = temporaryDirectory();
  const engine = openEngine(ownerPaths(directory.path).path, {
    diskReserveBytes: 256 * 1024,
    clock: () => now,
  });
  onTestFinished(() => {
    engine.close();
    directory.remove();
  });
  const push = (topic: string, ids: readonly number[], delayMs: number) => {
    engine.begin('normal');
    for (const id of ids) engine.push(jobOf(`${id}`, { topic, when: { delayMs } }));
    engine.commit();
  };
  const count = (held: readonly string[], place = firstCounts) => {
    engine.begin('normal');
    const { oldest, next } = engine.jobCounts.counts(held, [], place);
    engine.commit();
    return { first: oldest.map(({ topic, id }) => `${topic} ${id}`), next };
  };
  push(
    'held',
    Array.from({ length: sqliteLimits.countsDelayed }, (_, n) => n),
    1,
  );
  push('called', [1], 5);
  now += 1_000;
  const first = count(['held']);
  expect(first).toMatchObject({ first: [], next: { delayed: expect.any(Array) } });
  expect(count(['held'], first.next ?? firstCounts)).toEqual({ first: ['called 1'], next: null });
  expect(count(['held'])).toEqual({ first: ['called 1'], next: null });
  // Another topic is held: the jobs of both are read.
  expect(count(['called']).first).toEqual(['held 0']);
  expect(count(['held'])).toEqual({ first: ['called 1'], next: null });
  // The clock was set back, and stored a job that is due before those.
  count(['held']);
  now -= 1_500;
  push('called', [2], 1);
  count(['held']);
  now += 1_500;
  expect(count(['held']).first).toEqual(['called 2']);
});
