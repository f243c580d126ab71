// The room on the disk that a transaction needs: the write-ahead log, and the pages by which the file grows. Owns the length of
// the log, the blocks of new pages, and when the log is carried into the file (a checkpoint).
// Invariant: what is committed can be carried over, however full the disk becomes: its pages have blocks in the file before
// COMMIT, and what a checkpoint overwrites needs no room. And the log has a length from the start and keeps it, so that on a
// full disk settles are written into it over and over.
// Rejected: room that is given back when the disk is full (a file that is removed): the log files of a busy daemon lie on the
// same disk, and had taken 256 KiB in less time than a checkpoint needs (seen).
// Hazard: the descriptor of the file is closed after SQLite has given up its lock, never before: closing any drops it.

import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { type Database, pragma, type Statement } from '../../../runtime/database.ts';
import { sqliteLimits } from '../limits.ts';
import { roomBeside } from './disk-reserve.ts';

/** The file cannot grow by what the transaction has added. */
export class NoRoom extends Error {
  constructor(cause: unknown) {
    super('the disk has no room for the new pages of the store', { cause });
    this.name = 'NoRoom';
  }
}

/** An I/O error. */
export class DiskFailed extends Error {
  constructor(cause: unknown) {
    super('the file of the store could not be made longer', { cause });
    this.name = 'DiskFailed';
  }
}

/** sqlite.org/fileformat2.html, "WAL File Format" */
const frameHeaderBytes = 24;
const zeros = Buffer.alloc(64 * 1024);

export class WalSpace {
  readonly #db: Database;
  readonly #file: number;
  readonly #pageBytes: number;
  readonly #pages: Statement;
  readonly #checkpoint: Statement;
  readonly #pagesFull: number;
  readonly #lengthen: () => void;
  #isHeld = false;

  /** @param reserveBytes how much the disk has to spare for the store, see disk-reserve.ts */
  constructor(db: Database, path: string, reserveBytes: number) {
    this.#db = db;
    this.#pageBytes = Number(pragma(db, 'page_size'));
    this.#pages = db.prepare('PRAGMA page_count', { returnArrays: true });
    this.#checkpoint = db.prepare('PRAGMA wal_checkpoint(PASSIVE)', { returnArrays: true });
    const bytes = Math.min(reserveBytes, sqliteLimits.logBytesMax);
    this.#pagesFull = Math.floor((bytes * sqliteLimits.logShareFull) / (this.#pageBytes + frameHeaderBytes));
    // What it is cut back to after a transaction larger than usual.
    db.exec(`PRAGMA journal_size_limit = ${bytes}`);
    this.#lengthen = () => lengthen(`${path}-wal`, bytes, roomBeside(path) - sqliteLimits.recordRoomBytes);
    this.#release();
    this.#file = openSync(path, 'r+');
  }

  /** In a transaction, before its COMMIT: gives its new pages their blocks. Throws NoRoom, DiskFailed. */
  allocate(): void {
    const [pages] = this.#pages.get() as unknown as [number];
    const end = pages * this.#pageBytes;
    try {
      writeZeros(this.#file, fstatSync(this.#file).size, end);
    } catch (error) {
      // Blocks beyond the last page are cut off by the next checkpoint.
      throw isFull(error) ? new NoRoom(error) : new DiskFailed(error);
    }
  }

  /** Outside a transaction. Throws what SQLite throws; nothing is lost by it. */
  carryOver(): void {
    if (!this.#isHeld) this.#checkpoint.get();
  }

  /** See Engine.hold. The log has no bound meanwhile. */
  hold(): () => void {
    const [busy] = this.#db
      .prepare('PRAGMA wal_checkpoint(TRUNCATE)', { returnArrays: true })
      .get() as number[];
    if (busy !== 0) throw new Error('the log cannot be merged: somebody reads the store');
    this.#db.exec('PRAGMA wal_autocheckpoint = 0');
    this.#isHeld = true;
    return () => this.#release();
  }

  #release(): void {
    this.#isHeld = false;
    this.#db.exec(`PRAGMA wal_autocheckpoint = ${this.#pagesFull}`);
    this.#lengthen();
  }

  /** Once SQLite has given up its lock. */
  close(): void {
    closeSync(this.#file);
  }
}

/** Zeros after its end: SQLite reads a log up to the first frame that is none, and writes over them. */
function lengthen(path: string, bytes: number, room: number): void {
  const fd = openSync(path, 'r+');
  try {
    const { size } = fstatSync(fd);
    writeZeros(fd, size, Math.min(bytes, size + room));
  } catch (error) {
    // As long as there was room for.
    if (!isFull(error)) throw error;
  } finally {
    closeSync(fd);
  }
}

function writeZeros(fd: number, from: number, to: number): void {
  for (let at = from; at < to; ) at += writeSync(fd, zeros, 0, Math.min(zeros.length, to - at), at);
}

function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOSPC' || code === 'EDQUOT';
}
