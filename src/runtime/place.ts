// The place of a directory or file on this machine. A copy has another inode, so a record with the place of
// the original does not apply to a copy.

import { realpathSync, statSync } from 'node:fs';

export interface Place {
  /** without symbolic links */
  readonly path: string;
  /** Decimal text: device and inode numbers of 64 bits do not fit into a double. */
  readonly device: string;
  readonly inode: string;
}

/** Throws the system's error. */
export function placeOf(path: string): Place {
  const { dev, ino } = statSync(path, { bigint: true });
  return { path: realpathSync(path), device: String(dev), inode: String(ino) };
}

/** The same file under any name: moved, or mounted at a second path. */
export function isSameFile(a: Place, b: Place): boolean {
  return a.device === b.device && a.inode === b.inode;
}
