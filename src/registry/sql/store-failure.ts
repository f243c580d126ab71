// What a failed database call means to its caller: surely not applied, or unknown. Only a COMMIT that broke off can be
// unknown; everything before it is rolled back.

import { StoreError } from '../../ports/job-store.ts';
import { sqliteCode, sqliteCodes } from '../../runtime/database.ts';
import { CommitError } from './commit-error.ts';

/** sqlite.org/rescode.html */
const names: Readonly<Record<number, string>> = {
  5: 'busy',
  6: 'locked',
  8: 'read_only',
  10: 'io_error',
  11: 'damaged',
  13: 'full',
  14: 'cannot_open',
  26: 'damaged',
};

/** An error that the database did not raise is a programmer's and comes back as it is. */
export function toStoreError(error: unknown): unknown {
  const cause = error instanceof CommitError ? error.cause : error;
  const code = sqliteCode(cause);
  if (code === null) return error;
  // SQLite refuses these before it writes the end of the transaction.
  const refused = code === sqliteCodes.full || isBusy(error);
  const kind = error instanceof CommitError && !refused ? 'unknown' : 'not_stored';
  return new StoreError({ kind, code: names[code] ?? `sqlite_${code}` }, { cause });
}

/** Somebody else holds the lock: nothing was done, and doing it again soon may work. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error instanceof CommitError ? error.cause : error);
  return code === sqliteCodes.busy || code === sqliteCodes.locked;
}
