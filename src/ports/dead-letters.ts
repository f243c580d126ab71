// The ports of dead letters and of the history of ended jobs. The rules of jobs.ts hold here too.

import type { EndedJob, JobKey, JobSnapshot, Moment } from '../core/job.ts';
import type { OnChanged, Page } from './jobs.ts';

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
