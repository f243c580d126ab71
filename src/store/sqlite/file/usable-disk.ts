// Checks whether the disk of a data directory is usable, and waits until it is. After a crash on a completely
// full or read-only disk a new store would die again and again until the master gives up; it waits instead,
// and calls end with not_stored. Does not touch the store.

import { closeSync, openSync, rmSync, statSync } from 'node:fs';
import { messageOf } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import { sleep } from '../../../runtime/time.ts';
import { sqliteLimits } from '../limits.ts';
import { freeDiskBytes } from './disk-reserve.ts';

/** One sentence about the directory of this file; null: usable. */
export function whyUnusable(path: string, directory: string): string | null {
  try {
    // access(2) is not enough: ext4 shut down by an error still grants it (seen, Linux 6.18).
    closeSync(openSync(`${path}.probe`, 'w', 0o600));
    rmSync(`${path}.probe`);
  } catch (error) {
    return `cannot write to the data directory ${directory}: ${messageOf(error)}`;
  }
  // The store can reuse the WAL that a killed owner left.
  const log = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (freeDiskBytes(path) + log >= limits.startFreeBytes) return null;
  return `the disk of the data directory ${directory} is full: free ${limits.startFreeBytes / 1024} KiB to start, more for pushes`;
}

/** Rejects when `leaving` is aborted. */
export async function untilUsable(path: string, directory: string, leaving: AbortSignal): Promise<void> {
  while (whyUnusable(path, directory) !== null) await sleep(sqliteLimits.diskAgainMs, { signal: leaving });
}
