// Provides the disk space of a transaction: the WAL, and the blocks of new pages. Owns the length of the WAL,
// and decides when to checkpoint.
// Invariant: every committed page can be checkpointed on a full disk: its blocks are allocated before COMMIT.
// The WAL has its full length from the start and keeps it, so finishing writes reuse it on a full disk.
// Rejected: a spare file that is removed on a full disk. The logs of a busy daemon on the same disk took
// 256 KiB in less time than a checkpoint needs (seen).
// Hazard: close the file's descriptor only after SQLite has released its lock: any close drops it.

import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { type Database, pragma, rowsBy, type Statement } from '../../../runtime/database.ts';
import { sqliteLimits } from '../limits.ts';
import { freeDiskBytes } from './disk-reserve.ts';

/** The disk is full: the file cannot grow by the new pages. */
export class NoDiskSpace extends Error {
  constructor(cause: unknown) {
    super('the disk is full: no space for new pages of jobs.db', { cause });
    this.name = 'NoDiskSpace';
  }
}

/** An I/O error. */
export class DiskFailed extends Error {
  constructor(cause: unknown) {
    super('cannot extend jobs.db', { cause });
    this.name = 'DiskFailed';
  }
}

/** sqlite.org/fileformat2.html, "WAL File Format" */
const frameHeaderBytes = 24;
const zeros = Buffer.alloc(64 * 1024);

export class WalSpace {
  readonly #db: Database;
  readonly #path: string;
  readonly #reserveBytes: number;
  readonly #file: number;
  readonly #pageBytes: number;
  readonly #pages: Statement;
  readonly #checkpoint: Statement;
  readonly #pagesFull: number;
  readonly #extend: () => void;
  #isFrozen = false;

  /** @param reserveBytes size of the disk reserve, see disk-reserve.ts */
  constructor(db: Database, path: string, reserveBytes: number) {
    this.#db = db;
    this.#path = path;
    this.#reserveBytes = reserveBytes;
    this.#pageBytes = Number(pragma(db, 'page_size'));
    this.#pages = rowsBy(db, 'PRAGMA page_count');
    this.#checkpoint = rowsBy(db, 'PRAGMA wal_checkpoint(PASSIVE)');
    const bytes = Math.min(reserveBytes, sqliteLimits.walBytesMax);
    this.#pagesFull = Math.floor(
      (bytes * sqliteLimits.walCheckpointShare) / (this.#pageBytes + frameHeaderBytes),
    );
    // SQLite truncates the WAL to this size after an unusually large transaction.
    db.exec(`PRAGMA journal_size_limit = ${bytes}`);
    this.#extend = () => extend(`${path}-wal`, bytes, freeDiskBytes(path) - sqliteLimits.recordSpaceBytes);
    this.#unfreeze();
    this.#file = openSync(path, 'r+');
  }

  /** Call before COMMIT: allocates the blocks of new pages. Throws NoDiskSpace, DiskFailed. */
  allocate(): void {
    const [pages] = this.#pages.get() as unknown as [number];
    const end = pages * this.#pageBytes;
    try {
      const { size } = fstatSync(this.#file);
      if (size < end) this.#lengthen(size, end);
    } catch (error) {
      // The next checkpoint cuts off blocks beyond the last page.
      throw isFull(error) ? new NoDiskSpace(error) : new DiskFailed(error);
    }
  }

  /** Adds whole steps, so that most transactions find their blocks. A checkpoint cuts off what no page uses.
   *  Where the disk has less space than the disk reserve, the file gets only what the transaction needs. */
  #lengthen(size: number, end: number): void {
    const step = Math.ceil(this.#reserveBytes / sqliteLimits.fileStepsPerReserve);
    try {
      if (freeDiskBytes(this.#path) > this.#reserveBytes) {
        writeZeros(this.#file, size, Math.ceil(end / step) * step);
        return;
      }
    } catch {
      // The step does not fit, for example into a quota: the needed bytes may.
    }
    writeZeros(this.#file, size, end);
  }

  /** Outside a transaction. Throws SQLite's errors; no data is lost by them. */
  checkpoint(): void {
    if (!this.#isFrozen) this.#checkpoint.get();
  }

  /** See Engine.freeze. Meanwhile the WAL has no bound. */
  freeze(): () => void {
    if (pragma(this.#db, 'wal_checkpoint(TRUNCATE)') !== 0)
      throw new Error('cannot checkpoint: another connection reads jobs.db');
    this.#db.exec('PRAGMA wal_autocheckpoint = 0');
    this.#isFrozen = true;
    return () => this.#unfreeze();
  }

  #unfreeze(): void {
    this.#isFrozen = false;
    this.#db.exec(`PRAGMA wal_autocheckpoint = ${this.#pagesFull}`);
    this.#extend();
  }

  /** Call after SQLite has released its lock. */
  close(): void {
    closeSync(this.#file);
  }
}

/** Appends zeros: SQLite reads a WAL up to the first invalid frame, and overwrites them. */
function extend(path: string, bytes: number, space: number): void {
  const fd = openSync(path, 'r+');
  try {
    const { size } = fstatSync(fd);
    writeZeros(fd, size, Math.min(bytes, size + space));
  } catch (error) {
    // Extended as far as the disk allowed.
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
