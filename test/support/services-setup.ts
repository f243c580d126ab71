// Makes the directory that all test files of a run share: the prepared data directory of MariaDB, the shared
// daemon and the notes on skipped tests. It is removed however the run ends.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packagesToInstall, type ServiceKind, serviceKinds } from '../../scripts/services/binaries.ts';
import { makeDirectory, removeDirectory } from '../../scripts/services/temporary-root.ts';
import { offerDaemon } from './shared-daemon.ts';

const variable = 'DQ_TEST_SERVICES';

/** vitest's globalSetup; the processes of the test files inherit the environment. */
export default async function setup(): Promise<() => Promise<void>> {
  const directory = makeDirectory('run');
  process.env[variable] = directory;
  const line = installLine();
  if (line !== null) process.stderr.write(`${line}\n`);
  const endDaemon = await offerDaemon(directory);
  return async () => {
    await endDaemon();
    await removeDirectory(directory);
  };
}

export function runDirectory(): string {
  const directory = process.env[variable];
  if (directory === undefined) throw new Error(`${variable} is not set: not run by vitest.config.ts`);
  return directory;
}

export const skippedFile = (kind: ServiceKind) => `skipped-${kind}`;

/** The changes that the run will make on this machine, or null. */
export function installLine(): string | null {
  const packages = packagesToInstall();
  if (packages.length === 0) return null;
  return `These tests install missing packages with apt-get: ${packages.join(', ')} (no service is started)`;
}

/** `SKIPPED redis, mysql: setpriv not found`; null when no test was skipped for a missing server. */
export function skippedLine(): string | null {
  const skipped = serviceKinds.flatMap((kind) => {
    const path = join(runDirectory(), skippedFile(kind));
    return existsSync(path) ? [{ kind, reason: readFileSync(path, 'utf8') }] : [];
  });
  if (skipped.length === 0) return null;
  const reasons = new Set(skipped.map(({ reason }) => reason));
  return `SKIPPED ${skipped.map(({ kind }) => kind).join(', ')}: ${[...reasons].join('; ')}`;
}
