// The registry in MySQL, as a start would meet it: reached, with a schema and a key to work with, and what of its settings weakens
// dq's promises. Changes nothing: it makes no table and no key.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Kysely, sql } from 'kysely';
import type { Config } from '../../config/options.ts';
import { DqError, reasonOf } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/mysql-url.ts';
import { keyFileWarning } from '../../registry/sql/keys/key-file.ts';
import { existingCipher } from '../../registry/sql/keys/registry-key.ts';
import { kyselyOverMysql } from '../../registry/sql/mysql/mysql-dialect.ts';
import { MysqlConnections } from '../../registry/sql/mysql/mysql-pool.ts';
import { checkSchema } from '../../registry/sql/schema/migrate.ts';
import { mysqlSchema } from '../../registry/sql/schema/mysql-schema.ts';
import type { RegistrySchema } from '../../registry/sql/schema/registry-schema.ts';
import { findRegistryId } from '../../registry/sql/tables/registry-id.ts';
import { type Finding, of } from './finding.ts';

type Db = Kysely<RegistrySchema>;
const say = of('mysql');

export interface MysqlFindings {
  readonly findings: readonly Finding[];
  /** false = MySQL is away, and all else about it is unknown */
  readonly isReached: boolean;
  /** '' = none was drawn yet, null = it is not known */
  readonly registryId: string | null;
}

/** Nothing is found where there is none. */
export async function checkMysql(config: Config): Promise<MysqlFindings> {
  const server = parseMysqlUrl(config['mysql.url']);
  if (!server.ok) return { findings: [], isReached: true, registryId: null };
  const place = placeOf(server.value);
  const connections = new MysqlConnections(server.value);
  const db = kyselyOverMysql<RegistrySchema>(connections, limits.mysqlCallMs);
  try {
    const from = performance.now();
    const { rows } = await sql<{ version: string; flush: number }>`
      SELECT VERSION() AS version, @@innodb_flush_log_at_trx_commit AS flush`.execute(db);
    const ms = Math.ceil(performance.now() - from);
    const reached = say('ok', `${place} answers in ${ms} ms, version ${rows[0]?.version}`);
    const findings = [
      reached,
      ...flushOf(Number(rows[0]?.flush)),
      ...(await checkRegistry(db, place, config)),
    ];
    return { findings, isReached: true, registryId: (await registryIdOf(db)) ?? '' };
  } catch (error) {
    return { findings: [say('failed', `${place}: ${reasonOf(error)}`)], isReached: false, registryId: null };
  } finally {
    await connections.close();
  }
}

function flushOf(flush: number): Finding[] {
  if (flush === 1) return [];
  return [
    say(
      'warning',
      `innodb_flush_log_at_trx_commit is ${flush}: a power cut there takes back changes of topics`,
    ),
  ];
}

/** null also for a schema of before registries had one, or that is not dq's: something else is found there. */
async function registryIdOf(db: Db): Promise<string | null> {
  const tables = await db.introspection.getTables();
  return tables.some(({ name }) => name === 'registry_id') ? findRegistryId(db) : null;
}

async function checkRegistry(db: Db, place: string, config: Config): Promise<Finding[]> {
  const what = `the registry in MySQL ${place}`;
  const keyPath = config.secretKeyFile || join(config.dataDir, 'secret.key');
  try {
    const step = await checkSchema(db, mysqlSchema, what);
    if (step === 0) return [say('ok', 'the tables will be made with the first start, or by dq migrate')];
    const newest = mysqlSchema.migrations.length;
    const schema =
      step === newest
        ? say('ok', `schema ${step}`)
        : say('warning', `schema ${step}: the next start brings it to ${newest}, or dq migrate`);
    await existingCipher(db, what, { keyPath, isShared: true, warn: () => {} });
    const open = existsSync(keyPath) ? keyFileWarning(keyPath) : null;
    return [schema, ...(open === null ? [] : [say('warning', open)])];
  } catch (error) {
    if (!(error instanceof DqError)) throw error;
    return [say('failed', error.message)];
  }
}
