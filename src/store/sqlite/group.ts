// Group commit: runs the requests that arrived together as one transaction, and says of each what became of it. Invariant:
// no answer leaves before the COMMIT that covers it; what is answered not_stored is not in the file and never will be.
//
// The ways it can go: committed · refused before COMMIT (full, busy, a bug): rolled back, and once more, carefully, every item
// under a savepoint, without the pushes when there is no room · COMMIT failed with an I/O error: its frames may come back in
// recovery (seen), so everybody hears `unknown` and the process must end · an I/O error before COMMIT: nothing was
// applied, and the process must end too, because what SQLite holds in memory is in doubt.

import { sqliteCode, sqliteCodes } from '../../sql/database.ts';
import { StoreError, type StoreFailure } from '../job-store.ts';
import type { Engine, Hints } from './engine.ts';
import type { Each, Work } from './operations.ts';
import type { Writer } from './protocol.ts';

/** How one request ended: its answer, or why there is none. */
export type Ending = ((w: Writer) => void) | StoreFailure;

export interface GroupResult {
  /** one per request, in order */
  readonly endings: readonly Ending[];
  readonly hints: Hints;
  /** the process must end: see above */
  readonly fatal: unknown;
}

export interface GroupOptions {
  /** pushes are refused: there is no room, or none that we may take */
  readonly refusePushes: boolean;
  /** the disk has no room: called before the rest is run again */
  readonly onFull: (error: unknown) => void;
  /** told of each failure that is a bug or damage */
  readonly onFailure: (error: unknown) => void;
}

/** Thrown out of a transaction that cannot go on, with what is to become of it. */
class Refused extends Error {
  readonly why: 'full' | 'busy' | 'failed' | 'broken' | 'commit_broken';
  constructor(why: Refused['why'], cause: unknown) {
    super(why, { cause });
    this.why = why;
  }
}

const noHints: Hints = { ready: false, due: false };
const noRoom: StoreFailure = { kind: 'not_stored', code: 'disk_full' };

export function runGroup(engine: Engine, works: readonly Work[], options: GroupOptions): GroupResult {
  const endings = new Array<Ending>(works.length);
  const group = { engine, works, endings, options };
  let hints = noHints;
  let fatal: unknown;
  let last: Refused['why'] = 'failed';
  let open = [...works.keys()].filter((i) => works[i]?.needs !== 'read');
  if (options.refusePushes) open = refuse(group, open, (work) => work.isPush, noRoom);
  engine.look();
  if (open.every((i) => works[i]?.quiet(engine))) {
    for (const i of open) endings[i] = read(group, i);
    open = [];
  }
  for (const careful of [false, true]) {
    if (open.length === 0) break;
    try {
      hints = transact(group, open, careful);
      open = [];
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const { why } = error;
      last = why;
      if (why !== 'full' && why !== 'busy') options.onFailure(error.cause);
      if (why === 'full') options.onFull(error.cause);
      if (why === 'broken' || why === 'commit_broken') {
        fatal = error.cause;
        const kind = why === 'broken' ? 'not_stored' : 'unknown';
        open = refuse(group, open, () => true, { kind, code: 'io_error' });
      } else if (why === 'full') open = refuse(group, open, (work) => work.isPush, noRoom);
      else if (why === 'busy')
        open = refuse(group, open, (work) => work.isPush, { kind: 'not_stored', code: 'busy' });
    }
  }
  refuse(group, open, () => true, last === 'full' ? noRoom : { kind: 'not_stored', code: 'store_failed' });
  engine.look();
  // After an I/O error the transaction may still be open, and a read would see what is not stored.
  const broken: StoreFailure = { kind: 'not_stored', code: 'io_error' };
  for (const i of works.keys()) endings[i] ??= fatal === undefined ? read(group, i) : broken;
  return { endings, hints, fatal };
}

interface Group {
  readonly engine: Engine;
  readonly works: readonly Work[];
  readonly endings: Ending[];
  readonly options: GroupOptions;
}

/** Answers the indexes that are still open. */
function refuse(
  group: Group,
  open: readonly number[],
  which: (work: Work) => boolean,
  failure: StoreFailure,
) {
  return open.filter((i) => {
    const isRefused = which(group.works[i] as Work);
    if (isRefused) group.endings[i] = failure;
    return !isRefused;
  });
}

function transact(group: Group, open: readonly number[], careful: boolean): Hints {
  const { engine, works, endings } = group;
  const isFull = open.some((i) => works[i]?.needs === 'full');
  try {
    engine.begin(isFull ? 'full' : 'normal');
  } catch (error) {
    engine.rollback();
    throw new Refused(whyOf(error), error);
  }
  const each: Each = careful ? eachApart(group) : (items, one) => items.map(one);
  const run = (i: number) => (works[i] as Work).run(engine, each);
  const answers: Ending[] = [];
  try {
    for (const i of open) answers.push(careful ? apart(group, () => run(i)) : run(i));
  } catch (error) {
    engine.rollback();
    throw error instanceof Refused ? error : new Refused(whyOf(error), error);
  }
  let hints: Hints;
  try {
    hints = engine.commit();
  } catch (error) {
    const why = whyOf(error);
    if (why === 'broken') throw new Refused('commit_broken', error);
    engine.rollback();
    throw new Refused(why, error);
  }
  for (const [place, i] of open.entries()) endings[i] = answers[place] as Ending;
  return hints;
}

/** A savepoint around each item: what fails is undone alone, and said of that item alone. */
function eachApart(group: Group): Each {
  return (items, one) => items.map((item) => apart(group, () => one(item)));
}

function apart<T>(group: Group, step: () => T): T | StoreFailure {
  const { engine, options } = group;
  try {
    return engine.apart(step);
  } catch (error) {
    if (error instanceof Refused) throw error;
    const why = whyOf(error);
    if (why === 'broken' || !engine.inTransaction) throw new Refused(why, error);
    if (why === 'full') return noRoom;
    return failureOf(error, options);
  }
}

/** Outside any transaction. */
function read(group: Group, i: number): Ending {
  const { engine, works, options } = group;
  try {
    return (works[i] as Work).run(engine, (items, one) => items.map(one));
  } catch (error) {
    return failureOf(error, options);
  }
}

function failureOf(error: unknown, options: GroupOptions): StoreFailure {
  if (error instanceof StoreError) return error.failure;
  options.onFailure(error);
  return { kind: 'not_stored', code: 'store_failed' };
}

/** What an error of SQLite, or of ours, means for the transaction. */
function whyOf(error: unknown): Refused['why'] {
  const code = sqliteCode(error);
  if (code === null || code === sqliteCodes.constraint) return 'failed';
  if (code === sqliteCodes.full) return 'full';
  return code === sqliteCodes.busy || code === sqliteCodes.locked ? 'busy' : 'broken';
}
