// Where the Unix sockets of a data directory lie: in its run/ folder, unless their paths would be longer than the kernel
// takes (libuv cuts them silently, and two directories could then meet in one socket).

import { createHash } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { limits } from '../../core/limits.ts';
import { makeDirectory } from '../../runtime/make-directory.ts';

const longestName = '/control.sock';

/** Makes it where it is not there. Throws when the short one exists and belongs to somebody else. */
export function makeSocketDir(runDir: string): string {
  if (Buffer.byteLength(runDir + longestName) <= limits.socketPathMax) return runDir;
  const name = createHash('sha256').update(runDir).digest('hex').slice(0, 12);
  const short = join(tmpdir(), `dq-${name}`);
  if (Buffer.byteLength(short + longestName) > limits.socketPathMax)
    throw new Error(`the paths ${runDir} and ${short} are too long for a Unix socket`);
  makeDirectory(short, 0o700);
  // The system's temporary folder is everybody's: whoever was first there could listen in our place.
  const found = lstatSync(short);
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & 0o077) !== 0)
    throw new Error(`${short} exists and is not a directory of ours alone`);
  return short;
}
