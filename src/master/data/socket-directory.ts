// Chooses the directory of the Unix sockets: run/ of the data directory, or a short
// one if their paths would exceed the kernel's limit. libuv cuts longer paths
// silently, and two data directories could share one socket.

import { createHash } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { limits } from '../../core/limits.ts';
import { makeDirectory } from '../../runtime/make-directory.ts';

const longestName = '/control.sock';

/** Makes the directory if necessary. Throws if the short one exists and belongs to another user. */
export function makeSocketDir(runDir: string): string {
  if (Buffer.byteLength(runDir + longestName) <= limits.socketPathMax) return runDir;
  const name = createHash('sha256').update(runDir).digest('hex').slice(0, 12);
  const short = join(tmpdir(), `dq-${name}`);
  if (Buffer.byteLength(short + longestName) > limits.socketPathMax)
    throw new Error(`the paths ${runDir} and ${short} are too long for a Unix socket`);
  makeDirectory(short, 0o700);
  // Any user may create it in the temporary directory first, and could then listen in our place.
  const found = lstatSync(short);
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & 0o077) !== 0)
    throw new Error(`${short} exists and is not a directory of this user alone`);
  return short;
}
