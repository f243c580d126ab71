// Whether the disk under a data directory can be used at all, and the wait until it can. A store that comes back from a crash
// to a disk that is full to the last block or read-only would die again and again, and the master would give up; it waits
// instead, and everybody hears not_stored meanwhile. Touches nothing of the store.

import { closeSync, openSync, rmSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { reasonOf } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import { sqliteLimits } from '../limits.ts';
import { roomBeside } from './disk-reserve.ts';

/** One sentence about the directory of this file; null = it can be used. */
export function whyUnusable(path: string, directory: string): string | null {
  try {
    // Asking for the right to write is not enough: ext4 shut down by an error still grants it (seen, Linux 6.18).
    closeSync(openSync(`${path}.probe`, 'w', 0o600));
    rmSync(`${path}.probe`);
  } catch (error) {
    return `the data directory ${directory} cannot be written: ${reasonOf(error)}`;
  }
  // A log that a killed owner has left is room that the store has.
  const log = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (roomBeside(path) + log >= limits.startRoomBytes) return null;
  return `the data directory ${directory} is on a full disk: make room (${limits.startRoomBytes / 1024} KiB to start, more for pushes)`;
}

/** Rejects when `leaving` is aborted. */
export async function untilUsable(path: string, directory: string, leaving: AbortSignal): Promise<void> {
  while (whyUnusable(path, directory) !== null)
    await sleep(sqliteLimits.diskAgainMs, undefined, { signal: leaving });
}
