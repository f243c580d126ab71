// Lets Kysely speak to an SQLite file through database.ts: statements are kept, writing transactions take their lock at the
// start, a COMMIT that failed says so.

import type {
  DatabaseConnection,
  Driver,
  SqliteDatabase,
  SqliteStatement,
  TransactionSettings,
} from 'kysely';
import { CompiledQuery, Kysely, SqliteDialect, SqliteDriver } from 'kysely';
import type { Database } from '../../../runtime/database.ts';
import { CommitError } from '../commit-error.ts';

/** The queries of the cold path are few; ones with lists in them come in some lengths. */
const statementsKept = 200;

export function kyselyOver<Schema>(database: Database): Kysely<Schema> {
  return new Kysely<Schema>({ dialect: new Dialect({ database: new Adapter(database) }) });
}

class Dialect extends SqliteDialect {
  readonly #database: SqliteDatabase;
  constructor(config: { readonly database: SqliteDatabase }) {
    super(config);
    this.#database = config.database;
  }
  override createDriver(): Driver {
    return new ImmediateDriver({ database: this.#database });
  }
}

class ImmediateDriver extends SqliteDriver {
  // One that reads first and then wants to write fails with SQLITE_BUSY_SNAPSHOT when another wrote meanwhile: its reads
  // were for nothing, and waiting does not help. At the start it waits for the lock, knowing nothing yet.
  override async beginTransaction(
    connection: DatabaseConnection,
    settings: TransactionSettings = {},
  ): Promise<void> {
    const begin = settings.accessMode === 'read only' ? 'begin' : 'begin immediate';
    await connection.executeQuery(CompiledQuery.raw(begin));
  }

  override async commitTransaction(connection: DatabaseConnection): Promise<void> {
    try {
      await super.commitTransaction(connection);
    } catch (error) {
      throw new CommitError(error);
    }
  }

  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    try {
      await super.rollbackTransaction(connection);
    } catch {
      // SQLite has rolled back by itself (full, I/O error); what made us roll back is the error worth reporting.
    }
  }
}

class Adapter implements SqliteDatabase {
  readonly #database: Database;
  /** Statements are freed by the garbage collector alone, which does not see their memory: so each is prepared once. */
  readonly #statements = new Map<string, SqliteStatement>();

  constructor(database: Database) {
    this.#database = database;
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
    try {
      // close() alone leaves the connection to the garbage collector, and the process ends before it: whoever then copies the
      // file without its log would have next to nothing.
      this.#database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    } catch {
      // A full disk, or another connection in its log: it stays beside the file, and the next start reads both.
    }
    this.#database.close();
  }
}
