// dq token add without a daemon: writes the token into the registry, under the lock of the data directory. A
// daemon that listens to other machines does not start without a token, so it cannot make its first one.
// As root it becomes the owner of the data directory: a file of root would prevent the start of the daemon.

import { existsSync, type Stats, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { type Config, keyPathOf } from '../../config/options.ts';
import { DqError, messageOf } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { everyTopic, type Scope, scopes, tokenNamePattern } from '../../core/token.ts';
import { parseMysqlUrl } from '../../core/url/server-url.ts';
import { type DirectoryLock, takeDirectoryLock } from '../../master/data/data-directory.ts';
import { runDirOf } from '../../master/data/run-record.ts';
import type { Registry } from '../../ports/registry.ts';
import { StoreError } from '../../ports/store-error.ts';
import { mysqlRegistry } from '../../registry/sql/mysql/mysql-registry.ts';
import { openRegistryDb } from '../../registry/sql/registry-db.ts';
import { makeDirectory } from '../../runtime/files.ts';
import { monotonicNow, sleep } from '../../runtime/time.ts';
import { addToken, readTokenLifetime } from '../../use-cases/add-token.ts';
import { type DaemonFlags, dataDirOf } from '../daemon/find-daemon.ts';
import { Exit } from '../exit.ts';
import { readConfig } from '../flags.ts';
import { cliLimits } from '../limits.ts';

export interface NewToken {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly topics: readonly string[] | undefined;
  readonly expiresIn: string | undefined;
}

/** Returns the token. Throws Exit. */
export async function addTokenOffline(wanted: NewToken, flags: DaemonFlags): Promise<string> {
  const allowed = check(wanted);
  const life = readTokenLifetime(wanted.expiresIn);
  if (!life.ok) throw new Exit('usage', `--expires: ${life.message}`);
  const { config } = readConfig({ dataDir: dataDirOf(flags, process.env) }, flags.config);
  const owner = statSync(config.dataDir, { throwIfNoEntry: false });
  if (owner === undefined)
    throw new Exit(
      'notRunning',
      `no daemon is running on ${config.dataDir}, and the directory does not exist; give --data-dir, or start dq once`,
    );
  becomeOwner(owner, config.dataDir);
  const lock = await lockOf(config.dataDir);
  try {
    const registry = await openRegistry(config);
    try {
      const { name, topics = [everyTopic] } = wanted;
      return (await addToken(registry, { name, scopes: allowed, topics, expiresInMs: life.value })).token;
    } finally {
      await registry.close();
    }
  } catch (error) {
    if (error instanceof Exit) throw error;
    if (error instanceof DqError) throw new Exit('failed', error.message, { cause: error });
    if (error instanceof StoreError)
      throw new Exit('storeUnreachable', `the registry: ${messageOf(error)}`, { cause: error });
    throw new Exit('failed', `cannot write the token: ${messageOf(error)}`, { cause: error });
  } finally {
    lock.release();
  }
}

/** Validates like the API. */
function check({ name, scopes: given, topics = [] }: NewToken): readonly Scope[] {
  if (!tokenNamePattern.test(name))
    throw new Exit('usage', 'name: must be 1 to 64 of A-Z a-z 0-9 . _ - beginning with a letter or digit');
  const unknown = given.find((scope) => !(scopes as readonly string[]).includes(scope));
  if (unknown !== undefined || new Set(given).size !== given.length)
    throw new Exit('usage', `--scope: must be some of ${scopes.join(', ')}, each once`);
  if (
    topics.length > limits.tokenTopicsMax ||
    topics.some((topic) => !/^[A-Za-z0-9._*-]{1,128}$/.test(topic))
  )
    throw new Exit(
      'usage',
      `--topic: must be 1 to 128 of A-Z a-z 0-9 . _ - and *, at most ${limits.tokenTopicsMax} of them`,
    );
  return given as readonly Scope[];
}

function becomeOwner({ uid, gid }: Stats, path: string): void {
  const own = process.getuid?.();
  if (own === uid) return;
  if (own !== 0)
    throw new Exit(
      'failed',
      `no daemon of user ${userInfo().username} is running, and ${path} belongs to uid ${uid}; run this as that user or as root`,
    );
  process.setgroups?.([gid]);
  process.setgid?.(gid);
  process.setuid?.(uid);
}

/** Waits: a rejected start holds the lock for a moment, repeatedly under a service manager. */
async function lockOf(dataDir: string): Promise<DirectoryLock> {
  const end = monotonicNow() + cliLimits.tokenLockMs;
  try {
    makeDirectory(runDirOf(dataDir), 0o700);
    for (;;) {
      const lock = takeDirectoryLock(runDirOf(dataDir));
      if (lock !== null) return lock;
      if (monotonicNow() > end) break;
      await sleep(100);
    }
  } catch (error) {
    throw new Exit('failed', `cannot lock the data directory ${dataDir}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  throw new Exit(
    'failed',
    `a daemon is starting on ${dataDir}; try again when dq status says ready, or run dq stop`,
  );
}

async function openRegistry(config: Config): Promise<Registry> {
  const { dataDir } = config;
  const keyPath = keyPathOf(config);
  const warn = (sentence: string) => void process.stderr.write(`dq: warning: ${sentence}\n`);
  const server = parseMysqlUrl(config['mysql.url']);
  if (!server.ok)
    return openRegistryDb(join(dataDir, 'registry.db'), {
      keyPath,
      warn,
      mustExist: existsSync(join(dataDir, 'jobs.db')),
    });
  const registry = mysqlRegistry({
    server: server.value,
    keyPath,
    snapshotPath: join(dataDir, 'registry-copy.json'),
    keepsSnapshot: false,
    migrates: true,
    warn,
  });
  await registry.prove();
  return registry;
}
