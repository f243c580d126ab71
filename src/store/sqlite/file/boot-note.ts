// Owns jobs.db.boot: the boot id under which jobs.db was last opened and not closed, with its device and
// inode.
// Invariant: a note of this boot stands only beside a file without a failed write. Without a note of this
// boot, dq checks an unclosed file. A file with a note but without its WAL is incomplete: the note is written
// after the WAL exists and removed before the WAL is.
// Reason: after a mere process death the kernel still has every written byte and SQLite replays the WAL;
// checking 5 million jobs takes longer than callers wait. After a power cut or a disk failure the content is
// uncertain. Device and inode: parts of a copy made while the file was open may be of several moments.

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { placeOf } from '../../../runtime/files.ts';

const notePath = (path: string) => `${path}.boot`;

/** Whether the file was opened, in any boot, and not closed since. */
export function wasLeftOpen(path: string): boolean {
  return existsSync(notePath(path));
}

/** Whether the file was opened in this boot, and its owner has merely died. */
export function wasOpenInThisBoot(path: string): boolean {
  const boot = bootId();
  return boot !== null && readText(notePath(path)) === `${boot}\n${idOf(path)}`;
}

/** Call as the holder of the file, before the first write. */
export function noteBoot(path: string): void {
  const boot = bootId();
  if (boot === null || wasOpenInThisBoot(path)) return;
  try {
    writeFileSync(notePath(path), `${boot}\n${idOf(path)}\n`, { mode: 0o600 });
  } catch {
    // A full disk: without a note the next start checks the file.
  }
}

/** The file was closed, or is no longer trusted. */
export function forgetBoot(path: string): void {
  rmSync(notePath(path), { force: true });
}

/** Changes with every boot; null: not available. */
function bootId(): string | null {
  return readText('/proc/sys/kernel/random/boot_id');
}

/** Uses stat, without opening the file: closing it would drop the locks of this process. */
function idOf(path: string): string {
  const { device, inode } = placeOf(path);
  return `${device} ${inode}`;
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim() || null;
  } catch {
    return null;
  }
}
