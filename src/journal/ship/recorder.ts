// Ships the spool of this host to the journal's database: stream by stream, in batches.
// Invariants: a change is in a file of the spool until the database has it, and for a while longer. The
// database decides where a stream continues, so a batch with an unknown result is neither lost nor merged
// twice. A barrier is reached only in a database that has all that was shipped before: one that went back is
// noticed with the next sign of this instance, and reaches it when the spool is shipped again.
// While less than a quarter of the spool is in use, it pauses as long as a round took: the cores are for the
// intake.

import { messageOf } from '../../core/errors.ts';
import type { Version } from '../../core/job.ts';
import { type Change, instantOf } from '../../core/job-change.ts';
import { limits } from '../../core/limits.ts';
import {
  allBarriers,
  type JournalDb,
  type ShipOutcome,
  type ShippedBatch,
  type ShippedRange,
} from '../../ports/journal.ts';
import {
  type FoundStream,
  isBefore,
  lacksAny,
  type SpooledStreams,
  type StreamPart,
  type StreamPosition,
  streamStart,
} from '../../ports/spool.ts';
import { StoreError } from '../../ports/store-error.ts';
import { Agent } from '../../runtime/loop.ts';
import { monotonicNow, wallNow } from '../../runtime/time.ts';
import type { Log } from '../../telemetry/log.ts';
import { journalLimits } from '../limits.ts';

/** Who compares the store with the numbers that the recorder ships. */
export interface LossSearch {
  /** Called before the changes of a batch are written: compares the numbers of their writer with those of the
   *  partitions, and reports them. Returns the marks that the journal may have now; none of a partition that
   *  does not answer. */
  report(writer: string, changes: readonly Change[]): Promise<ReadonlyMap<string, Version>>;
  /** The changes that a healing of their partition may have missed if they reach the journal now, and those
   *  that their partition may have lost unnoticed. `reported`: the answer of report() for them. `isOld`:
   *  that answer may be too old. */
  lateOf(
    changes: readonly Change[],
    reported: ReadonlyMap<string, Version>,
    isOld: boolean,
  ): readonly ShippedRange[];
  /** Called after the batch of a writer is in the journal. */
  shipped(writer: string, changes: readonly Change[], marks: ReadonlyMap<string, Version>): void;
}

export interface RecorderOptions {
  readonly journal: Pick<
    JournalDb,
    'seen' | 'positions' | 'ship' | 'instances' | 'beginShipped' | 'raiseSince' | 'forgetStreams'
  >;
  readonly spool: SpooledStreams;
  readonly log: Log;
  readonly instance: number;
  readonly host: string;
  /** limit of the spool */
  readonly spoolBytes: number;
  /** of the journal, ms */
  readonly retentionMs: number;
  /** The title of a living process of this instance; null: it is dead. */
  readonly titleOf: (incarnation: number) => string | null;
  /** The database lost what it had: a survey of the store has to follow. */
  readonly onWentBack: () => Promise<void> | void;
  readonly looker: LossSearch;
}

export interface RecorderState {
  /** age of the oldest change that waits, ms; 0 = none waits */
  readonly lagMs: number;
  /** bytes of all segments */
  readonly spoolBytes: number;
}

interface Round {
  /** until the next one */
  readonly waitMs: number;
  /** of a stream; null: none failed */
  readonly error: unknown;
  /** whether more changes wait */
  readonly isBehind: boolean;
  /** incarnations of streams that are not shipped to their end */
  readonly open: readonly number[];
}

export class Recorder extends Agent {
  readonly #options: RecorderOptions;
  /** by incarnation; null: unknown, ask the database */
  #positions: Map<number, StreamPosition> | null = null;
  /** the last known ones */
  #known: ReadonlyMap<number, StreamPosition> = new Map();
  /** the newest barrier that this instance has reached */
  #barrier = 0;
  /** number; null: not compared with that of the database */
  #highest: number | null = null;
  /** what the spool knows of it, and monotonicNow() of that */
  #noted = { number: 0, at: Number.NEGATIVE_INFINITY };
  /** incarnations of streams that are shipped to their end */
  readonly #ended = new Set<number>();
  #spoolBytes = 0;
  #lowestOpen: number | null = null;
  /** monotonicNow() of the last sign to the other instances */
  #seenAt = 0;
  /** instant of the last change that was shipped while more waited */
  #behindSince: number | null = null;
  #titleOf: RecorderOptions['titleOf'];

  constructor(options: RecorderOptions) {
    super({
      log: options.log,
      failure: 'recorder: cannot ship the journal; the spool keeps it',
      end: 'recorder: ships the journal again',
      turn: async () => {
        await this.#compareHighest();
        const { waitMs, error } = await this.#round();
        if (error === null) this.succeeded();
        else this.failed(error);
        return waitMs;
      },
      onFailure: () => {
        this.#positions = null;
        this.#lowestOpen = null;
        this.#behindSince ??= wallNow();
      },
    });
    this.#options = options;
    this.#titleOf = options.titleOf;
  }

  get state(): RecorderState {
    const lagMs = this.#behindSince === null ? 0 : wallNow() - this.#behindSince;
    return { lagMs, spoolBytes: this.#spoolBytes };
  }

  /** The lowest incarnation whose stream may hold unshipped changes; Infinity: none does. null: unknown. */
  get lowestOpen(): number | null {
    return this.#lowestOpen;
  }

  /** Ships the streams of dead processes to their end, instead of start(). Rejects at the first failure. */
  async shipAll(): Promise<void> {
    do {
      const { error } = await this.#round();
      if (error !== null) throw error;
    } while (this.#lowestOpen !== Number.POSITIVE_INFINITY);
  }

  /** A database that has a lower number than an earlier process of this instance shipped went back. */
  async #compareHighest(): Promise<void> {
    if (this.#highest !== null) return;
    const { journal, spool, instance, onWentBack } = this.#options;
    const number = await spool.shippedNumber();
    const self = (await journal.instances()).find((one) => one.instance === instance);
    if ((self?.highest ?? 0) < number) await onWentBack();
    this.#highest = number;
    this.#noted = { number, at: Number.NEGATIVE_INFINITY };
  }

  /** `number`: the database has it. */
  async #noteHighest(number: number): Promise<void> {
    const at = monotonicNow();
    if (number <= this.#noted.number || at - this.#noted.at < journalLimits.shippedNoteMs) return;
    const { spool, log } = this.#options;
    this.#noted = { number, at };
    // A full disk gets space when the spool is shipped.
    await spool
      .noteShipped(number)
      .catch((error: unknown) => log.error('recorder: cannot note what MySQL has', error));
  }

  /** Called after drain(), when all other processes of the instance have exited and this one writes nothing
   *  more: ships what is left, and says that nothing follows, so that no healing waits for this instance.
   *  Without MySQL the sign is missing, and healings wait. `own`: the incarnation of this process. */
  async sayEnded(own: number, deadlineMs: number): Promise<void> {
    const { journal, instance, host, log } = this.#options;
    const end = monotonicNow() + deadlineMs;
    this.#titleOf = (incarnation) => (incarnation === own ? '' : null);
    try {
      for (let isDone = false; !isDone; ) {
        if (monotonicNow() >= end) return;
        const { error, isBehind, open } = await this.#round();
        if (error !== null) throw error;
        isDone = !isBehind && open.every((incarnation) => incarnation === own);
      }
      const self = { instance, host, highest: this.#highest ?? 0, spoolBytes: this.#spoolBytes };
      const barrier = await journal.seen({ ...self, barrier: allBarriers }, this.#known);
      if (barrier === null) throw new Error('MySQL went back to an older state');
    } catch (error) {
      log.notice('recorder: the last changes of this instance are not in MySQL; healings wait for it', {
        reason: messageOf(error),
      });
    }
  }

  /** One batch of each stream. */
  async #round(): Promise<Round> {
    const { spool, instance, spoolBytes } = this.#options;
    const began = monotonicNow();
    const highest = this.#highest ?? 0;
    const barrier = await this.#giveSign();
    if (this.#highest !== null) await this.#noteHighest(highest);
    await this.#noteDropped();
    const positions = this.#positions ?? (await this.#askPositions());
    this.#positions = positions;
    const streams = (await spool.streams()).filter((stream) => stream.instance === instance);
    let isBehind = false;
    let failed: unknown = null;
    for (const stream of streams)
      try {
        if (!this.#ended.has(stream.incarnation)) isBehind = (await this.#ship(stream)) || isBehind;
      } catch (error) {
        // A file of this stream; MySQL's failures concern all of them.
        if (error instanceof StoreError) throw error;
        failed ??= error;
      }
    const open = streams.map(({ incarnation }) => incarnation).filter((its) => !this.#ended.has(its));
    this.#lowestOpen = Math.min(...open);
    await this.#clean(streams);
    const bytes = await spool.bytes();
    this.#spoolBytes = bytes;
    if (failed !== null) {
      this.#behindSince ??= wallNow();
      return { waitMs: isBehind ? 0 : limits.loopSleepMsMax, error: failed, isBehind, open };
    }
    if (!isBehind) {
      this.#behindSince = null;
      // All that the spool held when the barrier was read is shipped.
      const isNew = barrier > this.#barrier;
      this.#barrier = barrier;
      return { waitMs: isNew ? 0 : journalLimits.journalEveryMs, error: null, isBehind, open };
    }
    const isFilling = bytes > spoolBytes / 4;
    return { waitMs: isFilling ? 0 : monotonicNow() - began, error: null, isBehind, open };
  }

  /** Returns the barrier of a database that has what was shipped, or whose positions are known now. */
  async #giveSign(): Promise<number> {
    const { journal, instance, host } = this.#options;
    for (;;) {
      const self = { instance, host, barrier: this.#barrier, highest: this.#highest ?? 0 };
      this.#seenAt = monotonicNow();
      const barrier = await journal.seen({ ...self, spoolBytes: this.#spoolBytes }, this.#known);
      if (barrier !== null) return barrier;
      this.#positions = await this.#askPositions();
    }
  }

  /** Ends that a process could not record: jobs accepted before now may have ended without a change. */
  async #noteDropped(): Promise<void> {
    const { journal, spool, log } = this.#options;
    if (!(await spool.takeDropped())) return;
    await journal.raiseSince(wallNow());
    await spool.forgetDropped();
    log.error('recorder: ends of jobs were not recorded, because the spool was full or its disk failed');
  }

  /** Where the database is. It may have gone back while it was unavailable. */
  async #askPositions(): Promise<Map<number, StreamPosition>> {
    const { journal, instance, onWentBack } = this.#options;
    this.#ended.clear();
    const found = await journal.positions(instance);
    const positions = new Map(found.map(({ incarnation, ...at }) => [incarnation, at] as const));
    if (lacksAny(positions, this.#known)) {
      this.#barrier = 0;
      await onWentBack();
    }
    this.#known = positions;
    return positions;
  }

  /** Returns whether more of the stream waits. */
  async #ship(stream: FoundStream): Promise<boolean> {
    const { journal, spool, instance, host, looker } = this.#options;
    const { incarnation } = stream;
    const from = this.#positions?.get(incarnation) ?? streamStart;
    const title = this.#titleOf(incarnation);
    const part = await spool.read(stream, from, title !== null, journalLimits.journalBatch);
    this.#report(part, incarnation);
    if (await this.#setAsideLate(stream, from, part, title !== null)) return true;
    const { next, changes } = part;
    if (changes.length > 0 || next.segment !== from.segment || next.offset !== from.offset) {
      const writer = `${instance}.${incarnation}`;
      const marks = await looker.report(writer, changes);
      // A healing waits no longer for an instance without a sign. The COMMIT may take as long again.
      const isStale = () => monotonicNow() - this.#seenAt > journalLimits.restoreSeenMs / 2;
      const late = () => looker.lateOf(changes, marks, isStale());
      const batch = { instance, incarnation, from, next, changes, host, marks, late };
      const outcome = await this.#shipBatch(stream, { ...batch, process: title ?? '' });
      if (outcome.kind === 'elsewhere') {
        // A database that went back lost batches of other streams too, also of ended ones.
        if (isBefore(outcome.at, from)) this.#positions = await this.#askPositions();
        else this.#positions?.set(incarnation, outcome.at);
        return true;
      }
      this.#positions?.set(incarnation, next);
      if (this.#highest !== null)
        this.#highest = Math.max(this.#highest, ...changes.map(({ number }) => number));
      looker.shipped(writer, changes, marks);
      // The process stood still between the last look at the clock and the COMMIT.
      if (monotonicNow() - this.#seenAt > journalLimits.restoreSeenMs)
        await journal.beginShipped(looker.lateOf(changes, marks, true));
    }
    if (part.state === 'ended') this.#ended.add(incarnation);
    const last = changes.at(-1);
    if (part.state === 'more' && last !== undefined) this.#behindSince = instantOf(last.number);
    return part.state === 'more';
  }

  /** Leaves out changes that the database rejects: the others must not wait for them. */
  async #shipBatch(
    { segments }: FoundStream,
    batch: ShippedBatch,
  ): Promise<Exclude<ShipOutcome, { readonly kind: 'rejected' }>> {
    const { journal, spool, log } = this.#options;
    const { incarnation, from, next } = batch;
    const rejected: { readonly change: Change; readonly code: string }[] = [];
    /** In parts, which keep the position. */
    const ship = async (changes: readonly Change[]): Promise<ShipOutcome> => {
      const outcome = await journal.ship({
        ...batch,
        next: changes === batch.changes ? next : from,
        changes,
      });
      if (outcome.kind !== 'rejected') return outcome;
      const [change] = changes;
      if (changes.length === 1 && change !== undefined) {
        rejected.push({ change, code: outcome.code });
        return outcome;
      }
      const half = Math.ceil(changes.length / 2);
      const first = await ship(changes.slice(0, half));
      if (first.kind === 'elsewhere') return first;
      const second = await ship(changes.slice(half));
      return second.kind === 'elsewhere' ? second : outcome;
    };
    const outcome = await ship(batch.changes);
    if (outcome.kind !== 'rejected') return outcome;
    const [example] = rejected;
    if (example !== undefined) {
      // Where people find them. The position that leaves them out is written after that.
      for (const segment of segments)
        if (segment.segment >= from.segment && segment.segment <= next.segment)
          await spool.keepDamaged(segment);
      if (rejected.some(({ change }) => change.kind === 'ended')) await journal.raiseSince(wallNow());
      const { topic, id, kind } = example.change;
      log.error('recorder: MySQL rejects changes; they are left out, and damaged/ keeps them', undefined, {
        changes: rejected.length,
        code: example.code,
        topic,
        id,
        kind,
        incarnation,
      });
    }
    const last = await journal.ship({ ...batch, changes: [] });
    if (last.kind === 'rejected') throw new Error(`MySQL rejects a batch without changes: ${last.code}`);
    return last;
  }

  /** Sets aside the segment of unread changes from before the retention: ends that outrank their rows may be
   *  removed from the database already. Its clock is that of the numbers: a host may have booted with a wrong
   *  one. Found changes have none of their own. A living process still writes into its last two segments. */
  async #setAsideLate(
    stream: FoundStream,
    from: StreamPosition,
    { changes }: StreamPart,
    isLiving: boolean,
  ): Promise<boolean> {
    const { retentionMs, spool, log } = this.#options;
    const oldest = wallNow() - retentionMs + Math.min(journalLimits.journalLateMs, retentionMs / 2);
    const candidates = isLiving ? stream.segments.slice(0, -2) : stream.segments;
    const old = changes.findIndex(({ isOwn, number }) => isOwn && instantOf(number) < oldest);
    const isFound = changes.length > 0 && !changes.some(({ isOwn }) => isOwn);
    const isOldFile = isFound && candidates.some(({ writtenAt }) => writtenAt < oldest);
    if (candidates.length === 0 || (old < 0 && !isOldFile)) return false;
    const upToIt = { changes: Math.max(0, old) + 1, bytes: Number.POSITIVE_INFINITY };
    const { next } = await spool.read(stream, from, isLiving, upToIt);
    const late = candidates.find(({ segment }) => segment === next.segment);
    if (late === undefined || (old < 0 && late.writtenAt >= oldest)) return false;
    await spool.setAside(late);
    const { incarnation, segment } = late;
    log.error('recorder: a segment of the spool is too old to be merged; it is kept in late/', undefined, {
      incarnation,
      segment,
    });
    return true;
  }

  #report(
    { isTorn, damaged }: { readonly isTorn: boolean; readonly damaged: readonly number[] },
    incarnation: number,
  ): void {
    const { log } = this.#options;
    if (isTorn) log.notice('recorder: cut off the unfinished end of a stream', { incarnation });
    for (const segment of damaged)
      log.error('recorder: a segment of the spool is damaged; its readable changes are shipped', undefined, {
        incarnation,
        segment,
      });
  }

  /** Removes shipped segments, and the positions of streams that have ended and have no file left. */
  async #clean(streams: readonly FoundStream[]): Promise<void> {
    const { journal, spool, instance, spoolBytes } = this.#options;
    const positions = this.#positions;
    if (positions === null) return;
    const shipped = streams.flatMap(({ incarnation, segments }) => {
      const at = positions.get(incarnation) ?? streamStart;
      return this.#ended.has(incarnation) ? segments : segments.filter(({ segment }) => segment < at.segment);
    });
    const removed = await spool.clean(shipped, spoolBytes, wallNow());
    if (removed > 0)
      this.#options.log.error(
        'recorder: removed the oldest segments of damaged/, to leave space',
        undefined,
        {
          removed,
        },
      );
    const present = new Set(streams.map(({ incarnation }) => incarnation));
    const gone = [...positions.keys()].filter(
      (incarnation) => !present.has(incarnation) && this.#titleOf(incarnation) === null,
    );
    if (gone.length === 0) return;
    // Before the call, whose reply may be lost: a missing position would look like a database that went back.
    for (const incarnation of gone) {
      positions.delete(incarnation);
      this.#ended.delete(incarnation);
    }
    await journal.forgetStreams(gone.map((incarnation) => ({ instance, incarnation })));
  }
}
