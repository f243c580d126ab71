// The reserve of the store: pages of the file that hold nothing, in bodies that belong to no job. On a full disk they are
// set free, and what settles, retries and burials append goes into them: nobody else can take that room. Owns those rows.
// Invariant: pushes are taken only while the reserve is whole. It is made again out of room on the disk, or out of pages that
// ended jobs have left: the file never gets shorter, and a disk that was filled by jobs alone would stay full for ever.

import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Database, pragma, type Statement } from '../../../runtime/database.ts';
import { sqliteLimits } from '../limits.ts';

/** How large the reserve of this file is: on small file systems a share, which is the same at every start. */
export function reserveBytesFor(path: string): number {
  const { blocks, bsize } = statfsSync(dirname(path));
  const share = Math.floor(blocks * bsize * sqliteLimits.diskReserveShare);
  return Math.min(Math.max(share, sqliteLimits.diskReserveBytesMin), sqliteLimits.diskReserveBytesMax);
}

/** Bytes that may still be written beside this file. */
export function roomBeside(path: string): number {
  const { bavail, bsize } = statfsSync(dirname(path));
  return bavail * bsize;
}

/** Every write here is a transaction of the caller's. */
export class StoreReserve {
  readonly #path: string;
  readonly #pieces: number;
  readonly #pieceBytes: number;
  readonly #pageBytes: number;
  readonly #count: Statement;
  readonly #freePages: Statement;
  readonly #add: Statement;
  readonly #free: Statement;

  constructor(db: Database, path: string, bytes: number) {
    this.#path = path;
    // In pieces, each a transaction that the log has room for.
    this.#pieceBytes = Math.min(sqliteLimits.diskReservePieceBytes, bytes / 4);
    this.#pieces = Math.ceil(bytes / this.#pieceBytes);
    this.#pageBytes = Number(pragma(db, 'page_size'));
    this.#count = db.prepare('SELECT count(*) FROM body WHERE n < 0', { returnArrays: true });
    this.#freePages = db.prepare('PRAGMA freelist_count', { returnArrays: true });
    this.#add = db.prepare('INSERT INTO body(n, bytes) VALUES (?, zeroblob(?))');
    this.#free = db.prepare('DELETE FROM body WHERE n < 0');
  }

  /** Pieces that are still to be made. */
  get missing(): number {
    return Math.max(0, this.#pieces - numberOf(this.#count));
  }

  /** Whether there is room for what is missing, and some beside it: else it would be lost again with the next push. */
  fits(): boolean {
    const room = roomBeside(this.#path) + numberOf(this.#freePages) * this.#pageBytes;
    return room >= this.missing * this.#pieceBytes * (1 + sqliteLimits.diskReserveSlack);
  }

  /** Makes one piece more. */
  add(): void {
    this.#add.run(-1 - numberOf(this.#count), this.#pieceBytes);
  }

  setFree(): void {
    this.#free.run();
  }
}

function numberOf(statement: Statement): number {
  return (statement.get() as unknown as [number])[0];
}
