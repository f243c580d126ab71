// The port of the journal's database: what all changes of jobs together say, one row per id, and the changes
// themselves, for a while. Methods reject with StoreError (`where` MySQL).

import type { FlowEvent, JobKey, Version } from '../core/job.ts';
import type { Change, JobRow } from '../core/job-change.ts';
import type { StreamName, StreamPosition } from './spool.ts';

/** Changes of one stream, in the order of their records. Its maker bounds their number and bytes
 *  (journalLimits.journalBatch). */
export interface ShippedBatch extends StreamName {
  readonly from: StreamPosition;
  readonly next: StreamPosition;
  readonly changes: readonly Change[];
  /** the process that made them, and its host */
  readonly process: string;
  readonly host: string;
  /** by place: the newest number of this instance that dq reported to Redis as shipped */
  readonly marks: ReadonlyMap<string, Version>;
  /** those that a healing may have missed: their work begins with the batch; absent: none */
  readonly late?: () => readonly ShippedRange[];
}

/** Changes of a place that a healing may have missed. */
export interface ShippedRange {
  readonly place: string;
  readonly lowest: Version;
  /** 0: up to the last loss of the place, which was unknown */
  readonly highest: Version;
}

export type ShipOutcome =
  | { readonly kind: 'shipped' }
  /** The database is at another position than `from`, and nothing was written. A later one: the reply of an
   *  earlier call was lost. An earlier one: the database went back. */
  | { readonly kind: 'elsewhere'; readonly at: StreamPosition }
  /** The database does not take the values of a change, or so many bytes; nothing was written. */
  | { readonly kind: 'rejected'; readonly code: string };

export interface RowPage {
  readonly rows: readonly JobRow[];
  /** null at the end */
  readonly nextCursor: string | null;
}

/** since ≤ due time < until (epoch ms); of a dead row: the time of its death */
export interface OpenFilter {
  readonly topic?: string;
  readonly since?: number;
  readonly until?: number;
  /** epoch ms: accepted then or later */
  readonly acceptedFrom?: number;
  /** true: leaves out rows that cannot be put back */
  readonly isRestorable?: boolean;
}

export interface KeyPage {
  readonly keys: readonly (JobKey & { readonly version: Version })[];
  /** null at the end */
  readonly nextCursor: string | null;
}

/** A change as the flow of a job shows it. */
export interface LoggedChange {
  readonly number: Version;
  readonly place: string;
  readonly version: Version;
  readonly event: FlowEvent;
  readonly dueAt: number;
  readonly process: string;
  readonly host: string;
  /** the attempt of a retry, burial or end, as JSON; null without one */
  readonly attempt: string | null;
}

/** Work on rows of the journal: it survives its process. One per kind, subject and note. */
export interface RestoreWork {
  readonly no: number;
  /** heal: the rows that a note of a rollback names · lost_shard: rows of a removed shard go to their homes ·
   *  shipped: changes that a healing may have missed · survey: the jobs of a shard are written to the
   *  journal */
  readonly kind: 'heal' | 'lost_shard' | 'shipped' | 'survey';
  /** the shard's id; shipped: the place */
  readonly about: string;
  /** number of the note; shipped: ShippedRange.highest; else what makes the work unique */
  readonly note: Version;
  /** where its worker continues; null: at the beginning */
  readonly cursor: string | null;
  /** ms since it began, by MySQL's clock; absent: unknown */
  readonly ageMs?: number;
  readonly counts: RestoreCounts;
}

export interface RestoreCounts {
  /** rows compared */
  readonly done: number;
  readonly put: number;
  readonly removed: number;
  readonly kept: number;
}

export const noCounts: RestoreCounts = { done: 0, put: 0, removed: 0, kept: 0 };

export interface RestoreState extends RestoreWork {
  readonly state: 'open' | 'done' | 'failed';
  /** epoch ms by MySQL's clock */
  readonly begunAt: number;
  readonly endedAt: number | null;
}

/** An instance that writes a journal. */
export interface JournalInstance {
  readonly instance: number;
  readonly host: string;
  /** ms since it was last seen, by MySQL's clock */
  readonly ageMs: number;
  /** the newest barrier whose changes it has shipped; allBarriers: nothing follows until its next sign */
  readonly barrier: number;
  /** the highest number that it knows */
  readonly highest: Version;
  readonly spoolBytes: number;
}

/** Of an instance that ended, and has shipped all that it wrote: it has reached every barrier to come. */
export const allBarriers = Number.MAX_SAFE_INTEGER;

export interface JournalDb {
  /** Where MySQL is in each stream of an instance. */
  positions(instance: number): Promise<readonly (StreamName & StreamPosition)[]>;
  /** One transaction. A repeat after an unknown result changes nothing. */
  ship(batch: ShippedBatch): Promise<ShipOutcome>;
  /** By place, the newest number of each instance that dq reported to Redis as shipped. */
  marks(): Promise<
    readonly { readonly instance: number; readonly place: string; readonly number: Version }[]
  >;
  /** Removes the positions of streams that are completely shipped and whose files are removed. */
  forgetStreams(streams: readonly StreamName[]): Promise<void>;

  /** `bodies` false: those that are kept are empty. */
  rows(keys: readonly JobKey[], bodies?: boolean): Promise<readonly JobRow[]>;
  /** Rows that wait, earliest due first, or dead ones, of these places. */
  open(state: 'waiting' | 'dead', places: readonly string[], cursor: string | null): Promise<RowPage>;
  /** Keys of the same rows, of all places, without their bodies. */
  openKeys(state: 'waiting' | 'dead', filter: OpenFilter, cursor: string | null): Promise<KeyPage>;
  /** Rows of the ids that changed at these places with a number above `from`, by id. Each page covers the
   *  next ids of the log; ids can come again on a later page. `upTo`: leaves out changes with higher
   *  numbers. `bodies` false: those that are kept are empty. */
  changedAbove(
    from: Version,
    places: readonly string[],
    cursor: string | null,
    more?: { readonly upTo?: Version; readonly bodies?: boolean },
  ): Promise<RowPage>;
  /** The oldest number of the log; null: it is empty. */
  oldestChange(): Promise<Version | null>;
  /** The newest changes, the oldest of them first. */
  flow(key: JobKey, limit: number): Promise<readonly LoggedChange[]>;

  /** Begins work unless it exists. A healing that has ended is opened again: its note is still in force. */
  beginRestore(work: Pick<RestoreWork, 'kind' | 'about' | 'note'>): Promise<void>;
  /** Begins work of kind `shipped`, or extends it: a worker that has it loses its claim, because it may have
   *  passed these changes. Their page cursor (changedAbove) is the number that it continues after. */
  beginShipped(ranges: readonly ShippedRange[]): Promise<void>;
  /** Begins the survey of a shard, again if its last one began `everyMs` ago, or ended `againMs` ago and
   *  began before `since`. One that is open begins again from the start. */
  beginSurvey(shard: string, everyMs: number, againMs: number): Promise<void>;
  /** Open work that no living worker has, for `forMs`; null: there is none. `worker`: its instance. Work of
   *  kind `shipped` comes last. */
  claimRestore(worker: number, forMs: number, of?: 'restore' | 'survey'): Promise<RestoreWork | null>;
  /** Keeps the claim for `forMs` more. False: another worker has it. */
  saveRestore(work: RestoreWork, worker: number, forMs: number): Promise<boolean>;
  /** False: another worker has it, or it has ended. */
  endRestore(work: RestoreWork, worker: number, as: 'done' | 'failed'): Promise<boolean>;
  /** Newest first; without surveys, or of one kind. */
  restores(limit: number, kind?: RestoreWork['kind']): Promise<readonly RestoreState[]>;

  /** Reports an instance as living; with allBarriers, as ended. Returns the barrier: it has to ship all
   *  changes that its spool holds now, and then to report that barrier as reached. `shipped`: positions of
   *  its streams, by incarnation. null: the database lacks one of them, because it went back, and nothing is
   *  reported. */
  seen(
    self: Omit<JournalInstance, 'ageMs'>,
    shipped?: ReadonlyMap<number, StreamPosition>,
  ): Promise<number | null>;
  /** Called before an instance writes its first change: takes back that it has ended. */
  begins(instance: number): Promise<void>;
  /** Reports those as ended that gave no sign for `silentMs` and have not reached every barrier: nothing
   *  waits for them until their next sign. `only`: the one whose spool was shipped by another process.
   *  Returns them. */
  giveUp(silentMs: number, only?: number): Promise<readonly JournalInstance[]>;
  /** A higher barrier than all before, also than those that a database that went back has forgotten. */
  raiseBarrier(): Promise<number>;
  instances(): Promise<readonly JournalInstance[]>;

  /** Jobs that were accepted before (epoch ms) may have ended without a change in the journal. */
  since(): Promise<number>;
  /** Never lower than before. */
  raiseSince(to: number): Promise<void>;

  /** Removes ended rows and changes from before `before` (epoch ms), at most `max` of each. Returns whether
   *  more are left. */
  trim(before: number, max: number): Promise<boolean>;
}
