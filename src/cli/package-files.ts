// Where the files of this dq are: the directory that holds bin, dist, src/manual and scripts.

import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Resolves bin/dq at each call: an upgrade switches a symbolic link while the daemon runs. Throws when
 *  bin/dq is missing. */
export function packageRoot(): string {
  return join(dirname(realpathSync(process.argv[1] ?? '')), '..');
}
