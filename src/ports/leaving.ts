// The ports of a move: the jobs.db that dq leaves while Redis is in force, and the store in which its jobs
// arrive.
// Invariants: a jobs.db that is left delivers nothing and takes no new ids; of its jobs only reserved ones
// change. So a job that was read here unreserved stays as it is until it is forgotten, and an id that was
// absent stays absent.

import type { AttemptRecord, JobKey, Version } from '../core/job.ts';
import type { Changed } from '../core/job-change.ts';
import type { WalkedJob } from './healing.ts';
import type { StoreFailure } from './store-error.ts';

/** A job of the jobs.db that is not reserved. */
export interface LeavingJob extends Omit<WalkedJob, 'place'> {
  readonly attempts: readonly AttemptRecord[];
}

export interface LeavingState {
  /** live and dead */
  readonly jobs: number;
  /** Alerts about dead letters are owed: they are mailed from here. */
  readonly owesAlerts: boolean;
  /** the number of the open move; null: none is open, and the jobs are held */
  readonly move: number | null;
  /** when it began (epoch ms), and how many jobs there were; null without one */
  readonly startedAt: number | null;
  readonly total: number | null;
  /** a move that has ended here, and may be open in the target */
  readonly ended: number | null;
  /** A backup or fsck reads the file: each job forgotten meanwhile makes its WAL longer. */
  readonly isFrozen: boolean;
  /** when the last job ended here, of those in its history (epoch ms); null: it has none */
  readonly lastEndAt: number | null;
}

/** Of an id: its job as it is, `reserved`, or null without one. */
export type Whereabouts = LeavingJob | 'reserved' | null;

export interface Found {
  readonly move: number | null;
  /** jobs that are left, of all ids */
  readonly left: number;
  /** of the first keys, at least of one: bounded in bytes */
  readonly jobs: readonly Whereabouts[];
}

export type LeavingPlace = readonly number[];

/** Every call may be repeated. */
export interface LeavingJobs {
  state(): Promise<LeavingState>;
  find(keys: readonly JobKey[]): Promise<Found>;
  /** The next jobs to move, bounded in number and bytes: ready ones, then delayed ones by their due time,
   *  then dead letters whose alert is settled. `next`: null at the end */
  page(
    after: LeavingPlace | null,
  ): Promise<{ readonly jobs: readonly LeavingJob[]; readonly next: LeavingPlace | null }>;
  /** Opens a move, unless one is open or no jobs are left. */
  begin(): Promise<LeavingState>;
  /** Before the target opens the move. True: for the first time, so it has had none of the jobs; null: this
   *  move is not open here any more. */
  opens(move: number): Promise<boolean | null>;
  /** Removes jobs that the target has, unless they have another version. */
  forget(jobs: readonly (JobKey & { readonly version: Version })[]): Promise<void>;
  /** Ends the move if nothing is left and the target has closed the one before; else false. */
  end(): Promise<boolean>;
  /** The target has closed this move, which ended. */
  closed(move: number): Promise<void>;
}

export type Arrived =
  /** The target has this version or a higher one, or its end. `change`: of this version, for a journal;
   *  absent of an end and of a higher one */
  | { readonly kind: 'here'; readonly change?: Changed }
  /** it knows no such open move, or it puts back what it has lost */
  | { readonly kind: 'closed' }
  | StoreFailure;

/** The store in force, as the target of moves. `move`: its number in jobs.db, a time in µs, which no other
 *  instance has; the number of an instance can change during a move. */
export interface Arrivals {
  /** From here on every end leaves an entry, and none is removed, until the move is closed. closed: a server
   *  does not know the move as open: it was not opened, or the server has lost that · healing: a server does
   *  not have again what it has lost */
  prepare(move: number): Promise<'open' | 'closed' | 'healing'>;
  /** False: a server has lost data since `prepare`; there nothing is opened. */
  open(move: number): Promise<boolean>;
  close(move: number): Promise<void>;
  /** Puts jobs that are absent, or here in an older version. A repeat changes nothing, also after the job has
   *  ended. */
  put(move: number, jobs: readonly LeavingJob[]): Promise<readonly Arrived[]>;
  /** Changes after each moment in which a server may have lost data; read after an answer of each of them. */
  losses(): Promise<number>;
  isNearlyFull(): boolean;
}
