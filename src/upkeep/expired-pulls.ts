// Settles expired leases of pulled jobs: each is a failed attempt, and the topic's policy decides whether
// another one follows. Fenced: of two recoverers, or a recoverer and a late ack or extend, one wins.

import { hostname } from 'node:os';
import { deadlineOf, withOptions } from '../core/extension.ts';
import type { AttemptRecord, Lease } from '../core/job.ts';
import { beforeDeadline, settle, waitAfter } from '../core/verdict.ts';
import type { BuryItem, EndingLease, ExpiredPull, FinishOutcome, RetryItem } from '../ports/job-store.ts';
import { StoreError, type StoreFailure } from '../ports/store-error.ts';
import type { RoleContext } from '../process/role.ts';
import { random } from '../runtime/time.ts';
import { endWithOutcomes } from '../use-cases/outcome-jobs.ts';

const verdict = {
  outcome: 'failed',
  reason: 'lease_expired',
  noMoreAttempts: null,
  retryAfterMs: 0,
} as const;

export class ExpiredPulls {
  readonly #ctx: RoleContext;
  readonly #host = hostname();

  constructor(ctx: RoleContext) {
    this.#ctx = ctx;
  }

  /** Rejects with StoreError when the store did not settle all: the next recover lists the rest again. */
  async settle(expired: readonly ExpiredPull[]): Promise<void> {
    const { jobs } = this.#ctx.store;
    const retries: (RetryItem & { readonly attempt: AttemptRecord })[] = [];
    const buries: (BuryItem & { readonly attempt: AttemptRecord })[] = [];
    const releases: EndingLease[] = [];
    for (const pull of expired) {
      const lease = { ...pull.lease, ifExpired: true, isPulled: true };
      const topic = this.#ctx.topics.get(pull.lease.topic);
      // Its policy is unknown: the job waits for its topic, as before the lease.
      if (topic === undefined) releases.push(lease);
      else {
        const unitMs = this.#ctx.config['retry.unit'];
        const own = withOptions(topic, pull.options);
        const settlement = beforeDeadline(
          settle(own, pull.failures, verdict, unitMs, random),
          deadlineOf(pull.options, { dueAt: pull.dueAt }) - this.#ctx.clock.now(),
        );
        const attempt = this.#attemptOf(pull);
        if (settlement.kind === 'bury') buries.push({ ...lease, reason: settlement.reason, attempt });
        else if (settlement.kind === 'retry') {
          const { delayMs } = settlement;
          retries.push({ ...lease, delayMs, attempt: { ...attempt, ...waitAfter(settlement) } });
        }
      }
    }
    const [retried, buried, released] = await Promise.all([
      retries.length > 0 ? jobs.retry(retries) : [],
      endWithOutcomes(
        this.#ctx,
        buries,
        ({ reason }) => ({ reason, reply: null }),
        (items) => jobs.bury(items),
      ),
      releases.length > 0 ? jobs.release(releases) : [],
    ]);
    for (const [i, item] of retries.entries())
      if (retried[i]?.kind === 'retried') this.#report(item, { verdict: 'retry', delayMs: item.delayMs });
    for (const [i, item] of buries.entries())
      if (buried[i]?.kind === 'buried') this.#report(item, { verdict: 'bury', buryReason: item.reason });
    const count = released.filter(({ kind }) => kind === 'released').length;
    if (count > 0) this.#ctx.metrics.count('dq_jobs_released_total', count);
    throwFailure([...retried, ...buried, ...released]);
  }

  #attemptOf({ failures, leaseMs, until }: ExpiredPull): AttemptRecord {
    return {
      attempt: failures + 1,
      startedAt: until - leaseMs,
      durationMs: leaseMs,
      outcome: 'failed',
      reason: verdict.reason,
      status: null,
      replyExcerpt: '',
      notifier: this.#ctx.title,
      host: this.#host,
    };
  }

  #report(
    { topic, id, version, attempt }: Lease & { readonly attempt: AttemptRecord },
    end:
      | { readonly verdict: 'retry'; readonly delayMs: number }
      | { readonly verdict: 'bury'; readonly buryReason: string },
  ): void {
    const { log, counters, metrics } = this.#ctx;
    const { attempt: number, outcome, reason, status, durationMs } = attempt;
    metrics.count('dq_leases_expired_total', 1);
    metrics.count('dq_attempts_total', 1, end.verdict, verdict.reason);
    counters.add(topic, end.verdict === 'retry' ? 'retried' : 'dead');
    log.notify({ topic, id, version, attempt: number, outcome, reason, status, durationMs, ...end });
  }
}

/** Throws the first failure among the outcomes as StoreError. */
export function throwFailure(outcomes: readonly FinishOutcome<string>[]): void {
  const failure = outcomes.find(
    (outcome): outcome is StoreFailure => outcome.kind === 'not_stored' || outcome.kind === 'unknown',
  );
  if (failure !== undefined) throw new StoreError(failure);
}
