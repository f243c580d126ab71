// Tests a store without history: ended jobs leave nothing in the file.

import { afterEach, beforeEach, expect, it } from 'vitest';
import { attemptOf, jobOf, request } from '../conformance/trial.ts';
import { openSqliteStore, type SqliteStore, temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

let given: ReturnType<typeof temporaryDirectory>;
let store: SqliteStore;

beforeEach(async () => {
  given = temporaryDirectory();
  store = await openSqliteStore({ keepHistory: false }, given);
});
afterEach(async () => {
  await store.close();
  given.remove();
});

/** Rows of jobs; body rows below zero are the disk reserve. */
const rows = () =>
  store.owner.inspect((db) =>
    ['job', 'body', 'attempts'].map((table) => db.prepare(`SELECT n FROM ${table} WHERE n > 0`).all().length),
  );
const key = { topic: 't', id: '1' };

/** One job delivered at the second attempt, one cancelled, one delivered at once. */
async function endThree(): Promise<void> {
  const { jobs } = store.client.store;
  await jobs.push([jobOf('1')]);
  for (const verb of ['retry', 'ack'] as const)
    for (const job of (await jobs.reserve(0, request(1))).jobs) {
      const item = { ...job, delayMs: 0, attempt: attemptOf(job) };
      await jobs[verb]([item]);
    }
  await jobs.push([jobOf('2')]);
  await jobs.cancel([{ topic: 't', id: '2' }]);
  await jobs.push([jobOf('3')]);
  for (const job of (await jobs.reserve(0, request(1))).jobs)
    await jobs.ack([{ ...job, attempt: attemptOf(job, { outcome: 'delivered', reason: null }) }]);
}

it('without history: nothing is left of ended jobs', async () => {
  await endThree();
  expect(rows()).toEqual([0, 0, 0]);
  expect(await store.client.store.history.get(key)).toBeNull();
});

it('without history: nothing is left of a job that was requeued', async () => {
  const { jobs } = store.client.store;
  await jobs.push([jobOf('1')]);
  for (const job of (await jobs.reserve(0, request(1))).jobs)
    await jobs.bury([{ ...job, reason: 'attempts_exhausted', attempt: attemptOf(job) }]);
  await jobs.requeue([key]);
  expect(rows()).toEqual([1, 1, 1]);
  for (const job of (await jobs.reserve(0, request(1))).jobs)
    await jobs.ack([{ ...job, attempt: attemptOf(job, { outcome: 'delivered', reason: null }) }]);
  expect(rows()).toEqual([0, 0, 0]);
});

it('without history: the end of a job of a schedule is kept', async () => {
  const { jobs, history } = store.client.store;
  const ids = ['1', 'schedule:s:2030-01-01T00:00:00Z'];
  await jobs.push(ids.map((id) => jobOf(id)));
  await jobs.cancel(ids.map((id) => ({ topic: 't', id })));
  const kept = await Promise.all(ids.map((id) => history.get({ topic: 't', id })));
  expect(kept).toMatchObject([null, { state: 'cancelled' }]);
  expect(rows()).toEqual([1, 0, 0]);
});

it('without history: earlier entries stay visible until they are forgotten', async () => {
  await store.close();
  store = await openSqliteStore({}, given);
  await endThree();
  expect(rows()).toEqual([3, 0, 1]);
  await store.close();
  store = await openSqliteStore({ keepHistory: false }, given);
  const { history } = store.client.store;
  expect(await history.get(key)).toMatchObject({ state: 'done', failures: 1 });
  const endedBy = Date.now();
  await until('the clock to move', () => Date.now() > endedBy + 1, { everyMs: 1 });
  expect(await history.forget(0, 10)).toEqual({ forgotten: 3, more: false });
  expect(rows()).toEqual([0, 0, 0]);
});
