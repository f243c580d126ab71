// Tests the search for one job of a topic behind more rows than one call of the store reads.

import { expect, it, onTestFinished } from 'vitest';
import { storeLimits } from '../../src/store/limits.ts';
import { firstFound, oldestDue } from '../../src/use-cases/find-job.ts';
import { jobOf } from '../conformance/trial.ts';
import { openSqliteStore } from '../support/sqlite-store.ts';

it('finds the oldest due job behind overdue ones of other topics', async () => {
  let now = Date.now();
  const { client, close } = await openSqliteStore({ clock: () => now });
  onTestFinished(close);
  const { jobs } = client.store;
  const delayed = (id: string, topic: string, delayMs: number) => jobOf(id, { topic, when: { delayMs } });
  for (let n = 0; n <= storeLimits.searchRowsMax; n += 500)
    await jobs.push(Array.from({ length: 500 }, (_, i) => delayed(`${n + i}`, 'other', 1)));
  await jobs.push([delayed('late', 't', 5), delayed('later', 't', 60_000)]);
  now += 1_000;
  expect(await oldestDue(jobs, 't', now)).toMatchObject({ id: 'late' });
  await jobs.push([jobOf('now', { topic: 't' })]);
  expect(await oldestDue(jobs, 't', now)).toMatchObject({ id: 'late' });
  await jobs.cancel([{ topic: 't', id: 'late' }]);
  expect(await oldestDue(jobs, 't', now)).toMatchObject({ id: 'now' });
  await jobs.cancel([{ topic: 't', id: 'now' }]);
  expect(await oldestDue(jobs, 't', now)).toBeNull();
  expect(await firstFound(jobs, { topic: 't', state: 'delayed' })).toMatchObject({ id: 'later' });
});
