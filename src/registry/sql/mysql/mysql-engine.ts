// Adapts the registry and Kysely to MySQL over mysql-pool.ts: a row lock for all writers, and repetition of
// transactions where it is harmless.

import { type Driver, Kysely, MysqlDialect, sql } from 'kysely';
import { type Db, type RegistryEngine, repeated, strictly } from '../registry-engine.ts';
import { putRowsAtOnce } from '../tables/registry-series.ts';
import { addAtOnce } from '../tables/registry-stats.ts';
import { pauseOf, toMysqlStoreError } from './mysql-failure.ts';
import type { MysqlConnections } from './mysql-pool.ts';

/** `callMs`: limit of a transaction, or of a statement outside one. Several adapters may share the
 *  connections. */
export function kyselyOverMysql<Schema>(connections: MysqlConnections, callMs: number): Kysely<Schema> {
  return new Kysely<Schema>({ dialect: new Dialect({ pool: connections.within(callMs) }) });
}

class Dialect extends MysqlDialect {
  override createDriver(): Driver {
    return strictly(super.createDriver());
  }
}

/** A transaction reads the state of its first read: without the lock first, two could both find the expected
 *  revision. */
export async function lockRegistry(trx: Db): Promise<void> {
  await sql`SELECT revision FROM registry WHERE only = 1 FOR UPDATE`.execute(trx);
}

export function mysqlEngine(db: Db): RegistryEngine {
  return {
    db,
    lock: lockRegistry,
    addStats: addAtOnce,
    putSeries: putRowsAtOnce,
    attempt: (work) => repeated(work, pauseOf),
    failureOf: toMysqlStoreError,
    close: () => db.destroy(),
  };
}
