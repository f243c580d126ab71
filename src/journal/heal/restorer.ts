// Heals partitions that lost changes: puts back what the journal knows and the store does not.
// The order: all instances ship what they have (barrier; one without a sign is waited for) · ended jobs that
// came back are removed, and older versions replaced · lost jobs are put back · the note is cleared.
// All work begins with a barrier: a row may have an end that only a spool has, or that MySQL lost.
// Invariants: a note is cleared only after every row above its `from` was compared under it. Each page is
// saved before the next one, and comparing a page again changes nothing: a worker that dies loses no row, and
// two workers do no harm.

import type { Version } from '../../core/job.ts';
import { instantOf, isEnded, isRestorable, type JobRow } from '../../core/job-change.ts';
import { limits } from '../../core/limits.ts';
import { grouped, inBatches } from '../../core/lists.ts';
import type { AllowedNote, LossNote, OpenRows } from '../../ports/healing.ts';
import type { JournalInstance, RestoreCounts, RestoreWork, RowPage } from '../../ports/journal.ts';
import { StoreError } from '../../ports/store-error.ts';
import { Agent } from '../../runtime/loop.ts';
import { monotonicNow, sleep, wallNow } from '../../runtime/time.ts';
import { journalLimits } from '../limits.ts';
import { isStillPassed, type Passed, shippedByAll } from './barrier.ts';
import { type Looker, shardOf } from './looker.ts';
import { changeOf, countsOf, type HealingParts, sumOf, unlessEnded, WorkEnded } from './put-outcomes.ts';

/** Who reports the healings of this instance to people. */
export interface HealingWatch {
  /** A healing begins. `from`: 0: the shard was emptied. `isRepeat`: an earlier worker had begun it. */
  lost(shard: string, from: Version, isRepeat: boolean): Promise<void>;
  /** A page of rows was compared. */
  compared(counts: RestoreCounts): void;
  healed(shard: string, counts: RestoreCounts): Promise<void>;
  /** A healing waits for instances without a sign. */
  waits(silent: readonly JournalInstance[]): Promise<void>;
  /** The wait failed: this process, or another worker, begins it again. */
  interrupted(): void;
  /** A healing waits no longer. `behind`: it continues without the changes of these instances. */
  goesOn(behind: readonly JournalInstance[]): Promise<void>;
}

interface RestorerOptions extends HealingParts {
  readonly looker: Pick<
    Looker,
    'notes' | 'partitions' | 'hasSeenAll' | 'lookAt' | 'lastLossAt' | 'allowedNow'
  >;
  /** of a shard's id */
  readonly isListed: (shard: string) => boolean;
  readonly watch?: HealingWatch;
  /** how long a healing waits for instances without a sign, from its begin */
  readonly peerWaitMs: number;
  /** for tests: other values of journalLimits */
  readonly barrierMs?: number;
}

/** Where a healing is: its barrier, then its parts in this order. */
interface Cursor {
  readonly barrier: number;
  readonly part: 'ends' | 'changed' | 'waiting' | 'dead';
  readonly page: string | null;
}

/** By place, the last losses that the barrier covers. */
type Losses = ReadonlyMap<string, Version>;

export class Restorer extends Agent {
  readonly #options: RestorerOptions;
  /** The barrier that was passed last. Another worker raises its own: it does not know the losses. */
  #passed: (Passed & { readonly work: number; readonly losses: Losses }) | null = null;
  /** the last loss that a row met and its barrier does not cover */
  #met = '';
  /** by instance: monotonicNow() of the end of a wait that was in vain */
  readonly #givenUpAt = new Map<number, number>();
  /** monotonicNow() of the last hold */
  #heldAt = Number.NEGATIVE_INFINITY;

  constructor(options: RestorerOptions) {
    super({
      log: options.log,
      failure: 'restorer: cannot heal the store; it tries again',
      end: 'restorer: heals the store again',
      step: async () => ((await this.#round()) ? 0 : journalLimits.restoreAgainMs),
    });
    this.#options = options;
  }

  /** One piece of work. Returns whether there was one. */
  async #round(): Promise<boolean> {
    const { looker, journal, instance } = this.#options;
    for (const [about, notes] of byShard(looker.notes)) {
      const note = Math.max(...notes.map(({ id }) => id));
      await journal.beginRestore({ kind: 'heal', about, note });
    }
    const work = await journal.claimRestore(instance, journalLimits.restoreClaimMs);
    if (work === null) return false;
    await unlessEnded(this.#do(work));
    return true;
  }

  #do(work: RestoreWork): Promise<void> {
    if (work.kind === 'heal') return this.#heal(work);
    return work.kind === 'shipped' ? this.#compareShipped(work) : this.#moveLost(work);
  }

  /** Ends early, to continue later, when its rows have to wait for a healing. */
  async #compareShipped(work: RestoreWork): Promise<void> {
    const { looker, journal, refresh, instance } = this.#options;
    // Until then a shard may be unknown here that has its jobs itself.
    await refresh();
    await looker.lookAt(shardOf(work.about));
    const loss = looker.lastLossAt(work.about);
    // Not looked at yet. A place that no shard of the list has is of a removed one.
    if (loss === null && !looker.hasSeenAll) return;
    const highest = work.note > 0 ? work.note : (loss ?? Number.MAX_SAFE_INTEGER);
    // A healing comes first; one of another shard, only for its own rows.
    const comesLater = () => byShard(looker.notes).has(shardOf(work.about));
    if (comesLater()) return;
    // The place lost nothing.
    if (highest === 0) {
      await journal.endRestore(work, instance, 'done');
      return;
    }
    // An open row may have an end in a spool, or went back with MySQL.
    // A healing waits for silent instances itself, whatever came of this wait.
    await this.#waitForAll(work, async () => {
      if (comesLater()) throw new WorkEnded();
    });
    let at = work;
    for (;;) {
      if (comesLater()) return;
      const began = monotonicNow();
      const allowed = looker.allowedNow();
      const { rows, nextCursor } = await journal.changedAbove(0, [work.about], at.cursor, { upTo: highest });
      await this.#checkPassed();
      const wanted = rows.filter(isPut);
      const counts = sumOf(at.counts, await this.#put(wanted, allowed, 'put'));
      at = { ...at, counts, cursor: nextCursor };
      if (nextCursor === null) break;
      await this.#save(at);
      await sleep(Math.min(monotonicNow() - began, limits.loopSleepMsMax));
    }
    await journal.endRestore(at, instance, 'done');
  }

  async #heal(work: RestoreWork): Promise<void> {
    const { looker, journal, instance, refresh, isListed, log, watch } = this.#options;
    // While the list is unknown, a listed shard would pass for a removed one.
    await refresh();
    await looker.lookAt(work.about);
    const notes = byShard(looker.notes).get(work.about) ?? [];
    let at: RestoreWork = work;
    // Not looked at yet: its notes are unknown here. Another worker, or this one, claims it later.
    const isKnown = [...looker.partitions.keys()].some((place) => shardOf(place) === work.about);
    if (!isKnown && isListed(work.about)) return;
    // A newer note has work of its own, which covers all notes of the shard.
    if (notes.length > 0 && notes.every(({ id }) => id <= work.note)) {
      const from = Math.min(...notes.map((note) => note.from));
      if (work.cursor === null)
        log.notice('restorer: the store lost changes; heals it from the journal', {
          shard: work.about,
          since: from === 0 ? 'its first job' : new Date(instantOf(from)).toISOString(),
        });
      await watch?.lost(work.about, from, work.cursor !== null);
      at = await this.#passBarrier(at);
      // Changes that the barrier brought may show an older loss: a new note, and other work.
      await looker.lookAt(work.about);
      this.#checkNotes(notes);
      at = await this.#compareAll(at, notes, from);
      for (const note of notes) await this.#advance(note, 'healed');
      log.notice('restorer: the store is healed', { shard: work.about, ...at.counts });
      await watch?.healed(work.about, at.counts);
    }
    await journal.endRestore(at, instance, 'done');
  }

  /** The rows of a removed shard go to their homes by the list of now. */
  async #moveLost(work: RestoreWork): Promise<void> {
    const { journal, refresh, isListed, instance, log } = this.#options;
    await refresh();
    if (isListed(work.about)) {
      // The process that removes it writes the work first. It may have died before the removal.
      if (wallNow() - work.note > journalLimits.restoreListedMs)
        await journal.endRestore(work, instance, 'failed');
      return;
    }
    log.notice('restorer: restores the jobs of a removed shard on the others', { shard: work.about });
    let at = await this.#passBarrier(work, 'waiting');
    const places = Array.from({ length: journalLimits.bucketsMax }, (_, bucket) => `${work.about}:${bucket}`);
    if (cursorOf(at)?.part === 'waiting') {
      at = await this.#compare(at, [], (page) => journal.open('waiting', places, page), false);
      at = await this.#saveAt(at, { ...barrierOf(at), part: 'dead', page: null });
    }
    at = await this.#compare(at, [], (page) => journal.open('dead', places, page), false);
    log.notice('restorer: the jobs of the removed shard are restored', { shard: work.about, ...at.counts });
    await journal.endRestore(at, instance, 'done');
  }

  /** Waits until the instances have shipped what their spools held. One without a sign may have ends that
   *  only its spool has. Its wait counts from the begin of the work, by MySQL's clock: a worker that dies
   *  does not extend it. */
  async #passBarrier(work: RestoreWork, first: Cursor['part'] = 'ends'): Promise<RestoreWork> {
    const cursor = cursorOf(work);
    const isCovered = ([place, id]: [string, Version]) => this.#passed?.losses.get(place) === id;
    if (cursor !== null && this.#passed?.work === work.no && [...this.#losses()].every(isCovered))
      return work;
    const { watch } = this.#options;
    const { barrier, behind } = await this.#waitForAll(work, async (silent) => {
      if (silent.length > 0) await watch?.waits(silent);
    }).catch((error: unknown) => {
      watch?.interrupted();
      throw error;
    });
    await watch?.goesOn(behind);
    this.#giveUp(behind);
    // What an earlier barrier allowed to compare is compared.
    return this.#saveAt(work, { part: first, page: null, ...cursor, barrier });
  }

  /** `meanwhile`: called at each look, with the instances without a sign; when it rejects, the wait ends. */
  async #waitForAll(
    work: RestoreWork,
    meanwhile: (silent: readonly JournalInstance[]) => Promise<void>,
  ): Promise<Passed> {
    const { journal, instance, barrierMs = journalLimits.restoreBarrierMs } = this.#options;
    const { peerWaitMs, retentionMs } = this.#options;
    const losses = this.#losses();
    const leastMs = Math.min(peerWaitMs, journalLimits.restoreSeenMs);
    const passed = await shippedByAll(journal, {
      self: instance,
      seenMs: journalLimits.restoreSeenMs,
      maxMs: barrierMs,
      silent: {
        withinMs: retentionMs,
        maxMs: Math.max(peerWaitMs - (work.ageMs ?? 0), leastMs),
        isGivenUp: (each) => this.#isGivenUp(each),
      },
      meanwhile: async (silent) => {
        await meanwhile(silent);
        await this.#hold();
        await this.#save(work);
      },
    });
    this.#passed = { ...passed, work: work.no, losses };
    return passed;
  }

  /** Called after rows were read. The work begins again with a barrier if MySQL went back since the last. */
  async #checkPassed(): Promise<void> {
    if (this.#passed !== null && (await isStillPassed(this.#options.journal, this.#passed))) return;
    this.#passed = null;
    throw new WorkEnded();
  }

  #isGivenUp({ instance, ageMs }: JournalInstance): boolean {
    const at = this.#givenUpAt.get(instance);
    return at !== undefined && monotonicNow() - ageMs < at;
  }

  /** The next healing does not wait for them again, unless they have given a sign. */
  #giveUp(behind: readonly JournalInstance[]): void {
    if (behind.length === 0) return;
    for (const { instance } of behind) this.#givenUpAt.set(instance, monotonicNow());
    const hosts = behind.map(({ host }) => host).join(', ');
    this.#options.log.error(
      'restorer: goes on without the latest changes of instances that do not ship theirs',
      undefined,
      { hosts },
    );
  }

  /** Jobs that came back stay where they are until their ends are compared, also on shards whose healing
   *  follows this one. */
  async #hold(): Promise<void> {
    if (monotonicNow() - this.#heldAt < journalLimits.restoreHoldMs / 6) return;
    const { healing, looker } = this.#options;
    this.#heldAt = monotonicNow();
    for (const note of looker.notes)
      if (note.phase === 'ends')
        await healing.hold(note, journalLimits.restoreHoldMs).catch((error: unknown) => {
          // A server that does not answer gives no job.
          if (!(error instanceof StoreError)) throw error;
        });
  }

  /** The known losses of all shards: a row visits each place where its job may be. */
  #losses(): Losses {
    const { looker } = this.#options;
    const all = [...looker.partitions.keys()].map((place) => [place, looker.lastLossAt(place) ?? 0] as const);
    return new Map(all.filter(([, id]) => id > 0));
  }

  /** The ids that changed above `from`; without a log that old all open rows. */
  async #compareAll(work: RestoreWork, notes: readonly LossNote[], from: Version): Promise<RestoreWork> {
    const { journal } = this.#options;
    const places = notes.map(({ place }) => place);
    let at = work;
    const isIn = (part: Cursor['part']) => cursorOf(at)?.part === part;
    if (isIn('ends')) {
      if (notes.some(({ phase }) => phase === 'ends')) {
        const read = (page: string | null) => journal.changedAbove(from, places, page, { bodies: false });
        at = await this.#compare(at, notes, read, true);
      }
      for (const note of notes) if (note.phase === 'ends') await this.#advance(note, 'jobs');
      const oldest = await journal.oldestChange();
      const isLogged = from > 0 && oldest !== null && oldest <= from;
      at = await this.#saveAt(at, { ...barrierOf(at), part: isLogged ? 'changed' : 'waiting', page: null });
    }
    if (isIn('changed')) {
      const read = (page: string | null) => journal.changedAbove(from, places, page);
      return this.#compare(at, notes, read, false);
    }
    if (isIn('waiting')) {
      at = await this.#compare(at, notes, (page) => journal.open('waiting', places, page), false);
      at = await this.#saveAt(at, { ...barrierOf(at), part: 'dead', page: null });
    }
    return this.#compare(at, notes, (page) => journal.open('dead', places, page), false);
  }

  async #advance(note: LossNote, to: 'jobs' | 'healed'): Promise<void> {
    if (!(await this.#options.healing.advance(note, to))) throw new WorkEnded();
  }

  /** Compares page by page, from the cursor on, and reads a page ahead. `isEnds`: ended rows, and open ones
   *  only with older versions; the pages have no bodies. */
  async #compare(
    work: RestoreWork,
    notes: readonly LossNote[],
    read: (page: string | null) => Promise<RowPage>,
    isEnds: boolean,
  ): Promise<RestoreWork> {
    const ids = new Map(notes.map(({ place, id }) => [place, id]));
    const losses = this.#passed?.losses;
    const allowed = (place: string): AllowedNote => {
      const own = ids.get(place);
      // The healing of an own note ends this work. Another shard may be healed meanwhile.
      if (own !== undefined) return { note: own, healed: own - 1 };
      const last = losses?.get(place) ?? 0;
      return { note: last, healed: last };
    };
    const allowedHere = notes.length === 0 ? this.#options.looker.allowedNow() : allowed;
    let at = work;
    let ahead = read((cursorOf(at) as Cursor).page);
    for (;;) {
      const began = monotonicNow();
      const cursor = cursorOf(at) as Cursor;
      const { rows, nextCursor } = await ahead;
      if (nextCursor !== null) {
        ahead = read(nextCursor);
        // It is awaited in the next round, unless this one fails.
        ahead.catch(() => undefined);
      }
      await this.#checkPassed();
      await this.#hold();
      const wanted = rows.filter(isEnds ? isPut : isRestorable);
      const counts = await this.#put(wanted, allowedHere, isEnds ? 'compare' : 'put');
      this.#options.watch?.compared(counts);
      at = await this.#saveAt({ ...at, counts: sumOf(at.counts, counts) }, { ...cursor, page: nextCursor });
      if (nextCursor === null) return at;
      await sleep(Math.min(monotonicNow() - began, limits.loopSleepMsMax));
    }
  }

  /** Rejects with StoreError unless each row was compared. */
  async #put(
    rows: readonly JobRow[],
    allowed: (place: string) => AllowedNote,
    open: OpenRows,
  ): Promise<RestoreCounts> {
    const { healing, journal, record } = this.#options;
    const outcomes = await healing.put(rows, allowed, open);
    await record(outcomes.flatMap((outcome, i) => changeOf(rows[i] as JobRow, outcome)));
    for (const outcome of outcomes) {
      if (outcome.kind === 'other_note') this.#meets(outcome);
      if (outcome.kind === 'not_stored' || outcome.kind === 'unknown') throw new StoreError(outcome);
    }
    let counts = countsOf(outcomes);
    const older = rows.filter((_, i) => outcomes[i]?.kind === 'older');
    for (const some of inBatches(older, journalLimits.restoreRows)) {
      const full = await journal.rows(some);
      counts = sumOf(counts, await this.#put(full.filter(isPut), allowed, 'replace'));
    }
    return counts;
  }

  /** The work goes on when it is claimed again, after a barrier that covers this loss. */
  #meets({ place, note }: { readonly place: string; readonly note: Version }): never {
    const met = `${place} ${note}`;
    if (met !== this.#met)
      this.#options.log.notice('restorer: waits: a partition lost changes after the barrier', {
        place,
        note,
      });
    this.#met = met;
    throw new WorkEnded();
  }

  /** Whether the notes are still in force. */
  #checkNotes(notes: readonly LossNote[]): void {
    const now = new Set(this.#options.looker.notes.map(({ id, place }) => `${place} ${id}`));
    if (notes.some(({ id, place }) => !now.has(`${place} ${id}`))) throw new WorkEnded();
  }

  async #saveAt(work: RestoreWork, cursor: Cursor): Promise<RestoreWork> {
    const next = { ...work, cursor: JSON.stringify(cursor) };
    await this.#save(next);
    return next;
  }

  async #save(work: RestoreWork): Promise<void> {
    const { journal, instance } = this.#options;
    // A drain leaves the work to the next worker at once.
    const forMs = this.isDraining ? 0 : journalLimits.restoreClaimMs;
    const isOurs = await journal.saveRestore(work, instance, forMs);
    if (this.isDraining || !isOurs) throw new WorkEnded();
  }
}

const isPut = (row: JobRow): boolean => isEnded(row) || isRestorable(row);

const byShard = (notes: readonly LossNote[]): ReadonlyMap<string, readonly LossNote[]> =>
  grouped(notes, ({ place }) => shardOf(place));

function cursorOf({ cursor }: RestoreWork): Cursor | null {
  return cursor === null ? null : (JSON.parse(cursor) as Cursor);
}

const barrierOf = (work: RestoreWork): Pick<Cursor, 'barrier'> => ({ barrier: cursorOf(work)?.barrier ?? 0 });
