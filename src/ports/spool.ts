// The port of the spool: the files on this host that hold the journal's records until MySQL has them.

import type { Version } from '../core/job.ts';
import type { Change } from '../core/job-change.ts';

export interface Spool {
  /** Whether so many bytes of bodies fit into the limit of the spool. Asked before a push or verb reaches the
   *  store, which would otherwise hold what the journal cannot. Ends are written also when it is full, into
   *  further segments, but without their attempts. */
  admits(bytes: number): boolean;
  /** Resolves when the records are `written` to the file, or `synced` to the disk. Rejects with
   *  StoreError `unknown`, code `spool_failed`, when their write or fdatasync failed, or after
   *  limits.redisCallMs; the records are then written once more, into a new file. */
  write(changes: readonly Change[], until: 'written' | 'synced'): Promise<void>;
  /** Why pushes and verbs are rejected: the end of a sentence about the spool; null: they are not. */
  readonly rejectReason: string | null;
  /** Ends the stream of this process: its records are synced, and none follows. */
  close(): Promise<void>;
}

/** The stream of one process. */
export interface StreamName {
  readonly instance: number;
  readonly incarnation: number;
}

/** Where the next record of a stream begins. */
export interface StreamPosition {
  readonly segment: number;
  readonly offset: number;
}

export const streamStart: StreamPosition = { segment: 0, offset: 0 };

export const isBefore = (a: StreamPosition, b: StreamPosition): boolean =>
  a.segment < b.segment || (a.segment === b.segment && a.offset < b.offset);

/** Whether a database with the positions `found` lacks some of what `shipped` says; both by incarnation. */
export const lacksAny = (
  found: ReadonlyMap<number, StreamPosition>,
  shipped: ReadonlyMap<number, StreamPosition>,
): boolean => [...shipped].some(([incarnation, at]) => isBefore(found.get(incarnation) ?? streamStart, at));

export interface FoundSegment extends StreamName {
  /** from 1 */
  readonly segment: number;
  readonly bytes: number;
  /** epoch ms */
  readonly writtenAt: number;
}

export interface FoundStream extends StreamName {
  /** ascending by number */
  readonly segments: readonly FoundSegment[];
}

export interface StreamPart {
  readonly changes: readonly Change[];
  readonly next: StreamPosition;
  /** more: read again at once · waiting: its process may write more · ended: nothing follows */
  readonly state: 'more' | 'waiting' | 'ended';
  /** a torn tail was cut off */
  readonly isTorn: boolean;
  /** numbers of damaged segments, which are kept in damaged/ too; each is named once by a reader */
  readonly damaged: readonly number[];
}

export interface ReadLimits {
  readonly changes: number;
  /** of the records; a single larger change is read nevertheless */
  readonly bytes: number;
}

/** The streams of all processes of this host, as the process that ships them sees them. Methods reject with
 *  the system's error. */
export interface SpooledStreams {
  /** Oldest incarnation first. */
  streams(): Promise<readonly FoundStream[]>;
  /** `isLiving`: of the process that writes the stream, determined before the call: one that dies later may
   *  have made further segments. */
  read(stream: StreamName, from: StreamPosition, isLiving: boolean, limits: ReadLimits): Promise<StreamPart>;
  /** Whether a process could not record ends since the last takeDropped(), or since one that no
   *  forgetDropped() followed. */
  takeDropped(): Promise<boolean>;
  forgetDropped(): Promise<void>;
  /** The number of the last noteShipped(), also of an earlier process; 0: unknown. */
  shippedNumber(): Promise<Version>;
  /** `number`: the highest that the database has confirmed. */
  noteShipped(number: Version): Promise<void>;
  /** Segments in late/ and damaged/. */
  setAsideCounts(): Promise<{ readonly late: number; readonly damaged: number }>;
  /** Names of segments that cannot be read to their end, those set aside and damaged ones included. Changes
   *  nothing. */
  unreadable(): Promise<readonly string[]>;
  /** Bytes of all segments, those set aside and damaged ones included. */
  bytes(): Promise<number>;
  /** Keeps a segment in damaged/ too. */
  keepDamaged(segment: FoundSegment): Promise<void>;
  /** Moves a segment to late/. */
  setAside(segment: FoundSegment): Promise<void>;
  /** Removes shipped segments that are old, or take too much of `bytesMax`, and the oldest of damaged/ that
   *  take too much of it; returns the number of the latter. `now`: epoch ms. */
  clean(shipped: readonly FoundSegment[], bytesMax: number, now: number): Promise<number>;
}
