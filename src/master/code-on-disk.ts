// Compares the master's code with the build on disk: a reload replaces every process but the master.
// Reads only cli.js: it names all other files with their digests.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { version } from '../core/version.ts';

export interface CodeOnDisk {
  readonly version: string;
  readonly digest: string;
}

/** null = there is no build, during an upgrade or for good. */
export function readCode(distDir: string): CodeOnDisk | null {
  try {
    const digest = createHash('sha256')
      .update(readFileSync(join(distDir, 'cli.js')))
      .digest('hex');
    return { version: readFileSync(join(distDir, 'version'), 'utf8').trim(), digest };
  } catch {
    // The next start of a worker reports it.
    return null;
  }
}

/** One sentence for the operator; null = the master runs the code on disk, or one of the two is unknown. */
export function whyRestart(own: CodeOnDisk | null, now: CodeOnDisk | null): string | null {
  if (own === null || now === null || own.digest === now.digest) return null;
  const which =
    now.version === version ? `another build of ${version}` : `version ${now.version}, it runs ${version}`;
  return `dq-master was not replaced (on disk is ${which}): run \`dq restart\` at a convenient time`;
}
