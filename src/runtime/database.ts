// database.ts opens SQLite files and reads pragmas and error codes. The only file that imports the SQLite
// library. node:sqlite can replace the library when the oldest supported Node has it: the API is the same.
// Hazards of @photostructure/sqlite 1.2, all observed:
//  * only the garbage collector finalises statements, so close() leaves the connection and its lock until
//    then: release locks before closing;
//  * a database whose object is unreferenced is closed under its statements;
//  * TEXT ends at a NUL: bytes from outside belong in BLOB columns.

import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { DatabaseSync, type DatabaseSyncInstance, type StatementSyncInstance } from '@photostructure/sqlite';

export type Database = DatabaseSyncInstance;
export type Statement = StatementSyncInstance;

interface OpenOptions {
  /** writes nothing, not even to recover a write-ahead log */
  readonly readOnly?: boolean;
  /** ms that a call blocks this process for a lock of another one; 0 = no wait */
  readonly waitMs?: number;
}

/** Opens or creates a file. Does not trust SQL in the schema of the file. */
export function openDatabase(path: string, options: OpenOptions = {}): Database {
  const db = new DatabaseSync(path, {
    readOnly: options.readOnly ?? false,
    timeout: options.waitMs ?? 0,
    enableForeignKeyConstraints: false,
  });
  db.exec('PRAGMA trusted_schema = OFF');
  return db;
}

/** Its rows are arrays: an object per row has names to make. */
export const rowsBy = (db: Database, sql: string): Statement => db.prepare(sql, { returnArrays: true });

/** The first bytes of a file, padded with zeros: those of a SQLite file without SQLite, which replays a WAL
 *  as soon as it opens the file. Hazard: not for a database that this process has open. Closing it here would
 *  drop the POSIX locks of the process. */
export function readHeader(path: string, length = 100): Buffer {
  const header = Buffer.alloc(length);
  const fd = openSync(path, 'r');
  try {
    readSync(fd, header, 0, length, 0);
  } finally {
    closeSync(fd);
  }
  return header;
}

/** Why the WAL beside a file with this header belongs to another file; null: it does not. Counts on a close
 *  with `journal_mode = DELETE`: the header says 2 from before the WAL exists until after it is removed. */
export function foreignLogText(path: string, header: Buffer): string | null {
  const logSize = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (header[18] !== 1 || logSize === 0) return null;
  return `${path} was closed, but ${path}-wal belongs to another file: move it away, or restore the file that it belongs to`;
}

/** Runs `PRAGMA <text>` and returns its first value or undefined. SQLite can ignore a setting: compare the
 *  value. */
export function pragma(db: Database, text: string): unknown {
  return (rowsBy(db, `PRAGMA ${text}`).get() as unknown[] | undefined)?.[0];
}

/** Reads one column of the first row without leaving a statement, so that close() closes: exec() finalises
 *  its statements, and a function inside the query receives the value. */
export function askAndForget(db: Database, column: string, from: string): unknown {
  let answer: unknown;
  db.function('caught', (value: unknown) => {
    answer ??= value;
    return null;
  });
  db.exec(`SELECT caught(${column}) FROM ${from}`);
  return answer;
}

/** Primary result codes (sqlite.org/rescode.html) that dq distinguishes. */
export const sqliteCodes = {
  busy: 5,
  locked: 6,
  readOnly: 8,
  ioError: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  constraint: 19,
  notADatabase: 26,
} as const;

/** all() and iterate() of this library give no code (1.2); these are SQLite's own messages
 *  (sqlite3_errstr). */
const codesByMessage: Readonly<Record<string, number>> = {
  'database is locked': sqliteCodes.busy,
  'database table is locked': sqliteCodes.locked,
  'disk I/O error': sqliteCodes.ioError,
  'database disk image is malformed': sqliteCodes.corrupt,
  'database or disk is full': sqliteCodes.full,
  'file is not a database': sqliteCodes.notADatabase,
};

/** SQLite found content that it did not write. */
export function isDamage(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === sqliteCodes.corrupt || code === sqliteCodes.notADatabase;
}

/** The primary result code of an error that SQLite raised; null for any other error. */
export function sqliteCode(error: unknown): number | null {
  if (!(error instanceof Error)) return null;
  if ('errcode' in error && typeof error.errcode === 'number') return error.errcode & 0xff;
  if (!('code' in error) || error.code !== 'ERR_SQLITE_ERROR') return null;
  return codesByMessage[error.message] ?? null;
}
