// Tests the alert window of a topic after a wrong storage clock, which the conformance suite cannot set.
import { expect, it, onTestFinished } from 'vitest';
import { attemptOf } from '../conformance/trial.ts';
import { openSqliteStore } from '../support/sqlite-store.ts';
import { owner } from './rig.ts';

it('alerts: a window that begins in the future does not suppress alerts', async () => {
  let now = Date.now();
  const sqlite = await openSqliteStore({ clock: () => now });
  onTestFinished(sqlite.close);
  const { jobs, alerts } = sqlite.client.store;
  const die = async (id: string) => {
    const job = { topic: 't', id, when: { delayMs: 0 }, mode: 'replace', priority: 'normal' } as const;
    await jobs.push([{ ...job, contentType: null, body: Buffer.alloc(0) }]);
    const others = { room: 1, leaseMs: 60_000 };
    const taken = await jobs.reserve(0, { owner: owner(), max: 1, others, topics: new Map() });
    await jobs.bury(taken.jobs.map((one) => ({ ...one, reason: 'gone', attempt: attemptOf(one) })));
  };
  await die('1');
  const [first] = await alerts.claim('t', 60_000, 1);
  await alerts.settle([first?.version ?? 0], 'sent');
  await die('2');
  expect(await alerts.due(300_000)).toEqual([]);
  now -= 86_400_000;
  expect(await alerts.due(300_000)).toEqual(['t']);
});
