// Owns the disk reserve: empty pages of jobs.db, kept as bodies that belong to no job. On a full disk dq
// frees them, and finishing writes use them; no other process can take this space.
// Invariant: pushes are accepted only while the reserve is whole. It is rebuilt from free disk space or from
// pages that ended jobs left: the file never shrinks, so a disk filled by jobs alone would stay full.

import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Database, pragma, type Statement } from '../../../runtime/database.ts';
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
    this.#count = db.prepare('SELECT count(*) FROM body WHERE n < 0', { returnArrays: true });
    this.#freePages = db.prepare('PRAGMA freelist_count', { returnArrays: true });
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
