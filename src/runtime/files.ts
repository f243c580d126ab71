// files.ts makes directories, replaces whole files, and distinguishes a file from its copy. It writes a new
// file beside the old one, then renames it.
// Invariant: a reader of the name sees the old or the new content, never a part, after any crash.

import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  realpathSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

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
  await syncPath(dirname(path));
}

/** The result of work on a file, or this answer where the file does not exist. */
export const orIfMissing = <T, M>(answer: M, work: Promise<T>): Promise<T | M> =>
  work.catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return answer;
    throw error;
  });

/** fsync of a file, or of a directory: the names in it survive a power cut. Rejects with its error. */
export async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** The same; throws the system's error. */
export function syncPathNow(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** The same without waiting for the disk: for records that a start of the machine removes. Throws the
 *  system's error. */
export function writeWhole(path: string, text: string): void {
  const fresh = `${path}.next`;
  writeFileSync(fresh, text, { mode: 0o600 });
  renameSync(fresh, path);
}

/** Of a directory or file on this machine. A copy has another inode, so a record with the place of the
 *  original does not apply to a copy. */
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

/** With its missing parents: mkdir's own `recursive` loops for ever on a file system that rejects directories
 *  with ENOENT (observed on /proc with Node 20). `mode`: of new directories; existing ones keep theirs.
 *  Throws with the system's reason. */
export function makeDirectory(path: string, mode: number): void {
  const missing: string[] = [];
  for (let at = resolve(path); !isDirectory(at); at = dirname(at)) missing.push(at);
  for (const one of missing.reverse()) make(one, mode);
}

function make(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Another process made it first.
    if (code === 'EEXIST' && isDirectory(path)) return;
    if (code !== 'ENOENT') throw error;
    throw new Error(`cannot make a directory in ${dirname(path)}`, { cause: error });
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
