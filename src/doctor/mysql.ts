// Checks the registry in MySQL: reachable, schema, key, and settings that weaken the guarantees.
// Changes nothing: it creates no table and no key.

import { existsSync } from 'node:fs';
import { type Kysely, sql } from 'kysely';
import { type Config, keyPathOf } from '../config/options.ts';
import { DqError, messageOf } from '../core/errors.ts';
import { type Finding, findingsOf } from '../core/finding.ts';
import { limits } from '../core/limits.ts';
import { parseMysqlUrl, placeOf } from '../core/url/server-url.ts';
import { existingCipher, keyFileWarning } from '../registry/sql/keys/registry-key.ts';
import { kyselyOverMysql } from '../registry/sql/mysql/mysql-engine.ts';
import { MysqlConnections } from '../registry/sql/mysql/mysql-pool.ts';
import { findRegistryId } from '../registry/sql/registry-engine.ts';
import { checkSchema } from '../registry/sql/schema/migrate.ts';
import { mysqlSchema } from '../registry/sql/schema/mysql-schema.ts';
import type { RegistrySchema } from '../registry/sql/schema/registry-schema.ts';
import { monotonicNow, wallNow } from '../runtime/time.ts';
import { checkClockOf, checkPacket, wantsJournal } from './journal.ts';

type Db = Kysely<RegistrySchema>;
const finding = findingsOf('mysql');

interface MysqlFindings {
  readonly findings: readonly Finding[];
  /** false = MySQL is unavailable and everything else unknown */
  readonly isReached: boolean;
  /** '' = none yet, null = unknown */
  readonly registryId: string | null;
}

/** Empty without MySQL. */
export async function checkMysql(config: Config): Promise<MysqlFindings> {
  const server = parseMysqlUrl(config['mysql.url']);
  if (!server.ok) return { findings: [], isReached: true, registryId: null };
  const place = placeOf(server.value);
  const connections = new MysqlConnections(server.value);
  const db = kyselyOverMysql<RegistrySchema>(connections, limits.mysqlCallMs);
  try {
    const from = monotonicNow();
    const { rows } = await sql<{
      version: string;
      flush: number;
      packet: number;
      sent: string;
      read: string;
    }>`
      SELECT VERSION() AS version, @@innodb_flush_log_at_trx_commit AS flush,
        @@max_allowed_packet AS packet, @@character_set_client AS sent,
        @@character_set_results AS \`read\``.execute(db);
    const ms = Math.ceil(monotonicNow() - from);
    const reached = finding('ok', 'mysql_ok', { place, ms, version: String(rows[0]?.version) });
    const findings = [
      reached,
      ...flushOf(Number(rows[0]?.flush)),
      ...charactersOf([rows[0]?.sent, rows[0]?.read]),
      ...(await checkColumns(db)),
      ...(wantsJournal(config)
        ? [checkPacket(Number(rows[0]?.packet)), ...(await checkTime(db, place))]
        : []),
      ...(await checkRegistry(db, place, config)),
    ];
    return { findings, isReached: true, registryId: (await registryIdOf(db)) ?? '' };
  } catch (error) {
    return {
      findings: [finding('failed', 'mysql_failed', { place, why: messageOf(error) })],
      isReached: false,
      registryId: null,
    };
  } finally {
    await connections.close();
  }
}

/** The second answer: the first call also connects. */
async function checkTime(db: Db, place: string): Promise<Finding[]> {
  const [wallFrom, from] = [wallNow(), monotonicNow()];
  const { rows } = await sql<{ now: string }>`SELECT UNIX_TIMESTAMP(NOW(3)) * 1000 AS now`.execute(db);
  const halfMs = (monotonicNow() - from) / 2;
  const aheadMs = Number(rows[0]?.now) - (wallFrom + halfMs);
  return checkClockOf(`MySQL ${place}`, Math.sign(aheadMs) * Math.max(0, Math.abs(aheadMs) - halfMs));
}

function flushOf(flush: number): Finding[] {
  if (flush === 1) return [];
  return [finding('warning', 'mysql_flush', { flush })];
}

/** `sets`: of the connection, after dq asked for utf8mb4 */
function charactersOf(sets: readonly (string | undefined)[]): Finding[] {
  const others = [...new Set(sets.filter((set) => set !== undefined && set !== 'utf8mb4'))];
  if (others.length === 0) return [];
  return [finding('failed', 'mysql_characters', { sets: others.join(', ') })];
}

/** Someone converted a table, or made it by hand. */
async function checkColumns(db: Db): Promise<Finding[]> {
  const { rows } = await sql<{ place: string; characters: string }>`
    SELECT CONCAT(table_name, '.', column_name) AS place, character_set_name AS characters
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name IN ('topic', 'token', 'schedule', 'audit', 'dq_job')
      AND character_set_name NOT IN ('utf8mb4', 'ascii') LIMIT 1`.execute(db);
  return rows.map(({ place, characters }) =>
    finding('failed', 'mysql_column', { column: place, set: characters }),
  );
}

/** null also for an empty database and for foreign tables; another check reports those. */
async function registryIdOf(db: Db): Promise<string | null> {
  const tables = await db.introspection.getTables();
  return tables.some(({ name }) => name === 'registry_id') ? findRegistryId(db) : null;
}

async function checkRegistry(db: Db, place: string, config: Config): Promise<Finding[]> {
  const what = `the registry in MySQL ${place}`;
  const keyPath = keyPathOf(config);
  try {
    const step = await checkSchema(db, mysqlSchema, what);
    if (step === 0) return [finding('ok', 'schema_later')];
    const newest = mysqlSchema.migrations.length;
    const schema =
      step === newest
        ? finding('ok', 'schema_ok', { step })
        : finding('warning', 'schema_old', { step, newest });
    await existingCipher(db, what, { keyPath, isShared: true, warn: () => {} });
    const open = existsSync(keyPath) ? keyFileWarning(keyPath) : null;
    return [schema, ...(open === null ? [] : [finding('warning', 'key_open', { warning: open })])];
  } catch (error) {
    if (!(error instanceof DqError)) throw error;
    return [finding('failed', 'registry_failed', { why: error.message })];
  }
}
