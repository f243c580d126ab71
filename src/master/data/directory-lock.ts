// Locks a data directory for one master. The kernel releases the lock when the process ends; a pid file would
// be a guess. The lock is SQLite's, on an empty database, so that no second native module is needed.
// Invariant: this process opens the lock file once: POSIX drops a lock when any descriptor of the file is
// closed.

import { join } from 'node:path';
import { openDatabase, sqliteCode, sqliteCodes } from '../../runtime/database.ts';
import { masterLimits } from '../limits.ts';

export interface DirectoryLock {
  release(): void;
}

/** null = another process holds it. Throws if the file cannot be used. */
export function takeDirectoryLock(runDir: string): DirectoryLock | null {
  return takeLock(join(runDir, 'lock.db'));
}

/** `file`: of the lock alone; it stays, because its removal would let two processes in. */
export function takeLock(file: string): DirectoryLock | null {
  // With a wait: SQLite takes weaker locks before the exclusive one, and two starts at once would reject each
  // other.
  const db = openDatabase(file, { waitMs: masterLimits.lockWaitMs });
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
