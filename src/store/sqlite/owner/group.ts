// Group commit: runs the requests that arrived together as one transaction, and says of each what became of it. Invariant:
// no answer leaves before the COMMIT that covers it; what is answered not_stored is not in the file and never will be.
//
// The ways it can go: committed · refused before COMMIT (full, busy, a bug): rolled back, and once more, carefully, every item
// under a savepoint, without the pushes when there is no room (savepoints always would cost a copy of each page they
// touch), and where the disk has no room for that either, item by item, each in a transaction of its own · COMMIT failed with an I/O error: its frames may come back in recovery (seen), so everybody hears `unknown` and the
// process must end · an I/O error before COMMIT: nothing was applied, and the process must end too, because what SQLite
// holds in memory is in doubt.

import { StoreError, type StoreFailure } from '../../../ports/job-store.ts';
import { sqliteCode, sqliteCodes } from '../../../runtime/database.ts';
import type { Engine, Hints } from '../engine/engine.ts';
import { DiskFailed, NoRoom } from '../file/wal-space.ts';
import type { Writer } from '../wire/protocol.ts';
import type { Each, Work } from './operations.ts';

/** How one request ended: its answer, or why there is none. */
export type Ending = ((w: Writer) => void) | StoreFailure;

export interface GroupResult {
  /** one per request, in order */
  readonly endings: readonly Ending[];
  readonly hints: Hints;
  /** the COMMITs that it took; null = nothing was written */
  readonly commitMs: number | null;
  /** not undefined: the process must end, see above */
  readonly fatal: unknown;
}

export interface GroupOptions {
  /** there is no room, or none that pushes may take */
  readonly refusePushes: boolean;
  /** the disk has no room: called before the rest is run again */
  readonly onFull: (error: unknown) => void;
  /** told of each failure that is a bug or damage */
  readonly onFailure: (error: unknown) => void;
}

type Why = 'full' | 'busy' | 'failed' | 'broken' | 'commit_broken';

/** Thrown out of a transaction that cannot go on. */
class Refused extends Error {
  readonly why: Why;
  constructor(why: Why, cause: unknown) {
    super(why, { cause });
    this.why = why;
  }
}

const noRoom: StoreFailure = { kind: 'not_stored', code: 'disk_full' };
const busy: StoreFailure = { kind: 'not_stored', code: 'busy' };
const failed: StoreFailure = { kind: 'not_stored', code: 'store_failed' };
const broken: StoreFailure = { kind: 'not_stored', code: 'io_error' };
const inDoubt: StoreFailure = { kind: 'unknown', code: 'io_error' };

export function runGroup(engine: Engine, works: readonly Work[], options: GroupOptions): GroupResult {
  return new Group(engine, works, options).run();
}

class Group {
  readonly #engine: Engine;
  readonly #works: readonly Work[];
  readonly #options: GroupOptions;
  readonly #endings: Ending[];
  /** The writes that have no ending yet, in order of arrival. */
  #open: number[];
  #hints: Hints = { ready: false, due: false };
  #fatal: unknown;
  #commitMs: number | null = null;

  constructor(engine: Engine, works: readonly Work[], options: GroupOptions) {
    this.#engine = engine;
    this.#works = works;
    this.#options = options;
    this.#endings = new Array<Ending>(works.length);
    this.#open = [...works.keys()].filter((i) => this.#work(i).needs !== 'read');
  }

  run(): GroupResult {
    if (this.#options.refusePushes) this.#refusePushes(noRoom);
    this.#engine.look();
    if (this.#open.every((i) => this.#work(i).quiet(this.#engine))) this.#answerQuietly();
    if (!this.#transact(false) && !this.#transact(true)) this.#piecemeal();
    this.#engine.look();
    for (const i of this.#works.keys()) this.#endings[i] ??= this.#outside(i);
    return { endings: this.#endings, hints: this.#hints, commitMs: this.#commitMs, fatal: this.#fatal };
  }

  #work(i: number): Work {
    return this.#works[i] as Work;
  }

  #answerQuietly(): void {
    for (const i of this.#open) this.#endings[i] = this.#outside(i);
    this.#open = [];
  }

  #refuse(failure: StoreFailure): void {
    for (const i of this.#open) this.#endings[i] = failure;
    this.#open = [];
  }

  #refusePushes(failure: StoreFailure): void {
    for (const i of this.#open) if (this.#work(i).isPush) this.#endings[i] = failure;
    this.#open = this.#open.filter((i) => !this.#work(i).isPush);
  }

  /** Whether every write has its ending now. */
  #transact(careful: boolean): boolean {
    if (this.#open.length === 0) return true;
    try {
      const answers = this.#runAll(careful);
      this.#hints = this.#commit();
      for (const [place, i] of this.#open.entries()) this.#endings[i] = answers[place] as Ending;
      this.#open = [];
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.#refused(error.why, error.cause);
    }
    return this.#open.length === 0;
  }

  #refused(why: Why, error: unknown): void {
    const { onFull, onFailure } = this.#options;
    if (why === 'busy') this.#refusePushes(busy);
    else if (why === 'full') {
      this.#refusePushes(noRoom);
      onFull(error);
    } else {
      onFailure(error);
      if (why === 'failed') return;
      this.#fatal = error;
      this.#refuse(why === 'commit_broken' ? inDoubt : broken);
    }
  }

  #runAll(careful: boolean): Ending[] {
    const engine = this.#engine;
    const isFull = this.#open.some((i) => this.#work(i).needs === 'full');
    const each: Each = careful
      ? (items, one) => items.map((item) => this.#apart(() => one(item)))
      : (items, one) => items.map(one);
    try {
      engine.begin(isFull ? 'full' : 'normal');
      return this.#open.map((i) => {
        const run = () => this.#work(i).run(engine, each);
        return careful ? this.#apart(run) : run();
      });
    } catch (error) {
      engine.rollback();
      throw error instanceof Refused ? error : new Refused(whyOf(error), error);
    }
  }

  #commit(): Hints {
    const from = performance.now();
    try {
      const hints = this.#engine.commit();
      this.#commitMs = (this.#commitMs ?? 0) + performance.now() - from;
      return hints;
    } catch (error) {
      const why = whyOf(error);
      // Nothing is touched any more: the process ends, and recovery decides what the file says.
      if (why === 'broken' && !(error instanceof DiskFailed)) throw new Refused('commit_broken', error);
      this.#engine.rollback();
      throw new Refused(why, error);
    }
  }

  /** On a full disk the log may have room for a few jobs and not for all of the group. */
  #piecemeal(): void {
    for (const i of this.#open) {
      const work = this.#work(i);
      this.#endings[i] = work.isList
        ? work.run(this.#engine, (items, one) => items.map((item) => this.#alone(work, () => one(item))))
        : this.#alone(work, () => work.run(this.#engine, (items, one) => items.map(one)));
    }
    this.#open = [];
  }

  /** One step as one transaction. */
  #alone<T>({ needs }: Work, step: () => T): T | StoreFailure {
    if (this.#fatal !== undefined) return broken;
    try {
      this.#engine.begin(needs === 'full' ? 'full' : 'normal');
      const result = step();
      const { ready, due } = this.#commit();
      this.#hints = { ready: ready || this.#hints.ready, due: due || this.#hints.due };
      return result;
    } catch (error) {
      if (!(error instanceof Refused)) this.#engine.rollback();
      const { why, cause } = error instanceof Refused ? error : new Refused(whyOf(error), error);
      if (why === 'full') return noRoom;
      if (why === 'busy') return busy;
      this.#options.onFailure(cause);
      if (why === 'failed') return failed;
      this.#fatal = cause;
      return why === 'commit_broken' ? inDoubt : broken;
    }
  }

  /** What fails is undone alone, and said of that item alone. */
  #apart<T>(step: () => T): T | StoreFailure {
    try {
      return this.#engine.apart(step);
    } catch (error) {
      if (error instanceof Refused) throw error;
      const why = whyOf(error);
      // SQLite has rolled everything back, or cannot be trusted to have kept the rest.
      if (why === 'broken' || !this.#engine.inTransaction) throw new Refused(why, error);
      if (why !== 'full') return this.#failureOf(error);
      this.#options.onFull(error);
      return noRoom;
    }
  }

  #outside(i: number): Ending {
    // The transaction may still be open: a read would see what is not stored.
    if (this.#fatal !== undefined) return broken;
    try {
      return this.#work(i).run(this.#engine, (items, one) => items.map(one));
    } catch (error) {
      return this.#failureOf(error);
    }
  }

  #failureOf(error: unknown): StoreFailure {
    if (error instanceof StoreError) return error.failure;
    this.#options.onFailure(error);
    return failed;
  }
}

/** What an error of SQLite, or of ours, means for the transaction. */
function whyOf(error: unknown): Why {
  if (error instanceof NoRoom) return 'full';
  if (error instanceof DiskFailed) return 'broken';
  const code = sqliteCode(error);
  if (code === null || code === sqliteCodes.constraint) return 'failed';
  if (code === sqliteCodes.full) return 'full';
  return code === sqliteCodes.busy || code === sqliteCodes.locked ? 'busy' : 'broken';
}
