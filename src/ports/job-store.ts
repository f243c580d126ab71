// The port of the job store: six duties and their failures. test/conformance/exercise.ts defines it in tests;
// every implementation passes it unchanged. The rules of jobs.ts hold for all of them.

import type { LateJob } from '../core/incident.ts';
import type {
  AlertState,
  AttemptReason,
  AttemptRecord,
  DeadReason,
  EndedJob,
  FoundJob,
  JobKey,
  JobSnapshot,
  JobState,
  Moment,
  SettledAlert,
  Version,
} from '../core/job.ts';
import type { LeftBehind } from '../core/left-behind.ts';
import type { DeadSelection } from '../core/survey.ts';
import type { Healing } from './healing.ts';
import type { JobStore, OnChanged, Page } from './jobs.ts';
import type { Arrivals } from './leaving.ts';

export type { TopicCapacity } from '../core/layered-capacities.ts';
export type * from './healing.ts';
export type * from './jobs.ts';

export interface Store {
  readonly jobs: JobStore;
  readonly dead: DeadLetters;
  readonly alerts: AlertOutbox;
  readonly history: History;
  readonly admin: StoreAdmin;
  readonly surveys: Surveys;
  /** a store that can lose changes which a journal has */
  readonly healing?: Healing;
  /** a store that takes the jobs of a jobs.db */
  readonly arrivals?: Arrivals;
  close(): Promise<void>;
}

/** An alert: one entry per buried job, mailed by dq-upkeep. It is removed with its dead letter, but not
 *  before its alert is sent or has no recipient. */
export interface AlertEntry extends JobKey {
  readonly version: Version;
  readonly deadAt: number;
  readonly reason: DeadReason;
  /** of the buried job */
  readonly failures: number;
  /** the last one since the last requeue; null without one */
  readonly attempt: AttemptRecord | null;
  /** claimed: only until the claim expires */
  readonly state: AlertState;
}

export interface AlertPage extends Page<AlertEntry> {
  /** all entries; absent from a store of the previous generation */
  readonly total?: number;
}

export interface AlertOutbox {
  /** Topics with an owed entry and no mail within windowMs, longest wait first. */
  due(windowMs: number): Promise<readonly string[]>;
  /** Claims owed entries of the topic, oldest first, for claimMs: no other caller gets them, then they are
   *  owed again. Ignores the window, because a mailer that sends in parts claims in parts. */
  claim(topic: string, claimMs: number, max: number): Promise<readonly AlertEntry[]>;
  /** Settles entries by version; removes those whose dead letter is gone. `owed` ends a claim at once. An
   *  entry in state sent or `nobody` stays so: a late call of another mailer does not make it owed again.
   *  `sent` also begins the window of the topics; the topic stores it, because an entry goes with its dead
   *  letter. */
  settle(versions: readonly Version[], as: SettledAlert): Promise<void>;
  /** State of the entry of this version of a job; null: it has none. */
  stateOf(job: JobKey & { readonly version: Version }): Promise<AlertEntry['state'] | null>;
  /** Newest death first. */
  list(limit: number, cursor: string | null): Promise<AlertPage>;
}

export interface DeadFilter {
  readonly topic?: string;
  /** deadAt, epoch ms: since ≤ deadAt < until */
  readonly since?: number;
  readonly until?: number;
  /** requires topic */
  readonly ids?: readonly string[];
  /** the job died before: deadAt would not tell, because a clock can be set back */
  readonly before?: Moment;
}

/** A dead letter in a list: without its body, which would dominate the cost of a page. */
export type DeadLetter = Omit<JobSnapshot, 'body' | 'extension'>;

export interface DeadLetters {
  /** Newest death first; equal deaths by version, as in the other methods. With `before` a page with a next
   *  one can be short or empty. */
  list(filter: DeadFilter, limit: number, cursor: string | null): Promise<Page<DeadLetter>>;
  /** dead → ready as a new version of the same origin, due now; failures and strikes 0, no attempts, the
   *  rest unchanged. At most max (≤ limits.bulkMax), oldest death first. Works in steps, between which the
   *  store serves other callers. A call that ends early returns its count and `more` true; purge and
   *  purgeTopic do the same. After its first step in a partition, a requeue or purge skips deaths since then:
   *  a job that dies again during the call is requeued once. */
  requeue(
    filter: DeadFilter,
    max: number,
    onChanged?: OnChanged,
  ): Promise<{ readonly requeued: number; readonly more: boolean }>;
  /** dead → gone, oldest death first. Owed alerts stay owed. */
  purge(
    filter: DeadFilter,
    max: number,
    onChanged?: OnChanged,
  ): Promise<{ readonly purged: number; readonly more: boolean }>;
  /** Removes dead letters older than olderThanMs by the storage clock, oldest death first, at most max (≤
   *  limits.expireMax). Keeps those whose alert is owed or claimed. Removes nothing after a jump of the
   *  embedded store's clock, until it is stable. */
  expire(
    olderThanMs: number,
    max: number,
    onChanged?: OnChanged,
  ): Promise<{ readonly expired: number; readonly more: boolean }>;
}

/** Ended jobs. The step that ends a job also writes its entry. An id has one entry, of the version that
 *  ended last; a push of the id removes it. A store configured without history has no entries. */
export interface History {
  get(key: JobKey): Promise<EndedJob | null>;
  /** Removes entries older than olderThanMs by the storage clock, oldest end first, at most max (≤
   *  limits.forgetMax). Removes nothing after a jump of the clock, as DeadLetters.expire. */
  forget(olderThanMs: number, max: number): Promise<{ readonly forgotten: number; readonly more: boolean }>;
}

/** At least one of idPrefix and body. */
export interface ScanFilter {
  /** absent: all topics */
  readonly topics?: readonly string[];
  readonly state?: JobState;
  /** its characters are the first ones of the id */
  readonly idPrefix?: string;
  /** base64 of 3 to 256 bytes that are part of the body */
  readonly body?: string;
  /** dueAt, epoch ms: since ≤ dueAt < until */
  readonly since?: number;
  readonly until?: number;
}

export interface Scan extends Page<FoundJob> {
  /** `jobs`: examined by this call · `of`: about how many the whole scan examines at most */
  readonly scanned: { readonly jobs: number; readonly of: number };
}

export interface Horizon {
  /** delayed and ready jobs, by class of core/survey.ts; ready ones are overdue */
  readonly counts: readonly number[];
  /** as in Page: parts whose jobs are not counted */
  readonly missing?: readonly string[];
}

/** Dead letters with the same topic, the same reason of their death, and the same reason and status of the
 *  last attempt since their last requeue. */
export interface DeadGroup {
  readonly topic: string;
  readonly deadReason: DeadReason;
  /** null: no attempt is stored */
  readonly lastReason: AttemptReason | null;
  readonly status: number | null;
  readonly count: number;
  /** deadAt of the oldest and of the newest, epoch ms */
  readonly firstAt: number;
  readonly lastAt: number;
  /** deaths of the last 12 hours by hour, the oldest hour first */
  readonly hours: readonly number[];
}

export interface DeadGroups {
  /** largest first */
  readonly groups: readonly DeadGroup[];
  /** dead letters in them */
  readonly examined: number;
  /** false: older dead letters, or small groups, are not included */
  readonly complete: boolean;
  readonly missing?: readonly string[];
}

/** Questions that examine many jobs, for people who look for some of them. Read only.
 *  Invariant: a survey never delays a push by more than one step (about 1 ms): it works in bounded steps, and
 *  rests after each for three times its duration. One survey runs at a time, storeLimits.surveysWaitingMax
 *  wait; further ones reject with not_stored, code survey_busy. */
export interface Surveys {
  /** Ready jobs that reserve takes before this one, of its topic, priority and partition; at most
   *  storeLimits.positionMax. null: no ready job has this key. Bounded, so it does not wait for surveys. */
  position(key: JobKey): Promise<number | null>;
  /** Live and dead jobs, in no particular order. Ends after budgetMs with what it found; a page can be empty
   *  while nextCursor is set. A store that cannot end within a step returns up to one step of jobs above
   *  `limit`. A job that is stored during the whole scan is in one of its pages, or in several. */
  scan(filter: ScanFilter, limit: number, cursor: string | null, budgetMs: number): Promise<Scan>;
  /** null: all topics. Counts of different moments: jobs that move meanwhile can be missing or twice. */
  horizon(topics: readonly string[] | null): Promise<Horizon>;
  /** Examines the newest storeLimits.groupedDeadMax dead letters of each shard that died before `until`, and
   *  groups those of the selection. */
  deadGroups(topics: readonly string[] | null, selection?: DeadSelection): Promise<DeadGroups>;
}

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
