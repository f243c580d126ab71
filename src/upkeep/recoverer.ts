// Recovers leases that have expired or whose process is dead, settles expired leases of pulled jobs, and
// buries jobs whose lost leases make them poison.
// Each return is one atomic, fenced step of the store, so two recoverers beside each other (in a reload) do
// no harm: of these, or of a recoverer and a late ack or extend, one wins.
// Invariant: a lease of a living process is not recovered before it expires. The master's list of living
// notifiers includes the next incarnation of each slot; the store skips incarnations newer than the list; an
// old list is not used.

import { hostname } from 'node:os';
import { deadlineOf, withOptions } from '../core/extension.ts';
import type { AttemptRecord, Lease } from '../core/job.ts';
import { limits } from '../core/limits.ts';
import { beforeDeadline, settle, waitAfter } from '../core/verdict.ts';
import type {
  BuryItem,
  EndingLease,
  ExpiredPull,
  FinishOutcome,
  JobStore,
  Partition,
  Recovered,
  RetryItem,
} from '../ports/job-store.ts';
import { StoreError, type StoreFailure } from '../ports/store-error.ts';
import type { RoleContext } from '../process/role.ts';
import { Agent, isDue, turnAfter } from '../runtime/loop.ts';
import { monotonicNow, random } from '../runtime/time.ts';
import { endWithOutcomes } from '../use-cases/outcome-jobs.ts';
import { upkeepLimits } from './limits.ts';

export class Recoverer extends Agent {
  readonly #ctx: RoleContext;
  /** Incarnations whose leases are still to be recovered, with monotonicNow() of the news of their death. A
   *  reserve that they had sent can reach the store after the first look: they are looked for again. */
  readonly #dead = new Map<number, number>();
  #living: readonly number[] | null = null;
  /** monotonicNow() of the last `who_lives` */
  #askedAt = Number.NEGATIVE_INFINITY;
  /** monotonicNow() of the next check for expired leases */
  #nextAt = 0;
  readonly #expiredPulls: ExpiredPulls;

  constructor(ctx: RoleContext) {
    super({
      log: ctx.log,
      failure: 'recoverer: cannot recover leases',
      end: 'recoverer: leases are recovered again',
      step: () => this.#step(),
      onFailure: () => {
        this.#nextAt = 0;
      },
      failureWaitMs: upkeepLimits.recoverAgainMs,
    });
    this.#ctx = ctx;
    this.#expiredPulls = new ExpiredPulls(ctx);
  }

  /** The process of this incarnation has exited: recovers its leases before they expire. */
  ownerDied(incarnation: number): void {
    this.#dead.set(incarnation, monotonicNow());
    this.wake();
  }

  /** The master's answer to who_lives. */
  onlyTheseLive(incarnations: readonly number[]): void {
    this.#living = incarnations;
    this.wake();
  }

  async #step(): Promise<number> {
    const { instance } = this.#ctx.owner;
    const living = this.#freshLiving();
    // A partition that does not answer delays no other.
    const failures: unknown[] = [];
    if (living !== null)
      failures.push(
        ...(await this.#recoverAll((jobs, partition) =>
          jobs.recoverOwners(partition, instance, { living }, limits.recoverMax),
        )),
      );
    for (const [dead, toldAt] of this.#dead) {
      const isLate = monotonicNow() - toldAt >= upkeepLimits.recoverEveryMs;
      const failed = await this.#recoverAll((jobs, partition) =>
        jobs.recoverOwners(partition, instance, { dead }, limits.recoverMax),
      );
      failures.push(...failed);
      if (failed.length === 0 && isLate) this.#dead.delete(dead);
    }
    // Not earlier because of a wake-up by a message.
    if (isDue(this.#nextAt, upkeepLimits.recoverEveryMs)) {
      this.#nextAt = turnAfter(upkeepLimits.recoverEveryMs);
      failures.push(
        ...(await this.#recoverAll((jobs, partition) => jobs.recover(partition, limits.recoverMax))),
      );
    }
    if (failures.length > 0) throw failures[0];
    return Math.max(this.#nextAt - monotonicNow(), 0);
  }

  /** The master's answer to `who_lives`, used once; null = none, or too old. Asked
   *  regularly: the message about a death may have been lost, because this process did not
   *  exist yet or the notifier belonged to an earlier master. */
  #freshLiving(): readonly number[] | null {
    const living = this.#living;
    const ageMs = monotonicNow() - this.#askedAt;
    this.#living = null;
    if (living !== null && ageMs <= upkeepLimits.livingFreshMs) return living;
    if (living !== null || ageMs >= upkeepLimits.whoLivesEveryMs) {
      this.#askedAt = monotonicNow();
      // Without a master no answer comes, and this process drains.
      this.#ctx.link.send({ kind: 'who_lives' });
    }
    return null;
  }

  /** Returns the errors of the partitions that failed. A jobs.db that is left may have leases, too. */
  async #recoverAll(
    recover: (jobs: JobStore, partition: Partition) => Promise<Recovered>,
  ): Promise<unknown[]> {
    const failures: unknown[] = [];
    for await (const jobs of this.#stores()) {
      for (const partition of jobs.partitions()) {
        try {
          let recovered: Recovered;
          do {
            recovered = await recover(jobs, partition);
            this.#report(recovered.returned);
            const ends = [this.#bury(recovered.poisoned), this.#expiredPulls.settle(recovered.pulled ?? [])];
            const failed = (await Promise.allSettled(ends)).find((end) => end.status === 'rejected');
            if (failed !== undefined) throw failed.reason;
          } while (recovered.more);
        } catch (error) {
          if (!(error instanceof StoreError)) throw error;
          failures.push(error);
        }
      }
    }
    return failures;
  }

  /** First the store in force: a jobs.db that does not answer delays no recovery in it. */
  async *#stores(): AsyncGenerator<JobStore> {
    const { store, leaving } = this.#ctx;
    yield store.jobs;
    if (leaving !== undefined && (await leaving.look()) !== 'none') yield leaving.jobs;
  }

  #report(returned: number): void {
    if (returned === 0) return;
    this.#ctx.metrics.count('dq_leases_recovered_total', returned);
    this.#ctx.log.notice('recoverer: recovered jobs', { returned });
  }

  /** Rejects with StoreError when the store did not bury all: the next recover lists the rest again. */
  async #bury(leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return;
    const { log, counters, metrics, store } = this.#ctx;
    const items = leases.map((lease) => ({ ...lease, reason: 'poison', attempt: null }) as const);
    const outcomes = await endWithOutcomes(
      this.#ctx,
      items,
      ({ reason }) => ({ reason, reply: null }),
      (its) => store.jobs.bury(its),
    );
    for (const [i, { topic, id }] of leases.entries()) {
      if (outcomes[i]?.kind !== 'buried') continue;
      metrics.count('dq_leases_recovered_total', 1);
      metrics.count('dq_strikes_poisoned_total', 1);
      counters.add(topic, 'dead');
      log.notify({ topic, id, outcome: 'failed', verdict: 'bury', reason: null, deadReason: 'poison' });
      log.error('recoverer: buried a poison job: its notifier died at each attempt', undefined, {
        topic,
        id,
      });
    }
    throwFailure(outcomes);
  }
}

const verdict = {
  outcome: 'failed',
  reason: 'lease_expired',
  noMoreAttempts: null,
  retryAfterMs: 0,
} as const;

/** An expired lease of a pulled job is a failed attempt, and the topic's policy decides whether another one
 *  follows. */
class ExpiredPulls {
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
      if (buried[i]?.kind === 'buried') this.#report(item, { verdict: 'bury', deadReason: item.reason });
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
      | { readonly verdict: 'bury'; readonly deadReason: string },
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
function throwFailure(outcomes: readonly FinishOutcome<string>[]): void {
  const failure = outcomes.find(
    (outcome): outcome is StoreFailure => outcome.kind === 'not_stored' || outcome.kind === 'unknown',
  );
  if (failure !== undefined) throw new StoreError(failure);
}
