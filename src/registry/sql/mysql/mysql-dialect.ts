// Adapts Kysely to MySQL over mysql-pool.ts: reports a failed COMMIT as CommitError, ignores a failed
// ROLLBACK.

import type { DatabaseConnection, Driver } from 'kysely';
import { Kysely, MysqlDialect, type MysqlDialectConfig, MysqlDriver } from 'kysely';
import { CommitError } from '../registry-engine.ts';
import type { MysqlConnections } from './mysql-pool.ts';

/** `callMs`: limit of a transaction, or of a statement outside one. Several adapters may share the
 *  connections. */
export function kyselyOverMysql<Schema>(connections: MysqlConnections, callMs: number): Kysely<Schema> {
  return new Kysely<Schema>({ dialect: new Dialect({ pool: connections.within(callMs) }) });
}

class Dialect extends MysqlDialect {
  readonly #config: MysqlDialectConfig;
  constructor(config: MysqlDialectConfig) {
    super(config);
    this.#config = config;
  }
  override createDriver(): Driver {
    return new StrictCommitDriver(this.#config);
  }
}

class StrictCommitDriver extends MysqlDriver {
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
      // The connection is closed, and with it the transaction; the original error is the one to report.
    }
  }
}
