// Tests separated rows of the embedded store: they affect only their own job, and dq logs them.

import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Log, silentLog } from '../../src/telemetry/log.ts';
import { attemptOf, examined, jobOf, leaseOf, owner, request } from '../conformance/trial.ts';
import { openSqliteStore, type SqliteStore } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

let store: SqliteStore;
let errors: string[];
beforeEach(async () => {
  errors = [];
  const log: Log = { ...silentLog, error: (message) => void errors.push(message) };
  store = await openSqliteStore({ log });
});
afterEach(() => store.close());

const damage = (sql: string) => store.owner.inspect((db) => db.exec(sql));

async function reservedIds(): Promise<readonly string[]> {
  const found = await until('jobs to be reserved', async () => {
    const { jobs } = await store.client.store.jobs.reserve(0, request(10));
    return jobs.length > 0 ? jobs : null;
  });
  return found.map(({ id }) => id).sort();
}

async function problems(): Promise<readonly string[]> {
  const found = await examined(store.client.store);
  return found.problems.map(({ what, count }) => `${count} ${what}`);
}

it('reserve: buries a ready job without a body; other jobs keep their turns', async () => {
  const { jobs, dead, alerts } = store.client.store;
  await jobs.push([jobOf('1'), jobOf('2'), jobOf('3', { topic: 'u' })]);
  damage("DELETE FROM body WHERE n = (SELECT n FROM job WHERE id = CAST('1' AS BLOB))");
  expect(await reservedIds()).toEqual(['2', '3']);
  expect(errors).toEqual([expect.stringContaining('job t/1 has no body')]);
  expect((await dead.list({}, 10, null)).items).toMatchObject([
    { topic: 't', id: '1', deadReason: 'poison' },
  ]);
  expect(await jobs.get({ topic: 't', id: '1' })).toMatchObject({ state: 'dead' });
  expect(await alerts.due(0)).toEqual(['t']);
  expect(await problems()).toEqual(['1 jobs without a body']);
  expect(await jobs.push([jobOf('1')])).toMatchObject([{ kind: 'stored' }]);
  expect(await problems()).toEqual([]);
});

it('reserve: corrects counts of missing jobs and goes on', async () => {
  const { jobs, admin } = store.client.store;
  await jobs.push([jobOf('1'), jobOf('2', { topic: 'u' })]);
  damage("DELETE FROM body WHERE n = (SELECT n FROM job WHERE id = CAST('1' AS BLOB))");
  damage("DELETE FROM job WHERE id = CAST('1' AS BLOB)");
  expect(await reservedIds()).toEqual(['2']);
  expect(errors).toEqual([expect.stringContaining('topic t has 0 ready jobs, fewer than counted')]);
  expect((await admin.counts()).topics).toEqual({ u: { delayed: 0, ready: 0, reserved: 1, dead: 0 } });
  expect(await problems()).toEqual([]);
});

it('unreadable attempts: the job stays usable, and they stay unchanged', async () => {
  const { jobs, dead } = store.client.store;
  await jobs.push([jobOf('1'), jobOf('2')]);
  const leased = (await jobs.reserve(0, request(2))).jobs;
  await jobs.retry(leased.map((job) => ({ ...leaseOf(job), delayMs: 0, attempt: attemptOf(job) })));
  damage("UPDATE attempts SET list = 'torn' WHERE n = (SELECT n FROM job WHERE id = CAST('1' AS BLOB))");
  for (let strike = 0; strike < 5; strike += 1) {
    const again = (await jobs.reserve(0, request(2, null, owner, 1))).jobs;
    expect(again.map(({ id }) => id).sort()).toEqual(['1', '2']);
    await until('both to be recovered', async () => {
      const { returned, poisoned } = await jobs.recover(0, 10);
      if (returned + poisoned.length < 2) return false;
      await jobs.bury(poisoned.map((lease) => ({ ...lease, reason: 'poison', attempt: null })));
      return true;
    });
  }
  expect(
    (await dead.list({}, 10, null)).items.map(({ id, attempts }) => [id, attempts.length]).sort(),
  ).toEqual([
    ['1', 0],
    ['2', 1],
  ]);
  expect(await problems()).toEqual(['1 unreadable attempts']);
});
