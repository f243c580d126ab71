// jobs.db.boot beside the store: in which boot of the machine the file was last opened and not yet closed. Owns that note.
// Why: after the mere death of its owner the file needs no check, because the kernel still has every byte that was written
// and SQLite replays the log by itself; reading it all would keep a store of 5 million jobs away for longer than its callers
// wait. After a power cut, a crash of the machine or a failing disk nobody knows what the disk kept, and the file is read.
// The note names the file's device and inode too: the parts of a copy that was made while the file was open may be of several
// moments, and a copy is read whole.
// Without its log a file with a note is not whole: the note is written after the log was made, and removed before it is.
// Invariant: a note of this boot stands only beside a file of which no write has failed. Without a note the file is checked.

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { placeOf } from '../../../runtime/place.ts';

const notePath = (path: string) => `${path}.boot`;

/** Whether the file was opened, in whichever boot, and not closed since. */
export function wasLeftOpen(path: string): boolean {
  return existsSync(notePath(path));
}

/** Whether the file was opened in this boot of the machine, and whoever had it open has merely died. */
export function wasOpenInThisBoot(path: string): boolean {
  const boot = bootId();
  const [noted, file] = readText(notePath(path))?.split('\n') ?? [];
  // Notes of earlier versions of dq have no second line.
  return boot !== null && noted === boot && (file === undefined || file === idOf(path));
}

/** To be called by whoever holds the file, before the first write. */
export function noteBoot(path: string): void {
  const boot = bootId();
  if (boot === null || wasOpenInThisBoot(path)) return;
  try {
    writeFileSync(notePath(path), `${boot}\n${idOf(path)}\n`, { mode: 0o600 });
  } catch {
    // A full disk: without a note the next start reads the file.
  }
}

/** The file was closed, or is no longer to be trusted. */
export function forgetBoot(path: string): void {
  rmSync(notePath(path), { force: true });
}

/** Another one after every start of the kernel; null where there is none to be had. */
function bootId(): string | null {
  return readText('/proc/sys/kernel/random/boot_id');
}

/** Looks at the file without opening it: closing it would drop the locks of this process. */
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
