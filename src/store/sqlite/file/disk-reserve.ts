// Owns the disk reserve: empty pages of jobs.db, kept as bodies that belong to no job. On a full disk dq
// frees them, and finishing writes use them; no other process can take this space.
// Also says whether the disk is usable at all, without touching the store.
// Invariant: pushes are accepted only while the reserve is whole. It is rebuilt from free disk space or from
// pages that ended jobs left: the file never shrinks, so a disk filled by jobs alone would stay full.

import { closeSync, openSync, rmSync, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { messageOf } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import { type Database, pragma, rowsBy, type Statement } from '../../../runtime/database.ts';
import { sleep } from '../../../runtime/time.ts';
import { sqliteLimits } from '../limits.ts';

/** Bytes of the disk reserve for this file: on small file systems a share, the same at every start. */
export function diskReserveBytesFor(path: string): number {
  const { blocks, bsize } = statfsSync(dirname(path));
  const share = Math.floor(blocks * bsize * sqliteLimits.diskReserveShare);
  return Math.min(Math.max(share, sqliteLimits.diskReserveBytesMin), sqliteLimits.diskReserveBytesMax);
}

/** Free bytes on the disk of this file. */
export function freeDiskBytes(path: string): number {
  const { bavail, bsize } = statfsSync(dirname(path));
  return bavail * bsize;
}

/** The caller runs each write in a transaction. */
export class DiskReserve {
  readonly #path: string;
  readonly #pieces: number;
  readonly #pieceBytes: number;
  readonly #pageBytes: number;
  readonly #count: Statement;
  readonly #freePages: Statement;
  readonly #add: Statement;
  readonly #remove: Statement;

  constructor(db: Database, path: string, bytes: number) {
    this.#path = path;
    // In pieces: the WAL has space for a transaction of one piece.
    this.#pieceBytes = Math.min(sqliteLimits.diskReservePieceBytes, bytes / 4);
    this.#pieces = Math.ceil(bytes / this.#pieceBytes);
    this.#pageBytes = Number(pragma(db, 'page_size'));
    this.#count = rowsBy(db, 'SELECT count(*) FROM body WHERE n < 0');
    this.#freePages = rowsBy(db, 'PRAGMA freelist_count');
    this.#add = db.prepare('INSERT INTO body(n, bytes) VALUES (?, zeroblob(?))');
    this.#remove = db.prepare('DELETE FROM body WHERE n < 0');
  }

  /** Pieces to add. */
  get missing(): number {
    return Math.max(0, this.#pieces - numberOf(this.#count));
  }

  /** Whether the missing pieces and some slack fit: without slack the next push would use the reserve up
   *  again. */
  fits(): boolean {
    const space = freeDiskBytes(this.#path) + numberOf(this.#freePages) * this.#pageBytes;
    return space >= this.missing * this.#pieceBytes * (1 + sqliteLimits.diskReserveSlack);
  }

  /** Adds one piece. */
  add(): void {
    this.#add.run(-1 - numberOf(this.#count), this.#pieceBytes);
  }

  free(): void {
    this.#remove.run();
  }
}

function numberOf(statement: Statement): number {
  return (statement.get() as unknown as [number])[0];
}

// A start on a bad disk: after a crash on a completely full or read-only disk a new store would die again and
// again until the master gives up; it waits instead, and calls end with not_stored.

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
