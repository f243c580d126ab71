// The records every layer speaks: jobs, leases, attempts. Pure and readonly; behaviour lives in functions that take them.

export type Priority = 'high' | 'normal' | 'low';
export const priorities: readonly Priority[] = ['high', 'normal', 'low'];

/** The stored states. A delivered, cancelled or replaced job is gone. */
export type JobState = 'delayed' | 'ready' | 'reserved' | 'dead';
export const jobStates: readonly JobState[] = ['delayed', 'ready', 'reserved', 'dead'];

/** How a job ended: delivered · by its producer · by an operator · as a dead letter whose retention was over. A replaced
 *  version is none of these: its id has a newer one, and that is what a reader of the id sees. */
export type EndState = 'done' | 'cancelled' | 'purged' | 'expired';
export const endStates: readonly EndState[] = ['done', 'cancelled', 'purged', 'expired'];

export interface JobKey {
  readonly topic: string;
  readonly id: string;
}

/** Numbers one push of an id. Drawn from one counter per bucket, next = max(last + 1, storage clock in µs), so a version
 *  is never used twice: not after removal, restart or loss of data. 51 bits: a double holds it. Decimal digits in the API. */
export type Version = number;
/** Fencing token of one lease, drawn from the same counter as Version. */
export type Token = number;

/** The right to finish a job: every finishing write presents it and changes nothing when version or token differ. */
export interface Lease extends JobKey {
  readonly version: Version;
  readonly token: Token;
}

/** Who holds a lease: one life of one process of one instance. Neither number is used twice for another life. */
export interface Owner {
  /** 32 random bits, kept in the data directory. */
  readonly instance: number;
  /** Given by the master at fork; rises over restarts of the master too. */
  readonly incarnation: number;
}

/** Why an attempt failed (callback.md, "The verdict", in its order); null for a success. `protocol` is a reply that is no
 *  HTTP. A call that a stop cut off is no attempt: its job is released. */
export type AttemptReason =
  | 'blocked_address'
  | 'dns'
  | 'connect'
  | 'tls'
  | 'timeout'
  | 'reset'
  | 'protocol'
  | 'status'
  | 'reply_too_large'
  | 'empty_reply'
  | 'rule';

/** Why a job became a dead letter. */
export type BuryReason = 'attempts_exhausted' | 'gone' | 'no_retry' | 'poison';

export interface AttemptRecord {
  /** failed attempts before this one + 1 */
  readonly attempt: number;
  /** epoch ms by the notifier's clock */
  readonly startedAt: number;
  readonly durationMs: number;
  readonly outcome: 'delivered' | 'failed';
  readonly reason: AttemptReason | null;
  /** HTTP status of the reply; null when there was none */
  readonly status: number | null;
  /** first notifierLimits.replyExcerptMax characters of the reply (delivered: notifierLimits.deliveredExcerptMax), control characters escaped */
  readonly replyExcerpt: string;
  /** title of the notifier, `dq-notifier-0` */
  readonly notifier: string;
  /** host name of the machine that called */
  readonly host: string;
}

/** What a notifier holds while it calls back. */
export interface ReservedJob extends Lease {
  /** The first version of this job: requeue, run and reschedule make new versions that keep it. The webhook-id comes from it. */
  readonly origin: Version;
  /** epoch ms by the storage clock */
  readonly dueAt: number;
  readonly acceptedAt: number;
  /** failed attempts so far; this one is number failures + 1 */
  readonly failures: number;
  /** leases of this job that ended with the death or silence of their notifier since the last outcome */
  readonly strikes: number;
  /** how long the lease runs, counted from before the reserve was sent */
  readonly leaseMs: number;
  /** as pushed; null = none was given, and none is sent on */
  readonly contentType: string | null;
  readonly body: Buffer;
}

/** A stored job as a reader sees it. */
export interface JobSnapshot extends JobKey {
  readonly version: Version;
  readonly origin: Version;
  readonly state: JobState;
  readonly dueAt: number;
  readonly acceptedAt: number;
  readonly failures: number;
  readonly strikes: number;
  readonly contentType: string | null;
  readonly body: Buffer;
  /** the last limits.attemptsKept, oldest first */
  readonly attempts: readonly AttemptRecord[];
  readonly deadAt: number | null;
  readonly buryReason: BuryReason | null;
}

/** A job as a search finds it, live, dead or ended: without what can be long. */
export interface FoundJob extends JobKey {
  readonly version: Version;
  readonly origin: Version;
  readonly state: JobState | EndState;
  readonly dueAt: number;
  readonly acceptedAt: number;
  readonly failures: number;
  /** null unless dead */
  readonly deadAt: number | null;
  /** null unless ended */
  readonly endedAt: number | null;
}

/** What is kept of a job that has ended, for history.retention: everything but its body. */
export interface EndedJob extends JobKey {
  readonly version: Version;
  readonly origin: Version;
  readonly state: EndState;
  /** epoch ms by the storage clock */
  readonly endedAt: number;
  readonly dueAt: number;
  readonly acceptedAt: number;
  /** failed attempts */
  readonly failures: number;
  /** The last limits.attemptsKept, oldest first, the successful one among them. */
  readonly attempts: readonly AttemptRecord[];
}
