// Brings the registry's schema in MySQL up to date, one process at a time: DDL ends a transaction there, so a lock of the server's
// own stands around all of it, which the server frees when its holder dies.

import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import { DqError } from '../../../core/errors.ts';
import type { MysqlServer } from '../../../core/url/mysql-url.ts';
import { sqlLimits } from '../limits.ts';
import { checkSchema, migrate } from '../schema/migrate.ts';
import { mysqlSchema } from '../schema/mysql-schema.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { kyselyOverMysql } from './mysql-dialect.ts';
import { MysqlConnections } from './mysql-pool.ts';

/** For who may not change the schema. Rejects with a DqError unless it is this version's very own. */
export async function checkMysql(db: Kysely<RegistrySchema>, what: string): Promise<void> {
  const step = await checkSchema(db, mysqlSchema, what);
  if (step < mysqlSchema.migrations.length)
    throw new DqError(
      'unavailable',
      `${what} has schema ${step}, this version needs ${mysqlSchema.migrations.length}: run dq migrate, or dq restart`,
    );
}

/** Answers the number of the last step before and after; the same when there was nothing to do, and then writes nothing.
 *  Rejects with a DqError for a schema that is not one to work with. */
export async function migrateMysql(
  db: Kysely<RegistrySchema>,
  server: MysqlServer,
  what: string,
): Promise<{ readonly before: number; readonly after: number }> {
  const after = mysqlSchema.migrations.length;
  const before = await checkSchema(db, mysqlSchema, what);
  if (before === after) return { before, after };
  // Others give up sooner, and so does the server for them.
  const connections = new MysqlConnections(server, sqlLimits.mysqlMigrateMs / 1_000);
  try {
    await migrateAlone(kyselyOverMysql<RegistrySchema>(connections, sqlLimits.mysqlMigrateMs), what);
  } finally {
    await connections.close();
  }
  return { before, after };
}

async function migrateAlone(db: Kysely<RegistrySchema>, what: string): Promise<void> {
  await db.connection().execute(async (alone) => {
    // The server's names are for all of its databases, and end at 64 characters.
    const name = sql`CONCAT('dq ', LEFT(MD5(DATABASE()), 32))`;
    const { rows } = await sql<{ got: number | null }>`
      SELECT GET_LOCK(${name}, ${sqlLimits.mysqlMigrateLockS}) AS got`.execute(alone);
    if (rows[0]?.got !== 1)
      throw new DqError('unavailable', `${what}: another process has been changing its schema for long`);
    try {
      await migrate(alone, mysqlSchema, Date.now);
    } finally {
      // Where the connection is gone, so is the lock.
      await sql`SELECT RELEASE_LOCK(${name})`.execute(alone).catch(() => undefined);
    }
  });
}
