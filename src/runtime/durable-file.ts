// durable-file.ts replaces whole files: writes a new file beside the old one, then renames it.
// Invariant: a reader of the name sees the old or the new content, never a part, after any crash.

import { renameSync, writeFileSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Mode 0600. Content and name are on disk when it resolves. Rejects with the system's error and keeps the
 *  old file. */
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
    // On a full disk the new file only takes space; the next write creates it again.
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

/** The same without waiting for the disk: for records that a start of the machine removes. Throws the
 *  system's error. */
export function writeWhole(path: string, text: string): void {
  const fresh = `${path}.next`;
  writeFileSync(fresh, text, { mode: 0o600 });
  renameSync(fresh, path);
}
