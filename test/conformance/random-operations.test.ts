// The embedded store, through its socket, beside the model: random operations on one stepped clock, with the
// file closed and reopened in between. DQ_SEED=… repeats a run, DQ_STORE_OPERATIONS=20000 makes it longer.

import { describe, expect, it } from 'vitest';
import { sqliteLimits } from '../../src/store/sqlite/limits.ts';
import { memoryDirectory, openSqliteStore, type SqliteStore } from '../support/sqlite-store.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { words } from '../support/words.ts';
import { Model } from './model.ts';
import { openModelStore } from './model-store.ts';
import { alter } from './mutants/mutant.ts';
import { SideBySide } from './random-operations.ts';
import type { StoreUnderTest } from './store-under-test.ts';
import { examined } from './trial.ts';

const seed = Number(process.env['DQ_SEED'] ?? Date.now() % 1_000_000_007);
const operations = Number(process.env['DQ_STORE_OPERATIONS'] ?? 6_000);
const lives = 4;

/** Operations and outcomes that every run must contain. */
const kinds = [
  ...['stored', 'kept', 'job_exists', 'cancelled', 'absent', 'acked', 'retried', 'buried', 'released'],
  ...[
    ...words`lease_lost extended pulled poisoned promote reserve recover recoverOwners releaseUnheld`,
    'dead list',
  ],
  ...['run', 'unchanged', 'dead', 'rescheduled', 'in_flight', 'requeued', 'not_dead', 'edited'],
  ...['ended: done', 'ended: cancelled', 'ended: purged', 'forgotten', 'expired'],
  'search',
  ...['dead requeue', 'dead purge', 'claim', 'due', 'settle', 'alerts', 'counts', 'get', 'purgeTopic'],
];

const underTest = ({ client, dump, close }: SqliteStore): StoreUnderTest => ({
  store: client.store,
  dump: async () => dump(),
  close,
});

describe('random operations', () => {
  it(`the embedded store equals the model (seed ${seed})`, {
    timeout: 900_000,
  }, async () => {
    const clock = new SteppedClock();
    const now = () => clock.now;
    const directory = memoryDirectory();
    const open = () => openSqliteStore({ clock: now, monotonic: now }, directory);
    const model = new Model(clock);
    const both = new SideBySide(seed, clock, await openModelStore(model));
    const unseen = () => kinds.filter((kind) => both.seen[kind] === undefined);
    let tested = underTest(await open());
    try {
      // Longer if some kinds have not come up by then.
      for (let life = 0; life < lives || (unseen().length > 0 && life < 4 * lives); life += 1) {
        await both.run(operations / lives, tested);
        await both.emptyReady(tested);
        expect((await examined(tested.store)).problems).toEqual([]);
        await tested.close();
        tested = underTest(await open());
        // The store skips numbers that a power cut may have undone: as many as chance decides.
        if (model.counter >= clock.now * 1_000) {
          const [number = 0] = Object.values(await tested.store.admin.moment());
          expect(number).toBeGreaterThan(model.counter + sqliteLimits.lostNumbersMax);
          model.counter = number;
        }
        await both.compareStates(tested);
      }
    } finally {
      await tested.close();
      directory.remove();
    }
    expect(unseen()).toEqual([]);
  });

  it('a store that loses one kind of alert is detected', async () => {
    const clock = new SteppedClock();
    const forgetful = new Model(clock);
    alter(forgetful, 'oweAlert', (right) => (job, deadAt, reason) => {
      if (reason !== 'poison') right(job, deadAt, reason);
    });
    const both = new SideBySide(1, clock, await openModelStore(new Model(clock)));
    await expect(both.run(6_000, await openModelStore(forgetful))).rejects.toThrow('seed 1;');
  });
});
