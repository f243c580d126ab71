// Converts SQLite errors into failures, and repeats work while the database is locked. Owns the meaning of
// each failure: surely not applied, or unknown. Only a failed COMMIT can be unknown; everything before it is
// rolled back.

import { StoreError } from '../../../ports/store-error.ts';
import { sqliteCode, sqliteCodes } from '../../../runtime/database.ts';
import { sqlLimits } from '../limits.ts';
import { CommitError, repeated } from '../registry-engine.ts';

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

/** Returns errors that the database did not raise (bugs) unchanged. */
export function toStoreError(error: unknown): unknown {
  const cause = error instanceof CommitError ? error.cause : error;
  const code = sqliteCode(cause);
  if (code === null) return error;
  // SQLite rejects these before it writes the end of the transaction.
  const isRejected = code === sqliteCodes.full || isBusy(error);
  const kind = error instanceof CommitError && !isRejected ? 'unknown' : 'not_stored';
  return new StoreError({ kind, code: names[code] ?? `sqlite_${code}` }, { cause });
}

/** Repeats `work` while the database is locked; a busy call has changed nothing. Does not block: SQLite's busy
 *  handler would delay every push, because this process also serves the job store. */
export const untilFree = <T>(work: () => Promise<T>): Promise<T> =>
  repeated(work, (error) => (isBusy(error) ? sqlLimits.registryBusyStepMs : null));

/** Another connection holds the lock: nothing was applied, and a repeat may succeed. */
function isBusy(error: unknown): boolean {
  const code = sqliteCode(error instanceof CommitError ? error.cause : error);
  return code === sqliteCodes.busy || code === sqliteCodes.locked;
}
