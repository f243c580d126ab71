// The suite on the embedded store, through its socket.

import { openSqliteStore } from '../support/sqlite-store.ts';
import { exercise } from './exercise.ts';

exercise('embedded store, through its socket', async () => {
  const { client, dump, close } = await openSqliteStore();
  return { store: client.store, dump: async () => dump(), close };
});
