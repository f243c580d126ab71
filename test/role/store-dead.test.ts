// Tests requeue and purge of thousands of jobs in the embedded store, beside pushes that must not wait for
// them.

import { afterEach, beforeEach, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import type { Store } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { sqliteLimits } from '../../src/store/sqlite/limits.ts';
import { noMetrics } from '../../src/telemetry/metrics.ts';
import { attemptOf, jobOf, leaseOf, request } from '../conformance/trial.ts';
import { openSqliteStore, type SqliteStore } from '../support/sqlite-store.ts';

const count = 5 * sqliteLimits.bulkStepMax;
const ids = Array.from({ length: count }, (_, n) => `job${n}`);

let store: SqliteStore;
let groups = 0;
let onGroup = () => {};
beforeEach(async () => {
  groups = 0;
  const observe: typeof noMetrics.observe = (name) => {
    if (name !== 'dq_store_group_items') return;
    groups += 1;
    onGroup();
  };
  store = await openSqliteStore({ metrics: { ...noMetrics, observe } });
});
afterEach(() => store.close());

async function bury({ jobs }: Store, names: readonly string[], body?: Buffer): Promise<void> {
  await jobs.push(names.map((id) => jobOf(id, body === undefined ? {} : { body })));
  for (let left = names.length; left > 0; ) {
    const reserved = (await jobs.reserve(0, request(limits.reserveMax, { t: names.length }))).jobs;
    await jobs.bury(reserved.map((job) => ({ ...leaseOf(job), reason: 'gone', attempt: attemptOf(job) })));
    left -= reserved.length;
    if (reserved.length === 0) throw new Error('nothing was reserved');
  }
}

const done = { more: false };
const works: readonly (readonly [string, (store: Store) => Promise<object>, object])[] = [
  ['requeue: by a filter', ({ dead }) => dead.requeue({}, limits.bulkMax), { requeued: count, ...done }],
  [
    'requeue: by ids',
    ({ dead }) => dead.requeue({ topic: 't', ids }, limits.bulkMax),
    { requeued: count, ...done },
  ],
  [
    'purge of dead letters',
    ({ dead }) => dead.purge({ topic: 't' }, limits.bulkMax),
    { purged: count, ...done },
  ],
  ['purge of a topic', ({ admin }) => admin.purgeTopic('t', limits.bulkMax), { purged: count, ...done }],
];

it.each(works)('%s: a push is answered between the steps', async (_, work, answer) => {
  const { store: client } = store.client;
  await bury(client, ids);
  groups = 0;
  const ended: string[] = [];
  const working = work(client).finally(() => ended.push('work'));
  const [pushed] = await client.jobs.push([jobOf('push', { topic: 'other' })]);
  ended.push('push');
  expect(pushed?.kind).toBe('stored');
  expect(await working).toEqual(answer);
  expect(ended).toEqual(['push', 'work']);
  // One transaction per step, and one for the push.
  expect(groups).toBeGreaterThanOrEqual(count / sqliteLimits.bulkStepMax + 1);
});

it('requeue: returns more when more jobs match than it may move', async () => {
  const { store: client } = store.client;
  await bury(client, ids);
  const some = sqliteLimits.bulkStepMax + 7;
  expect(await client.dead.requeue({}, some)).toEqual({ requeued: some, more: true });
  expect((await client.admin.counts()).topics['t']).toMatchObject({ dead: count - some, ready: some });
});

it('requeue: a store that closes between two steps has done what it returned', async () => {
  const { store: client } = store.client;
  await bury(client, ids);
  const ending = new Promise<void>((resolve) => {
    onGroup = () => setImmediate(() => resolve(store.owner.drain(1_000)));
  });
  const answer = await client.dead.requeue({}, limits.bulkMax).catch((error: unknown) => error);
  await ending;
  onGroup = () => {};
  const next = await openSqliteStore({}, { path: store.directory, remove() {} });
  const requeued = next.dump().jobs.filter(({ state }) => state === 'ready').length;
  expect(requeued).toBeGreaterThan(0);
  // It returns the count, or unknown.
  if (answer instanceof StoreError) expect(answer.failure.kind).toBe('unknown');
  else expect(answer).toEqual({ requeued, more: true });
  expect(await next.client.store.dead.requeue({}, limits.bulkMax)).toEqual({
    requeued: count - requeued,
    more: false,
  });
  await next.close();
});

it('purge: large bodies are purged in steps too', async () => {
  const { store: client } = store.client;
  await bury(client, ['a', 'b', 'c', 'd', 'e', 'f'], Buffer.alloc(4 * 1024 * 1024));
  expect(await client.dead.purge({}, limits.bulkMax)).toEqual({ purged: 6, more: false });
  expect((await client.admin.counts()).topics['t']).toBeUndefined();
});
