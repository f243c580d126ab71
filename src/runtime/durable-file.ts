// A file that is always whole: written anew beside itself, then renamed over the old one. Invariant: who reads the name sees
// what was written before or what is written now, whoever died in between.

import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/** For this user alone. On the disk when it resolves, its name too. Rejects with the system's error; then the old one stays. */
export async function writeDurably(path: string, text: string): Promise<void> {
  const fresh = `${path}.${process.pid}.new`;
  try {
    const file = await open(fresh, 'w', 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(fresh, path);
  } catch (error) {
    // On a full disk even the name of it is in the way; the next write makes it anew.
    await rm(fresh, { force: true }).catch(() => undefined);
    throw error;
  }
  const directory = await open(dirname(path), 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
