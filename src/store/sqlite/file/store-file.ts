// Creates, checks, opens and closes jobs.db. Invariants: a foreign or damaged file, or one of another layout,
// is rejected with its reason and stays unchanged; an open file is locked (locking_mode EXCLUSIVE: the kernel
// frees the lock of a dead process, and no shell can open the file); a clean close leaves one file without a
// WAL.
// Hazard: while the file is open, this process must not open and close it by other means (fs.readFile): that
// drops the POSIX locks of the whole process.

import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import {
  askAndForget,
  type Database,
  foreignLogText,
  isDamage,
  openDatabase,
  pragma,
  readHeader,
  sqliteCode,
  sqliteCodes,
} from '../../../runtime/database.ts';
import { placeOf, syncPathNow } from '../../../runtime/files.ts';
import { sqliteLimits } from '../limits.ts';
import { applicationId, layoutVersion, schema } from './schema.ts';

/** Why a file was not opened; the message is for the operator who starts dq. */
export class StoreFileRefused extends Error {
  readonly why: 'in_use' | 'foreign' | 'layout' | 'damaged' | 'incomplete' | 'unwritable' | 'moving';
  constructor(why: StoreFileRefused['why'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StoreFileRefused';
    this.why = why;
  }

  /** Every further open is rejected, too, until an operator has changed the files. */
  get isPermanent(): boolean {
    return this.why !== 'in_use' && this.why !== 'unwritable';
  }
}

/** Layout of a file that another process may have open; null: missing, or too short. Not for a file that this
 *  process has open. */
export function layoutOnDisk(path: string): number | null {
  if (openFiles.has(path)) throw new Error(`${path} is already open in this process`);
  if ((sizeOf(path) ?? 0) < 100) return null;
  const header = readHeader(path);
  return header.readUInt32BE(60);
}

/** Why every start rejects this file, in any state: another kind of file, or another layout. null: no such
 *  reason, or no file. Reads 100 bytes: an owner in another process keeps its lock. Not for a file that this
 *  process has open. */
export function whyNeverOpened(path: string): string | null {
  if (openFiles.has(path)) throw new Error(`${path} is already open in this process`);
  const size = sizeOf(path);
  if (size === null) return null;
  try {
    checkKind(path, size);
    return null;
  } catch (error) {
    if (error instanceof StoreFileRefused) return error.message;
    throw error;
  }
}

/** Files open in this process: checking one by its path would drop our lock. */
const openFiles = new Map<string, Database>();

export interface OpenedStoreFile {
  readonly db: Database;
  /** the last owner did not close the file; its WAL is replayed */
  readonly wasUnclean: boolean;
  /** the whole file was checked */
  readonly wasChecked: boolean;
}

/** Opens jobs.db; creates a missing one. Throws StoreFileRefused. */
export function openStoreFile(path: string): OpenedStoreFile {
  if (openFiles.has(path)) throw new StoreFileRefused('in_use', `${path} is already open in this process`);
  const size = sizeOf(path);
  const logSize = sizeOf(`${path}-wal`);
  const wasUnclean = logSize !== null;
  if (size === null) {
    if (wasUnclean)
      throw new StoreFileRefused(
        'incomplete',
        `${path} is missing, but ${path}-wal exists: restore both, or remove ${path}-wal`,
      );
    makeStoreFile(path);
  } else {
    if (!wasUnclean && existsSync(notePath(path)))
      throw new StoreFileRefused(
        'incomplete',
        `${path} was not closed, and ${path}-wal is missing: restore it, or remove ${path}.boot to start without its content`,
      );
    checkHeader(path, size, logSize);
  }
  const needsCheck = wasUnclean && !wasOpenInThisBoot(path);
  try {
    if (wasUnclean) checkLog(path, needsCheck);
    const db = openExclusive(path);
    openFiles.set(path, db);
    noteBoot(path);
    // The check created it; an exclusive lock needs none.
    rmSync(`${path}-shm`, { force: true });
    return { db, wasUnclean, wasChecked: needsCheck };
  } catch (error) {
    throw toStoreFileRefused(path, error);
  }
}

/** Checkpoints the WAL and releases the lock, which otherwise lasts until a garbage collection. */
export function closeStoreFile(db: Database): void {
  try {
    // First: a note without a WAL means a lost WAL.
    forgetBoot(pathOf(db));
    pragma(db, 'journal_mode = DELETE');
    pragma(db, 'locking_mode = NORMAL');
    db.prepare('SELECT count(*) FROM meta').get();
  } finally {
    db.close();
    openFiles.delete(pathOf(db));
  }
}

/** Size of the WAL. */
export function walBytes(path: string): number {
  return sizeOf(`${path}-wal`) ?? 0;
}

/** After a failed write the content is uncertain: the next open checks the whole file. */
export function requireFileCheck(db: Database): void {
  forgetBoot(pathOf(db));
}

function pathOf(db: Database): string {
  for (const [path, open] of openFiles) if (open === db) return path;
  throw new Error('the store is not open');
}

/** Creates it under another name: a file called jobs.db always has a complete header. */
function makeStoreFile(path: string): void {
  const fresh = `${path}.new`;
  rmSync(fresh, { force: true });
  // SQLite would make it world-readable; the WAL inherits the mode.
  closeSync(openSync(fresh, 'wx', 0o600));
  const db = openDatabase(fresh);
  // Outside a transaction every statement would sync the file.
  db.exec(`BEGIN; ${schema} COMMIT`);
  db.close();
  syncPathNow(fresh);
  renameSync(fresh, path);
  syncPathNow(dirname(path));
}

function openExclusive(path: string): Database {
  const db = openDatabase(path, { waitMs: sqliteLimits.storeLockMs });
  try {
    pragma(db, 'locking_mode = EXCLUSIVE');
    const mode = pragma(db, 'journal_mode = WAL');
    if (mode !== 'wal') throw new Error(`SQLite rejected journal_mode WAL (${String(mode)})`);
    db.exec('PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY; PRAGMA synchronous = FULL');
    // Takes the lock now, not at the first push.
    db.exec('BEGIN IMMEDIATE; COMMIT');
    checkLayout(path, Number(pragma(db, 'user_version')));
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Runs before SQLite opens the file: opening replays a WAL that may be foreign. */
function checkHeader(path: string, size: number, logSize: number | null): void {
  const header = checkKind(path, size);
  const foreignLog = foreignLogText(path, header);
  if (foreignLog !== null) throw new StoreFileRefused('foreign', foreignLog);
  // 1 means 65536. With a WAL the file may be shorter: the WAL has the rest.
  const pageBytes = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
  const whole = header.readUInt32BE(28) * pageBytes;
  if (logSize === null && size < whole)
    throw new StoreFileRefused('damaged', damagedText(path, `${size} of ${whole} bytes`));
}

/** Returns the header. */
function checkKind(path: string, size: number): Buffer {
  const header = readHeader(path);
  if (size < header.length || header.toString('latin1', 0, 16) !== 'SQLite format 3\0')
    throw new StoreFileRefused('foreign', `${path} is not a SQLite file`);
  if (header.readUInt32BE(68) !== applicationId)
    throw new StoreFileRefused('foreign', `${path} is not a dq job store`);
  checkLayout(path, header.readUInt32BE(60));
  return header;
}

function checkLayout(path: string, version: number): void {
  if (version === layoutVersion) return;
  throw new StoreFileRefused(
    'layout',
    `${path} has layout ${version}, this dq knows ${layoutVersion}: use the dq that wrote it, or a newer one`,
  );
}

/** Reads the layout including the WAL, and checks the whole file if it is uncertain; changes neither. Leaves
 *  no prepared statement: with one the connection would outlive close() until a garbage collection and keep
 *  the lock that openExclusive needs (seen: no dq-store could start after a kill -9). */
function checkLog(path: string, needsCheck: boolean): void {
  const db = openDatabase(path, { readOnly: true, waitMs: sqliteLimits.storeLockMs });
  try {
    const verdict = needsCheck ? askAndForget(db, 'quick_check', 'pragma_quick_check') : 'ok';
    if (verdict !== 'ok') throw new StoreFileRefused('damaged', damagedText(path, String(verdict)));
    checkLayout(path, Number(askAndForget(db, 'user_version', 'pragma_user_version')));
  } catch (error) {
    // A reader needs an index of the WAL, and a full disk has no space for it. openExclusive needs none.
    const code = sqliteCode(error);
    if (needsCheck || (code !== sqliteCodes.full && code !== sqliteCodes.ioError)) throw error;
  } finally {
    db.close();
  }
}

/** Errors of SQLite as a sentence with a remedy, others unchanged. */
export function toStoreFileRefused(path: string, error: unknown): unknown {
  if (error instanceof StoreFileRefused) return error;
  const code = sqliteCode(error);
  if (code === null) return error;
  const reason = error instanceof Error ? error.message : String(error);
  if (code === sqliteCodes.busy || code === sqliteCodes.locked)
    return new StoreFileRefused('in_use', `${path} is open in another process`, { cause: error });
  if (code === sqliteCodes.readOnly || code === sqliteCodes.cannotOpen)
    return new StoreFileRefused('unwritable', `${path} is not writable (${reason})`, { cause: error });
  if (code === sqliteCodes.full)
    return new StoreFileRefused('unwritable', `${path} cannot be opened: its disk is full; free some space`, {
      cause: error,
    });
  if (isDamage(error)) return new StoreFileRefused('damaged', damagedText(path, reason), { cause: error });
  return error;
}

/** `reason`: the words of SQLite. */
export function damagedText(path: string, reason: string): string {
  // Up to 100 lines below a heading; the first is enough.
  const found = reason.replace(/^\*.*\n/, '').split('\n', 1)[0];
  return `${path} is damaged (${found}) and stays unchanged: restore a backup while dq is stopped (manual: A damaged store)`;
}

function sizeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.size ?? null;
}

// The note jobs.db.boot: the boot id under which jobs.db was last opened and not closed, with its device and
// inode.
// Invariant: a note of this boot stands only beside a file without a failed write. Without a note of this
// boot, dq checks an unclosed file. A file with a note but without its WAL is incomplete: the note is written
// after the WAL exists and removed before the WAL is.
// Reason: after a mere process death the kernel still has every written byte and SQLite replays the WAL;
// checking 5 million jobs takes longer than callers wait. After a power cut or a disk failure the content is
// uncertain. Device and inode: parts of a copy made while the file was open may be of several moments.

const notePath = (path: string) => `${path}.boot`;

/** Whether the file was opened in this boot, and its owner has merely died. */
function wasOpenInThisBoot(path: string): boolean {
  const boot = bootId();
  return boot !== null && readText(notePath(path)) === `${boot}\n${idOf(path)}`;
}

/** Call as the holder of the file, before the first write. */
function noteBoot(path: string): void {
  const boot = bootId();
  if (boot === null || wasOpenInThisBoot(path)) return;
  try {
    writeFileSync(notePath(path), `${boot}\n${idOf(path)}\n`, { mode: 0o600 });
  } catch {
    // A full disk: without a note the next start checks the file.
  }
}

/** The file was closed, or is no longer trusted. */
function forgetBoot(path: string): void {
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
