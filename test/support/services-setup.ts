// What the test files of one run share about servers: a directory for the prepared data directory of
// MariaDB and for the notes on what had to be skipped. Gone with the run, however it ends.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packagesToInstall, type ServiceKind, serviceKinds } from '../../scripts/services/binaries.ts';
import { makeDirectory, removeDirectory } from '../../scripts/services/temporary-root.ts';

const variable = 'DQ_TEST_SERVICES';

/** vitest's globalSetup; the processes of the test files inherit the environment. */
export default function setup(): () => Promise<void> {
  const directory = makeDirectory('run');
  process.env[variable] = directory;
  const line = installLine();
  if (line !== null) process.stderr.write(`${line}\n`);
  return () => removeDirectory(directory);
}

export function runDirectory(): string {
  const directory = process.env[variable];
  if (directory === undefined) throw new Error(`${variable} is not set: not run by vitest.config.ts`);
  return directory;
}

export const skippedFile = (kind: ServiceKind) => `skipped-${kind}`;

/** What the run is about to change on this machine; null when nothing. */
export function installLine(): string | null {
  const packages = packagesToInstall();
  if (packages.length === 0) return null;
  return `These tests install missing packages with apt-get: ${packages.join(', ')} (no service is started)`;
}

/** `SKIPPED redis, mysql: setpriv not found`; null when nothing was skipped for want of a server. */
export function skippedLine(): string | null {
  const skipped = serviceKinds.flatMap((kind) => {
    const path = join(runDirectory(), skippedFile(kind));
    return existsSync(path) ? [{ kind, reason: readFileSync(path, 'utf8') }] : [];
  });
  if (skipped.length === 0) return null;
  const reasons = new Set(skipped.map(({ reason }) => reason));
  return `SKIPPED ${skipped.map(({ kind }) => kind).join(', ')}: ${[...reasons].join('; ')}`;
}
