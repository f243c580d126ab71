// The embedded store as a synchronous machine over one file: transactions, and every operation of the port as a plain
// function. Owns the file while it is open. Knows no socket and no group: group.ts decides what runs in which transaction.
// Invariant: outside a transaction the ledger says what the file says.

import type { JobKey, Lease } from '../../core/job.ts';
import type { Database } from '../../sql/database.ts';
import type { BuryItem, PushJob, RescheduleItem, RetryItem } from '../job-store.ts';
import { Alerts } from './alerts.ts';
import type { Bench } from './bench.ts';
import { Census } from './census.ts';
import { DeadPages } from './dead-pages.ts';
import { type AckedLease, ackJob, buryJob, releaseJob, retryJob } from './finish.ts';
import { History } from './history.ts';
import { JobRows } from './job-rows.ts';
import { Ledger, type Mark } from './ledger.ts';
import { Moves } from './moves.ts';
import { cancelJob, pushJob } from './push.ts';
import { Recovery } from './recovery.ts';
import { requeueJob, rescheduleJob, runJob } from './reversion.ts';
import { Search } from './search.ts';
import { Snapshots } from './snapshots.ts';
import { closeStoreFile, doubtStoreFile, type OpenedStoreFile, openStoreFile } from './store-file.ts';

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
}

export class Engine {
  readonly #bench: Bench & { now: number };
  readonly #clock: () => number;
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
  readonly census: Census;

  constructor({ db, ...found }: OpenedStoreFile, options: Required<EngineOptions>) {
    const ledger = new Ledger(db);
    this.#clock = options.clock;
    this.#bench = { db, ledger, rows: new JobRows(db, ledger, options.keepHistory), now: options.clock() };
    this.found = found;
    this.moves = new Moves(this.#bench);
    this.recovery = new Recovery(this.#bench);
    this.snapshots = new Snapshots(this.#bench);
    this.dead = new DeadPages(this.#bench, this.snapshots);
    this.alerts = new Alerts(this.#bench);
    this.history = new History(this.#bench);
    this.search = new Search(this.#bench);
    this.census = new Census(this.#bench);
  }

  /** For reads beside the port (a backup, a test); never for writes, and only between transactions. */
  get db(): Database {
    return this.#bench.db;
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

  /** Makes everything since begin() last. Throws what COMMIT throws; the caller then ends the transaction with rollback()
   *  or the process. */
  commit(): Hints {
    const { db, ledger } = this.#bench;
    ledger.flush();
    db.exec('COMMIT');
    this.#mark = null;
    return ledger.keep();
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
    closeStoreFile(this.#bench.db);
  }
}

/** Opens or makes the file. Throws StoreFileRefused. */
export function openEngine(path: string, options: EngineOptions = {}): Engine {
  const opened = openStoreFile(path);
  const { clock = Date.now, keepHistory = true } = options;
  try {
    return new Engine(opened, { clock, keepHistory });
  } catch (error) {
    closeStoreFile(opened.db);
    throw error;
  }
}
