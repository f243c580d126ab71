// The port of the journal's database: what all changes of jobs together say, one row per id, and the changes
// themselves, for a while. Methods reject with StoreError (`where` MySQL).

import type { JobKey, Version } from '../core/job.ts';
import type { Change, PushedParts } from '../core/journal/change.ts';
import type { JobRow } from '../core/journal/job-row.ts';
import type { StreamName, StreamPosition } from './spool.ts';

/** Changes of one stream, in the order of their records. At most journalLimits.batchChanges and
 *  .batchBytes. */
export interface ShippedBatch extends StreamName {
  readonly from: StreamPosition;
  readonly next: StreamPosition;
  readonly changes: readonly Change[];
  /** the process that made them, and its host */
  readonly process: string;
  readonly host: string;
  /** by place: the newest number of this instance that dq reported to Redis as shipped */
  readonly marks: ReadonlyMap<string, Version>;
}

export type ShipOutcome =
  | { readonly kind: 'shipped' }
  /** The database is at another position than `from`, and nothing was written. A later one: the reply of an
   *  earlier call was lost. An earlier one: the database went back. */
  | { readonly kind: 'elsewhere'; readonly at: StreamPosition };

/** A row that can be put back: its push is known and has not ended. */
export type RestorableRow = JobRow & { readonly pushed: PushedParts };

export interface RowPage {
  readonly rows: readonly JobRow[];
  /** null at the end */
  readonly nextCursor: string | null;
}

/** A change as the flow of a job shows it. */
export interface LoggedChange {
  readonly number: Version;
  readonly place: string;
  readonly version: Version;
  readonly event: string;
  readonly dueAt: number;
  readonly process: string;
  readonly host: string;
  /** the attempt of a retry, burial or end, as JSON; null without one */
  readonly attempt: string | null;
}

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

  rows(keys: readonly JobKey[]): Promise<readonly JobRow[]>;
  /** Rows that wait, earliest due first, or dead ones, of these places. */
  open(state: 'waiting' | 'dead', places: readonly string[], cursor: string | null): Promise<RowPage>;
  /** Rows of the ids that changed at these places with a number above `from`, by id. Each page covers the
   *  next ids of the log; ids can come again on a later page. */
  changedAbove(from: Version, places: readonly string[], cursor: string | null): Promise<RowPage>;
  /** The oldest number of the log; null: it is empty. */
  oldestChange(): Promise<Version | null>;
  /** Oldest first. */
  flow(key: JobKey, limit: number): Promise<readonly LoggedChange[]>;

  /** Removes ended rows and changes from before `before` (epoch ms), at most `max` of each. Returns whether
   *  more are left. */
  trim(before: number, max: number): Promise<boolean>;
}
