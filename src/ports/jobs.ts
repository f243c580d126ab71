// The port of the hot path: pushing, promoting, reserving, settling and recovering jobs.
// Rules for the methods of all six duties:
//  * Calls with items return one outcome per item, in order; items fail independently, with StoreFailure
//    values. Methods without items reject with StoreError.
//  * The changes of one item, or of one call without items, are one atomic step. All checks precede the
//    first write.
//  * Every call ends within sqliteLimits.storeCallMs. Repeating a call after `unknown` is safe unless its
//    method says otherwise.
//  * Orders of jobs hold within a partition.
//  * Time is the storage clock: a caller's clock never decides what is due or when a lease expires.
//  * A store that is opened for a journal names each change of a job (`change`, `place`, OnChanged); the
//    journal takes these members out of the outcomes. Others name none.

import type { JobOptions } from '../core/extension.ts';
import type {
  AttemptRecord,
  DeadReason,
  EndState,
  FoundJob,
  JobKey,
  JobSnapshot,
  JobState,
  Lease,
  Moment,
  Owner,
  Priority,
  ReservedJob,
  Token,
  Version,
  VersionedKey,
} from '../core/job.ts';
import type { Changed, ChangedJob, PushedParts } from '../core/job-change.ts';
import type { TopicCapacities, TopicCapacity } from '../core/layered-capacities.ts';
import type { StoreFailure } from './store-error.ts';

/** Port index of a bucket. Promote, reserve and recover work on one: the single bucket of an embedded store
 *  or a Redis, each bucket of a Cluster. */
export type Partition = number;

export type PushMode = 'replace' | 'keep' | 'reject';
/** A delay counts from the storage clock at the push, rounded up to a whole ms, so it is never too short. A
 *  past instant becomes the moment of the push: the job neither overtakes others nor looks late. */
export type When = { readonly delayMs: number } | { readonly at: number };

export interface PushJob extends JobKey {
  readonly when: When;
  readonly mode: PushMode;
  /** the topic's current one; a later change of the topic moves no stored job */
  readonly priority: Priority;
  readonly contentType: string | null;
  readonly body: Buffer;
  /** The options of the job (core/extension.ts); absent or null without one. pullOwner reserves it for its
   *  own lease, whatever it requests. Retries and new versions keep the block. */
  readonly extension?: Buffer | null | undefined;
  /** Absent, 0: none. While the id has no live job, and its last job ended or died less than this time ago,
   *  the push stores nothing, in every mode. A store that keeps no history knows dead letters alone. */
  readonly windowMs?: number | undefined;
  /** Of an imported job: epoch ms, a later moment becomes now; absent: now */
  readonly acceptedAt?: number | undefined;
  /** Of an imported job: its failed attempts, 0 … 65,535; absent: 0 */
  readonly failures?: number | undefined;
  /** For a generated id: makes another one. No caller knows the id yet, so the job may go to another shard
   *  under another id when its home does not answer. */
  readonly anotherId?: (() => string) | undefined;
}

export type PushOutcome =
  /** A new version is stored. `replaced`: it replaced a live job of this id (a dead one goes too, but counts
   *  as ended). `inFlight`: that job was reserved; its attempt may run, and its finishing write will change
   *  nothing. */
  | {
      readonly kind: 'stored';
      readonly version: Version;
      readonly dueAt: number;
      readonly state: 'delayed' | 'ready';
      readonly replaced: boolean;
      readonly inFlight: boolean;
      /** when it differs from the id of the push (anotherId) */
      readonly id?: string;
      /** as in Changed. The number is the version, which is also the origin. */
      readonly place?: string;
    }
  /** mode keep: the live job stays unchanged */
  | {
      readonly kind: 'kept';
      readonly version: Version;
      readonly dueAt: number;
      readonly state: JobState;
      /** as in Changed */
      readonly place?: string;
    }
  /** mode reject: the live job stays unchanged */
  | {
      readonly kind: 'job_exists';
      readonly version: Version;
      readonly dueAt: number;
      readonly state: JobState;
    }
  /** The window of the push: the last job of the id stays ended or dead. */
  | {
      readonly kind: 'ended';
      readonly version: Version;
      readonly dueAt: number;
      readonly state: EndState | 'dead';
      readonly endedAt: number;
    }
  /** `id`: as above */
  | (StoreFailure & { readonly id?: string });

/** Of a verb whose key names a version: the job has another one, and nothing changed. */
export interface OtherVersion {
  readonly kind: 'other_version';
}

export type CancelOutcome =
  /** Removed from any state, dead included (its owed alert stays owed). `inFlight`: it was reserved. */
  | { readonly kind: 'cancelled'; readonly inFlight: boolean; readonly change?: Changed }
  /** isRecorded: the store may have lost the job, and has recorded its end: it does not come back. */
  | { readonly kind: 'absent'; readonly isRecorded?: true; readonly change?: Changed }
  | OtherVersion
  | StoreFailure;

/** Result of run, reschedule and requeue: a new version of the same origin with unchanged body, content
 *  type, priority and acceptedAt. A lease of the old version is lost. run and reschedule do not count as
 *  attempts: failures, strikes and attempts stay. */
export interface Reversioned {
  readonly version: Version;
  readonly dueAt: number;
  /** when it changed */
  readonly change?: Changed;
}

export type RunOutcome =
  /** delayed → ready, due now; an overdue job keeps its place */
  | ({ readonly kind: 'run' } & Reversioned)
  /** it is ready or reserved: nothing changed */
  | ({ readonly kind: 'unchanged'; readonly state: 'ready' | 'reserved' } & Reversioned)
  | { readonly kind: 'dead' }
  | { readonly kind: 'absent' }
  | OtherVersion
  | StoreFailure;

export interface RescheduleItem extends VersionedKey {
  readonly when: When;
}

export type RescheduleOutcome =
  /** delayed or ready → delayed until then, or ready when that is now */
  | ({ readonly kind: 'rescheduled'; readonly state: 'delayed' | 'ready' } & Reversioned)
  /** reserved: its attempt may be running */
  | { readonly kind: 'in_flight' }
  | { readonly kind: 'dead' }
  | { readonly kind: 'absent' }
  | OtherVersion
  | StoreFailure;

export type RequeueOutcome =
  /** dead → ready, due now; failures, strikes and snoozes 0, no attempts; an owed alert stays owed */
  | ({ readonly kind: 'requeued' } & Reversioned)
  | { readonly kind: 'not_dead'; readonly state: 'delayed' | 'ready' | 'reserved' }
  | { readonly kind: 'absent' }
  | OtherVersion
  | StoreFailure;

/** What an edit makes of the job that its caller has read. */
export interface EditItem extends JobKey, PushedParts {
  /** as in PushJob: the topic's current one */
  readonly priority: Priority;
  readonly version: Version;
  /** null: the due time stays; that of a dead letter becomes now */
  readonly when: When | null;
  /** A dead letter is only edited with it, and any other job only without it: no dead letter has a body that
   *  was never called. */
  readonly requeue: boolean;
}

export type EditOutcome =
  /** delayed or ready → delayed or ready, as a new version of a new origin, with these parts; failures,
   *  strikes, snoozes (whatever the given options say) and attempts stay. requeue: dead → delayed or ready,
   *  failures, strikes and snoozes 0; attempts stay, and an owed alert stays owed. */
  | ({ readonly kind: 'edited'; readonly state: 'delayed' | 'ready' } & Reversioned)
  /** reserved: its attempt may be running */
  | { readonly kind: 'in_flight' }
  | { readonly kind: 'dead' }
  | { readonly kind: 'not_dead'; readonly state: 'delayed' | 'ready' | 'reserved' }
  | { readonly kind: 'absent' }
  | OtherVersion
  | StoreFailure;

export interface Promoted {
  readonly moved: number;
  /** time until the next delayed job of the partition is due; 0 = more are due now; null = no delayed job */
  readonly waitMs: number | null;
}

export interface ReserveRequest {
  readonly owner: Owner;
  /** 1 … limits.reserveMax */
  readonly max: number;
  /** capacity of every topic that `topics` does not name */
  readonly others: TopicCapacity;
  readonly topics: TopicCapacities;
}

export interface Reserved {
  readonly jobs: readonly ReservedJob[];
  /** ready jobs remain that this request has capacity for */
  readonly more: boolean;
  /** the storage clock of the partition at the reserve, epoch ms; null: no job was reserved */
  readonly now: number | null;
  /** Requested topics with ready jobs that get none, because each has as many leases of pullOwner as the
   *  partition has left. Only when no job was reserved; absent: there is no such topic. */
  readonly atLeaseLimit?: readonly string[];
  /** The partition lost changes, and reserves nothing until ended jobs that came back have ended again
   *  (healing.ts). Only when no job was reserved; absent: it does not. */
  readonly isHealing?: true;
}

/** The job that the end of another one pushes, in the same step. */
export interface Outcome {
  /** Nothing is pushed while this id is live, dead or in the history: the end was repeated after a loss. A
   *  store of several partitions adds a suffix to the id, so that its home is the partition of the ended
   *  job. */
  readonly job: PushJob;
  /** the body that a nearly full store stores */
  readonly short: Buffer;
}
/** With the id and the body that the store chose. Named with a journal alone, as Changed is. */
export interface PushedOutcome extends Pick<JobKey, 'id'>, Pick<PushJob, 'body'> {
  readonly version: Version;
  readonly dueAt: number;
  readonly place: string;
}

/** lease_lost: the finishing write was applied before, or the lease was recovered. Version and token decide,
 *  not the clock: an expired lease still finishes its job until it is recovered. */
export type FinishOutcome<Done extends string> =
  /** released: without a change */
  | { readonly kind: Done; readonly change?: Changed; readonly pushed?: PushedOutcome }
  | { readonly kind: 'lease_lost' }
  | StoreFailure;

/** A lease as its holder shows it. */
export interface ShownLease extends Lease {
  /** A pull client shows it: a lease that belongs to a process is lease_lost. */
  readonly isPulled?: boolean;
}
export interface AckItem extends ShownLease {
  /** for the history; null without one. Its number is the job's failures + 1 */
  readonly attempt: AttemptRecord | null;
  readonly outcome?: Outcome | undefined;
}
/** A lease to end, and when. */
export interface EndingLease extends ShownLease {
  /** The lease ends because it expired: a lease that was extended meanwhile is lease_lost. */
  readonly ifExpired?: boolean;
}
export interface RetryItem extends EndingLease {
  /** counts from the storage clock at the call, so a retry is never early; 0 = ready at once */
  readonly delayMs: number;
  /** null: none counts, so the job has no failure more */
  readonly attempt: AttemptRecord | null;
  /** replaces the options of the job (core/extension.ts); absent: they stay */
  readonly extension?: Buffer | undefined;
}
export interface BuryItem extends EndingLease {
  readonly reason: DeadReason;
  /** null: none was made, so the job has no failure more */
  readonly attempt: AttemptRecord | null;
  readonly outcome?: Outcome | undefined;
}

export interface ExtendItem extends Lease {
  /** counts from the storage clock at the call, so an extension can also end a lease earlier */
  readonly leaseMs: number;
}

export type ExtendOutcome =
  /** `until`: the new end of the lease, epoch ms by the storage clock */
  | { readonly kind: 'extended'; readonly until: number }
  /** also for a lease of a notifier: none is ever extended */
  | { readonly kind: 'lease_lost' }
  | StoreFailure;

/** An expired lease of pullOwner: a failed attempt that its reader settles. */
export interface ExpiredPull {
  readonly lease: Lease;
  /** failed attempts before this one */
  readonly failures: number;
  /** from the reserve to the end of the lease, extensions included */
  readonly leaseMs: number;
  /** its end, epoch ms by the storage clock */
  readonly until: number;
  /** when the job was due, epoch ms */
  readonly dueAt: number;
  readonly options: JobOptions;
}

/** Leases that ended without an outcome. Their jobs are ready again in their old place with one more
 *  strike. */
export interface Recovered {
  readonly returned: number;
  /** Leases whose loss is strike limits.strikesPoison of their jobs. They are unchanged: the caller buries
   *  each job as poison. Of two callers the fence lets one do it. */
  readonly poisoned: readonly Lease[];
  readonly more: boolean;
  /** Expired leases of pullOwner; absent without one. They are unchanged: the caller settles each by retry,
   *  bury or release with ifExpired. The fencing token decides between two callers. */
  readonly pulled?: readonly ExpiredPull[];
}

/** Lossy on purpose: without any hint, a job is late by at most pollCeiling. */
export type Hint =
  /** a push, retry or requeue became the earliest delayed job of its partition */
  | { readonly kind: 'due'; readonly partition: Partition; readonly waitMs: number }
  /** the ready queue of a topic and priority is no longer empty */
  | { readonly kind: 'ready'; readonly partition: Partition };

export interface Page<T> {
  readonly items: readonly T[];
  /** opaque; null at the end. Another text as cursor rejects with not_stored, code bad_cursor */
  readonly nextCursor: string | null;
  /** names of the store's parts that did not answer and whose items are missing; absent when all answered.
   *  The call rejects when no part answers */
  readonly missing?: readonly string[];
}

export interface SearchFilter {
  readonly topic?: string;
  /** absent: all states but the ended ones */
  readonly state?: JobState | EndState;
  readonly id?: string;
  /** dueAt, epoch ms: since ≤ dueAt < until */
  readonly since?: number;
  readonly until?: number;
  /** the job got its version before */
  readonly before?: Moment;
}

/** Reports stored jobs of a push by their index, before the others have an outcome: a stuck server delays
 *  only its own jobs. Optional for a store with one server. The push returns every outcome too. */
export type OnStored = (at: number, outcome: PushOutcome) => void;

/** Receives the jobs that one step of bulk work changed. The work waits for it before its next step, and
 *  rejects as it does. */
export type OnChanged = (jobs: readonly ChangedJob[]) => Promise<void>;

/** What releaseUnheld found. */
export interface Unheld {
  readonly released: number;
  /** leases that are not held, with a token above upTo */
  readonly left: number;
  /** The last number that the partition has given: later tokens are above it. */
  readonly last: Token;
}

export interface JobStore {
  /** The number of partitions can change: read it each time. Empty while none is known. */
  partitions(): readonly Partition[];
  /** Why no partition is known: then each call with items, and each read, fails with it. Absent, null: they
   *  are known. */
  whyUnknown?(): StoreFailure | null;
  /** The name of a partition in every process of every instance. Absent: there is one partition. */
  nameOf?(partition: Partition): string;
  /** Where the job may live; empty while no partition is known. Absent: there is one partition. */
  partitionsOf?(key: JobKey): readonly Partition[];

  /** In order, each job atomic by itself; equal ids in one call replace one another. A repeat after
   *  `unknown` with mode replace makes one more version, which replaces the first. */
  push(jobs: readonly PushJob[], onStored?: OnStored): Promise<readonly PushOutcome[]>;
  /** `bodiless`: with an empty body, because one may have megabytes; its options may be missing. `leased`:
   *  the version whose lease the caller has; of two stores with a job of the key, the one of that lease
   *  answers. */
  get(key: JobKey, how?: 'bodiless', leased?: Version): Promise<JobSnapshot | null>;
  /** Earliest due first, equal ones by version; ended jobs latest end first. A call reads at most
   *  storeLimits.searchRowsMax jobs, so a page with a next one can be short or empty. So it can with
   *  `before`. */
  search(filter: SearchFilter, limit: number, cursor: string | null): Promise<Page<FoundJob>>;
  /** Cancel, run, reschedule and requeue compare the version of a key that names one, in the same step as the
   *  change: a job that was pushed or moved since its caller read it stays as it is.
   *  `as` done: the jobs end as delivered. While lost jobs are put back, a later version than the named one
   *  may be among them: not_stored, code restoring. */
  cancel(keys: readonly VersionedKey[], as?: 'done'): Promise<readonly CancelOutcome[]>;
  /** Makes the job due now. A repeat returns `unchanged`. */
  run(keys: readonly VersionedKey[]): Promise<readonly RunOutcome[]>;
  /** Changes the due time. A repeat makes one more version. */
  reschedule(items: readonly RescheduleItem[]): Promise<readonly RescheduleOutcome[]>;
  /** Restarts the attempts of a dead letter. A repeat returns `not_dead`. DeadLetters.requeue does it in
   *  bulk. */
  requeue(keys: readonly VersionedKey[]): Promise<readonly RequeueOutcome[]>;
  /** Gives the job another body and other options. Like a push it is rejected by a full store. A repeat
   *  returns `other_version`. */
  edit(items: readonly EditItem[]): Promise<readonly EditOutcome[]>;

  /** delayed and due → ready, earliest first, equal ones by version, at most max (≤
   *  limits.promoteMax). */
  promote(partition: Partition, max: number): Promise<Promoted>;
  /** ready → reserved: 5:3:2 over priorities by a wheel with a stored position, round robin over topics
   *  with capacity, earliest due first inside a topic, equal ones by version (wheel.ts). Not idempotent: a
   *  client never repeats it, and releaseUnheld returns the jobs of a lost reply. pullOwner has at
   *  most limits.pullLeasesMax leases in the partition, and gets jobs of a topic only while fewer of
   *  them are of that topic than are left. A lost reply costs its jobs an attempt. */
  reserve(partition: Partition, request: ReserveRequest): Promise<Reserved>;

  /** reserved → gone, and its outcome job, if the item has one, is pushed. */
  ack(items: readonly AckItem[]): Promise<readonly FinishOutcome<'acked'>[]>;
  /** reserved → delayed (or ready), due delayMs from now; no strikes. With an attempt one more failure, and
   *  the attempt stored with the job; with a block the job has that one. */
  retry(items: readonly RetryItem[]): Promise<readonly FinishOutcome<'retried'>[]>;
  /** reserved → dead; one more failure, no strikes, the attempt stored, an entry in the alert outbox: one
   *  atomic step. The lease of a poison job is its last strike. Its outcome job, if the item has one, is
   *  pushed. */
  bury(items: readonly BuryItem[]): Promise<readonly FinishOutcome<'buried'>[]>;
  /** reserved → ready in its old place, without attempt or strike. */
  release(leases: readonly EndingLease[]): Promise<readonly FinishOutcome<'released'>[]>;
  /** Moves the end of leases of pullOwner; the token stays. A repeat moves it again. */
  extend(items: readonly ExtendItem[]): Promise<readonly ExtendOutcome[]>;

  /** Recovers expired leases, earliest end first, equal ones by token, at most max (≤ limits.recoverMax), and
   *  lists as many of pullOwner. While its disk is full the embedded store releases both kinds.
   *  Recovers nothing for storeLimits.recoverHoldMs when the previous call is older than
   *  storeLimits.recoverAwayMs or unknown: notifiers could not settle while the store was unavailable, and
   *  an outage must not cause strikes. The hold extends no lease. Every call counts as a previous call; on
   *  Redis also a reserve that finds no lease, because idle polls do not reach it. There the clock measures:
   *  one that was set back by the length of an outage hides it. (A store under test has no hold, unless the
   *  case is about it.) */
  recover(partition: Partition, max: number): Promise<Recovered>;
  /** Recovers unexpired leases of dead processes of an instance: of one dead incarnation, or of all but the
   *  living ones. Incarnations rise: one above all named ones began later and is skipped. So a call may be
   *  repeated, or wait for an unavailable store. Leaves leases of pullOwner alone, as releaseUnheld does. */
  recoverOwners(
    partition: Partition,
    instance: number,
    which: { readonly dead: number } | { readonly living: readonly number[] },
    max: number,
  ): Promise<Recovered>;
  /** Releases leases of this owner with a token up to `upTo` that it does not hold, because the reply of a
   *  reserve was lost. No strike. `upTo`: the `last` of an earlier answer, or 0, which releases nothing: a
   *  call that the network delays must not release what a later reserve has brought. */
  releaseUnheld(partition: Partition, owner: Owner, held: readonly Token[], upTo: Token): Promise<Unheld>;

  /** Returns the unsubscribe. */
  onHint(listener: (hint: Hint) => void): () => void;
}
