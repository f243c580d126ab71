// Ends and extends the leases of pulled jobs, as their clients ask. Each write is fenced by version and
// token, so a repeat does no harm: a second ack is answered lease_lost.

import { hostname } from 'node:os';
import { deadlineOf, optionsIn, withAgain, withOptions } from '../../core/extension.ts';
import type { AttemptReason, AttemptRecord, Lease, ReservedJob } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import type { PulledLease } from '../../core/pull-lease.ts';
import type { StatName } from '../../core/series.ts';
import {
  beforeDeadline,
  type Settlement,
  settle,
  type Verdict,
  waitAfter,
  withAgainLimit,
} from '../../core/verdict.ts';
import type { BuryItem, ExtendOutcome, FinishOutcome, ShownLease } from '../../ports/job-store.ts';
import { StoreError, type StoreFailure } from '../../ports/store-error.ts';
import type { RoleContext } from '../../process/role.ts';
import { CallFacts } from '../../process/senders.ts';
import type { Service } from '../../runtime/service.ts';
import { random } from '../../runtime/time.ts';
import { endWithOutcomes } from '../../use-cases/outcome-jobs.ts';

/** How the client ends an attempt that failed. */
interface Nack {
  /** to the next attempt; null: the topic's backoff */
  readonly delayMs: number | null;
  /** of the client, kept with the attempt; '' = none */
  readonly reason: string;
  /** no further attempt */
  readonly isDead: boolean;
  /** The job waits for delayMs, and no attempt counts. */
  readonly isSnooze?: boolean;
}

export type LeaseOutcome = FinishOutcome<'acked' | 'retried' | 'buried' | 'released'> | ExtendOutcome;

interface Ended {
  readonly lease: PulledLease;
  readonly attempt: AttemptRecord;
  readonly settlement: Settlement;
  /** false: the attempt is a snooze, and not stored */
  readonly counts: boolean;
  /** of a snooze: the options of the job, with their number */
  readonly extension?: Buffer | undefined;
}

const host = hostname();
const latenessOf = ({ pulledAt, dueAt }: PulledLease): number => Math.max(0, pulledAt - dueAt);
/** As the store gets it. */
export const leaseOf = ({ topic, id, version, token }: Lease): ShownLease => ({
  topic,
  id,
  version,
  token,
  isPulled: true,
});

export class PulledLeases implements Service {
  readonly #ctx: RoleContext;
  readonly #facts: CallFacts;

  constructor(ctx: RoleContext) {
    this.#ctx = ctx;
    this.#facts = new CallFacts(ctx.link);
  }

  async start(): Promise<void> {
    this.#facts.start();
  }

  async drain(): Promise<void> {
    this.#facts.close();
  }

  /** Counts the lateness of a job that is handed out. */
  pulled(lease: PulledLease): void {
    const lateMs = latenessOf(lease);
    this.#ctx.metrics.observe('dq_delivery_lateness_seconds', lateMs / 1_000);
    this.#facts.lateness(lease.topic, lateMs);
  }

  /** `result`: of the client, for the job that the topic names in onDone; null: none */
  async ack(leases: readonly PulledLease[], result: Buffer | null = null): Promise<readonly LeaseOutcome[]> {
    const ended = leases.map(
      (lease): Ended => ({
        lease,
        attempt: this.#attempt(lease, null, ''),
        settlement: { kind: 'ack' },
        counts: true,
      }),
    );
    const keeps = this.#ctx.config['history.retention'] > 0;
    const items = ended.map(({ lease, attempt }) => ({ ...leaseOf(lease), attempt: keeps ? attempt : null }));
    const { jobs } = this.#ctx.store;
    const end = { reason: null, reply: result };
    return this.#counted(
      ended,
      await endWithOutcomes(
        this.#ctx,
        items,
        () => end,
        (its) => jobs.ack(its),
      ),
    );
  }

  /** A lease of a topic that the registry could not be asked about stays as it is: `not_stored`. A snooze
   *  needs no topic, unless it counts as an attempt. */
  async nack(leases: readonly PulledLease[], nack: Nack): Promise<readonly LeaseOutcome[]> {
    const asked = leases.map((lease) => ({ lease, ...askedOf(lease, nack) }));
    const judged = asked.filter(({ verdict }) => !nack.isDead && verdict.outcome === 'failed');
    const unread = await this.#unreadTopics(judged.map(({ lease }) => lease));
    const ended = asked.flatMap(({ lease, verdict, extension }): readonly Ended[] => {
      if (unread.has(lease.topic)) return [];
      const settlement = this.#settlementOf(lease, verdict, nack);
      const detail =
        verdict.outcome === 'failed' && verdict.detail !== undefined ? verdict.detail : nack.reason;
      const reason = verdict.outcome === 'failed' ? verdict.reason : null;
      const attempt = { ...this.#attempt(lease, reason, detail), ...waitAfter(settlement) };
      return [{ lease, attempt, settlement, counts: reason !== null, extension }];
    });
    const { jobs } = this.#ctx.store;
    const buried = ended.filter(({ settlement }) => settlement.kind === 'bury');
    const retried = ended.filter(({ settlement }) => settlement.kind !== 'bury');
    const [retries, buries] = await Promise.all([
      jobs.retry(
        retried.map(({ lease, attempt, settlement, counts, extension }) => ({
          ...leaseOf(lease),
          attempt: counts ? attempt : null,
          extension,
          delayMs: (settlement as { delayMs: number }).delayMs,
        })),
      ),
      this.#bury(
        buried.map(({ lease, attempt, settlement, counts }) => ({
          ...leaseOf(lease),
          attempt: counts ? attempt : null,
          reason: (settlement as { reason: 'nacked' | 'expired' }).reason,
        })),
      ),
    ]);
    const outcomes = new Map<PulledLease, LeaseOutcome>([
      ...this.#counted(retried, retries).map((outcome, n) => [(retried[n] as Ended).lease, outcome] as const),
      ...this.#counted(buried, buries).map((outcome, n) => [(buried[n] as Ended).lease, outcome] as const),
    ]);
    return leases.map((lease) => unread.get(lease.topic) ?? outcomes.get(lease) ?? unanswered);
  }

  /** A process that was started while the registry is unavailable knows no topic: neither the backoff nor
   *  `maxAttempts` of these. */
  async #unreadTopics(leases: readonly PulledLease[]): Promise<ReadonlyMap<string, StoreFailure>> {
    const { topics } = this.#ctx;
    const unread = new Map<string, StoreFailure>();
    const unknown = new Set(leases.map(({ topic }) => topic).filter((topic) => !topics.get(topic)));
    // Together: each waits for the timeout of the registry.
    const lookUp = async (topic: string): Promise<void> => {
      try {
        await topics.lookUp(topic);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        unread.set(topic, { kind: 'not_stored', code: error.failure.code });
      }
    };
    await Promise.all([...unknown].map(lookUp));
    return unread;
  }

  /** Buries jobs that no client gets: their deadline has passed. Without an answer their leases expire. */
  async expire(jobs: readonly ReservedJob[]): Promise<void> {
    const { counters, log } = this.#ctx;
    const items = jobs.map((job) => ({ ...leaseOf(job), reason: 'expired', attempt: null }) as const);
    const outcomes = await this.#bury(items);
    for (const [n, { topic, id, version }] of jobs.entries()) {
      if (outcomes[n]?.kind !== 'buried') continue;
      counters.add(topic, 'dead');
      const line = { outcome: 'failed', verdict: 'bury', reason: null, deadReason: 'expired' } as const;
      log.notify({ topic, id, version, ...line, via: 'pull' });
    }
  }

  #bury(items: readonly BuryItem[]) {
    const { jobs } = this.#ctx.store;
    return endWithOutcomes(
      this.#ctx,
      items,
      ({ reason }) => ({ reason, reply: null }),
      (its) => jobs.bury(its),
    );
  }

  /** Back in its place, without an attempt. */
  async release(leases: readonly PulledLease[]): Promise<readonly LeaseOutcome[]> {
    const outcomes = await this.#ctx.store.jobs.release(leases.map(leaseOf));
    const released = outcomes.filter(({ kind }) => kind === 'released').length;
    if (released > 0) this.#ctx.metrics.count('dq_jobs_released_total', released);
    return outcomes;
  }

  extend(leases: readonly PulledLease[], leaseMs: number): Promise<readonly LeaseOutcome[]> {
    return this.#ctx.store.jobs.extend(leases.map((lease) => ({ ...leaseOf(lease), leaseMs })));
  }

  /** A topic that was removed has no policy any more: its job waits for its return, one backoff later. */
  #settlementOf(lease: PulledLease, verdict: Verdict, { delayMs, isDead, isSnooze }: Nack): Settlement {
    const { clock, config, topics } = this.#ctx;
    const { topic, failures, dueAt, extension } = lease;
    const policy = topics.get(topic);
    if (isDead) return { kind: 'bury', reason: 'nacked' };
    const options = optionsIn(extension);
    const leftMs = deadlineOf(options, { dueAt }) - clock.now();
    if (verdict.outcome === 'again')
      return beforeDeadline({ kind: 'again', delayMs: verdict.delayMs }, leftMs);
    const unitMs = config['retry.unit'];
    // The wait of a snooze that counts is in its verdict: it is one at least, beside the backoff.
    const asked =
      delayMs === null || isSnooze ? null : ({ kind: 'retry', delayMs, by: 'retry_after' } as const);
    if (policy === undefined)
      return asked ?? settle(untilItReturns(unitMs), failures, verdict, unitMs, random);
    const own = withOptions(policy, options);
    const settlement = settle(own, failures, verdict, unitMs, random);
    return beforeDeadline(settlement.kind === 'retry' ? (asked ?? settlement) : settlement, leftMs);
  }

  #attempt(lease: PulledLease, reason: AttemptReason | null, detail: string): AttemptRecord {
    return {
      attempt: lease.failures + 1,
      startedAt: lease.pulledAt,
      durationMs: Math.max(0, this.#ctx.clock.now() - lease.pulledAt),
      outcome: reason === null ? 'delivered' : 'failed',
      reason,
      status: null,
      replyExcerpt: '',
      notifier: this.#ctx.title,
      host,
      ...(reason === null ? {} : { latenessMs: latenessOf(lease) }),
      ...(detail === '' ? {} : { detail }),
    };
  }

  /** Counts and logs what the store has applied. */
  #counted<O extends LeaseOutcome>(ended: readonly Ended[], outcomes: readonly O[]): readonly O[] {
    for (const [n, one] of ended.entries()) {
      const kind = outcomes[n]?.kind;
      if (kind === 'acked' || kind === 'retried' || kind === 'buried') this.#report(one);
      else if (kind === 'lease_lost')
        this.#ctx.metrics.count('dq_leases_lost_total', 1, verbOf[one.settlement.kind]);
    }
    return outcomes;
  }

  #report({ lease, attempt, settlement, counts }: Ended): void {
    const { counters, metrics, log } = this.#ctx;
    const { topic, id, version } = lease;
    const { durationMs, reason, status } = attempt;
    counters.add(topic, statOf[settlement.kind]);
    const isSnooze = !counts;
    metrics.count('dq_attempts_total', 1, isSnooze ? 'again' : settlement.kind, (reason ?? 'none') as 'none');
    this.#facts.ended(topic, { attempt: attempt.attempt, durationMs, reason, status, isSnooze });
    log.notify({
      topic,
      id,
      version,
      attempt: attempt.attempt,
      outcome: isSnooze ? 'again' : attempt.outcome,
      verdict: settlement.kind,
      reason,
      status,
      durationMs,
      lateMs: latenessOf(lease),
      via: 'pull',
      ...('delayMs' in settlement ? { delayMs: settlement.delayMs } : {}),
      ...(settlement.kind === 'bury' ? { deadReason: settlement.reason } : {}),
      ...(attempt.detail === undefined ? {} : { detail: attempt.detail }),
    });
  }
}

const untilItReturns = (waitMs: number) => ({
  maxAttempts: Number.POSITIVE_INFINITY,
  jitter: 0,
  backoff: { type: 'ladder', stepsMs: [waitMs] } as const,
});
const unanswered: LeaseOutcome = { kind: 'unknown' } as LeaseOutcome;
const statOf: Readonly<Record<Settlement['kind'], StatName>> = {
  ack: 'delivered',
  again: 'again',
  retry: 'retried',
  bury: 'dead',
};
const verbOf = { ack: 'ack', again: 'retry', retry: 'retry', bury: 'bury' } as const;
const nacked = { outcome: 'failed', reason: 'nacked', noMoreAttempts: null, retryAfterMs: 0 } as const;

/** What the client asks for, with the options of the job after a snooze. */
function askedOf(
  { extension }: PulledLease,
  { delayMs, isSnooze }: Nack,
): { readonly verdict: Verdict; readonly extension?: Buffer } {
  if (isSnooze !== true) return { verdict: nacked };
  const again = (optionsIn(extension).again ?? 0) + 1;
  const snooze = { outcome: 'again', delayMs: delayMs ?? limits.againMsDefault, by: 'release' } as const;
  return { verdict: withAgainLimit(snooze, again), extension: withAgain(extension, again) };
}
