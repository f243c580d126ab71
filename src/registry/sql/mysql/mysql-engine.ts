// Adapts the registry and Kysely to MySQL over mysql-pool.ts: a row lock for all writers, repetition of
// transactions where it is harmless, and a schema that is brought up to date.

import { type Driver, Kysely, MysqlDialect, sql } from 'kysely';
import { DqError } from '../../../core/errors.ts';
import type { MysqlServer } from '../../../core/url/server-url.ts';
import { wallNow } from '../../../runtime/time.ts';
import { sqlLimits } from '../limits.ts';
import { type Db, type RegistryEngine, repeated, strictly } from '../registry-engine.ts';
import { checkSchema, migrate } from '../schema/migrate.ts';
import { mysqlSchema } from '../schema/mysql-schema.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
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

/** For a process that may not migrate. Rejects with a DqError unless the schema is exactly this version's. */
export async function checkMysql(db: Kysely<RegistrySchema>, what: string): Promise<void> {
  const step = await checkSchema(db, mysqlSchema, what);
  if (step < mysqlSchema.migrations.length)
    throw new DqError(
      'unavailable',
      `${what} has schema ${step}, this version needs ${mysqlSchema.migrations.length}: run dq migrate, or dq restart`,
    );
}

/** Returns the number of the last step before and after; writes nothing if they are equal. Rejects with a
 *  DqError for an unrecognised schema. */
export async function migrateMysql(
  db: Kysely<RegistrySchema>,
  server: MysqlServer,
  what: string,
): Promise<{ readonly before: number; readonly after: number }> {
  const after = mysqlSchema.migrations.length;
  const before = await checkSchema(db, mysqlSchema, what);
  if (before === after) return { before, after };
  // Loaded here: dq-store has this file for a move, and no driver of MySQL. Ordinary connections and their
  // statements have shorter limits.
  const { MysqlConnections } = await import('./mysql-pool.ts');
  const connections = new MysqlConnections(server, sqlLimits.mysqlMigrateMs / 1_000);
  try {
    await migrateAlone(kyselyOverMysql<RegistrySchema>(connections, sqlLimits.mysqlMigrateMs), what);
  } finally {
    await connections.close();
  }
  return { before, after };
}

/** One process at a time: DDL ends a transaction, so a server lock covers all steps. The server frees it when
 *  its holder dies. */
async function migrateAlone(db: Kysely<RegistrySchema>, what: string): Promise<void> {
  await db.connection().execute(async (alone) => {
    // Lock names are shared by all databases of the server, and have at most 64 characters.
    const name = sql`CONCAT('dq ', LEFT(MD5(DATABASE()), 32))`;
    const { rows } = await sql<{ got: number | null }>`
      SELECT GET_LOCK(${name}, ${sqlLimits.mysqlMigrateLockS}) AS got`.execute(alone);
    if (rows[0]?.got !== 1)
      throw new DqError('unavailable', `${what}: another process is still migrating its schema`);
    try {
      await migrate(alone, mysqlSchema, wallNow);
    } finally {
      // A lost connection has released the lock.
      await sql`SELECT RELEASE_LOCK(${name})`.execute(alone).catch(() => undefined);
    }
  });
}
