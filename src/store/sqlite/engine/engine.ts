// The embedded store as a synchronous machine over one file: transactions, and every operation of the port as a plain
// function. Owns the file while it is open. Knows no socket and no group: group.ts decides what runs in which transaction.
// Invariant: outside a transaction the ledger says what the file says.

import type { JobKey, Lease } from '../../../core/job.ts';
import type { BuryItem, PushJob, RescheduleItem, RetryItem } from '../../../ports/job-store.ts';
import { type Database, sqliteCode } from '../../../runtime/database.ts';
import { storeLimits } from '../../limits.ts';
import { reserveBytesFor, StoreReserve } from '../file/disk-reserve.ts';
import { closeStoreFile, doubtStoreFile, type OpenedStoreFile, openStoreFile } from '../file/store-file.ts';
import { WalSpace } from '../file/wal-space.ts';
import { sqliteLimits } from '../limits.ts';
import { Alerts } from './alerts.ts';
import { ClockWatch } from './clock-watch.ts';
import { DeadPages } from './dead-pages.ts';
import { type AckedLease, ackJob, buryJob, releaseJob, retryJob } from './finish.ts';
import { History } from './history.ts';
import { JobCounts } from './job-counts.ts';
import { JobRows } from './job-rows.ts';
import { Moves } from './moves.ts';
import { requeueJob, rescheduleJob, runJob } from './operator-moves.ts';
import { cancelJob, pushJob } from './push.ts';
import { Recovery } from './recovery.ts';
import { Search } from './search.ts';
import { Snapshots } from './snapshots.ts';
import { type Mark, TopicCounters } from './topic-counters.ts';
import type { TransactionContext } from './transaction-context.ts';

/** `full`: on the disk when committed. `normal`: survives the death of every process; a power cut may undo it. */
export type Durability = 'full' | 'normal';

export interface Hints {
  readonly ready: boolean;
  readonly due: boolean;
}

export interface EngineOptions {
  /** the storage clock, epoch ms */
  readonly clock?: () => number;
  /** false: what ends leaves nothing */
  readonly keepHistory?: boolean;
  /** storeLimits.recoverHoldMs, unless a test has less time */
  readonly recoverHoldMs?: number;
  /** sqliteLimits.clockHoldMs, unless a test has less time */
  readonly clockHoldMs?: number;
  /** ms; the smallest of the configured retentions; an hour, the smallest dead.retention, where it is not given */
  readonly shortestRetentionMs?: number;
  /** performance.now, unless a test has a clock of its own */
  readonly monotonic?: () => number;
  /** told of a damage that was found and costs itself alone: a sentence for the log */
  readonly onDamage?: (what: string) => void;
}

export class Engine {
  readonly #bench: TransactionContext & { now: number; isTight: boolean };
  readonly #log: WalSpace;
  readonly #reserve: StoreReserve;
  readonly #keepsHistory: boolean;
  readonly #clock: () => number;
  readonly #clockWatch: ClockWatch;
  #durability: Durability = 'full';
  #mark: Mark | null = null;
  /** how the file was found */
  readonly found: Omit<OpenedStoreFile, 'db'>;
  readonly moves: Moves;
  readonly recovery: Recovery;
  readonly snapshots: Snapshots;
  readonly dead: DeadPages;
  readonly alerts: Alerts;
  readonly history: History;
  readonly search: Search;
  readonly census: JobCounts;

  constructor(path: string, { db, ...found }: OpenedStoreFile, options: Required<EngineOptions>) {
    const reserveBytes = reserveBytesFor(path);
    const ledger = new TopicCounters(db);
    this.#clock = options.clock;
    const { clock, monotonic, clockHoldMs: holdMs, shortestRetentionMs } = options;
    this.#clockWatch = new ClockWatch(db, { clock, monotonic, holdMs, shortestRetentionMs });
    this.#keepsHistory = options.keepHistory;
    const { onDamage } = options;
    this.#bench = {
      db,
      ledger,
      rows: new JobRows(db, ledger),
      now: options.clock(),
      isTight: false,
      onDamage,
    };
    this.#setTight(false);
    this.#log = new WalSpace(db, path, reserveBytes);
    this.#reserve = new StoreReserve(db, path, reserveBytes);
    this.found = found;
    this.moves = new Moves(this.#bench);
    this.recovery = new Recovery(this.#bench, options.recoverHoldMs, monotonic);
    this.snapshots = new Snapshots(this.#bench);
    this.dead = new DeadPages(this.#bench, this.snapshots);
    this.alerts = new Alerts(this.#bench);
    this.history = new History(this.#bench);
    this.search = new Search(this.#bench);
    this.census = new JobCounts(this.#bench);
  }

  /** For reads beside the port (a backup, a test); never for writes, and only between transactions. */
  get db(): Database {
    return this.#bench.db;
  }

  // TopicCapacity

  /** The reserve is not whole: nothing is written that is not needed to go on, and pushes must not be. */
  get isTight(): boolean {
    return this.#bench.isTight;
  }

  /** Sets the reserve free for what has to be written. Throws what a transaction throws. */
  freeReserve(): void {
    this.#setTight(true);
    this.#alone(() => this.#reserve.setFree());
  }

  /** Makes the reserve whole again if there is room; answers whether it is. Throws what a transaction throws. */
  mendReserve(): boolean {
    if (this.#reserve.missing > 0 && !this.#reserve.fits()) this.#forgetForRoom();
    if (this.#reserve.missing > 0 && this.#reserve.fits())
      while (this.#reserve.missing > 0) this.#alone(() => this.#reserve.add());
    this.#setTight(this.#reserve.missing > 0);
    return !this.isTight;
  }

  /** Carries the log into the file, and no more of it until the answer is called: meanwhile the file stays as it is now, one
   *  consistent state, for whoever reads it without asking for locks. Between transactions only. */
  hold(): () => void {
    return this.#log.hold();
  }

  #setTight(isTight: boolean): void {
    this.#bench.isTight = isTight;
    this.#bench.rows.keepsHistory = this.#keepsHistory && !isTight;
  }

  /** Jobs that wait go before the memory of those that have ended. */
  #forgetForRoom(): void {
    let more = true;
    for (let n = 0; more && n < sqliteLimits.tightForgetSteps; n += 1)
      this.#alone(() => {
        more = this.history.forgetBefore(Number.MAX_SAFE_INTEGER, sqliteLimits.tightStepMax).more;
      });
  }

  #alone(write: () => void): void {
    this.begin('normal');
    try {
      write();
      this.commit();
    } catch (error) {
      this.rollback();
      throw error;
    }
  }

  // One job each

  push = (job: PushJob) => pushJob(this.#bench, job);
  cancel = (key: JobKey) => cancelJob(this.#bench, key);
  run = (key: JobKey) => runJob(this.#bench, key);
  reschedule = (item: RescheduleItem) => rescheduleJob(this.#bench, item);
  requeue = (key: JobKey) => requeueJob(this.#bench, key);
  ack = (item: AckedLease) => ackJob(this.#bench, item);
  retry = (item: RetryItem) => retryJob(this.#bench, item);
  bury = (item: BuryItem) => buryJob(this.#bench, item);
  release = (lease: Lease) => releaseJob(this.#bench, lease);

  // Time

  /** `olderThanMs`: undefined in a call of an earlier version, which sent a moment of its own clock. */
  expire(olderThanMs: number | undefined, max: number) {
    const before = this.#removableBefore(olderThanMs);
    return before === null ? { expired: 0, more: false } : this.dead.expireBefore(before, max);
  }

  forget(olderThanMs: number | undefined, max: number) {
    const before = this.#removableBefore(olderThanMs);
    return before === null ? { forgotten: 0, more: false } : this.history.forgetBefore(before, max);
  }

  /** null: nothing may be removed now */
  #removableBefore(olderThanMs: number | undefined): number | null {
    const { now, isTight } = this.#bench;
    if (olderThanMs === undefined || !this.#clockWatch.mayRemove(now, !isTight)) return null;
    return now - Math.max(0, olderThanMs);
  }

  get clockHold(): string | null {
    return this.#clockWatch.hold;
  }

  get clockWarning(): string | null {
    return this.#clockWatch.warning;
  }

  /** Reads the storage clock for what runs next. begin() does it for a transaction. */
  look(): number {
    this.#bench.now = this.#clock();
    return this.#bench.now;
  }

  /** Ms until the earliest delayed job is due, now; null = none is delayed. */
  waitMs(): number | null {
    const head = this.#bench.ledger.head();
    return head === null ? null : Math.max(0, head - this.#clock());
  }

  // Transactions

  begin(durability: Durability): void {
    const { db, ledger } = this.#bench;
    if (durability !== this.#durability) {
      db.exec(`PRAGMA synchronous = ${durability}`);
      this.#durability = durability;
    }
    db.exec('BEGIN IMMEDIATE');
    this.#mark = ledger.mark();
    this.look();
  }

  /** Makes everything since begin() last. Throws what COMMIT throws, and NoRoom; the caller then ends the transaction with
   *  rollback() or the process. */
  commit(): Hints {
    const { db, ledger } = this.#bench;
    ledger.flush();
    this.#log.allocate();
    db.exec('COMMIT');
    this.#mark = null;
    const hints = ledger.keep();
    if (this.#bench.isTight) this.#carryOver();
    return hints;
  }

  /** The log may not become longer than it is. */
  #carryOver(): void {
    try {
      this.#log.carryOver();
    } catch (error) {
      // Whatever it is, the next transaction meets it where it matters; what was committed stays so.
      if (sqliteCode(error) === null) throw error;
    }
  }

  rollback(): void {
    const { db, ledger } = this.#bench;
    // SQLite rolls back by itself after some errors.
    if (db.isTransaction) db.exec('ROLLBACK');
    if (this.#mark !== null) ledger.drop(this.#mark);
    this.#mark = null;
  }

  /** Runs one step so that its failure undoes this step alone. The failure is thrown. */
  apart<T>(step: () => T): T {
    const { db, ledger } = this.#bench;
    const mark = ledger.mark();
    db.exec('SAVEPOINT step');
    try {
      const result = step();
      db.exec('RELEASE step');
      return result;
    } catch (error) {
      // Gone when SQLite has rolled everything back: then so must the caller.
      if (db.isTransaction) db.exec('ROLLBACK TO step; RELEASE step');
      ledger.takeBack(mark);
      throw error;
    }
  }

  get inTransaction(): boolean {
    return this.#bench.db.isTransaction;
  }

  /** A write has failed: whoever opens the file next reads all of it. The process must end. */
  doubt(): void {
    doubtStoreFile(this.#bench.db);
  }

  close(): void {
    try {
      closeStoreFile(this.#bench.db);
    } finally {
      this.#log.close();
    }
  }
}

/** Opens or makes the file. Throws StoreFileRefused. */
export function openEngine(path: string, options: EngineOptions = {}): Engine {
  const opened = openStoreFile(path);
  const {
    clock = Date.now,
    keepHistory = true,
    recoverHoldMs = storeLimits.recoverHoldMs,
    clockHoldMs = sqliteLimits.clockHoldMs,
    shortestRetentionMs = 3_600_000,
    monotonic = () => performance.now(),
    onDamage = () => {},
  } = options;
  try {
    return new Engine(path, opened, {
      ...{ clock, monotonic, keepHistory, recoverHoldMs, clockHoldMs, shortestRetentionMs, onDamage },
    });
  } catch (error) {
    closeStoreFile(opened.db);
    throw error;
  }
}
