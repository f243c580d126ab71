// The port of a store that may go back to an older state, and of the journal that puts lost changes back.
// Optional duty of a store; the rules of jobs.ts hold here too.

import type { DeadReason, EndState, JobKey, Version } from '../core/job.ts';
import type { Changed, JobRow, PushedParts } from '../core/job-change.ts';
import type { Partition } from './jobs.ts';
import type { StoreFailure } from './store-error.ts';

/** A partition that lost changes and is not healed yet. */
export interface LossNote {
  readonly partition: Partition;
  /** as in Changed */
  readonly place: string;
  /** changes with numbers above may be lost; 0: all */
  readonly from: Version;
  /** drawn when the note was made: numbers above belong to later changes */
  readonly id: Version;
  /** ends: ended jobs may have come back, and nothing is reserved for a while · jobs: lost ones are put
   *  back */
  readonly phase: 'ends' | 'jobs';
}

/** What the journal knows about the numbers that a partition has given. */
export interface ShippedNumbers {
  /** by writer (`<instance>.<incarnation>`): the highest number that was shipped from it */
  readonly writers: ReadonlyMap<string, Version>;
  /** by instance: the newest number that dq reported to the partition as shipped, as the journal has it, and
   *  the one that it reports now */
  readonly marks: ReadonlyMap<number, { readonly known: Version; readonly next: Version }>;
  /** Writers of the instance with a lower incarnation are dead, and shipped to their end: the partition
   *  forgets them. null: none this time, because the partition would read all names */
  readonly forget: { readonly instance: number; readonly below: number } | null;
}

export type PutOutcome =
  /** put back, replaced an older version, or given more failures or its death */
  | { readonly kind: 'put'; readonly change: Changed }
  /** the row has ended, and its job or an older version of it is removed: the journal has to learn the number
   *  of that, because the place can lose it again */
  | { readonly kind: 'removed'; readonly place: string; readonly number: Version }
  /** the store has the same or more. `number`: it has an entry of the end now */
  | { readonly kind: 'kept'; readonly number?: Version }
  /** the store's history says that it ended: the journal has to learn that */
  | { readonly kind: 'ended'; readonly end: EndState; readonly version: Version; readonly endedAt: number }
  /** kept, and the row names another place: the journal has to learn where the job is */
  | { readonly kind: 'found'; readonly change: Changed }
  /** the partition had a loss that the caller does not allow, with this note: it begins again */
  | { readonly kind: 'other_note'; readonly place: string; readonly note: Version }
  /** of `compare`: the row would replace an older version */
  | { readonly kind: 'older' }
  | StoreFailure;

/** What happens with open rows. put: they replace older versions, and lost jobs are put back · replace: only
 *  the former · compare: nothing, and their bodies are not needed */
export type OpenRows = 'put' | 'replace' | 'compare';

/** In which state a partition takes rows. Before the barrier of a newer loss, the journal may have an older
 *  row of a job. */
export interface AllowedNote {
  /** id of the note that may be in force; 0: none */
  readonly note: Version;
  /** without a note: the highest id that may have been healed */
  readonly healed: Version;
}

/** What a partition says about its losses. */
export interface LossState {
  /** as in Changed */
  readonly place: string;
  readonly note: LossNote | null;
  /** id of the last note that was healed; 0: none was */
  readonly healed: Version;
}

/** A job that the store has, as a walk finds it. */
export interface WalkedJob extends JobKey, PushedParts {
  /** as in Changed */
  readonly place: string;
  readonly version: Version;
  readonly origin: Version;
  readonly dueAt: number;
  readonly failures: number;
  /** of a dead job; `isTold`: its alert is settled */
  readonly death: { readonly at: number; readonly reason: DeadReason; readonly isTold: boolean } | null;
}

export interface Healing {
  /** Compares the rows with the jobs, and puts back what is lost. `allowed`: by place; absent: all partitions
   *  without a note. A repeat changes nothing. */
  put(
    rows: readonly JobRow[],
    allowed?: (place: string) => AllowedNote,
    open?: OpenRows,
  ): Promise<readonly PutOutcome[]>;
  /** Makes a note if the partition has lower numbers than the journal knows. */
  look(partition: Partition, shipped: ShippedNumbers): Promise<LossState>;
  /** By instance, the newest number that dq reported to the partition as shipped. Changes nothing. */
  marks(
    partition: Partition,
  ): Promise<{ readonly place: string; readonly marks: ReadonlyMap<number, Version> }>;
  /** Moves the note to its next phase, or clears it. False: another note is in force. */
  advance(note: LossNote, to: 'jobs' | 'healed'): Promise<boolean>;
  /** Nothing is reserved for so long from now (at most a minute), unless the note leaves the phase `ends`.
   *  False: another note or phase is in force. */
  hold(note: LossNote, ms: number): Promise<boolean>;
  /** Whether the store surely has neither this version of the job nor a higher one. Changes nothing. */
  lacks(jobs: readonly (JobKey & { readonly version: Version })[]): Promise<readonly boolean[]>;
  /** Gives one piece of the jobs of a partition to `take`, in parts bounded in bytes. Returns the cursor of
   *  the next piece; null at the end. A job that exists from the first piece to the last is in one, or in
   *  several, unless the server restarts meanwhile. */
  walk(
    partition: Partition,
    cursor: string | null,
    take: (jobs: readonly WalkedJob[]) => Promise<void>,
  ): Promise<string | null>;
}
