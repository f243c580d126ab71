// Adapts the registry and Kysely to a SQLite file: caches statements, takes the write lock at BEGIN, and
// repeats work while the database is locked. Owns the meaning of each failure: surely not applied, or
// unknown. Only a failed COMMIT can be unknown; everything before it is rolled back.

import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type SqliteDatabase,
  SqliteDialect,
  type SqliteStatement,
  type TransactionSettings,
} from 'kysely';
import { StoreError } from '../../../ports/store-error.ts';
import { type Database, sqliteCode, sqliteCodes } from '../../../runtime/database.ts';
import { sqlLimits } from '../limits.ts';
import { CommitError, type RegistryEngine, repeated, strictly } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { putRowsOneByOne } from '../tables/registry-series.ts';
import { addOneByOne } from '../tables/registry-stats.ts';

export function sqliteEngine(db: Kysely<RegistrySchema>): RegistryEngine {
  return {
    db,
    // The dialect takes the lock at BEGIN.
    lock: async () => {},
    addStats: addOneByOne,
    putSeries: putRowsOneByOne,
    attempt: untilFree,
    failureOf: toStoreError,
    close: () => db.destroy(),
  };
}

/** The registry has few queries; those with lists have several lengths. */
const statementsKept = 200;

export function kyselyOver<Schema>(database: Database, onClosed: () => void = () => {}): Kysely<Schema> {
  return new Kysely<Schema>({ dialect: new Dialect({ database: new Adapter(database, onClosed) }) });
}

class Dialect extends SqliteDialect {
  // A transaction that reads first fails with SQLITE_BUSY_SNAPSHOT if another one writes before it does, and
  // waiting does not help. BEGIN IMMEDIATE waits for the lock before the first read.
  override createDriver(): Driver {
    return Object.assign(strictly(super.createDriver()), {
      async beginTransaction(connection: DatabaseConnection, { accessMode }: TransactionSettings) {
        const begin = accessMode === 'read only' ? 'begin' : 'begin immediate';
        await connection.executeQuery(CompiledQuery.raw(begin));
      },
    });
  }
}

class Adapter implements SqliteDatabase {
  readonly #database: Database;
  readonly #onClosed: () => void;
  /** Only the garbage collector frees statements, and it does not see their memory: prepare each once. */
  readonly #statements = new Map<string, SqliteStatement>();

  constructor(database: Database, onClosed: () => void) {
    this.#database = database;
    this.#onClosed = onClosed;
  }

  prepare(sql: string): SqliteStatement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const statement = this.#database.prepare(sql);
    const adapted: SqliteStatement = {
      reader: statement.columns().length > 0,
      all: (parameters) => statement.all(...(parameters as never[])),
      run: (parameters) => {
        const { changes, lastInsertRowid } = statement.run(...(parameters as never[]));
        return { changes, lastInsertRowid };
      },
      iterate: (parameters) => statement.iterate(...(parameters as never[])) as IterableIterator<unknown>,
    };
    if (this.#statements.size < statementsKept) this.#statements.set(sql, adapted);
    return adapted;
  }

  close(): void {
    this.#statements.clear();
    // close() alone leaves the connection to the garbage collector, and the process ends first: a copy of
    // the file without its WAL would be nearly empty. Without WAL mode the header says that the file was
    // closed: a WAL that lies beside it later is foreign.
    for (const step of ['journal_mode = DELETE', 'wal_checkpoint(TRUNCATE)'])
      try {
        this.#database.exec(`PRAGMA ${step}`);
      } catch {
        // A full disk, or another connection: the WAL stays, and the next start reads both files.
      }
    this.#database.close();
    this.#onClosed();
  }
}

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

/** Repeats `work` while the database is locked; a busy call has changed nothing. Does not block: SQLite's
 *  busy handler would delay every push, because this process also serves the job store. */
export const untilFree = <T>(work: () => Promise<T>): Promise<T> =>
  repeated(work, (error) => (isBusy(error) ? sqlLimits.registryBusyStepMs : null));

/** Another connection holds the lock: nothing was applied, and a repeat may succeed. */
function isBusy(error: unknown): boolean {
  const code = sqliteCode(error instanceof CommitError ? error.cause : error);
  return code === sqliteCodes.busy || code === sqliteCodes.locked;
}
