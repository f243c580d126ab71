// Holds the data directory for the master: locks it, makes run/, kills leftovers of a dead master, reads the
// instance identity. Invariant: only the holder of the lock changes or removes files below it.

import { createHash } from 'node:crypto';
import { accessSync, chmodSync, constants, existsSync, lstatSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { messageOf } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { version } from '../../core/version.ts';
import { openDatabase, sqliteCode, sqliteCodes } from '../../runtime/database.ts';
import { makeDirectory, writeWhole } from '../../runtime/files.ts';
import { StartRejected } from '../../runtime/service.ts';
import { sleep, wallNow } from '../../runtime/time.ts';
import { masterLimits } from '../limits.ts';
import { identityOf, isAlive } from '../workers/process-table.ts';
import { WorkerRecord } from '../workers/worker-record.ts';
import { type InstanceIdentity, identityPath, readInstanceIdentity } from './instance-identity.ts';
import {
  type RunRecord,
  readMasterRecord,
  readRunRecord,
  removeRecords,
  runDirOf,
  writeMasterRecord,
  writeRunRecord,
} from './run-record.ts';

export class DataDirectory {
  readonly path: string;
  /** of dq-store, and of the control socket */
  readonly storeSocket: string;
  readonly controlSocket: string;
  readonly startedAt = wallNow();
  /** Called when a record cannot be written (a full disk). The daemon continues: the
   *  next change writes it again, and a start that reads the older record draws
   *  incarnations by the clock and kills the leftovers in it. */
  onUnwritten: (error: unknown) => void = () => {};
  readonly #workers: WorkerRecord;
  #leftovers: readonly string[] = [];
  readonly #lock: DirectoryLock;
  #identity: InstanceIdentity;
  /** one sentence if this start drew a new identity for the directory; null = it did not */
  readonly identityChanged: string | null;
  #closed = false;

  /** Rejects with StartRejected. `isShared`: other instances may use the same store. */
  static async open(path: string, isShared = false): Promise<DataDirectory> {
    const runDir = runDirOf(path);
    const unusable = (error: unknown) =>
      new StartRejected(`the data directory ${path} cannot be used: ${messageOf(error)}`, { cause: error });
    let lock: DirectoryLock;
    try {
      // Before mkdir, which reports "no such file" on a read-only file system.
      if (existsSync(path)) {
        if (!statSync(path).isDirectory()) throw new Error('it is not a directory');
        accessSync(path, constants.W_OK | constants.X_OK);
      }
      makeDirectory(runDir, 0o700);
      chmodSync(runDir, 0o700);
      lock = await lockOf(path);
    } catch (error) {
      throw error instanceof StartRejected ? error : unusable(error);
    }
    let data: DataDirectory | null = null;
    try {
      data = new DataDirectory(path, isShared, lock, new WorkerRecord(runDir));
      data.#leftovers = await data.#workers.endLeftovers();
      return data;
    } catch (error) {
      if (data === null) lock.release();
      else data.close();
      throw unusable(error);
    }
  }

  private constructor(path: string, isShared: boolean, lock: DirectoryLock, workers: WorkerRecord) {
    this.path = path;
    this.#lock = lock;
    this.#workers = workers;
    const { identity, changed } = readInstanceIdentity(path, isShared);
    this.#identity = identity;
    this.identityChanged = changed;
    const sockets = makeSocketDir(runDirOf(path));
    this.storeSocket = join(sockets, 'store.sock');
    this.controlSocket = join(sockets, 'control.sock');
    // Records of an earlier master are obsolete. The new one names the process that holds the
    // lock.
    removeRecords(path);
    writeMasterRecord(path, {
      pid: process.pid,
      startedAt: this.startedAt,
      controlSocket: this.controlSocket,
    });
  }

  /** titles of the workers of an earlier master that were killed */
  get leftovers(): readonly string[] {
    return this.#leftovers;
  }

  get instance(): number {
    return this.#identity.instance;
  }

  /** Rises over restarts of the master. Given twice only if its record could not be written, and the clock
   *  was set back before the next start. */
  nextIncarnation(): number {
    const incarnation = Math.max(this.#identity.incarnation + 1, wallNow());
    const identity = { ...this.#identity, incarnation };
    this.#identity = identity;
    this.#record(() => writeWhole(identityPath(this.path), `${JSON.stringify(identity)}\n`));
    return incarnation;
  }

  forked(pid: number, title: string): void {
    this.#record(() => this.#workers.addWorker(pid, title));
  }

  exited(pid: number): void {
    this.#record(() => this.#workers.removeWorker(pid));
  }

  announce(facts: Pick<RunRecord, 'url' | 'file' | 'console' | 'compat' | 'adminToken'>): void {
    const record: RunRecord = { pid: process.pid, startedAt: this.startedAt, version, ...facts };
    this.#record(() => writeRunRecord(this.path, record));
  }

  #record(write: () => void): void {
    try {
      write();
    } catch (error) {
      this.onUnwritten(error);
    }
  }

  /** Called last. Removes the records first, so that no process finds them beside a free lock. Acts once. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#record(() => removeRecords(this.path));
    this.#lock.release();
  }
}

/** Rejects with StartRejected, at once where a living master holds the lock. Other holders are a master that
 *  has not written its record yet, one that ends, and commands: their lock is awaited. This counts tries, not
 *  time: a pause of the machine stops the holder, too. */
async function lockOf(path: string): Promise<DirectoryLock> {
  for (let tries = 0; tries < masterLimits.lockTriesMax; tries += 1) {
    const lock = takeDirectoryLock(runDirOf(path));
    if (lock !== null) return lock;
    const holder = readMasterRecord(path);
    const identity = holder === null ? null : identityOf(holder.pid);
    if (holder !== null && identity !== null && isAlive(identity))
      throw new StartRejected(
        `already running on ${path} (pid ${holder.pid}, since ${new Date(holder.startedAt).toISOString()}${placeOf(path, holder.pid)}); end it with dq stop --data-dir ${path}, or start with another --data-dir and --port`,
      );
    // A try blocks the process; signals are handled in between.
    await sleep(1);
  }
  throw new StartRejected(
    `the data directory ${path} is locked by a dq that starts, or by a dq command; wait until it has ended, then try again`,
  );
}

/** `, URL` if it is ready; else ''. */
function placeOf(path: string, pid: number): string {
  const record = readRunRecord(path);
  return record?.pid === pid ? `, ${record.url}` : '';
}

const longestSocketName = '/control.sock';

/** Makes the directory of the Unix sockets: run/, or a short one if their paths would exceed the kernel's
 *  limit. libuv cuts longer paths silently, and two data directories could share one socket. Throws if the
 *  short one exists and belongs to another user. */
export function makeSocketDir(runDir: string): string {
  if (Buffer.byteLength(runDir + longestSocketName) <= limits.socketPathMax) return runDir;
  const name = createHash('sha256').update(runDir).digest('hex').slice(0, 12);
  const short = join(tmpdir(), `dq-${name}`);
  if (Buffer.byteLength(short + longestSocketName) > limits.socketPathMax)
    throw new Error(`the paths ${runDir} and ${short} are too long for a Unix socket`);
  makeDirectory(short, 0o700);
  // Any user may create it in the temporary directory first, and could then listen in our place.
  const found = lstatSync(short);
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & 0o077) !== 0)
    throw new Error(`${short} exists and is not a directory of this user alone`);
  return short;
}

/** Held by one master. The kernel releases the lock when the process ends; a pid file would be a guess. The
 *  lock is SQLite's, on an empty database, so that no second native module is needed. Invariant: this process
 *  opens the lock file once: POSIX drops a lock when any descriptor of the file is closed. */
export interface DirectoryLock {
  release(): void;
}

/** null = another process holds it. Throws if the file cannot be used. */
export function takeDirectoryLock(runDir: string): DirectoryLock | null {
  return takeLock(join(runDir, 'lock.db'));
}

/** `file`: of the lock alone; it stays, because its removal would let two processes in. */
export function takeLock(file: string): DirectoryLock | null {
  // With a wait: SQLite takes weaker locks before the exclusive one, and two starts at once would reject each
  // other.
  const db = openDatabase(file, { waitMs: masterLimits.lockWaitMs });
  try {
    db.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    db.close();
    if (sqliteCode(error) === sqliteCodes.busy) return null;
    throw error;
  }
  return {
    release() {
      // close() alone may leave the lock until a garbage collection.
      db.exec('ROLLBACK');
      db.close();
    },
  };
}
