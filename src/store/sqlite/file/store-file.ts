// The file jobs.db: made, judged, opened, closed. Invariants: a file that is foreign, newer or damaged is refused with its
// reason and not one byte of it is changed; whoever has opened it holds it alone (locking_mode EXCLUSIVE: the kernel frees
// the lock of a process that died, and no shell can get in between); after a clean close it is one file without a log.
// Hazard: while it is open, nobody in this process may open and close it by other means (fs.readFile): that drops the
// POSIX locks of the whole process.

import { closeSync, fsyncSync, openSync, readSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import {
  askAndForget,
  type Database,
  openDatabase,
  pragma,
  sqliteCode,
  sqliteCodes,
} from '../../../runtime/database.ts';
import { sqliteLimits } from '../limits.ts';
import { forgetBoot, noteBoot, wasLeftOpen, wasOpenInThisBoot } from './boot-note.ts';
import { applicationId, layoutVersion, schema } from './schema.ts';

/** Why a file was not opened; the message is for the person who starts dq. */
export class StoreFileRefused extends Error {
  readonly why: 'in_use' | 'foreign' | 'newer' | 'damaged' | 'incomplete' | 'unwritable';
  constructor(why: StoreFileRefused['why'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StoreFileRefused';
    this.why = why;
  }
}

/** The layout of a file that another process may hold; null = there is none, or it is too short to say. Not for a file that
 *  this process has open. */
export function layoutOnDisk(path: string): number | null {
  if (held.has(path)) throw new Error(`${path} is held by this process`);
  if ((sizeOf(path) ?? 0) < 100) return null;
  const header = headerOf(path);
  return header.readUInt32BE(60);
}

/** Why every start rejects this file, whatever state it is in: another kind of file, or a newer layout. null = no such reason,
 *  also without a file. Reads 100 bytes: the owner in another process keeps its lock, and goes on. Not for a file that this
 *  process has open. */
export function whyNeverOpened(path: string): string | null {
  if (held.has(path)) throw new Error(`${path} is held by this process`);
  const size = sizeOf(path);
  if (size === null) return null;
  try {
    judgeKind(path, size);
    return null;
  } catch (error) {
    if (error instanceof StoreFileRefused) return error.message;
    throw error;
  }
}

/** What this process has open, so that judging a file cannot drop our own lock on it. */
const held = new Map<string, Database>();

export interface OpenedStoreFile {
  readonly db: Database;
  /** the file was not closed by its last owner; its log is replayed */
  readonly wasUnclean: boolean;
  /** all of it was read and is whole */
  readonly wasChecked: boolean;
}

/** Opens jobs.db, making it if there is none. Throws StoreFileRefused. */
export function openStoreFile(path: string): OpenedStoreFile {
  if (held.has(path)) throw new StoreFileRefused('in_use', `${path} is held by this process`);
  const size = sizeOf(path);
  const logSize = sizeOf(`${path}-wal`);
  const wasUnclean = logSize !== null;
  if (size === null) {
    if (wasUnclean)
      throw new StoreFileRefused(
        'incomplete',
        `${path} is missing, but its log ${path}-wal is there: put both back, or remove the log`,
      );
    makeStoreFile(path);
  } else {
    if (!wasUnclean && wasLeftOpen(path))
      throw new StoreFileRefused(
        'incomplete',
        `${path} was not closed, and its log ${path}-wal is missing: put it back, or remove ${path}.boot to go on without what was in it`,
      );
    judgeHeader(path, size, logSize);
  }
  const isDoubtful = wasUnclean && !wasOpenInThisBoot(path);
  try {
    if (wasUnclean) judgeLog(path, isDoubtful);
    const db = openAlone(path);
    held.set(path, db);
    noteBoot(path);
    // The check has made it; whoever holds the file alone needs none.
    rmSync(`${path}-shm`, { force: true });
    return { db, wasUnclean, wasChecked: isDoubtful };
  } catch (error) {
    throw refusalOf(path, error);
  }
}

/** Gives up the lock, merges the log into the file. Without this, the lock would last until a garbage collection. */
export function closeStoreFile(db: Database): void {
  try {
    // First: a note without a log says that the log was lost.
    forgetBoot(pathOf(db));
    pragma(db, 'journal_mode = DELETE');
    pragma(db, 'locking_mode = NORMAL');
    db.prepare('SELECT count(*) FROM meta').get();
  } finally {
    db.close();
    held.delete(pathOf(db));
  }
}

/** Of the log that has not been merged. */
export function logBytes(path: string): number {
  return sizeOf(`${path}-wal`) ?? 0;
}

/** A write has failed, and what the disk holds is in doubt: whoever opens the file next reads all of it. */
export function doubtStoreFile(db: Database): void {
  forgetBoot(pathOf(db));
}

function pathOf(db: Database): string {
  for (const [path, open] of held) if (open === db) return path;
  throw new Error('this store was not opened here');
}

/** Under another name first: the header of a file called jobs.db is whole from its first moment. */
function makeStoreFile(path: string): void {
  const fresh = `${path}.new`;
  rmSync(fresh, { force: true });
  // SQLite would make it for everybody to read; its log inherits the mode.
  closeSync(openSync(fresh, 'wx', 0o600));
  const db = openDatabase(fresh);
  db.exec(schema);
  db.close();
  syncPath(fresh);
  renameSync(fresh, path);
  syncPath(dirname(path));
}

function openAlone(path: string): Database {
  const db = openDatabase(path, { waitMs: sqliteLimits.storeLockMs });
  try {
    pragma(db, 'locking_mode = EXCLUSIVE');
    const mode = pragma(db, 'journal_mode = WAL');
    if (mode !== 'wal') throw new Error(`journal_mode WAL was refused (${String(mode)})`);
    db.exec('PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY; PRAGMA synchronous = FULL');
    // Takes the lock now rather than at the first push.
    db.exec('BEGIN IMMEDIATE; COMMIT');
    judgeLayout(path, Number(pragma(db, 'user_version')));
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** The first 100 bytes, zeros where there are fewer. */
function headerOf(path: string): Buffer {
  const header = Buffer.alloc(100);
  const fd = openSync(path, 'r');
  try {
    readSync(fd, header, 0, header.length, 0);
  } finally {
    closeSync(fd);
  }
  return header;
}

/** Before SQLite opens it: opening replays the log of a file that may not be ours. */
function judgeHeader(path: string, size: number, logSize: number | null): void {
  const header = judgeKind(path, size);
  // The file says 2 from before its log is made until after the log is gone (closeStoreFile).
  if (header[18] === 1 && (logSize ?? 0) > 0)
    throw new StoreFileRefused(
      'foreign',
      `${path} was closed, and the log beside it, ${path}-wal, is not its own: move the log away, or put its own file beside it`,
    );
  // 1 stands for 65536 there. With a log beside it, the file may rightly be shorter: the log has the rest.
  const pageBytes = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
  const whole = header.readUInt32BE(28) * pageBytes;
  if (logSize === null && size < whole)
    throw new StoreFileRefused('damaged', damagedText(path, `${size} of ${whole} bytes are there`));
}

/** Answers the header. */
function judgeKind(path: string, size: number): Buffer {
  const header = headerOf(path);
  if (size < header.length || header.toString('latin1', 0, 16) !== 'SQLite format 3\0')
    throw new StoreFileRefused('foreign', `${path} is no SQLite file`);
  if (header.readUInt32BE(68) !== applicationId)
    throw new StoreFileRefused('foreign', `${path} is not a job store of dq`);
  judgeLayout(path, header.readUInt32BE(60));
  return header;
}

function judgeLayout(path: string, version: number): void {
  if (version <= layoutVersion) return;
  throw new StoreFileRefused(
    'newer',
    `${path} has layout ${version}, this dq knows ${layoutVersion}: use the dq that wrote it, or a newer one`,
  );
}

/** Reads the layout that the log has, and the whole file if it is doubtful, without changing either. Leaves no statement
 *  behind: with a prepared one the connection would outlive its close() until a garbage collection, and hold the lock that
 *  openAlone needs (seen: no dq-store could start after a kill -9). */
function judgeLog(path: string, isDoubtful: boolean): void {
  const db = openDatabase(path, { readOnly: true, waitMs: sqliteLimits.storeLockMs });
  try {
    const verdict = isDoubtful ? askAndForget(db, 'quick_check', 'pragma_quick_check') : 'ok';
    if (verdict !== 'ok') throw new StoreFileRefused('damaged', damagedText(path, String(verdict)));
    judgeLayout(path, Number(askAndForget(db, 'user_version', 'pragma_user_version')));
  } catch (error) {
    // A full disk has no room for the index of the log that a mere reader needs. Whoever holds the file alone needs none.
    const code = sqliteCode(error);
    if (isDoubtful || (code !== sqliteCodes.full && code !== sqliteCodes.ioError)) throw error;
  } finally {
    db.close();
  }
}

function refusalOf(path: string, error: unknown): unknown {
  if (error instanceof StoreFileRefused) return error;
  const code = sqliteCode(error);
  if (code === null) return error;
  const reason = error instanceof Error ? error.message : String(error);
  if (code === sqliteCodes.busy || code === sqliteCodes.locked)
    return new StoreFileRefused('in_use', `${path} is held by another process`, { cause: error });
  if (code === sqliteCodes.readOnly || code === sqliteCodes.cannotOpen)
    return new StoreFileRefused('unwritable', `${path} cannot be written (${reason})`, { cause: error });
  if (code === sqliteCodes.corrupt || code === sqliteCodes.notADatabase)
    return new StoreFileRefused('damaged', damagedText(path, reason), { cause: error });
  return error;
}

function damagedText(path: string, reason: string): string {
  // Up to a hundred lines below a heading; one says enough.
  const found = reason.replace(/^\*.*\n/, '').split('\n', 1)[0];
  return `${path} is damaged (${found}) and was left as it is: put a backup in its place, or move it away with its -wal file`;
}

function sizeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.size ?? null;
}

function syncPath(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
