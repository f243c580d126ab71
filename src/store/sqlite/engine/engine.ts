// Runs the embedded store as a synchronous machine over one file: transactions, and each operation of the
// port as a plain function. Owns the open file; knows neither sockets nor groups (group.ts builds
// transactions).
// Invariant: outside a transaction the counters in memory equal the file.

import type { Moment, VersionedKey } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import type {
  BuryItem,
  EditItem,
  EndingLease,
  ExtendItem,
  PushJob,
  RescheduleItem,
  RetryItem,
} from '../../../ports/job-store.ts';
import { leavingFailure, type StoreFailure } from '../../../ports/store-error.ts';
import { type Database, sqliteCode } from '../../../runtime/database.ts';
import { monotonicNow, wallNow } from '../../../runtime/time.ts';
import { storeLimits } from '../../limits.ts';
import { DiskReserve, diskReserveBytesFor } from '../file/disk-reserve.ts';
import { partitionName, reserved } from '../file/schema.ts';
import {
  closeStoreFile,
  type OpenedStoreFile,
  openStoreFile,
  requireFileCheck,
  StoreFileRefused,
  toStoreFileRefused,
} from '../file/store-file.ts';
import { WalSpace } from '../file/wal-space.ts';
import { sqliteLimits } from '../limits.ts';
import { Alerts } from './alerts.ts';
import { ClockWatch } from './clock-watch.ts';
import { DeadPages } from './dead-pages.ts';
import { type AckedLease, ackJob, buryJob, extendJob, releaseJob, retryJob } from './finish.ts';
import { History } from './history.ts';
import { JobCounts } from './job-counts.ts';
import { JobRows } from './job-rows.ts';
import { Leaving } from './leaving.ts';
import { Moves } from './moves.ts';
import { editJob, requeueJob, rescheduleJob, runJob } from './operator-moves.ts';
import { cancelJob, pushJob } from './push.ts';
import { Recovery } from './recovery.ts';
import { Search } from './search.ts';
import { Snapshots } from './snapshots.ts';
import { Survey } from './survey.ts';
import { type Savepoint, TopicCounters } from './topic-counters.ts';
import type { TransactionContext } from './transaction-context.ts';

/** `full`: on disk when committed. `normal`: survives the death of all processes; a power cut may undo it. */
type Durability = 'full' | 'normal';

export interface Hints {
  readonly ready: boolean;
  readonly due: boolean;
}

export interface EngineOptions {
  /** the storage clock, epoch ms */
  readonly clock?: () => number;
  /** false: ended jobs leave no history entry */
  readonly keepHistory?: boolean;
  /** Redis is in force: nothing is delivered from this file, no id is new in it, and only reserved jobs
   *  change. */
  readonly isLeaving?: boolean;
  /** storeLimits.recoverHoldMs; tests pass less */
  readonly recoverHoldMs?: number;
  /** sqliteLimits.clockHoldMs; tests pass less */
  readonly clockHoldMs?: number;
  /** ms; the smallest configured retention; default one hour, the smallest dead.retention */
  readonly shortestRetentionMs?: number;
  /** default monotonicNow() */
  readonly monotonic?: () => number;
  /** receives one sentence for the log per damaged row that the store works around */
  readonly onDamage?: (what: string) => void;
  /** where the database is not on a disk; default: the space of the disk of the file */
  readonly space?: EngineSpace | undefined;
  /** size of the disk reserve, and of the WAL; default diskReserveBytesFor; tests pass less */
  readonly diskReserveBytes?: number;
}

/** The space that the file may use. */
export interface EngineSpace {
  readonly wal: Pick<WalSpace, 'allocate' | 'checkpoint' | 'freeze' | 'close'>;
  readonly reserve: Pick<DiskReserve, 'missing' | 'fits' | 'add' | 'free'>;
}

export class Engine {
  readonly #tx: TransactionContext & { now: number; isDiskFull: boolean };
  readonly #walSpace: EngineSpace['wal'];
  readonly #diskReserve: EngineSpace['reserve'];
  readonly #keepsHistory: boolean;
  readonly #clock: () => number;
  readonly #clockWatch: ClockWatch;
  #durability: Durability = 'full';
  #savepoint: Savepoint | null = null;
  /** how the file was found */
  readonly found: Omit<OpenedStoreFile, 'db'>;
  readonly moves: Moves;
  readonly recovery: Recovery;
  readonly snapshots: Snapshots;
  readonly dead: DeadPages;
  readonly alerts: Alerts;
  readonly history: History;
  readonly search: Search;
  readonly jobCounts: JobCounts;
  readonly survey: Survey;
  readonly leaving: Leaving;
  readonly isLeaving: boolean;

  constructor(path: string, { db, ...found }: OpenedStoreFile, options: EngineOptions) {
    const {
      clock = wallNow,
      monotonic = () => monotonicNow(),
      keepHistory = true,
      isLeaving = false,
      recoverHoldMs = storeLimits.recoverHoldMs,
      clockHoldMs: holdMs = sqliteLimits.clockHoldMs,
      shortestRetentionMs = 3_600_000,
      onDamage = () => {},
      diskReserveBytes = diskReserveBytesFor(path),
    } = options;
    const counters = new TopicCounters(db, monotonic);
    counters.skipLostNumbers(clock());
    this.#clock = clock;
    this.#clockWatch = new ClockWatch(db, { clock, monotonic, holdMs, shortestRetentionMs });
    this.#keepsHistory = keepHistory;
    this.isLeaving = isLeaving;
    const rows = new JobRows(db, counters);
    this.#tx = { db, counters, rows, now: clock(), isDiskFull: false, onDamage };
    this.#setDiskFull(false);
    const { wal, reserve } = options.space ?? {
      wal: new WalSpace(db, path, diskReserveBytes),
      reserve: new DiskReserve(db, path, diskReserveBytes),
    };
    this.#walSpace = wal;
    this.#diskReserve = reserve;
    this.found = found;
    this.moves = new Moves(this.#tx);
    this.recovery = new Recovery(this.#tx, recoverHoldMs, monotonic);
    this.snapshots = new Snapshots(this.#tx);
    this.dead = new DeadPages(this.#tx, this.snapshots);
    this.alerts = new Alerts(this.#tx);
    this.history = new History(this.#tx);
    this.search = new Search(this.#tx);
    this.jobCounts = new JobCounts(this.#tx);
    this.survey = new Survey(this.#tx);
    this.leaving = new Leaving(this.#tx, this.snapshots);
    const { move, jobs } = this.leaving.state();
    if (move !== null && !this.isLeaving)
      throw new StoreFileRefused(
        'moving',
        `a move of ${path} to Redis is open, ${jobs} jobs left; start with redis until it has ended`,
      );
  }

  /** For reads outside the port (backup, tests): only between transactions, never for writes. */
  get db(): Database {
    return this.#tx.db;
  }

  // Disk space

  /** The disk reserve is not whole: optional rows are skipped, and the owner must reject pushes. */
  get isDiskFull(): boolean {
    return this.#tx.isDiskFull;
  }

  /** Frees the disk reserve for finishing writes. Throws what a transaction throws. */
  freeDiskReserve(): void {
    this.#setDiskFull(true);
    this.#inTransaction(() => this.#diskReserve.free());
  }

  /** Restores the disk reserve if there is space; returns whether it is whole. Throws what a transaction
   *  throws. */
  restoreDiskReserve(): boolean {
    if (this.#diskReserve.missing > 0 && !this.#diskReserve.fits()) this.#forgetHistory();
    if (this.#diskReserve.missing > 0 && this.#diskReserve.fits()) {
      while (this.#diskReserve.missing > 0) this.#inTransaction(() => this.#diskReserve.add());
      // Its pages, which dq never reads, would stay in the page cache: 16 MiB.
      this.#tx.db.exec('PRAGMA shrink_memory');
    }
    this.#setDiskFull(this.#diskReserve.missing > 0);
    return !this.isDiskFull;
  }

  /** Checkpoints the WAL and stops further checkpoints until the returned function is called. Until then the
   *  file stays one consistent state for readers without locks. Only between transactions. */
  freeze(): () => void {
    const release = this.#walSpace.freeze();
    this.leaving.isFrozen = true;
    return () => {
      this.leaving.isFrozen = false;
      release();
    };
  }

  #setDiskFull(isDiskFull: boolean): void {
    this.#tx.isDiskFull = isDiskFull;
    // The entry of a job of a schedule is its row, whose body and lease leave the file.
    this.#tx.rows.keepsHistory = this.#keepsHistory && !isDiskFull;
  }

  /** History entries are removed before waiting jobs are rejected. */
  #forgetHistory(): void {
    let more = true;
    for (let n = 0; more && n < sqliteLimits.diskFullForgetSteps; n += 1)
      this.#inTransaction(() => {
        const ticksSince = this.#removableBefore(limits.tickHistoryMs) ?? Number.NEGATIVE_INFINITY;
        more = this.history.forgetEarly(ticksSince, sqliteLimits.diskFullStepMax);
      });
  }

  #inTransaction(write: () => void): void {
    this.begin('normal');
    try {
      write();
      this.commit();
    } catch (error) {
      this.rollback();
      throw error;
    }
  }

  // Operations on one job

  push = (job: PushJob) => this.#changed(job, pushJob);
  cancel = (key: VersionedKey) => this.#changed(key, (tx) => cancelJob(tx, key, 'cancelled'));
  finishById = (key: VersionedKey) => this.#changed(key, (tx) => cancelJob(tx, key, 'done'));
  run = (key: VersionedKey) => this.#changed(key, runJob);
  reschedule = (item: RescheduleItem) => this.#changed(item, rescheduleJob);
  requeue = (key: VersionedKey) => this.#changed(key, requeueJob);
  edit = (item: EditItem) => this.#changed(item, editJob);
  ack = (item: AckedLease) => ackJob(this.#tx, item);
  retry = (item: RetryItem) => retryJob(this.#tx, item);
  bury = (item: BuryItem) => buryJob(this.#tx, item);
  release = (lease: EndingLease) => releaseJob(this.#tx, lease);
  extend = (item: ExtendItem) => extendJob(this.#tx, item);

  /** Of a file that is left, a job that is not reserved may be in Redis already: its caller reads again. */
  #changed<I extends VersionedKey, O>(
    item: I,
    change: (tx: TransactionContext, item: I) => O,
  ): O | StoreFailure {
    if (this.isLeaving && this.#tx.rows.find(item.topic, item.id)?.state !== reserved) return leavingFailure;
    return change(this.#tx, item);
  }

  // Expiry and clock

  expire(olderThanMs: number, max: number) {
    const before = this.#removableBefore(olderThanMs);
    return before === null ? { expired: 0, more: false } : this.dead.expireBefore(before, max);
  }

  forget(olderThanMs: number, max: number) {
    const before = this.#removableBefore(olderThanMs);
    return before === null ? { forgotten: 0, more: false } : this.history.forgetBefore(before, max);
  }

  /** null: nothing may be removed now */
  #removableBefore(olderThanMs: number): number | null {
    const { now, isDiskFull } = this.#tx;
    if (!this.#clockWatch.mayRemove(now, !isDiskFull)) return null;
    return now - Math.max(0, olderThanMs);
  }

  get clockHold(): string | null {
    return this.#clockWatch.hold;
  }

  get clockWarning(): string | null {
    return this.#clockWatch.warning;
  }

  /** Reads the storage clock for the next operation. begin() reads it for a transaction. */
  readClock(): number {
    this.#tx.now = this.#clock();
    return this.#tx.now;
  }

  moment(): Moment {
    return { [partitionName]: this.#tx.counters.nextNumber(this.#tx.now) };
  }

  /** Ms until the earliest delayed job is due; null: no delayed job. */
  waitMs(): number | null {
    const head = this.#tx.counters.head();
    return head === null ? null : Math.max(0, head - this.#clock());
  }

  // Transactions

  begin(wanted: Durability): void {
    const { db, counters } = this.#tx;
    const durability = counters.mustSync ? 'full' : wanted;
    if (durability !== this.#durability) {
      db.exec(`PRAGMA synchronous = ${durability}`);
      this.#durability = durability;
    }
    db.exec('BEGIN IMMEDIATE');
    this.#savepoint = counters.savepoint();
    this.readClock();
    this.recovery.watchClock();
    this.#clockWatch.watch(this.#tx.now);
  }

  /** Commits everything since begin(). Throws what COMMIT throws, and NoDiskSpace; then the caller ends the
   *  transaction with rollback() or ends the process. */
  commit(): Hints {
    const { db, counters } = this.#tx;
    counters.flush();
    this.#walSpace.allocate();
    db.exec('COMMIT');
    this.#savepoint = null;
    this.recovery.keepClock();
    this.#clockWatch.keep();
    const hints = counters.commit();
    if (this.#tx.isDiskFull) this.#checkpoint();
    return hints;
  }

  /** Keeps the WAL from growing. */
  #checkpoint(): void {
    try {
      this.#walSpace.checkpoint();
    } catch (error) {
      // The next transaction meets the same failure; the commit stays valid.
      if (sqliteCode(error) === null) throw error;
    }
  }

  rollback(): void {
    const { db, counters, rows } = this.#tx;
    // SQLite rolls back by itself after some errors.
    if (db.isTransaction) db.exec('ROLLBACK');
    rows.forgetLeases();
    this.jobCounts.forgetWalked();
    if (this.#savepoint !== null) counters.rollBack(this.#savepoint);
    this.#savepoint = null;
  }

  /** Runs one step in a savepoint: a failure undoes only this step and is thrown. */
  inSavepoint<T>(step: () => T): T {
    const { db, counters, rows } = this.#tx;
    const savepoint = counters.savepoint();
    db.exec('SAVEPOINT step');
    try {
      const result = step();
      db.exec('RELEASE step');
      return result;
    } catch (error) {
      // Already gone when SQLite rolled back the whole transaction: then the caller must roll back too.
      if (db.isTransaction) db.exec('ROLLBACK TO step; RELEASE step');
      rows.forgetLeases();
      this.jobCounts.forgetWalked();
      counters.rollBackTo(savepoint);
      throw error;
    }
  }

  /** of the last transaction */
  get durability(): Durability {
    return this.#durability;
  }

  get inTransaction(): boolean {
    return this.#tx.db.isTransaction;
  }

  /** After a failed write: the next open checks the whole file. The process must end. */
  requireCheck(): void {
    requireFileCheck(this.#tx.db);
  }

  close(): void {
    try {
      closeStoreFile(this.#tx.db);
    } finally {
      this.#walSpace.close();
    }
  }
}

/** Opens or creates the file. Throws StoreFileRefused. */
export function openEngine(path: string, options: EngineOptions = {}): Engine {
  const opened = openStoreFile(path);
  try {
    return new Engine(path, opened, options);
  } catch (error) {
    try {
      closeStoreFile(opened.db);
    } catch {
      // Of a damaged file: its WAL stays. The first error names the cause.
    }
    throw toStoreFileRefused(path, error);
  }
}
