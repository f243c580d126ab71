// The records that all layers share: jobs, leases, attempts, and what follows from one record alone. Pure.
// The stores, the journal and the series keep positions of these lists: a new word goes to the end of its
// list, and no word is removed or moved.

export const priorities = ['high', 'normal', 'low'] as const;
export type Priority = (typeof priorities)[number];

/** The stored states. A delivered, cancelled or replaced job is gone. */
export const jobStates = ['delayed', 'ready', 'reserved', 'dead'] as const;
export type JobState = (typeof jobStates)[number];

/** How a job ended: delivered · cancelled by its producer · purged by an operator · dead letter after its
 *  retention. A replaced version has no end state: readers of its id see the newer version. */
export const endStates = ['done', 'cancelled', 'purged', 'expired'] as const;
export type EndState = (typeof endStates)[number];

/** Whether a push at `now` with this window finds this end and stores nothing. An end further ahead than the
 *  window is of a clock that was set back. A purged id, and one whose dead letter was too old to keep, are
 *  free. */
export function isInWindow(
  { state, at }: { readonly state: EndState | 'dead'; readonly at: number },
  now: number,
  windowMs: number,
): boolean {
  return state !== 'purged' && state !== 'expired' && Math.abs(now - at) < windowMs;
}

/** What the flow of a job names. `retried`: an attempt failed, and another one follows. `restored`: put back
 *  after Redis had lost it. */
export const flowEvents = [
  'accepted',
  'run',
  'reschedule',
  'requeue',
  'retried',
  'dead',
  'restored',
  ...endStates,
] as const;
export type FlowEvent = (typeof flowEvents)[number];

export interface JobKey {
  readonly topic: string;
  readonly id: string;
}

/** Numbers one push of an id. One counter per partition draws them, and they rise; src/README.md, invariant
 *  2, says what keeps them from those that a store has lost. 51 bits fit a double. Decimal digits in the
 *  API. */
export type Version = number;
/** Fencing token of one lease, from the same counter as Version. */
export type Token = number;
/** Between what the store did before and what it does later, whatever its clocks do: by partition, under a
 *  name that no process changes, a number that the partition drew for it from the same counter. A partition
 *  without a number was added later. */
export type Moment = Readonly<Record<string, number>>;

/** A job of which the caller read this version; without one, whatever version the id has. */
export interface VersionedKey extends JobKey {
  readonly version?: Version | undefined;
}

/** The right to finish a job. A finishing write changes nothing when version or token differ. */
export interface Lease extends JobKey {
  readonly version: Version;
  readonly token: Token;
}

/** The owner of a lease: one incarnation of one process of one instance. The pair of numbers is never used
 *  again. */
export interface Owner {
  /** 32 random bits, stored in the data directory */
  readonly instance: number;
  /** assigned by the master at fork; rises over restarts of the master too */
  readonly incarnation: number;
}

/** The owner of all leases of pulled jobs. They belong to no process: the exit of a process ends none. An
 *  instance never draws the number 0. */
export const pullOwner: Owner = { instance: 0, incarnation: 0 };

export const isPulled = ({ instance }: Owner): boolean => instance === pullOwner.instance;

/** Why an attempt failed. `protocol`: the reply is not HTTP. `lease_expired` and `nacked` are of pulled jobs.
 *  `mq_…`: a broker rejected the message, or had no queue for it. `dead_rule`: deadIf is true. `bad_again`:
 *  the header dq-again cannot be read. `again_limit`: one of limits.againMax snoozes. A call that a stop
 *  interrupts is not an attempt: its job is released. */
export const attemptReasons = [
  'blocked_address',
  'dns',
  'connect',
  'tls',
  'timeout',
  'reset',
  'protocol',
  'status',
  'reply_too_large',
  'empty_reply',
  'rule',
  'lease_expired',
  'nacked',
  'mq_refused',
  'mq_unroutable',
  'dead_rule',
  'bad_again',
  'again_limit',
] as const;
export type AttemptReason = (typeof attemptReasons)[number];

/** Why a job became a dead letter. `nacked`: its puller asked for it. */
export const deadReasons = [
  'attempts_exhausted',
  'gone',
  'no_retry',
  'poison',
  'nacked',
  'expired',
  'dead_rule',
] as const;
export type DeadReason = (typeof deadReasons)[number];

/** Of the alert about a dead letter. `nobody`: it has no recipient. */
export const alertStates = ['owed', 'claimed', 'sent', 'nobody'] as const;
export type AlertState = (typeof alertStates)[number];
/** What becomes of an alert when its mailer is done with it. */
export type SettledAlert = Exclude<AlertState, 'claimed'>;

export interface AttemptRecord {
  /** failed attempts before this one + 1 */
  readonly attempt: number;
  /** epoch ms by the notifier's clock */
  readonly startedAt: number;
  readonly durationMs: number;
  readonly outcome: 'delivered' | 'failed';
  readonly reason: AttemptReason | null;
  /** HTTP status of the reply; null without one */
  readonly status: number | null;
  /** first notifierLimits.replyExcerptMax characters of the reply (delivered:
   *  notifierLimits.deliveredExcerptMax), control characters escaped */
  readonly replyExcerpt: string;
  /** process title of the notifier, `dq-notifier-0` */
  readonly notifier: string;
  /** host name of the calling machine */
  readonly host: string;
  /** header that the request carried; absent: the push brought none */
  readonly traceparent?: string;

  // Of failed attempts only. Each is bounded by notifierLimits.

  /** ms from the due time to the start */
  readonly latenessMs?: number;
  /** the failure of a call without a whole reply: `connect ECONNREFUSED 10.0.0.8:80` */
  readonly detail?: string;
  /** reason `rule`: the references of the retry rule, each with its value as JSON, shortened */
  readonly ruleValues?: Readonly<Record<string, string>>;
  /** lines `name: value`, shortened */
  readonly replyHeaders?: readonly string[];
  /** the wait that follows, from the end of the attempt; absent: no attempt follows */
  readonly nextDelayMs?: number;
  /** whether the topic's backoff or the receiver's Retry-After decided nextDelayMs */
  readonly nextBy?: 'backoff' | 'retry_after';
}

/** Why an attempt failed. */
export interface SaidFailure {
  readonly reason: AttemptReason | null;
  readonly status: number | null;
  /** the failure of a call without a whole reply */
  readonly detail?: string | undefined;
}

const failures: Readonly<Record<AttemptReason, string>> = {
  blocked_address: 'egress.policy forbids the address',
  dns: 'no address for the host name',
  connect: 'no connection',
  tls: 'no TLS connection',
  timeout: 'no reply in time',
  reset: 'connection closed before the reply',
  protocol: 'no HTTP reply',
  status: 'status',
  reply_too_large: 'reply too large',
  empty_reply: 'empty reply',
  rule: 'retry rule true',
  lease_expired: 'no answer before the lease ended',
  nacked: 'nacked by its client',
  mq_refused: 'rejected by the broker',
  mq_unroutable: 'no queue for the message',
  dead_rule: 'deadIf true',
  bad_again: 'invalid dq-again',
  again_limit: 'too many snoozes',
};

/** `connection refused (ECONNREFUSED 10.0.0.8:80)`, `status 503`, `retry rule true (status 200)` */
export function failureWords({ reason, status, detail = '' }: SaidFailure): string {
  if (reason === null || reason === 'status')
    return status === null ? detail || 'unknown' : `status ${status}`;
  // The detail of a timeout has the expected reply and the limit.
  if (reason === 'timeout' && detail !== '') return detail;
  const isRefused = reason === 'connect' && detail.includes('ECONNREFUSED');
  // A later build may have other reasons.
  const words = isRefused ? 'connection refused' : (failures[reason] ?? reason);
  const more = detail || (status === null ? '' : `status ${status}`);
  return more === '' ? words : `${words} (${more})`;
}

/** `status 503`, `gone: status 410`, `expired`. `last`: its last attempt; null: none is stored */
export function deathWords(reason: DeadReason, last: SaidFailure | null): string {
  if (last === null) return reason;
  const words = failureWords(last);
  return reason === 'attempts_exhausted' || reason === last.reason ? words : `${reason}: ${words}`;
}

/** A job as its notifier holds it during the callback. */
export interface ReservedJob extends Lease {
  /** Names the body of the job. It is the first version; requeue, run and reschedule make new versions that
   *  keep it, and an edit draws a new one. `webhook-id` derives from it, or from the one that an edit kept
   *  (extension.ts). */
  readonly origin: Version;
  /** epoch ms by the storage clock */
  readonly dueAt: number;
  readonly acceptedAt: number;
  /** failed attempts so far; this attempt is number failures + 1 */
  readonly failures: number;
  /** leases that a dead or silent notifier lost since the last outcome */
  readonly strikes: number;
  /** length of the lease, counted from before the reserve was sent: that of the request, or the job's own one
   *  when pullOwner reserves it */
  readonly leaseMs: number;
  /** as pushed; null = the push had none, and the callback has none */
  readonly contentType: string | null;
  readonly body: Buffer;
  /** the options of the job (extension.ts); absent without one */
  readonly extension?: Buffer;
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
  readonly deadReason: DeadReason | null;
  /** the options of the job (extension.ts); absent without one */
  readonly extension?: Buffer;
}

/** A live, dead or ended job as a search returns it: without its long fields. */
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

/** An ended job, kept for history.retention without its body. */
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
  /** the last limits.attemptsKept, oldest first, including the successful one */
  readonly attempts: readonly AttemptRecord[];
}

/** How many of `attempts`, oldest first, are from before the last requeue, which starts their numbers from 1.
 *  `failures`: since then. */
export function attemptsBeforeRequeue(attempts: readonly AttemptRecord[], failures: number): number {
  let next = failures + (attempts.at(-1)?.outcome === 'delivered' ? 2 : 1);
  return (
    attempts.findLastIndex(({ attempt }) => {
      const isEarlier = attempt >= next;
      next = attempt;
      return isEarlier;
    }) + 1
  );
}

/** `failures`: since its last requeue. */
interface Attempted {
  /** oldest first */
  readonly attempts: readonly AttemptRecord[];
  readonly failures: number;
}

/** The last attempt since the last requeue: one from before it says nothing about what followed. null: none
 *  is stored. */
export function lastAttemptOf({ attempts, failures }: Attempted): AttemptRecord | null {
  return attemptsBeforeRequeue(attempts, failures) < attempts.length ? (attempts.at(-1) ?? null) : null;
}

/** When the first attempt since the push or the last requeue was due: a retry moves the due time of its job,
 *  and only the record of that attempt still has it. null: it is not kept. */
export function firstDueAt({
  attempts,
  failures,
  dueAt,
}: Attempted & { readonly dueAt: number }): number | null {
  if (failures === 0) return dueAt;
  const since = attempts.slice(attemptsBeforeRequeue(attempts, failures));
  const first = since.find(({ attempt }) => attempt === 1);
  return first?.latenessMs === undefined ? null : first.startedAt - first.latenessMs;
}

/** As firstDueAt(); `isLeast`: that of the oldest attempt which is kept: the job waits for longer. */
export function undeliveredSince(job: Attempted & { readonly dueAt: number }): {
  readonly since: number;
  readonly isLeast: boolean;
} {
  const whole = firstDueAt(job);
  if (whole !== null) return { since: whole, isLeast: false };
  const { attempts, failures, dueAt } = job;
  const [oldest] = attempts.slice(attemptsBeforeRequeue(attempts, failures));
  const since = oldest?.latenessMs === undefined ? dueAt : oldest.startedAt - oldest.latenessMs;
  return { since, isLeast: true };
}
