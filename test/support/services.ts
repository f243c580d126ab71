// Starts real servers for tests and stops them with the test or file. Where a server cannot start, its tests
// are skipped and the run prints one line; with DQ_TEST_REQUIRE=services they fail instead.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, onTestFinished } from 'vitest';
import { type ServiceKind, whyNotInstalled } from '../../scripts/services/binaries.ts';
import { type MariadbOptions, type MariadbServer, startMariadb } from '../../scripts/services/mariadb.ts';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { runDirectory, skippedFile } from './services-setup.ts';

/** For `describe.skipIf(await lacks('mysql'))` at the top of a file. Installs missing programs where it
 *  can. */
export async function lacks(kind: ServiceKind): Promise<boolean> {
  const reason = await whyNotInstalled(kind);
  if (reason === null) return false;
  if (process.env['DQ_TEST_REQUIRE'] === 'services') throw new Error(`tests need ${kind}: ${reason}`);
  writeFileSync(join(runDirectory(), skippedFile(kind)), reason);
  return true;
}

/** Stops it when the running test has finished; outside a test, with the file. */
export async function owned<T extends { stop(): Promise<void> }>(
  scope: 'test' | 'file',
  starting: Promise<T>,
): Promise<T> {
  if (scope === 'file')
    afterAll(async () => {
      await (await starting.catch(() => null))?.stop();
    });
  const server = await starting;
  if (scope === 'test') onTestFinished(() => server.stop());
  return server;
}

/** All files of a run share one prepared data directory. */
export function mariadb(options: MariadbOptions = {}): Promise<MariadbServer> {
  return startMariadb({ templateIn: runDirectory(), ...options });
}

let redis: Promise<RedisServer> | null = null;
let mysql: Promise<MariadbServer> | null = null;

/** The Redis of this worker process, which ends with it. A test removes its data first (openEmpty), and
 *  changes nothing else. Undefined where it is missing, for tests that are skipped. */
export async function workerRedis(): Promise<RedisServer> {
  if (await lacks('redis')) return undefined as never;
  redis ??= startRedis();
  return redis;
}

/** The MariaDB of this worker process, which ends with it. A test makes a database of its own. */
export async function workerMariadb(): Promise<MariadbServer> {
  if (await lacks('mysql')) return undefined as never;
  mysql ??= mariadb();
  return mysql;
}
