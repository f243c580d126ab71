// What a start would be refused for, found out before `dq restart` ends the daemon that works: directories, address and port,
// schema and key of the registry, exposure without a token. Runs as a child of that daemon (`dq start --check`), by the code on
// the disk. Opens the registry for reading alone and never the store. What does not answer (MySQL) is not judged: a start
// goes on without it. Invariant: every reason is one that the start itself would end with.

import {
  accessSync,
  constants,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import type { Kysely } from 'kysely';
import type { Config } from '../config/options.ts';
import { DqError, reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { parseMysqlUrl, placeOf } from '../core/mysql-url.ts';
import { askMaster } from '../master/control-client.ts';
import { checkExposure } from '../process/exposure.ts';
import { StartImpossible } from '../process/start-impossible.ts';
import { openDatabase } from '../sql/database.ts';
import { checkSchema, type Schema } from '../sql/migrate.ts';
import { kyselyOverMysql } from '../sql/mysql-dialect.ts';
import { MysqlConnections } from '../sql/mysql-pool.ts';
import { mysqlSchema } from '../sql/mysql-schema.ts';
import { existingSealer } from '../sql/registry-key.ts';
import { type RegistrySchema, registrySchema, sealedSince } from '../sql/registry-schema.ts';
import { readTokens } from '../sql/registry-tokens.ts';
import { kyselyOver } from '../sql/sqlite-dialect.ts';
import { whyUnusable } from '../store/sqlite/usable-disk.ts';

export interface StartPlan {
  readonly config: Config;
  /** absolute; null = none */
  readonly pidFile: string | null;
  /** of the daemon that would be ended first: its directory and its port are free by then */
  readonly running: number;
}

/** One sentence; null = nothing is known against a start. */
export async function whyNotStart({ config, pidFile, running }: StartPlan): Promise<string | null> {
  try {
    return (
      (await checkDataDir(config.dataDir, running)) ??
      checkPidFile(pidFile) ??
      (await checkPort(config['server.host'], config['server.port'], running)) ??
      (await checkRegistry(config))
    );
  } catch (error) {
    return reasonOf(error);
  }
}

async function checkDataDir(path: string, running: number): Promise<string | null> {
  const unusable = existsSync(path)
    ? (noDirectory(path) ?? whyUnusable(join(path, 'jobs.db'), path))
    : whyNotIn(existing(dirname(path)), `the data directory ${path} cannot be made`);
  if (unusable !== null) return unusable;
  const holder = await askMaster(path, { cmd: 'where' }).catch(() => null);
  if (holder === null || holder.master.pid === running) return null;
  return `the data directory ${path} is in use: already running (pid ${holder.master.pid})`;
}

function checkPidFile(path: string | null): string | null {
  if (path === null) return null;
  const at = existsSync(path) ? path : dirname(path);
  return whyNotIn(at, `the pid file ${path} cannot be written`);
}

function noDirectory(path: string): string | null {
  return statSync(path).isDirectory() ? null : `the data directory ${path} cannot be used: it is a file`;
}

function whyNotIn(path: string, sentence: string): string | null {
  try {
    accessSync(path, constants.W_OK);
    return null;
  } catch (error) {
    return `${sentence}: ${reasonOf(error)}`;
  }
}

/** The nearest directory above that exists. */
function existing(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : existing(dirname(path));
}

function checkPort(host: string, port: number, running: number): Promise<string | null> {
  if (port === 0) return Promise.resolve(null);
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') resolve(`${host}:${port} cannot be listened on: ${reasonOf(error)}`);
      else if (listensOn(running, port)) resolve(null);
      else resolve(`port ${port} on ${host} is taken by another program; choose another one with --port`);
    });
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}

/** Whether a process of this user has a listening socket with this port. false where there is no /proc. */
function listensOn(pid: number, port: number): boolean {
  try {
    const sockets = new Set(
      readdirSync(`/proc/${pid}/fd`).map((fd) => {
        try {
          return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1];
        } catch {
          // Closed since it was listed.
          return undefined;
        }
      }),
    );
    return ['tcp', 'tcp6'].some((table) =>
      readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
        .split('\n')
        .map((line) => line.trim().split(/\s+/))
        .some(([, local = '', , state, , , , , , inode]) => {
          const isListening = state === '0A';
          return isListening && Number.parseInt(local.split(':')[1] ?? '', 16) === port && sockets.has(inode);
        }),
    );
  } catch {
    return false;
  }
}

/** Throws what the start would end with. */
async function checkRegistry(config: Config): Promise<string | null> {
  const keyPath = config.secretKeyFile || join(config.dataDir, 'secret.key');
  const server = parseMysqlUrl(config['mysql.url']);
  if (server.ok) {
    const connections = new MysqlConnections(server.value);
    try {
      const db = kyselyOverMysql<RegistrySchema>(connections, limits.mysqlCallMs);
      const what = `the registry in MySQL ${placeOf(server.value)}`;
      await checkContents(config, db, mysqlSchema, { what, keyPath, isShared: true });
    } catch (error) {
      // Another failure than a refusal of dq: MySQL does not answer, and a start would not wait for it.
      if (error instanceof DqError || error instanceof StartImpossible) throw error;
    } finally {
      await connections.close();
    }
    return null;
  }
  const path = join(config.dataDir, 'registry.db');
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) {
    await checkExposure(config, { tokens: async () => ({ revision: 0, tokens: [] }) });
    return null;
  }
  const file = openDatabase(path, { readOnly: true, waitMs: limits.registryBusyMs });
  try {
    const db = kyselyOver<RegistrySchema>(file);
    await checkContents(config, db, registrySchema, {
      what: `the registry ${path}`,
      keyPath,
      isShared: false,
    });
  } finally {
    file.close();
  }
  return null;
}

async function checkContents(
  config: Config,
  db: Kysely<RegistrySchema>,
  schema: Schema,
  registry: { readonly what: string; readonly keyPath: string; readonly isShared: boolean },
): Promise<void> {
  const step = await checkSchema(db, schema, registry.what);
  if (schema !== registrySchema || step >= sealedSince) {
    const { what, keyPath, isShared } = registry;
    if (step > 0) await existingSealer(db, what, { keyPath, isShared, warn: () => {} });
  }
  const tables = await db.introspection.getTables();
  const tokens = tables.some(({ name }) => name === 'token') ? await readTokens(db) : [];
  await checkExposure(config, { tokens: async () => ({ revision: step, tokens }) });
}
