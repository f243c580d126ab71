// Tests that a search of the embedded store scans a bounded number of rows and continues after its cursor.

import { afterEach, beforeEach, expect, it } from 'vitest';
import type { SearchFilter } from '../../src/ports/job-store.ts';
import { storeLimits } from '../../src/store/limits.ts';
import { attemptOf, jobOf, request } from '../conformance/trial.ts';
import { openSqliteStore, type SqliteStore } from '../support/sqlite-store.ts';

let store: SqliteStore;
beforeEach(async () => {
  store = await openSqliteStore();
});
afterEach(() => store.close());

const many = storeLimits.searchRowsMax + 500;
const jobs = () => store.client.store.jobs;
const numbered = (n: number) => Array.from({ length: n }, (_, i) => `j${i}`);

async function searchAll(filter: SearchFilter) {
  const pages: string[][] = [];
  for (let cursor: string | null = null; ; ) {
    const page = await jobs().search(filter, 10, cursor);
    pages.push(page.items.map(({ id }) => id));
    cursor = page.nextCursor;
    if (cursor === null) return pages;
  }
}

it('search: a page is empty when no scanned row matches', async () => {
  await jobs().push(numbered(many).map((id) => jobOf(id)));
  await jobs().push([jobOf('last', { priority: 'high' })]);
  await jobs().reserve(0, request(1));
  expect(await searchAll({ state: 'reserved' })).toEqual([[], ['last']]);
  expect(await searchAll({ state: 'reserved', topic: 't' })).toEqual([[], ['last']]);
  expect(await searchAll({ id: 'last' })).toEqual([['last']]);
});

it('search: dead letters hide no ready job of their topic, and no delayed one', async () => {
  await jobs().push(numbered(many).map((id) => jobOf(id, { priority: 'high' })));
  for (;;) {
    const { jobs: reserved } = await jobs().reserve(0, request(500));
    if (reserved.length === 0) break;
    await jobs().bury(
      reserved.map((job) => ({ ...job, attempt: attemptOf(job), reason: 'attempts_exhausted' })),
    );
  }
  for (const priority of ['low', 'normal', 'high'] as const)
    await jobs().push([jobOf(priority, { priority })]);
  await jobs().push([jobOf('soon', { when: { delayMs: 3_600_000 } })]);
  await jobs().push([jobOf('other', { topic: 'u', when: { delayMs: 1_800_000 } })]);
  expect(await searchAll({ state: 'ready', topic: 't' })).toEqual([['low', 'normal', 'high']]);
  expect(await searchAll({ state: 'delayed', topic: 't' })).toEqual([['soon']]);
  expect(await searchAll({ state: 'delayed' })).toEqual([['other', 'soon']]);
});

it('search: the same for ended jobs', async () => {
  await jobs().push([jobOf('delivered')]);
  const [job] = (await jobs().reserve(0, request(1))).jobs;
  if (job === undefined) throw new Error('it was pushed');
  await jobs().ack([{ ...job, attempt: attemptOf(job) }]);
  await jobs().push(numbered(many).map((id) => jobOf(id, { topic: 'u' })));
  await jobs().cancel(numbered(many).map((id) => ({ topic: 'u', id })));
  expect(await searchAll({ state: 'done' })).toEqual([[], ['delivered']]);
});

it('search: rejects an invalid cursor', async () => {
  await expect(jobs().search({}, 10, 'nonsense')).rejects.toMatchObject({
    failure: { kind: 'not_stored', code: 'bad_cursor' },
  });
});
