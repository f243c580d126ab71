// One instance per data directory: a lock that the kernel holds for the master and drops with it, whatever its end. Asking
// "is the pid alive" would be a guess. The lock is SQLite's, on a database that stays empty: no native module but the one
// that is there already.
// Invariant: this process opens the lock file once. POSIX drops a lock when any descriptor of the file is closed.

import { join } from 'node:path';
import { openDatabase, sqliteCode, sqliteCodes } from '../../runtime/database.ts';
import { masterLimits } from '../limits.ts';

export interface DirectoryLock {
  release(): void;
}

/** null = somebody else holds it. Throws when the file cannot be used. */
export function takeDirectoryLock(runDir: string): DirectoryLock | null {
  // With a wait: on its way to an exclusive lock SQLite passes through lesser ones, and two starts at once would refuse each other.
  const db = openDatabase(join(runDir, 'lock.db'), { waitMs: masterLimits.lockWaitMs });
  try {
    db.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    db.close();
    if (sqliteCode(error) === sqliteCodes.busy) return null;
    throw error;
  }
  return {
    release() {
      // close() alone may leave the lock until a garbage collection.
      db.exec('ROLLBACK');
      db.close();
    },
  };
}
