// Tests which works of the journal dq-upkeep ends while it does not know the shard list.
import { expect, it, onTestFinished } from 'vitest';
import { Restorer } from '../../src/journal/heal/restorer.ts';
import type { Healing } from '../../src/ports/healing.ts';
import type { JournalDb, RestoreWork } from '../../src/ports/journal.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { until } from '../support/until.ts';

it('restorer: a healing stays open while the shard list is not read', async () => {
  const work: RestoreWork = {
    ...{ no: 1, kind: 'heal', about: 'a'.repeat(16), note: 5, cursor: null },
    counts: { done: 0, put: 0, removed: 0, kept: 0 },
  };
  let claims = 0;
  let listed: readonly string[] = [];
  const ends: string[] = [];
  const journal: Partial<JournalDb> = {
    async claimRestore() {
      claims += 1;
      return claims > 2 ? null : work;
    },
    async endRestore(_work, _instance, state) {
      ends.push(state);
      return true;
    },
  };
  const restorer = new Restorer({
    ...{ instance: 1, log: silentLog, peerWaitMs: 0, retentionMs: 0 },
    healing: {} as Healing,
    journal: journal as JournalDb,
    // No shard is open yet: the registry did not answer at the start of the process.
    looker: {
      ...{ notes: [], partitions: new Map(), hasSeenAll: false },
      lookAt: async () => {},
      lastLossAt: () => null,
      allowedNow: () => () => ({ note: 0, healed: 0 }),
    },
    refresh: async () => {
      listed = [work.about];
    },
    isListed: (shard) => listed.includes(shard),
    record: async () => {},
  });
  await restorer.start();
  onTestFinished(() => restorer.drain(1_000));
  await until('the work was claimed twice', () => claims > 2);
  expect(ends).toEqual([]);
});
