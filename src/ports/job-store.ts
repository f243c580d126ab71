// The port of the hot path: what every job store does, whatever it is made of. test/conformance/exercise.ts defines it in
// tests and is passed unchanged by each implementation.
//
// Rules for all methods
//  * Calls with items answer item by item, in order; one item's failure says nothing about its neighbours. Their
//    operational failures are values (StoreFailure). Methods without items reject with StoreError.
//  * Everything one item or one call changes is one atomic step, and everything is checked before the first write.
//  * Every call ends within sqliteLimits.storeCallMs. Repeating a call after `unknown` is safe unless its method says otherwise.
//  * What is said of the order of jobs holds within a partition.
//  * Time is the storage clock's; no caller's clock decides what is due or when a lease ends.

import type {
  AttemptRecord,
  BuryReason,
  EndedJob,
  EndState,
  FoundJob,
  JobKey,
  JobSnapshot,
  JobState,
  Lease,
  Owner,
  Priority,
  ReservedJob,
  Token,
  Version,
} from '../core/job.ts';
import type { TopicCapacity, TopicRooms } from '../core/layered-capacities.ts';

export type { TopicCapacity };

export type StoreFailure =
  /** definitely not applied: full, read-only, away, refused */
  | { readonly kind: 'not_stored'; readonly code: string }
  /** may or may not have been applied: no answer, broken connection, the owner of the file died */
  | { readonly kind: 'unknown'; readonly code: string };

export class StoreError extends Error {
  readonly failure: StoreFailure;
  constructor(failure: StoreFailure, options?: ErrorOptions) {
    super(`store: ${failure.kind} (${failure.code})`, options);
    this.name = 'StoreError';
    this.failure = failure;
  }
}

/** What one promote, reserve or recover covers: the one bucket of an embedded or standalone store, each bucket of a Cluster. */
export type Partition = number;

export type PushMode = 'replace' | 'keep' | 'reject';
/** A delay counts from the storage clock at the push, rounded up to a whole ms so that it is never too short; an instant in the past is due now: dueAt is the push's own moment,
 *  so that nobody jumps the queue and nothing looks late that was never waiting. */
export type When = { readonly delayMs: number } | { readonly at: number };

export interface PushJob extends JobKey {
  readonly when: When;
  readonly mode: PushMode;
  /** the topic's at this moment; a later change of the topic moves no waiting job */
  readonly priority: Priority;
  readonly contentType: string | null;
  readonly body: Buffer;
  /** Of a job whose id was made here: makes another one. Nobody knows the id yet, so where its place does not answer the job may be
   *  stored under another. */
  readonly anotherId?: (() => string) | undefined;
}

export type PushOutcome =
  /** A new version is stored. `replaced`: a live job of this id is gone (a dead one is removed too, but counts as ended).
   *  `inFlight`: that job was reserved; its attempt may run, its finish will be refused. */
  | {
      readonly kind: 'stored';
      readonly version: Version;
      readonly dueAt: number;
      readonly state: 'delayed' | 'ready';
      readonly replaced: boolean;
      readonly inFlight: boolean;
      /** when it is another than the push had (anotherId) */
      readonly id?: string;
    }
  /** mode keep: a live job stays as it was */
  | { readonly kind: 'kept'; readonly version: Version; readonly dueAt: number; readonly state: JobState }
  /** mode reject: a live job stays as it was */
  | {
      readonly kind: 'job_exists';
      readonly version: Version;
      readonly dueAt: number;
      readonly state: JobState;
    }
  /** `id`: as above */
  | (StoreFailure & { readonly id?: string });

export type CancelOutcome =
  /** Removed from any state, dead included (its owed alert stays owed). `inFlight`: a lease was out. */
  { readonly kind: 'cancelled'; readonly inFlight: boolean } | { readonly kind: 'absent' } | StoreFailure;

/** What the three verbs on one job (run, reschedule, requeue) have in common: they make a new version of the same origin, with
 *  body, content type, priority and acceptedAt as they were, so that a lease or a journal row of the old version decides
 *  nothing any more. run and reschedule are no outcome of an attempt: failures, strikes and attempts go along. */
export interface Reversioned {
  readonly version: Version;
  readonly dueAt: number;
}

export type RunOutcome =
  /** delayed → ready, due now; one that was overdue already keeps its place */
  | ({ readonly kind: 'run' } & Reversioned)
  /** it waits for nothing but its turn, or is being called: nothing was changed */
  | ({ readonly kind: 'unchanged'; readonly state: 'ready' | 'reserved' } & Reversioned)
  | { readonly kind: 'dead' }
  | { readonly kind: 'absent' }
  | StoreFailure;

export interface RescheduleItem extends JobKey {
  readonly when: When;
}

export type RescheduleOutcome =
  /** delayed or ready → delayed until then, or ready when that is now */
  | ({ readonly kind: 'rescheduled'; readonly state: 'delayed' | 'ready' } & Reversioned)
  /** reserved: its attempt may be running */
  | { readonly kind: 'in_flight' }
  | { readonly kind: 'dead' }
  | { readonly kind: 'absent' }
  | StoreFailure;

export type RequeueOutcome =
  /** dead → ready, due now; failures and strikes 0, no attempts; an owed alert stays owed */
  | ({ readonly kind: 'requeued' } & Reversioned)
  | { readonly kind: 'not_dead'; readonly state: 'delayed' | 'ready' | 'reserved' }
  | { readonly kind: 'absent' }
  | StoreFailure;

export interface Promoted {
  readonly moved: number;
  /** until the next delayed job of the partition is due; 0 = more are due now; null = nothing is delayed */
  readonly waitMs: number | null;
}

export interface ReserveRequest {
  readonly owner: Owner;
  /** 1 … limits.reserveMax */
  readonly max: number;
  /** for every topic that `topics` does not name */
  readonly others: TopicCapacity;
  readonly topics: TopicRooms;
}

export interface Reserved {
  readonly jobs: readonly ReservedJob[];
  /** ready jobs remain that this request had room for */
  readonly more: boolean;
  /** the storage clock of the partition when the jobs were reserved, epoch ms; null: no job was reserved, or the owner of the
   *  embedded store is of an earlier version (its clock is the clock of this machine) */
  readonly now: number | null;
}

/** A repeat of a finish that was applied answers lease_lost, and so does a finish of a lease that was taken over. Version and
 *  token decide, not the clock: a lease that ran out finishes its job as long as nobody has recovered it. */
export type FinishOutcome<Done extends string> =
  | { readonly kind: Done }
  | { readonly kind: 'lease_lost' }
  | StoreFailure;

export interface AckItem extends Lease {
  /** kept in the history; null where none is kept. Its number is the job's failures + 1 */
  readonly attempt: AttemptRecord | null;
}
export interface RetryItem extends Lease {
  /** from the storage clock at the moment of the call, so never early; 0 = ready at once */
  readonly delayMs: number;
  readonly attempt: AttemptRecord;
}
export interface BuryItem extends Lease {
  readonly reason: BuryReason;
  readonly attempt: AttemptRecord;
}

/** Leases that ended without an outcome: their jobs are ready again at their old place with one strike more. With the strike
 *  number limits.strikesPoison a job is buried as poison instead (no failure more), and its alert is owed. */
export interface Recovered {
  /** ready again; the poisoned are not among them */
  readonly returned: number;
  /** buried as poison */
  readonly poisoned: readonly JobKey[];
  readonly more: boolean;
}

/** Lossy on purpose: with every hint lost, a job is late by the poll ceiling and nothing else. */
export type Hint =
  /** a push, retry or requeue became the earliest delayed job of its partition */
  | { readonly kind: 'due'; readonly partition: Partition; readonly waitMs: number }
  /** the ready queue of a topic and priority stopped being empty */
  | { readonly kind: 'ready'; readonly partition: Partition };

export interface SearchFilter {
  readonly topic?: string;
  /** absent: all but the ended ones */
  readonly state?: JobState | EndState;
  readonly id?: string;
  /** dueAt, epoch ms: since ≤ dueAt < until */
  readonly since?: number;
  readonly until?: number;
}

/** Told of jobs of a call, by their place in it, that are stored while others have no answer yet: of several servers one that stands
 *  still holds up nobody else's jobs. A store that answers all at once need not tell anybody; every outcome is in the answer too. */
export type OnStored = (at: number, outcome: PushOutcome) => void;

export interface JobStore {
  /** They may become more or fewer: to be asked each time. */
  partitions(): readonly Partition[];

  /** In order, each atomic by itself; equal ids in one call replace one another. A repeat after `unknown` with mode
   *  replace makes one more version of the same job; the first is then replaced. */
  push(jobs: readonly PushJob[], onStored?: OnStored): Promise<readonly PushOutcome[]>;
  get(key: JobKey): Promise<JobSnapshot | null>;
  /** Earliest due first, equal ones by version; ended jobs the latest end first. A call looks at storeLimits.searchRowsMax jobs at
   *  most: a page may be short, or empty, and have a next one. */
  search(filter: SearchFilter, limit: number, cursor: string | null): Promise<Page<FoundJob>>;
  cancel(keys: readonly JobKey[]): Promise<readonly CancelOutcome[]>;
  /** The next attempt now instead of at dueAt. A repeat answers `unchanged`. */
  run(keys: readonly JobKey[]): Promise<readonly RunOutcome[]>;
  /** The next attempt at another time. A repeat makes one more version. */
  reschedule(items: readonly RescheduleItem[]): Promise<readonly RescheduleOutcome[]>;
  /** Attempts start again. A repeat answers `not_dead`. DeadLetters.requeue does the same to many. */
  requeue(keys: readonly JobKey[]): Promise<readonly RequeueOutcome[]>;

  /** delayed and due → ready, earliest first, equal ones by version, at most max (≤ limits.promoteMax). */
  promote(partition: Partition, max: number): Promise<Promoted>;
  /** ready → reserved: 5:3:2 over priorities by a wheel whose position is stored, round robin over topics with room,
   *  earliest due first inside a topic, equal ones by version (wheel.ts plans it). Not idempotent: never repeated by a client;
   *  a lost answer is mended by releaseUnheld. */
  reserve(partition: Partition, request: ReserveRequest): Promise<Reserved>;

  /** reserved → gone. */
  ack(items: readonly AckItem[]): Promise<readonly FinishOutcome<'acked'>[]>;
  /** reserved → delayed (or ready), due delayMs from now, one failure more, strikes cleared, the attempt kept with the job. */
  retry(items: readonly RetryItem[]): Promise<readonly FinishOutcome<'retried'>[]>;
  /** reserved → dead, one failure more, strikes cleared, the attempt kept, and its entry in the alert outbox: one atomic step. */
  bury(items: readonly BuryItem[]): Promise<readonly FinishOutcome<'buried'>[]>;
  /** reserved → ready at its old place; no attempt, no strike. */
  release(leases: readonly Lease[]): Promise<readonly FinishOutcome<'released'>[]>;

  /** Leases that ran out, the earliest end first, equal ones by token, at most max (≤ limits.recoverMax). None for
   *  storeLimits.recoverHoldMs where the last call is longer ago than storeLimits.recoverAwayMs, or unknown: while the store was away nobody
   *  could settle, and an outage must not strike jobs. No lease grows by that: its holder counts it by itself. Each call counts
   *  as one, also one that answers none. (A store under test has no hold, unless the case is about it.) */
  recover(partition: Partition, max: number): Promise<Recovered>;
  /** The same for leases of an instance whose process is dead, without waiting for their end: those of one incarnation, or all
   *  but the living. Incarnations rise, so one above all that are named began after the list was made, and is left alone:
   *  a call may be sent again, or wait for a store that is away. */
  recoverOwners(
    partition: Partition,
    instance: number,
    which: { readonly dead: number } | { readonly living: readonly number[] },
    max: number,
  ): Promise<Recovered>;
  /** Leases of this owner that it does not hold (the answer to a reserve was lost): released, no strike. */
  releaseUnheld(partition: Partition, owner: Owner, held: readonly Token[]): Promise<number>;

  /** Returns the unsubscribe. */
  onHint(listener: (hint: Hint) => void): () => void;
}

export interface DeadFilter {
  readonly topic?: string;
  /** deadAt, epoch ms: since ≤ deadAt < until */
  readonly since?: number;
  readonly until?: number;
  /** needs topic */
  readonly ids?: readonly string[];
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Opaque; null at the end. A list that is given another text as cursor rejects with not_stored, code bad_cursor. */
  readonly nextCursor: string | null;
  /** Names of parts of the store that did not answer, whose items are not here; absent when all did. With none that answered
   *  the list rejects. */
  readonly missing?: readonly string[];
}

/** As a list shows it: without bodies, which dominate the cost of a page. */
export type DeadLetter = Omit<JobSnapshot, 'body'>;

export interface DeadLetters {
  /** Newest death first; deaths of the same millisecond count by version, here and below. */
  list(filter: DeadFilter, limit: number, cursor: string | null): Promise<Page<DeadLetter>>;
  /** dead → ready as a new version of the same origin, due now; failures and strikes 0, no attempts, the rest as it was. At most
   *  max (≤ limits.bulkMax), oldest death first. In steps, between which the store serves other callers: a call that ends early has
   *  requeued so many, and `more` is true. The same holds for purge and purgeTopic. After its first step in a partition, a requeue
   *  or purge leaves out all versions that were made since: a job that dies again during the call is requeued once. */
  requeue(filter: DeadFilter, max: number): Promise<{ readonly requeued: number; readonly more: boolean }>;
  /** Oldest death first; owed alerts stay owed. */
  purge(filter: DeadFilter, max: number): Promise<{ readonly purged: number; readonly more: boolean }>;
  /** Removes dead letters that died longer than olderThanMs ago by the storage clock, oldest death first, and
   *  never while its alert is owed or claimed. At most max (≤ limits.expireMax). None while the storage clock has jumped
   *  and not yet stood long enough (embedded store). */
  expire(olderThanMs: number, max: number): Promise<{ readonly expired: number; readonly more: boolean }>;
}

/** What has ended. The step that ends a job writes its entry, so that neither is without the other. An id has one entry, of the
 *  version that ended last; a push of the id removes it, because a live job says more. A store that was told to keep no
 *  history has none. */
export interface History {
  get(key: JobKey): Promise<EndedJob | null>;
  /** Removes entries that ended longer than olderThanMs ago by the storage clock, in the order in which they ended, at most max
   *  (≤ limits.forgetMax). None after a jump of the storage clock, as in DeadLetters.expire. */
  forget(olderThanMs: number, max: number): Promise<{ readonly forgotten: number; readonly more: boolean }>;
}

/** One per burial. It goes with its dead letter, but never before the alert has been sent or found to concern nobody. */
export interface AlertEntry extends JobKey {
  readonly version: Version;
  readonly deadAt: number;
  readonly reason: BuryReason;
  /** the job's, as buried */
  readonly failures: number;
  /** the last one; null where there was none */
  readonly attempt: AttemptRecord | null;
  /** claimed only while the claim runs */
  readonly state: 'owed' | 'claimed' | 'sent' | 'nobody';
}

export interface AlertOutbox {
  /** Topics that have an owed entry and were not told of within windowMs, the one whose entry has waited longest first. */
  due(windowMs: number): Promise<readonly string[]>;
  /** Owed entries of the topic, oldest first, held for claimMs: nobody else gets them meanwhile; afterwards they are owed
   *  again. It does not ask for the window: who sends in parts claims in parts. */
  claim(topic: string, claimMs: number, max: number): Promise<readonly AlertEntry[]>;
  /** Ends the owing of these, by version; entries whose dead letter is gone are removed. `owed` gives a claim back at once.
   *  An entry that was sent or concerned nobody stays so: a late answer of another mailer owes nothing again. `sent` is also
   *  the moment that the window of their topics begins; kept with the topic, because an entry goes with its dead letter. */
  settle(versions: readonly Version[], as: 'sent' | 'nobody' | 'owed'): Promise<void>;
  /** Newest death first. */
  list(limit: number, cursor: string | null): Promise<Page<AlertEntry>>;
}

export type StateCounts = Readonly<Record<JobState, number>>;

export interface StoreHealth {
  /** it answers and takes pushes; of several servers, one of them does */
  readonly ok: boolean;
  /** one sentence: what survives what (guarantees.md's table) */
  readonly durability: string;
  /** why it is not ok, or, where it is, what of its configuration is dangerous */
  readonly warnings: readonly string[];
  /** The storage clock has jumped and has not yet stood long enough: nothing may be removed by its time (embedded store). Absent: it
   *  is trusted. */
  readonly isClockHeld?: boolean;
  /** The servers it lies on, each a trouble of its own; absent where it lies on none. Of several, `ok` says that some work. */
  readonly servers?: readonly StoreServer[];
  /** How much was set aside because it cannot be read, or stands where no job is: kept as it was found, named by fsck, and held
   *  against no other job. Absent: nothing. */
  readonly setAside?: number;
}

export interface StoreServer {
  /** as an operator knows it, without secrets */
  readonly name: string;
  /** why it does not work or takes no pushes: the end of a sentence about it; null = it is well */
  readonly trouble: string | null;
}

/** Work that takes longer than a call: started, then asked about. What is known of it goes with the process that does it: `none`
 *  after `running` is a work that was lost, and may be started again. */
export type LongWork<R> =
  | { readonly kind: 'none' }
  | { readonly kind: 'running'; readonly startedAt: number }
  | { readonly kind: 'done'; readonly startedAt: number; readonly endedAt: number; readonly result: R }
  /** reason: a sentence for the operator; nothing was left behind */
  | {
      readonly kind: 'failed';
      readonly startedAt: number;
      readonly endedAt: number;
      readonly reason: string;
    };

export interface Backup {
  /** holds jobs.db and registry.db, as a data directory does; not the key that seals the topics' secrets */
  readonly directory: string;
  readonly bytes: number;
}

export interface Problem {
  /** of guarantees.md (I1 …), or what else must be true: `numbers`, `counts`, `file` */
  readonly invariant: string;
  readonly what: string;
  readonly count: number;
  /** some of them */
  readonly examples: readonly string[];
}

export interface Examination {
  readonly jobs: number;
  readonly problems: readonly Problem[];
}

export interface StoreAdmin {
  counts(held?: readonly string[]): Promise<{
    /** every topic that has a job, and no other */
    readonly topics: Readonly<Record<string, StateCounts>>;
    /** how long the oldest job that waits for its turn has been due; null when none does. Ready jobs of the `held` topics do not
     *  count: a topic that is paused or unknown is late on purpose, and the store does not know which are. A delayed job
     *  counts from the moment it is due, whatever its topic: nobody has promoted it. */
    readonly oldestOverdueMs: number | null;
    /** as of a Page: what is counted is less than there is */
    readonly missing?: readonly string[];
  }>;
  /** Jobs of one topic in any state; at most max (≤ limits.bulkMax). Leases are lost; owed alerts stay owed. */
  purgeTopic(topic: string, max: number): Promise<{ readonly purged: number; readonly more: boolean }>;
  health(): Promise<StoreHealth>;
  /** The storage clock, epoch ms; of several servers, the clock of one that answers. */
  clock(): Promise<number>;
  /** Copies the store and the registry, as they are now, into a directory that is not there yet (an absolute path on the store's
   *  own machine). One long work runs at a time: else `busy`. */
  startBackup(directory: string): Promise<'started' | 'busy'>;
  backup(): Promise<LongWork<Backup>>;
  /** Asks whether the store, as it is now, keeps every invariant. Changes nothing, whatever it finds. */
  startFsck(): Promise<'started' | 'busy'>;
  fsck(): Promise<LongWork<Examination>>;
}

/** One store, five duties. */
export interface Store {
  readonly jobs: JobStore;
  readonly dead: DeadLetters;
  readonly alerts: AlertOutbox;
  readonly history: History;
  readonly admin: StoreAdmin;
  close(): Promise<void>;
}
