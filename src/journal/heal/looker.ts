// Compares the numbers that each partition of the store has with those that the journal knows, for processes
// that lost changes and make no further call. Keeps per partition what was shipped, and its state.
// Invariant: a mark is raised in the partition before the journal has it. So a partition with a lower mark
// than the journal went back.

import type { Version } from '../../core/job.ts';
import type { Change } from '../../core/job-change.ts';
import type { AllowedNote, Healing, LossNote, LossState, ShippedNumbers } from '../../ports/healing.ts';
import type { Partition } from '../../ports/job-store.ts';
import type { JournalDb, ShippedRange } from '../../ports/journal.ts';
import { StoreError } from '../../ports/store-error.ts';
import { Agent } from '../../runtime/loop.ts';
import { monotonicNow } from '../../runtime/time.ts';
import type { Log } from '../../telemetry/log.ts';
import { journalLimits } from '../limits.ts';
import type { LossSearch } from '../ship/recorder.ts';

interface LookerOptions {
  readonly healing: Healing;
  readonly partitions: () => readonly Partition[];
  readonly journal: Pick<JournalDb, 'marks'>;
  readonly instance: number;
  readonly log: Log;
  /** Writers of this instance with a lower incarnation are dead, and shipped to their end; null: unknown. */
  readonly deadBelow: () => number | null;
}

interface Shipping {
  /** `<instance>.<incarnation>` */
  readonly writer: string;
  readonly number: Version;
}

export class Looker extends Agent implements LossSearch {
  readonly #options: LookerOptions;
  readonly #partitions = new Map<string, Partition>();
  readonly #states = new Map<string, LossState>();
  /** by place and writer: the highest number that was shipped */
  readonly #shipped = new Map<string, Map<string, Version>>();
  /** by place: monotonicNow() of the last look that forgot dead writers */
  readonly #forgotAt = new Map<string, number>();
  /** by place and instance: the mark in the journal; null: unread */
  #marks: Map<string, Map<number, Version>> | null = null;
  #readAt = Number.NEGATIVE_INFINITY;
  #next = 0;

  constructor(options: LookerOptions) {
    super({
      log: options.log,
      failure: 'looker: cannot compare numbers with the store',
      end: 'looker: compares numbers with the store again',
      step: async () => {
        await this.#round();
        return journalLimits.lookEveryMs;
      },
    });
    this.#options = options;
  }

  /** The notes that were seen last. */
  get notes(): readonly LossNote[] {
    return [...this.#states.values()].flatMap(({ note }) => note ?? []);
  }

  /** Whether each partition has been looked at. */
  get hasSeenAll(): boolean {
    return this.#states.size >= this.#options.partitions().length && this.#states.size > 0;
  }

  /** The known partitions, by place. */
  get partitions(): ReadonlyMap<string, Partition> {
    return this.#partitions;
  }

  /** The number of the last loss of a place, which is healed or not; 0: none was; null: unknown. */
  lastLossAt(place: string): Version | null {
    const state = this.#states.get(place);
    return state === undefined ? null : lastLoss(state);
  }

  /** For rows that are read after this call: a partition that is healed of a loss meanwhile may have ended
   *  their jobs, and takes none of them. */
  allowedNow(): (place: string) => AllowedNote {
    const losses = new Map([...this.#states].map(([place, state]) => [place, lastLoss(state)]));
    return (place) => ({ note: 0, healed: losses.get(place) ?? Number.MAX_SAFE_INTEGER });
  }

  /** Looks at the known partitions of a shard. Rejects with StoreError when one does not answer. */
  async lookAt(shard: string): Promise<void> {
    for (const [place, partition] of this.#partitions)
      if (shardOf(place) === shard) await this.#look(partition);
  }

  async report(writer: string, changes: readonly Change[]): Promise<ReadonlyMap<string, Version>> {
    const highest = new Map<string, Version>();
    for (const { isOwn, place, number } of changes)
      if (isOwn) highest.set(place, Math.max(highest.get(place) ?? 0, number));
    const marks = new Map<string, Version>();
    for (const [place, number] of highest) {
      const partition = this.#partitions.get(place);
      if (partition === undefined) continue;
      try {
        await this.#look(partition, { writer, number });
        marks.set(place, number);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
      }
    }
    return marks;
  }

  lateOf(
    changes: readonly Change[],
    reported: ReadonlyMap<string, Version>,
    isOld: boolean,
  ): readonly ShippedRange[] {
    const ranges = new Map<string, ShippedRange>();
    for (const { isOwn, place, number } of changes) {
      const isReported = reported.has(place);
      const loss = isReported && !isOld ? this.lastLossAt(place) : null;
      if (!isOwn || (loss !== null && number > loss)) continue;
      const { lowest, highest } = ranges.get(place) ?? { lowest: number, highest: number };
      ranges.set(place, {
        place,
        lowest: Math.min(lowest, number),
        // Without an answer no loss of these numbers shows: this process may die before its next look.
        highest: isReported ? (loss ?? 0) : Math.max(highest, number),
      });
    }
    return [...ranges.values()];
  }

  shipped(writer: string, changes: readonly Change[], marks: ReadonlyMap<string, Version>): void {
    for (const [place, number] of marks) marksAt(this.#marks, place)?.set(this.#options.instance, number);
    for (const { isOwn, place, number } of changes) {
      if (!isOwn) continue;
      const writers = this.#shipped.get(place) ?? new Map<string, Version>();
      this.#shipped.set(place, writers);
      writers.set(writer, Math.max(writers.get(writer) ?? 0, number));
    }
  }

  /** A part of the partitions: each is looked at within lookAllMs. */
  async #round(): Promise<void> {
    const partitions = this.#options.partitions();
    this.#forgetRemoved(new Set(partitions));
    const isFirst = this.#marks === null;
    if (monotonicNow() - this.#readAt >= journalLimits.marksEveryMs) await this.#readMarks();
    const turns = journalLimits.lookAllMs / journalLimits.lookEveryMs;
    const count = isFirst ? partitions.length : Math.ceil(partitions.length / turns);
    let failed: StoreError | null = null;
    for (let n = 0; n < Math.min(count, partitions.length); n += 1) {
      this.#next = (this.#next + 1) % partitions.length;
      try {
        await this.#look(partitions[this.#next] as Partition);
      } catch (error) {
        // The partitions of other shards answer.
        if (!(error instanceof StoreError)) throw error;
        failed ??= error;
      }
    }
    if (failed !== null) throw failed;
  }

  /** Notes of a removed shard are not healed: its jobs are lost with it. */
  #forgetRemoved(listed: ReadonlySet<Partition>): void {
    for (const [place, partition] of this.#partitions)
      if (!listed.has(partition)) {
        this.#partitions.delete(place);
        this.#states.delete(place);
      }
  }

  async #readMarks(): Promise<void> {
    const marks = new Map<string, Map<number, Version>>();
    for (const { instance, place, number } of await this.#options.journal.marks())
      marksAt(marks, place)?.set(instance, number);
    this.#marks = marks;
    this.#readAt = monotonicNow();
  }

  /** `next`: the highest number that is about to be shipped from a writer. It is compared before its mark is
   *  raised: a partition that lost it earlier has the mark of a whole one afterwards. */
  async #look(partition: Partition, next: Shipping | null = null): Promise<void> {
    const known = [...this.#partitions].find(([, its]) => its === partition)?.[0];
    const numbers = this.#numbersOf(known, next);
    const state = await this.#options.healing.look(partition, numbers);
    if (numbers.forget !== null) this.#forgotAt.set(state.place, monotonicNow());
    this.#partitions.set(state.place, partition);
    this.#states.set(state.place, state);
    // Its numbers could only be compared now that its place is known.
    if (known === undefined && this.#marks?.has(state.place) === true) await this.#look(partition, next);
  }

  #numbersOf(place: string | undefined, next: Shipping | null): ShippedNumbers {
    const { instance } = this.#options;
    const marks = new Map<number, { readonly known: Version; readonly next: Version }>();
    for (const [its, known] of this.#marks?.get(place ?? '') ?? []) marks.set(its, { known, next: known });
    if (next !== null) marks.set(instance, { known: marks.get(instance)?.known ?? 0, next: next.number });
    const below = this.#options.deadBelow();
    const isDue = monotonicNow() - (this.#forgotAt.get(place ?? '') ?? 0) >= journalLimits.marksEveryMs;
    const forget = place === undefined || below === null || !isDue ? null : { instance, below };
    const shipped = this.#shipped.get(place ?? '') ?? new Map<string, Version>();
    const writers = new Map(shipped);
    if (next !== null) writers.set(next.writer, Math.max(shipped.get(next.writer) ?? 0, next.number));
    // Compared once more, and not again: the partition forgets them.
    if (forget !== null)
      for (const writer of shipped.keys())
        if (Number(writer.split('.')[1]) < forget.below) shipped.delete(writer);
    return { writers, marks, forget };
  }
}

/** Changes with higher numbers came after the last loss. */
const lastLoss = ({ healed, note }: LossState): Version => Math.max(healed, note?.id ?? 0);

/** of a place */
export const shardOf = (place: string): string => place.split(':')[0] ?? '';

function marksAt(
  marks: Map<string, Map<number, Version>> | null,
  place: string,
): Map<number, Version> | undefined {
  if (marks === null) return undefined;
  const known = marks.get(place) ?? new Map<number, Version>();
  marks.set(place, known);
  return known;
}
