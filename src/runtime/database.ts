// The one place that names the SQLite library, for the job store and for the cold path. Owns the opening of files, the
// reading of pragmas and of error codes; knows no table. Node's own node:sqlite takes its place once the oldest supported
// Node has it: the API is the same.
// Hazards of @photostructure/sqlite 1.2, seen: statements are finalised by the garbage collector only, so close() leaves the
// connection (and a lock it holds) behind until then — give up locks before closing; a database whose object is no longer
// referenced is closed under its statements; TEXT is cut at a NUL, so bytes from outside belong in BLOB columns.

import { DatabaseSync, type DatabaseSyncInstance, type StatementSyncInstance } from '@photostructure/sqlite';

export type Database = DatabaseSyncInstance;
export type Statement = StatementSyncInstance;

export interface OpenOptions {
  /** nothing is written, not even by the recovery of a write-ahead log */
  readonly readOnly?: boolean;
  /** ms that a call waits, blocking this process, for a lock of another one; 0 = not at all */
  readonly waitMs?: number;
}

/** Opens or creates a file. SQL in the schema of a file is not trusted to be ours. */
export function openDatabase(path: string, options: OpenOptions = {}): Database {
  const db = new DatabaseSync(path, {
    readOnly: options.readOnly ?? false,
    timeout: options.waitMs ?? 0,
    enableForeignKeyConstraints: false,
  });
  db.exec('PRAGMA trusted_schema = OFF');
  return db;
}

/** Runs `PRAGMA <text>` and answers its first value; undefined when it has none. Setting may be refused: compare. */
export function pragma(db: Database, text: string): unknown {
  return (db.prepare(`PRAGMA ${text}`, { returnArrays: true }).get() as unknown[] | undefined)?.[0];
}

/** Asks for one column of the first row and leaves no statement behind, so that close() closes: exec() finalises what it
 *  runs, and a function of ours inside the query catches the value. */
export function askAndForget(db: Database, column: string, from: string): unknown {
  let answer: unknown;
  db.function('caught', (value: unknown) => {
    answer ??= value;
    return null;
  });
  db.exec(`SELECT caught(${column}) FROM ${from}`);
  return answer;
}

/** Primary result codes (sqlite.org/rescode.html) that somebody decides by. */
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

/** all() and iterate() of this library tell no code (seen in 1.2); these are SQLite's own words (sqlite3_errstr). */
const codesByMessage: Readonly<Record<string, number>> = {
  'database is locked': sqliteCodes.busy,
  'database table is locked': sqliteCodes.locked,
  'disk I/O error': sqliteCodes.ioError,
  'database disk image is malformed': sqliteCodes.corrupt,
  'database or disk is full': sqliteCodes.full,
  'file is not a database': sqliteCodes.notADatabase,
};

/** The primary result code of an error that SQLite raised; null for any other error. */
export function sqliteCode(error: unknown): number | null {
  if (!(error instanceof Error)) return null;
  if ('errcode' in error && typeof error.errcode === 'number') return error.errcode & 0xff;
  if (!('code' in error) || error.code !== 'ERR_SQLITE_ERROR') return null;
  return codesByMessage[error.message] ?? null;
}
