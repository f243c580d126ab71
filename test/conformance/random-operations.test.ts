// The embedded store, through its socket, beside the model: 6,000 random operations on one stepped clock.
// DQ_SEED=… repeats a run.

import { describe, expect, it } from 'vitest';
import { openSqliteStore } from '../support/sqlite-store.ts';
import { Model } from './model.ts';
import { openModelStore } from './model-store.ts';
import { change } from './mutants/mutant.ts';
import { compareStores } from './random-operations.ts';
import type { StoreUnderTest } from './store-under-test.ts';

const seed = Number(process.env['DQ_SEED'] ?? Date.now() % 1_000_000_007);
const start = 1_900_000_000_000;

/** Everything that must have happened for a run to mean something. */
const kinds = [
  ...['stored', 'kept', 'job_exists', 'cancelled', 'absent', 'acked', 'retried', 'buried', 'released'],
  ...[
    'lease_lost',
    'poisoned',
    'promote',
    'reserve',
    'recover',
    'recoverOwners',
    'releaseUnheld',
    'dead list',
  ],
  ...['dead requeue', 'dead purge', 'claim', 'settle', 'alerts', 'counts', 'get', 'purgeTopic'],
];

describe('random operations', () => {
  it(`the embedded store answers and keeps what the model does (seed ${seed})`, {
    timeout: 180_000,
  }, async () => {
    const clock = { now: start };
    const { client, dump, close } = await openSqliteStore({ clock: () => clock.now });
    const embedded: StoreUnderTest = { store: client.store, dump: async () => dump(), close };
    const model = await openModelStore(new Model(() => clock.now));
    try {
      const seen = await compareStores(seed, 6_000, clock, model, embedded);
      expect(kinds.filter((kind) => seen[kind] === undefined)).toEqual([]);
    } finally {
      await close();
    }
  });

  it('a store that forgets one kind of alert is found out', async () => {
    const clock = { now: start };
    const forgetful = new Model(() => clock.now);
    change(forgetful, 'oweAlert', (right) => (job, deadAt, reason) => {
      if (reason !== 'poison') right(job, deadAt, reason);
    });
    const model = await openModelStore(new Model(() => clock.now));
    const run = compareStores(1, 6_000, clock, model, await openModelStore(forgetful));
    await expect(run).rejects.toThrow('seed 1;');
  });
});
