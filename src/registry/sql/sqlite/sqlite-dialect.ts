// Adapts Kysely to a SQLite file: caches statements, takes the write lock at BEGIN.

import type {
  DatabaseConnection,
  Driver,
  SqliteDatabase,
  SqliteStatement,
  TransactionSettings,
} from 'kysely';
import { CompiledQuery, Kysely, SqliteDialect } from 'kysely';
import type { Database } from '../../../runtime/database.ts';
import { strictly } from '../registry-engine.ts';

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
