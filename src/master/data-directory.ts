// The data directory as the master holds it: locked, its run/ folder made, leftovers of a dead master ended, the identity
// of this instance known. Nothing below it is touched before the lock is held, and nothing is unlinked but by its holder.

import { randomBytes } from 'node:crypto';
import { accessSync, chmodSync, constants, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { reasonOf } from '../core/errors.ts';
import { version } from '../core/version.ts';
import type { DirectoryLock } from './directory-lock.ts';
import { takeDirectoryLock } from './directory-lock.ts';
import type { RunRecord } from './run-record.ts';
import {
  readMasterRecord,
  removeRecords,
  runDirOf,
  writeMasterRecord,
  writeRunRecord,
  writeWhole,
} from './run-record.ts';
import { makeSocketDir } from './socket-directory.ts';
import { StartRefused } from './start-refused.ts';
import { WorkerRecord } from './worker-record.ts';

interface Identity {
  /** 32 random bits */
  readonly instance: number;
  /** the last that was given to a worker */
  readonly incarnation: number;
}

export class DataDirectory {
  readonly path: string;
  /** of dq-store, and of the control socket */
  readonly storeSocket: string;
  readonly controlSocket: string;
  readonly startedAt = Date.now();
  /** Told of a record that could not be written (a full disk). Nobody ends for that: it is right again with its next change, and
   *  a start that reads the older one draws incarnations by the clock and ends the leftovers that it names. */
  onUnwritten: (error: unknown) => void = () => {};
  readonly #workers: WorkerRecord;
  /** titles of processes of an earlier master that were still there */
  readonly leftovers: readonly string[];
  readonly #lock: DirectoryLock;
  #identity: Identity;
  #closed = false;

  /** Rejects with StartRefused. */
  static async open(path: string): Promise<DataDirectory> {
    const runDir = runDirOf(path);
    let lock: DirectoryLock | null;
    try {
      // Before mkdir: on a read-only file system that says "no such file".
      if (existsSync(path)) accessSync(path, constants.W_OK | constants.X_OK);
      mkdirSync(runDir, { recursive: true, mode: 0o700 });
      chmodSync(runDir, 0o700);
      lock = takeDirectoryLock(runDir);
    } catch (error) {
      throw new StartRefused(`the data directory ${path} cannot be used: ${reasonOf(error)}`, {
        cause: error,
      });
    }
    if (lock === null) throw new StartRefused(alreadyRunning(path));
    try {
      const workers = new WorkerRecord(runDir);
      const leftovers = await workers.endLeftovers();
      return new DataDirectory(path, lock, workers, leftovers);
    } catch (error) {
      lock.release();
      throw new StartRefused(`the data directory ${path} cannot be used: ${reasonOf(error)}`, {
        cause: error,
      });
    }
  }

  private constructor(
    path: string,
    lock: DirectoryLock,
    workers: WorkerRecord,
    leftovers: readonly string[],
  ) {
    this.path = path;
    this.#lock = lock;
    this.#workers = workers;
    this.leftovers = leftovers;
    this.#identity = readIdentity(path);
    const sockets = makeSocketDir(runDirOf(path));
    this.storeSocket = join(sockets, 'store.sock');
    this.controlSocket = join(sockets, 'control.sock');
    // What an earlier master left says nothing about this one.
    removeRecords(path);
    writeMasterRecord(path, {
      pid: process.pid,
      startedAt: this.startedAt,
      controlSocket: this.controlSocket,
    });
  }

  get instance(): number {
    return this.#identity.instance;
  }

  /** Never given twice, not after a restart of the master nor a clock that was set back. */
  nextIncarnation(): number {
    const incarnation = Math.max(this.#identity.incarnation + 1, Date.now());
    const identity = { instance: this.instance, incarnation };
    this.#identity = identity;
    this.#record(() => writeWhole(identityPath(this.path), `${JSON.stringify(identity)}\n`));
    return incarnation;
  }

  forked(pid: number, title: string): void {
    this.#record(() => this.#workers.add(pid, title));
  }

  exited(pid: number): void {
    this.#record(() => this.#workers.remove(pid));
  }

  announce(url: string, adminToken: string): void {
    const record: RunRecord = { pid: process.pid, startedAt: this.startedAt, url, adminToken, version };
    this.#record(() => writeRunRecord(this.path, record));
  }

  #record(write: () => void): void {
    try {
      write();
    } catch (error) {
      this.onUnwritten(error);
    }
  }

  /** The last act of the holder, once: records first, so that nobody finds them beside a free lock. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#record(() => removeRecords(this.path));
    this.#lock.release();
  }
}

function alreadyRunning(path: string): string {
  const holder = readMasterRecord(path);
  // It writes its record just after it has taken the lock.
  if (holder === null) return `already running on ${path}`;
  return `already running (pid ${holder.pid}, since ${new Date(holder.startedAt).toISOString()})`;
}

/** Beside run/, not in it: leases in the store belong to this instance, and run/ may be cleaned away. */
function identityPath(path: string): string {
  return join(path, 'instance.json');
}

function readIdentity(path: string): Identity {
  try {
    return JSON.parse(readFileSync(identityPath(path), 'utf8')) as Identity;
  } catch {
    // A first start, or a file damaged by a power cut: leases of the former identity end by their time.
    return { instance: randomBytes(4).readUInt32LE(), incarnation: 0 };
  }
}
