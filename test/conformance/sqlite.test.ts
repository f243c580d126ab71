// The suite on the embedded store, through its socket. Its files are in memory: the suite proves what a store
// answers and keeps, not that a disk keeps it.

import { memoryDirectory, openSqliteStore } from '../support/sqlite-store.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { exercise } from './exercise.ts';

exercise('embedded store, through its socket', async () => {
  const clock = new SteppedClock();
  const now = () => clock.now;
  const directory = memoryDirectory();
  const { client, dump, close } = await openSqliteStore({ clock: now, monotonic: now }, directory);
  return {
    ...{ store: client.store, clock },
    dump: async () => dump(),
    async close() {
      await close();
      directory.remove();
    },
  };
});
