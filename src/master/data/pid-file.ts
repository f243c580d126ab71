// Writes the file of option --pid-file, and removes it. Invariant: it is removed only while this master holds
// the data directory; later it could be the next master's.

import { rmSync, writeFileSync } from 'node:fs';
import { reasonOf } from '../../core/errors.ts';
import { StartRejected } from '../../runtime/start-rejected.ts';

/** Returns its removal, which acts once. Throws StartRejected. */
export function writePidFile(path: string): () => void {
  try {
    writeFileSync(path, `${process.pid}\n`);
  } catch (error) {
    throw new StartRejected(`the pid file ${path} cannot be written: ${reasonOf(error)}`, { cause: error });
  }
  let isOurs = true;
  return () => {
    if (!isOurs) return;
    isOurs = false;
    try {
      rmSync(path, { force: true });
    } catch {
      // Its directory is gone or read-only; the file names a process that has ended.
    }
  };
}
