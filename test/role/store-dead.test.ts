// Dead letters with bodies so large that removing all of them at once would stop the store for seconds.

import { afterEach, beforeEach, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { attemptOf, jobOf, leaseOf, request } from '../conformance/trial.ts';
import { openSqliteStore, type SqliteStore } from '../support/sqlite-store.ts';

let store: SqliteStore;
beforeEach(async () => {
  store = await openSqliteStore();
});
afterEach(() => store.close());

it.each([
  ['by a filter', {}],
  ['by their ids', { topic: 't', ids: ['0', '1', '2', '3', '4', '5'] }],
])('dead letters with large bodies are purged in steps, %s', async (_, filter) => {
  const { jobs, dead, admin } = store.client.store;
  const bytes = Math.ceil(limits.purgeBytesMax / 4);
  for (let n = 0; n < 6; n += 1) {
    await jobs.push([jobOf(String(n), { body: Buffer.alloc(bytes) })]);
    const [job] = (await jobs.reserve(0, request(1))).jobs;
    if (job === undefined) throw new Error('not reserved');
    await jobs.bury([{ ...leaseOf(job), reason: 'gone', attempt: attemptOf(job) }]);
  }
  expect(await dead.purge(filter, limits.bulkMax)).toEqual({ purged: 4, more: true });
  expect((await admin.counts()).topics['t']?.dead).toBe(2);
  expect(await dead.purge(filter, limits.bulkMax)).toEqual({ purged: 2, more: false });
});
