// The master's own code as it lies on the disk: a reload replaces every process but the master, so somebody has to say when
// that one has become old. Reads one small file; the names of all others that it loads stand in it with their digests.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { version } from '../core/version.ts';

export interface CodeOnDisk {
  readonly version: string;
  readonly digest: string;
}

/** null = there is no build there, for the moment of an upgrade or for good. */
export function readCode(distDir: string): CodeOnDisk | null {
  try {
    const digest = createHash('sha256')
      .update(readFileSync(join(distDir, 'cli.js')))
      .digest('hex');
    return { version: readFileSync(join(distDir, 'version'), 'utf8').trim(), digest };
  } catch {
    // Whoever starts a worker from there says it better.
    return null;
  }
}

/** One sentence for the operator; null = the master runs what is on the disk, or nobody can tell. */
export function whyRestart(own: CodeOnDisk | null, now: CodeOnDisk | null): string | null {
  if (own === null || now === null || own.digest === now.digest) return null;
  const which =
    now.version === version ? `another build of ${version}` : `version ${now.version}, it runs ${version}`;
  return `dq-master itself was not replaced (on the disk is ${which}): \`dq restart\` when it suits you`;
}
