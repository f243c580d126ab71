// The port of counts, health, backup and fsck. The rules of jobs.ts hold here too.

import type { LateJob } from '../core/incident.ts';
import type { JobState, Moment } from '../core/job.ts';
import type { LeftBehind } from '../core/left-behind.ts';
import type { OnChanged } from './jobs.ts';

export type StateCounts = Readonly<Record<JobState, number>>;

export interface StoreHealth {
  /** the store answers and accepts pushes; of several servers, at least one does */
  readonly ok: boolean;
  /** one sentence: which failures stored jobs survive */
  readonly durability: string;
  /** reasons why it is not ok; when it is ok, dangerous parts of its configuration */
  readonly warnings: readonly string[];
  /** What the configuration leaves behind in the data directory; its texts are among the warnings. Absent:
   *  nothing */
  readonly leftBehind?: readonly LeftBehind[];
  /** The clock of the embedded store jumped and is not stable yet: nothing is removed by its time. Absent:
   *  the clock is stable. */
  readonly isClockHeld?: boolean;
  /** 99 of 100 of the last commits took at most so long, fsync included. Absent: no commit yet, or Redis */
  readonly commitP99Ms?: number;
  /** The servers of the store, each with its own failures; absent without servers. `ok` with several: some
   *  of them work. */
  readonly servers?: readonly StoreServer[];
  /** Records in quarantine: unreadable, or in a place without a job. fsck names them; other jobs are not
   *  affected. Absent: 0. */
  readonly quarantined?: number;
}

export interface StoreServer {
  /** an operator's name of it, without secrets */
  readonly name: string;
  /** why it does not work or rejects pushes: the end of a sentence; null = it works */
  readonly trouble: string | null;
}

/** Work that takes longer than a call: the caller starts it and polls its state. The state ends with the
 *  process that works: `none` after `running` means lost work, which may be started again. */
export type LongWork<R> =
  | { readonly kind: 'none' }
  | { readonly kind: 'running'; readonly startedAt: number }
  | { readonly kind: 'done'; readonly startedAt: number; readonly endedAt: number; readonly result: R }
  /** reason: a sentence for the operator; the work left nothing behind */
  | {
      readonly kind: 'failed';
      readonly startedAt: number;
      readonly endedAt: number;
      readonly reason: string;
    };

export interface Backup {
  /** contains jobs.db (with jobs on Redis: while it has some) and registry.db like a data directory, but not
   *  the key that encrypts the topics' secrets */
  readonly directory: string;
  readonly bytes: number;
  /** what the operator has to copy by other means: a sentence; absent: nothing but the key */
  readonly notCopied?: string;
}

export interface Problem {
  /** a code such as I1, `numbers`, `counts` or `file` */
  readonly invariant: string;
  readonly what: string;
  readonly count: number;
  /** some of them */
  readonly examples: readonly string[];
  /** Instances whose changes are missing and may explain it: nothing is broken yet. Absent: nothing does. */
  readonly awaits?: readonly string[];
}

export interface Examination {
  readonly jobs: number;
  readonly problems: readonly Problem[];
  /** entries that were put back before the check; absent: none were looked for */
  readonly relinked?: number;
}

export interface Counts {
  /** the topics with jobs */
  readonly topics: Readonly<Record<string, StateCounts>>;
  /** how long the first of `oldest` has been due; null without one */
  readonly oldestOverdueMs: number | null;
  /** The overdue jobs that have been due the longest, ready or not promoted yet: one of each topic, the
   *  longest first, at most limits.oldestMax. Of jobs that were due at once, any. Behind thousands of
   *  delayed ones that are overdue, further ones may be missing. */
  readonly oldest: readonly LateJob[];
  /** as in Page: parts whose jobs are not counted */
  readonly missing?: readonly string[];
}

export interface StoreAdmin {
  /** `held`: topics whose due jobs do not count as overdue: they wait on purpose. `pulled`: topics whose
   *  ready jobs do not, because they wait for a client; a delayed one waits for a timer. Few topics: a store
   *  may need the names many times. */
  counts(held?: readonly string[], pulled?: readonly string[]): Promise<Counts>;
  /** The same of these topics alone. */
  countsOf(topics: readonly string[]): Promise<Counts>;
  /** Removes jobs of one topic in any state, at most max (≤ limits.bulkMax). Their leases are lost; owed
   *  alerts stay owed. */
  purgeTopic(
    topic: string,
    max: number,
    onChanged?: OnChanged,
  ): Promise<{ readonly purged: number; readonly more: boolean }>;
  health(): Promise<StoreHealth>;
  /** The storage clock, epoch ms; of several servers, the clock of one that answers. */
  clock(): Promise<number>;
  /** The moment of the call, for filters. Every partition draws a number and stores it, also while it rejects
   *  pushes. Rejects unless all do: the jobs of the others would match nothing. */
  moment(): Promise<Moment>;
  /** Copies the current store and registry into a new directory (an absolute path on the store's machine).
   *  At most one long work runs at a time, else `busy`. */
  startBackup(directory: string): Promise<'started' | 'busy'>;
  backup(): Promise<LongWork<Backup>>;
  /** Checks every invariant of the current store. Changes nothing, unless `relinks`: then a store of several
   *  keys first puts jobs back into sets that lost them, by their records. A job that is in any set stays
   *  there. The embedded store has one file, and ignores it. */
  startFsck(how?: 'relinks'): Promise<'started' | 'busy'>;
  fsck(): Promise<LongWork<Examination>>;
}
