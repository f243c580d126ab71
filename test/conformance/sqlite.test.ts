// The suite on the embedded store, through its socket.

import { openSqliteStore } from '../support/sqlite-store.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { exercise } from './exercise.ts';

exercise('embedded store, through its socket', async () => {
  const clock = new SteppedClock();
  const now = () => clock.now;
  const { client, dump, close } = await openSqliteStore({ clock: now, monotonic: now });
  return { store: client.store, clock, dump: async () => dump(), close };
});
