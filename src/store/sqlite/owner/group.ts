// Runs the requests that arrived together as one transaction (group commit) and decides each answer.
// Invariant: no answer leaves before the COMMIT that covers it; a not_stored write never enters the file.
//
// Outcomes:
// - committed
// - rejected before COMMIT (full, busy, a bug): rolled back and run again with a savepoint per item, without
//   pushes if the disk is full; if that does not fit either, each item in its own transaction. Savepoints in
//   every group would cost a copy of each page that they touch.
// - I/O error in COMMIT: recovery may apply its frames (seen). All answers are `unknown`, the process ends.
// - I/O error before COMMIT: nothing was applied. The process ends: SQLite's memory is uncertain.
// - damage of the file: as an I/O error; a read that meets it fails alone.

import { StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import { isDamage, sqliteCode, sqliteCodes } from '../../../runtime/database.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import type { Engine, Hints } from '../engine/engine.ts';
import { DiskFailed, NoDiskSpace } from '../file/wal-space.ts';
import type { Writer } from '../wire/protocol.ts';
import type { Each, Work } from './operations.ts';

/** The answer of one request, or its failure. */
export type Ending = ((w: Writer) => void) | StoreFailure;

interface GroupResult {
  /** one per request, in order */
  readonly endings: readonly Ending[];
  readonly hints: Hints;
  /** duration of the COMMITs; null: no write */
  readonly commitMs: number | null;
  /** not undefined: the process must end, see above */
  readonly fatal: unknown;
}

interface GroupOptions {
  /** the disk reserve is not whole: pushes must not use the disk */
  readonly rejectPushes: boolean;
  /** the disk is full: called before the rest runs again */
  readonly onFull: (error: unknown) => void;
  /** receives each failure that is a bug or damage */
  readonly onFailure: (error: unknown) => void;
}

type Why = 'full' | 'busy' | 'failed' | 'broken' | 'commit_broken';

/** Ends a transaction that cannot go on. */
class Rejected extends Error {
  readonly why: Why;
  constructor(why: Why, cause: unknown) {
    super(why, { cause });
    this.why = why;
  }
}

const diskFull: StoreFailure = { kind: 'not_stored', code: 'disk_full' };
const busy: StoreFailure = { kind: 'not_stored', code: 'busy' };
const failed: StoreFailure = { kind: 'not_stored', code: 'store_failed' };
const broken: StoreFailure = { kind: 'not_stored', code: 'io_error' };
/** Of a damaged page. */
export const damaged: StoreFailure = { kind: 'not_stored', code: 'store_damaged' };
const inDoubt: StoreFailure = { kind: 'unknown', code: 'io_error' };

export function runGroup(engine: Engine, works: readonly Work[], options: GroupOptions): GroupResult {
  return new Group(engine, works, options).run();
}

class Group {
  readonly #engine: Engine;
  readonly #works: readonly Work[];
  readonly #options: GroupOptions;
  readonly #endings: Ending[];
  /** Writes without an ending, in order of arrival. */
  #open: number[];
  #hints: Hints = { ready: false, due: false };
  #fatal: unknown;
  #commitMs: number | null = null;

  constructor(engine: Engine, works: readonly Work[], options: GroupOptions) {
    this.#engine = engine;
    this.#works = works;
    this.#options = options;
    this.#endings = new Array<Ending>(works.length);
    this.#open = [...works.keys()].filter((i) => this.#work(i).changes !== 'nothing');
  }

  run(): GroupResult {
    if (this.#options.rejectPushes) this.#rejectPushes(diskFull);
    this.#engine.readClock();
    if (this.#open.every((i) => this.#work(i).isNoop(this.#engine))) this.#answerFromMemory();
    if (!this.#transact(false) && !this.#transact(true)) this.#runSeparately();
    this.#engine.readClock();
    for (const i of this.#works.keys()) this.#endings[i] ??= this.#runOutside(i);
    return { endings: this.#endings, hints: this.#hints, commitMs: this.#commitMs, fatal: this.#fatal };
  }

  #work(i: number): Work {
    return this.#works[i] as Work;
  }

  #answerFromMemory(): void {
    for (const i of this.#open) this.#endings[i] = this.#runOutside(i);
    this.#open = [];
  }

  #rejectAll(failure: StoreFailure): void {
    for (const i of this.#open) this.#endings[i] = failure;
    this.#open = [];
  }

  #rejectPushes(failure: StoreFailure): void {
    for (const i of this.#open) if (this.#work(i).isPush) this.#endings[i] = failure;
    this.#open = this.#open.filter((i) => !this.#work(i).isPush);
  }

  /** Returns whether every write has its ending. */
  #transact(careful: boolean): boolean {
    if (this.#open.length === 0) return true;
    try {
      const answers = this.#runAll(careful);
      this.#hints = this.#commit();
      for (const [place, i] of this.#open.entries()) this.#endings[i] = answers[place] as Ending;
      this.#open = [];
    } catch (error) {
      if (!(error instanceof Rejected)) throw error;
      this.#handleRejection(error.why, error.cause);
    }
    return this.#open.length === 0;
  }

  #handleRejection(why: Why, error: unknown): void {
    const { onFull, onFailure } = this.#options;
    if (why === 'busy') this.#rejectPushes(busy);
    else if (why === 'full') {
      this.#rejectPushes(diskFull);
      onFull(error);
    } else {
      onFailure(error);
      if (why === 'failed') return;
      this.#fatal = error;
      this.#rejectAll(why === 'commit_broken' ? inDoubt : brokenBy(error));
    }
  }

  #runAll(careful: boolean): Ending[] {
    const engine = this.#engine;
    const isFull = this.#open.some((i) => this.#work(i).changes === 'full');
    const each: Each = careful
      ? (items, one) => items.map((item) => this.#inSavepoint(() => one(item)))
      : (items, one) => items.map(one);
    try {
      engine.begin(isFull ? 'full' : 'normal');
      return this.#open.map((i) => {
        const run = () => this.#work(i).run(engine, each);
        return careful ? this.#inSavepoint(run) : run();
      });
    } catch (error) {
      engine.rollback();
      throw error instanceof Rejected ? error : new Rejected(whyOf(error), error);
    }
  }

  #commit(): Hints {
    const from = monotonicNow();
    try {
      const hints = this.#engine.commit();
      this.#commitMs = (this.#commitMs ?? 0) + monotonicNow() - from;
      return hints;
    } catch (error) {
      const why = whyOf(error);
      // Leave the file alone: the process ends, and SQLite's recovery decides what was stored.
      if (why === 'broken' && !(error instanceof DiskFailed)) throw new Rejected('commit_broken', error);
      this.#engine.rollback();
      throw new Rejected(why, error);
    }
  }

  /** On a full disk the WAL may have space for some jobs of the group but not for all. */
  #runSeparately(): void {
    for (const i of this.#open) {
      const work = this.#work(i);
      this.#endings[i] = work.isList
        ? work.run(this.#engine, (items, one) =>
            items.map((item) => this.#inTransaction(work, () => one(item))),
          )
        : this.#inTransaction(work, () => work.run(this.#engine, (items, one) => items.map(one)));
    }
    this.#open = [];
  }

  /** One step as one transaction. */
  #inTransaction<T>({ changes }: Work, step: () => T): T | StoreFailure {
    if (this.#fatal !== undefined) return brokenBy(this.#fatal);
    try {
      this.#engine.begin(changes === 'full' ? 'full' : 'normal');
      const result = step();
      const { ready, due } = this.#commit();
      this.#hints = { ready: ready || this.#hints.ready, due: due || this.#hints.due };
      return result;
    } catch (error) {
      if (!(error instanceof Rejected)) this.#engine.rollback();
      const { why, cause } = error instanceof Rejected ? error : new Rejected(whyOf(error), error);
      if (why === 'full') return diskFull;
      if (why === 'busy') return busy;
      this.#options.onFailure(cause);
      if (why === 'failed') return failed;
      this.#fatal = cause;
      return why === 'commit_broken' ? inDoubt : brokenBy(cause);
    }
  }

  /** Undoes only a failed step and returns its failure. */
  #inSavepoint<T>(step: () => T): T | StoreFailure {
    try {
      return this.#engine.inSavepoint(step);
    } catch (error) {
      if (error instanceof Rejected) throw error;
      const why = whyOf(error);
      // SQLite has rolled back the whole transaction, or its state is uncertain.
      if (why === 'broken' || !this.#engine.inTransaction) throw new Rejected(why, error);
      if (why !== 'full') return this.#failureOf(error);
      this.#options.onFull(error);
      return diskFull;
    }
  }

  #runOutside(i: number): Ending {
    // The transaction may still be open: a read would see unstored rows.
    if (this.#fatal !== undefined) return brokenBy(this.#fatal);
    try {
      return this.#work(i).run(this.#engine, (items, one) => items.map(one));
    } catch (error) {
      return this.#failureOf(error);
    }
  }

  #failureOf(error: unknown): StoreFailure {
    if (!(error instanceof StoreError)) this.#options.onFailure(error);
    return failureOf(error);
  }
}

/** Of a step that failed alone. */
export function failureOf(error: unknown): StoreFailure {
  if (error instanceof StoreError) return error.failure;
  return isDamage(error) ? damaged : failed;
}

const brokenBy = (error: unknown): StoreFailure => (isDamage(error) ? damaged : broken);

/** What an error means for the transaction. */
function whyOf(error: unknown): Why {
  if (error instanceof NoDiskSpace) return 'full';
  if (error instanceof DiskFailed) return 'broken';
  const code = sqliteCode(error);
  if (code === null || code === sqliteCodes.constraint) return 'failed';
  if (code === sqliteCodes.full) return 'full';
  return code === sqliteCodes.busy || code === sqliteCodes.locked ? 'busy' : 'broken';
}
