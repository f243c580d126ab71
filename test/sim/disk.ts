// The disk under the database of a world, which is in memory: full, slow, failing, and without the
// transactions that a power cut undoes.
// Invariant: a fault of the disk happens where it does on a real one: within a write or a COMMIT of SQLite.

import type { Dice } from '../../scripts/dice.ts';
import { type Database, pragma } from '../../src/runtime/database.ts';
import type { Engine, EngineSpace } from '../../src/store/sqlite/engine/engine.ts';
import { DiskFailed, NoDiskSpace } from '../../src/store/sqlite/file/wal-space.ts';
import type { Ledger } from './ledger.ts';
import type { Loop } from './loop.ts';
import type { Network } from './network.ts';

/** How a COMMIT fails: before its first byte; or with its frames on the disk, which SQLite does not know, or
 *  without them. */
export type CommitFailure = 'before' | 'applied' | 'lost';

export interface DiskOptions {
  readonly loop: Loop;
  readonly db: Database;
  readonly ledger: Ledger;
  readonly network: Network;
}

/** Everything that is stored at one moment, and what the ledger knows about it. */
export interface Copy {
  restore(): void;
}

const pagesMax = 1_073_741_823;
/** Pages that the disk reserve has. */
const reservePages = 40;

export class Disk {
  readonly space: EngineSpace;
  readonly #loop: Loop;
  readonly #db: Database;
  readonly #ledger: Ledger;
  readonly #network: Network;
  readonly #dice: Dice;
  readonly #exec: (sql: string) => void;
  readonly #tables: readonly string[];
  #isFull = false;
  #isReserveUsed = false;
  /** of the next COMMIT */
  #failure: CommitFailure | null = null;
  /** ms that each COMMIT takes, until this virtual ms */
  #slow = { ms: 0, until: 0 };
  /** A power cut undoes what follows it; null: everything is on the disk, or no power cut is planned. */
  #synced: Copy | null = null;
  #isWatched = false;
  /** The last COMMIT failed: the process must end. */
  hasFailed = false;
  /** Although it failed, its transaction is stored. */
  wasApplied = false;
  /** how often each fault changed something */
  readonly counts: Record<string, number> = {};

  constructor(options: DiskOptions) {
    const { loop, db, ledger, network } = options;
    this.#loop = loop;
    this.#network = network;
    this.#db = db;
    this.#ledger = ledger;
    this.#dice = loop.stream('disk');
    this.#exec = db.exec.bind(db);
    const run = (sql: string) => {
      if (sql === 'COMMIT') this.#commit();
      // Memory is never synced; follow() knows what is.
      else if (!sql.startsWith('PRAGMA synchronous')) this.#exec(sql);
    };
    Object.defineProperty(db, 'exec', { value: run });
    const names = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
    this.#tables = (names as { name: string }[]).map(({ name }) => name);
    const disk = this;
    this.space = {
      wal: { allocate: () => this.#allocate(), checkpoint() {}, freeze: () => () => {}, close() {} },
      reserve: {
        get missing() {
          return disk.#isReserveUsed ? 1 : 0;
        },
        fits: () => !this.#isFull,
        add: () => {
          this.#isReserveUsed = false;
        },
        free: () => this.#freeReserve(),
      },
    };
  }

  get isReserveUsed(): boolean {
    return this.#isReserveUsed;
  }

  /** A new process opens the file: a transaction that its owner did not end is gone. */
  opened(): void {
    if (this.#db.isTransaction) this.#exec('ROLLBACK');
    this.hasFailed = false;
  }

  follow(engine: Engine): void {
    const begin = engine.begin.bind(engine);
    const commit = engine.commit.bind(engine);
    engine.begin = (wanted) => {
      const before = this.#isWatched && wanted === 'normal' && this.#synced === null ? this.copy() : null;
      begin(wanted);
      if (engine.durability === 'normal') this.#synced ??= before;
    };
    engine.commit = () => {
      try {
        return commit();
      } finally {
        // Also what was applied although its COMMIT failed is on the disk.
        if (engine.durability === 'full' && (!this.hasFailed || this.wasApplied)) this.#synced = null;
      }
    };
  }

  /** From now on the moves that a power cut would undo are known. */
  watch(): void {
    this.#isWatched = true;
  }

  /** The power is back. Returns false when everything was on the disk. */
  cutPower(): boolean {
    this.opened();
    this.#isWatched = false;
    const synced = this.#synced;
    this.#synced = null;
    if (synced === null) return false;
    synced.restore();
    return true;
  }

  /** The files of a backup take the place of the present ones, and are on the disk. */
  putBack(backup: Copy): void {
    this.opened();
    this.#synced = null;
    backup.restore();
  }

  copy(): Copy {
    const select = (table: string) => this.#db.prepare(`SELECT * FROM ${table}`, { returnArrays: true });
    const rows = this.#tables.map((table) => [table, select(table).all() as unknown[][]] as const);
    const restoreLedger = this.#ledger.copy();
    return {
      restore: () => {
        this.#exec('BEGIN');
        for (const [table, its] of rows) {
          this.#exec(`DELETE FROM ${table}`);
          const [first] = its;
          if (first === undefined) continue;
          const insert = this.#db.prepare(`INSERT INTO ${table} VALUES (${first.map(() => '?').join(',')})`);
          for (const row of its) insert.run(...(row as number[]));
        }
        this.#exec('COMMIT');
        restoreLedger();
      },
    };
  }

  /** No page more than a few, until empty() is called. */
  fill(pages: number): void {
    this.#isFull = true;
    this.#limit(pages);
  }

  empty(): void {
    this.#isFull = false;
    this.#exec(`PRAGMA max_page_count = ${pagesMax}`);
  }

  failCommit(how: CommitFailure): void {
    this.#failure = how;
  }

  slowDown(ms: number, forMs: number): void {
    this.#slow = { ms, until: this.#loop.at + forMs };
  }

  /** Ends every fault that lasts. */
  calm(): void {
    this.#failure = null;
    this.#slow = { ms: 0, until: 0 };
    this.#isWatched = false;
    if (this.#isFull) this.empty();
  }

  #limit(pages: number): void {
    this.#exec(`PRAGMA max_page_count = ${Number(pragma(this.#db, 'page_count')) + pages}`);
  }

  #freeReserve(): void {
    this.#count('disk reserve freed');
    this.#isReserveUsed = true;
    if (this.#isFull) this.#limit(reservePages);
  }

  #allocate(): void {
    if (this.#failure === 'before') {
      this.#failed();
      throw new DiskFailed(new Error('disk I/O error'));
    }
    if (!this.#isFull || this.#isReserveUsed || !this.#dice.chance(0.5)) return;
    this.#count('no space for a COMMIT');
    throw new NoDiskSpace(new Error('no space is left'));
  }

  #commit(): void {
    const failure = this.#failure;
    if (failure !== null) {
      this.#failed();
      this.#exec(failure === 'applied' ? 'COMMIT' : 'ROLLBACK');
      this.wasApplied = failure === 'applied';
      throw Object.assign(new Error('disk I/O error'), { errcode: 10 });
    }
    this.#exec('COMMIT');
    const { current, at } = this.#loop;
    if (current === null || at >= this.#slow.until) return;
    this.#count('slow COMMIT');
    current.pauseUntil(at + this.#slow.ms * this.#dice.next(), at);
    this.#network.isSlowUntil(current.pausedUntil);
  }

  #failed(): void {
    this.#failure = null;
    this.hasFailed = true;
    this.wasApplied = false;
    this.#count('failed COMMIT');
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }
}
