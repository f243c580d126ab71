// Checks before `dq restart` whether the next start would be rejected: directories, jobs.db, address and
// port, schema and key of the registry, exposure without a token, Redis. Runs as a child of the daemon (`dq
// start --check`), with the code on the disk. Opens the registry read-only and never the store; skips an
// unavailable MySQL, as a start does.
// Invariant: every reason found here also ends a start; a start may still end for other reasons.

import { lookup } from 'node:dns/promises';
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { dirname, join } from 'node:path';
import type { Kysely } from 'kysely';
import { type Config, compatPortOptions, compatPortsOf, keyPathOf, options } from '../../config/options.ts';
import { DqError, messageOf } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { noShards, type ShardList } from '../../core/shard-list.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/server-url.ts';
import { tryToListen } from '../../doctor/daemon.ts';
import { nearestExisting } from '../../doctor/directories.ts';
import { askMaster } from '../../master/control/control-client.ts';
import type { Listening } from '../../master/main.ts';
import { StoreError } from '../../ports/store-error.ts';
import { checkExposure } from '../../process/exposure.ts';
import type { SecretCipher } from '../../registry/sql/keys/encryption.ts';
import { existingCipher } from '../../registry/sql/keys/registry-key.ts';
import { kyselyOverMysql } from '../../registry/sql/mysql/mysql-engine.ts';
import { findRegistryId } from '../../registry/sql/registry-engine.ts';
import { checkSchema, type Schema } from '../../registry/sql/schema/migrate.ts';
import { mysqlSchema } from '../../registry/sql/schema/mysql-schema.ts';
import { type RegistrySchema, registrySchema } from '../../registry/sql/schema/registry-schema.ts';
import { whyDamaged } from '../../registry/sql/sqlite/registry-file.ts';
import { kyselyOver } from '../../registry/sql/sqlite/sqlite-engine.ts';
import { readShards } from '../../registry/sql/tables/registry-shards.ts';
import { readTokens } from '../../registry/sql/tables/registry-tokens.ts';
import { openDatabase } from '../../runtime/database.ts';
import { StartImpossible } from '../../runtime/service.ts';
import { whyUnusable } from '../../store/sqlite/file/disk-reserve.ts';
import { whyNeverOpened } from '../../store/sqlite/file/store-file.ts';

export interface StartPlan {
  readonly config: Config;
  /** absolute; null = none */
  readonly pidFile: string | null;
  /** pid of the daemon that ends first and frees its directory */
  readonly running: number;
  /** where that daemon listens, also freed; null = unknown */
  readonly listening: Listening | null;
}

/** The reason; null = all checks passed. */
export async function whyNotStart({
  config,
  pidFile,
  running,
  listening,
}: StartPlan): Promise<string | null> {
  try {
    return (
      (await checkDataDir(config.dataDir, running)) ??
      checkPidFile(pidFile) ??
      (await checkPorts(config, listening)) ??
      (await checkRegistry(config))
    );
  } catch (error) {
    return messageOf(error);
  }
}

async function checkDataDir(path: string, running: number): Promise<string | null> {
  const unusable = existsSync(path)
    ? (whyNoDirectory(path) ??
      whyUnusable(join(path, 'jobs.db'), path) ??
      whyNeverOpened(join(path, 'jobs.db')))
    : whyNotWritable(nearestExisting(dirname(path)), `cannot create the data directory ${path}`);
  if (unusable !== null) return unusable;
  const holder = await askMaster(path, { cmd: 'where' }).catch(() => null);
  if (holder === null || holder.master.pid === running) return null;
  return `the data directory ${path} is in use: already running (pid ${holder.master.pid})`;
}

function checkPidFile(path: string | null): string | null {
  if (path === null) return null;
  const at = existsSync(path) ? path : dirname(path);
  return whyNotWritable(at, `cannot write the pid file ${path}`);
}

function whyNoDirectory(path: string): string | null {
  return statSync(path).isDirectory() ? null : `cannot use the data directory ${path}: it is a file`;
}

function whyNotWritable(path: string, sentence: string): string | null {
  try {
    accessSync(path, constants.W_OK);
    return null;
  } catch (error) {
    return `${sentence}: ${messageOf(error)}`;
  }
}

/** A console port that is not set does not end a start: the console takes a free one. */
async function checkPorts(config: Config, running: Listening | null): Promise<string | null> {
  const console = config['console.enabled'] ? config['console.port'] : null;
  const ports: readonly (readonly [host: string, port: number, flag: string])[] = [
    [config['server.host'], config['server.port'], '--port'],
    ...(console === null ? [] : [[config['console.host'], console, '--console-port'] as const]),
    ...compatPortsOf(config).map(
      ({ protocol, port }) =>
        [config['compat.host'], port, options[compatPortOptions[protocol]].flag ?? ''] as const,
    ),
  ];
  for (const [host, port, flag] of ports) {
    const reason = await checkPort(host, port, running, flag);
    if (reason !== null) return reason;
  }
  return null;
}

async function checkPort(
  host: string,
  port: number,
  running: Listening | null,
  flag: string,
): Promise<string | null> {
  const places = running === null ? [] : [running, running.console, ...(running.compat ?? [])];
  // The running daemon frees its own ports before the start.
  const own = places.find((place) => place?.port === port);
  if (port === 0 || own?.host === host) return null;
  const error = await tryToListen(host, port);
  if (error === null) return null;
  if (error.code !== 'EADDRINUSE') return `cannot listen on ${host}:${port}: ${messageOf(error)}`;
  if (running === null) return null;
  const taken = (on: string): string =>
    `another program uses port ${port} on ${on}; choose a port with ${flag}`;
  if (own === undefined) return taken(host);
  // The running daemon itself may use the port: only its other addresses count.
  const used = await addressOf(own.host);
  for (const address of addressesUnder(await addressOf(host))) {
    if (used === '::' || used === address || (used === '0.0.0.0' && isIPv4(address))) continue;
    if ((await tryToListen(address, port))?.code === 'EADDRINUSE') return taken(address);
  }
  return null;
}

/** The first address of a name, on which a server listens; the name itself when it has none. */
async function addressOf(host: string): Promise<string> {
  return lookup(host).then(
    ({ address }) => address,
    () => host,
  );
}

/** The addresses of this machine that a wildcard covers. */
function addressesUnder(address: string): readonly string[] {
  if (address !== '::' && address !== '0.0.0.0') return [address];
  const all = Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map((one) => one.address));
  return address === '::' ? all : all.filter((one) => isIPv4(one));
}

/** Throws the error with which the start would end. */
async function checkRegistry(config: Config): Promise<string | null> {
  const keyPath = keyPathOf(config);
  const server = parseMysqlUrl(config['mysql.url']);
  if (server.ok) {
    const { MysqlConnections } = await import('../../registry/sql/mysql/mysql-pool.ts');
    const connections = new MysqlConnections(server.value);
    try {
      const db = kyselyOverMysql<RegistrySchema>(connections, limits.mysqlCallMs);
      const what = `the registry in MySQL ${placeOf(server.value)}`;
      const facts = await checkContents(config, db, mysqlSchema, { what, keyPath, isShared: true });
      return await checkRedis(config, facts);
    } catch (error) {
      // Not an error of dq: MySQL is unavailable.
      if (error instanceof DqError || error instanceof StartImpossible) throw error;
    } finally {
      await connections.close();
    }
    return null;
  }
  const path = join(config.dataDir, 'registry.db');
  const damage = whyDamaged(path, existsSync(join(config.dataDir, 'jobs.db')));
  if (damage !== null) return damage;
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) {
    await checkExposure(config, { tokens: async () => ({ revision: 0, tokens: [] }) });
    return checkRedis(config, { registryId: '', list: noShards });
  }
  let facts: RegistryFacts;
  const file = openDatabase(path, { readOnly: true, waitMs: limits.registryBusyMs });
  try {
    const db = kyselyOver<RegistrySchema>(file);
    const what = `the registry ${path}`;
    facts = await checkContents(config, db, registrySchema, { what, keyPath, isShared: false });
  } finally {
    file.close();
  }
  return checkRedis(config, facts);
}

async function checkRedis(config: Config, { registryId, list }: RegistryFacts): Promise<string | null> {
  if (config.redis.length === 0 || list === null) return null;
  const { whyNotRedis } = await import('./redis-start-checks.ts');
  return whyNotRedis({ urls: config.redis, registryId, list });
}

interface RegistryFacts {
  /** '' = none yet */
  readonly registryId: string;
  /** null = unreadable, which does not end a start */
  readonly list: ShardList | null;
}

async function checkContents(
  config: Config,
  db: Kysely<RegistrySchema>,
  schema: Schema,
  registry: { readonly what: string; readonly keyPath: string; readonly isShared: boolean },
): Promise<RegistryFacts> {
  const step = await checkSchema(db, schema, registry.what);
  const isNew = step === 0;
  const { what, ...key } = registry;
  const cipher = isNew ? null : await existingCipher(db, what, { ...key, warn: () => {} });
  const tokens = isNew ? [] : await readTokens(db);
  await checkExposure(config, { tokens: async () => ({ revision: step, tokens }) });
  const registryId = isNew ? null : await findRegistryId(db);
  return { registryId: registryId ?? '', list: cipher === null ? noShards : await listOf(db, cipher) };
}

async function listOf(db: Kysely<RegistrySchema>, cipher: SecretCipher): Promise<ShardList | null> {
  try {
    return (await readShards(db, -1, cipher)).list;
  } catch (error) {
    if (error instanceof StoreError) return null;
    throw error;
  }
}
