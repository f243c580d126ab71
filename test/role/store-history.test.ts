// A store that keeps no history: what ends leaves nothing in the file.

import { afterEach, beforeEach, expect, it } from 'vitest';
import { attemptOf, jobOf, request } from '../conformance/trial.ts';
import { openSqliteStore, type SqliteStore, temporaryDirectory } from '../support/sqlite-store.ts';

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

/** Of jobs: body rows below zero are the room that the store keeps for settling on a full disk. */
const rows = () =>
  store.owner.inspect((db) =>
    ['job', 'body', 'attempts'].map((table) => db.prepare(`SELECT n FROM ${table} WHERE n > 0`).all().length),
  );
const key = { topic: 't', id: '1' };

/** A job that has failed once is delivered, another is cancelled. */
async function endTwo(): Promise<void> {
  const { jobs } = store.client.store;
  await jobs.push([jobOf('1')]);
  for (const verb of ['retry', 'ack'] as const)
    for (const job of (await jobs.reserve(0, request(1))).jobs)
      await jobs[verb]([{ ...job, delayMs: 0, attempt: attemptOf(job) }]);
  await jobs.push([jobOf('2')]);
  await jobs.cancel([{ topic: 't', id: '2' }]);
}

it('a store that keeps no history: nothing is left of what has ended', async () => {
  await endTwo();
  expect(rows()).toEqual([0, 0, 0]);
  expect(await store.client.store.history.get(key)).toBeNull();
});

it('a store that keeps no history: what an earlier life kept is shown until it is forgotten', async () => {
  await store.close();
  store = await openSqliteStore({}, given);
  await endTwo();
  expect(rows()).toEqual([2, 0, 1]);
  await store.close();
  store = await openSqliteStore({ keepHistory: false }, given);
  const { history } = store.client.store;
  expect(await history.get(key)).toMatchObject({ state: 'done', failures: 1 });
  expect(await history.forget(Date.now() + 1_000, 10)).toEqual({ forgotten: 2, more: false });
  expect(rows()).toEqual([0, 0, 0]);
});
