// Lets Kysely speak to MySQL through mysql-pool.ts: a COMMIT that failed says so, a failed ROLLBACK hides nothing.

import type { DatabaseConnection, Driver } from 'kysely';
import { Kysely, MysqlDialect, type MysqlDialectConfig, MysqlDriver } from 'kysely';
import { CommitError } from '../commit-error.ts';
import type { MysqlConnections } from './mysql-pool.ts';

/** `callMs`: how long one transaction, or one statement outside of any, may take. Several may share the connections. */
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
      // The connection is gone, and the transaction with it; what made us roll back is the error worth reporting.
    }
  }
}
