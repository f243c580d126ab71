// Calls held jobs: builds the request, runs the call, judges its end, and passes the outcome to the settler.
// Owns the running calls. Reserves nothing; its caller has checked each job against its lease
// (job-starter.ts).

import { hostname } from 'node:os';
import type { Brokers } from '../broker/brokers.ts';
import { brokerMessageOf } from '../broker/publication.ts';
import { type Clock, createClock } from '../core/calendar.ts';
import { messageOf } from '../core/errors.ts';
import { deadlineOf, optionsIn, withAgain, withOptions } from '../core/extension.ts';
import type { AttemptRecord, DeadReason, JobKey, ReservedJob, Version } from '../core/job.ts';
import { childOf } from '../core/trace-context.ts';
import {
  beforeDeadline,
  type CallOutcome,
  judge,
  type Settlement,
  settle,
  slowDownOf,
  type Verdict,
  waitAfter,
  withAgainLimit,
} from '../core/verdict.ts';
import type { RoleContext } from '../process/role.ts';
import type { CallFacts } from '../process/senders.ts';
import { printableExcerpt } from '../runtime/printable-text.ts';
import { monotonicNow, random, setImmediate } from '../runtime/time.ts';
import { outcomeOf } from '../use-cases/outcome-jobs.ts';
import { failureDetail } from './attempt-detail.ts';
import type { AttemptFeed } from './attempt-feed.ts';
import { Call, type CallEnd, callRequestOf, type OnEnd } from './call-back.ts';
import type { RunningCall } from './call-budget.ts';
import type { Capacity } from './capacity.ts';
import type { EndpointCalls, TopicCalls } from './endpoint-calls.ts';
import { notifierLimits } from './limits.ts';
import type { Pools } from './pools.ts';
import type { Held, Settler } from './settler.ts';
import type { TopicTarget } from './topic-target.ts';

interface Ended {
  readonly held: Held;
  readonly target: TopicTarget;
  readonly running: RunningCall;
  /** null: not counted */
  readonly counted: TopicCalls | null;
  readonly startedAt: number;
  readonly end: CallEnd;
  readonly durationMs: number;
  readonly detail: string;
  readonly traceparent: string | undefined;
}

/** The record of a call; one that ended in a snooze is not stored. */
type CalledAttempt = Omit<AttemptRecord, 'outcome'> & { readonly outcome: Verdict['outcome'] };

function isStored(attempt: CalledAttempt): attempt is AttemptRecord {
  return attempt.outcome !== 'again';
}

/** The attempt does not count: the receiver asks the topic to slow down. */
interface Released {
  readonly kind: 'release';
}

interface DelivererOptions {
  readonly ctx: RoleContext;
  readonly pools: Pools;
  readonly brokers: Pick<Brokers, 'publish'>;
  readonly capacity: Capacity;
  readonly settler: Settler;
  readonly endpoints: EndpointCalls;
  readonly feed: AttemptFeed;
  readonly facts: CallFacts;
  /** called once per tick in which calls ended */
  readonly onEnded: () => void;
}

const host = hostname();

/** The storage clock now, epoch ms: sent to receivers and compared with due times. Counted from the
 *  reserve, so that a wrong clock of this machine does not matter. */
function storageNow({ clockOffset }: Held): number {
  return Math.round(clockOffset + monotonicNow());
}

const excerptMaxOf = {
  delivered: notifierLimits.deliveredExcerptMax,
  again: notifierLimits.deliveredExcerptMax,
  failed: notifierLimits.replyExcerptMax,
} as const;

export class Deliverer {
  readonly #options: DelivererOptions;
  readonly #running = new Map<
    Held,
    {
      readonly call: { interrupt(): void };
      readonly running: RunningCall;
      readonly counted: TopicCalls | null;
      readonly startedAt: number;
    }
  >();
  readonly #clock: Clock;
  #ended: Ended[] = [];

  constructor(options: DelivererOptions) {
    this.#options = options;
    this.#clock = createClock(options.ctx.config.timezone);
  }

  get running(): number {
    return this.#running.size;
  }

  /** Start of the running call of this version, epoch ms by the storage clock; null: it does not run. Visits
   *  at most one call per slot. */
  since(key: JobKey, version: Version): number | null {
    for (const [{ job }, { startedAt }] of this.#running)
      if (job.version === version && job.id === key.id && job.topic === key.topic) return startedAt;
    return null;
  }

  call(held: Held, target: TopicTarget): void {
    const { capacity, endpoints } = this.#options;
    const startedAt = storageNow(held);
    const running = capacity.started(target);
    const counted = endpoints.of(held.job.topic, target.origin, startedAt);
    if (counted !== null) counted.running += 1;
    const { trace } = optionsIn(held.job.extension);
    const traceparent = trace === undefined ? undefined : childOf(trace);
    const onEnd: OnEnd = (end, durationMs, detail) => {
      // Judged later: an exception inside the HTTP client would count as an error of the connection.
      if (this.#ended.length === 0) setImmediate(() => this.#judgeEnded());
      this.#ended.push({ held, target, running, counted, startedAt, end, durationMs, detail, traceparent });
    };
    try {
      const call = this.#start(held.job, target, startedAt, traceparent, onEnd);
      this.#running.set(held, { call, running, counted, startedAt });
    } catch (error) {
      // The next request would fail, too. A failed attempt is visible, and attempts end.
      onEnd({ kind: 'no_reply', reason: 'protocol' }, 0, messageOf(error));
    }
  }

  /** Throws where the request or message cannot be built. `nowMs`: storage clock */
  #start(
    job: ReservedJob,
    target: TopicTarget,
    nowMs: number,
    traceparent: string | undefined,
    onEnd: OnEnd,
  ): { interrupt(): void } {
    const { pools, brokers, ctx } = this.#options;
    const { topic } = target;
    if (topic.delivery === 'mq') {
      const message = brokerMessageOf(job, topic, { nowMs, traceparent });
      return brokers.publish({ target: topic.target, message, timeoutMs: topic.timeoutMs, onEnd });
    }
    const context = { nowMs, clock: this.#clock, version: ctx.version, pools, traceparent };
    return new Call(pools, callRequestOf(job, target, context), onEnd);
  }

  /** Ends every running call without an outcome, and releases its job. The receiver may have got the
   *  request. Returns the number of calls. */
  interruptAll(): number {
    this.#judgeEnded();
    const { capacity, settler } = this.#options;
    const interrupted = this.#running.size;
    for (const [held, { call, running, counted, startedAt }] of this.#running) {
      call.interrupt();
      if (counted !== null) counted.running -= 1;
      this.#observeLateness(held, startedAt);
      capacity.released(running);
      settler.release(held);
    }
    this.#running.clear();
    return interrupted;
  }

  #judgeEnded(): void {
    const ended = this.#ended;
    if (ended.length === 0) return;
    this.#ended = [];
    for (const one of ended) {
      this.#running.delete(one.held);
      this.#options.capacity.released(one.running);
      if (one.counted !== null) one.counted.running -= 1;
      if (one.end.kind === 'not_started') {
        // Release: no request was sent.
        this.#options.capacity.notStarted(one.running);
        this.#options.settler.release(one.held);
        continue;
      }
      this.#observeLateness(one.held, one.startedAt);
      this.#settle(one, one.end);
    }
    this.#options.onEnded();
  }

  /** Called at the end of a call: only then does dq know that a request was sent. */
  #observeLateness({ job }: Held, startedAt: number): void {
    const lateMs = Math.max(0, startedAt - job.dueAt);
    this.#options.ctx.metrics.observe('dq_delivery_lateness_seconds', lateMs / 1_000);
    this.#options.facts.lateness(job.topic, lateMs);
  }

  #settle(
    { held, target, running, counted, startedAt, durationMs, detail, traceparent }: Ended,
    outcome: CallOutcome,
  ): void {
    const { ctx, capacity, settler } = this.#options;
    const { job } = held;
    const attemptNumber = job.failures + 1;
    // The policy at the moment of settling applies; a topic that was deleted meanwhile keeps its last one.
    const { topic: current, rules } = capacity.targetOf(job.topic) ?? target;
    const options = optionsIn(job.extension);
    const topic = withOptions(current, options);
    const call = { attempt: attemptNumber, nowMs: storageNow(held) };
    const judged = judge(topic, rules, call, outcome);
    // Of a snooze: this one counted. Stored with a snooze and a retry; a requeue begins again.
    const again = judged.outcome === 'again' ? (options.again ?? 0) + 1 : 0;
    const extension = again === 0 ? undefined : withAgain(job.extension, again);
    const verdict = withAgainLimit(judged, again);
    const reason = verdict.outcome === 'failed' ? verdict.reason : null;
    const status = outcome.kind === 'replied' ? outcome.status : null;
    const said = reason === null ? '' : printableExcerpt(detail, notifierLimits.detailMax);
    const counts = capacity.judged(running, reason, status, slowDownOf(topic, judged, outcome), said);
    const settlement = beforeDeadline(
      settle(topic, job.failures, verdict, ctx.config['retry.unit'], random),
      deadlineOf(options, job) - call.nowMs,
    );
    const attempt: CalledAttempt = {
      attempt: attemptNumber,
      startedAt,
      durationMs: Math.round(durationMs),
      outcome: verdict.outcome,
      reason,
      status,
      replyExcerpt:
        outcome.kind === 'replied' ? printableExcerpt(outcome.text, excerptMaxOf[verdict.outcome]) : '',
      notifier: ctx.title,
      host,
      ...(traceparent === undefined ? {} : { traceparent }),
      ...(verdict.outcome !== 'failed'
        ? {}
        : {
            latenessMs: Math.max(0, startedAt - job.dueAt),
            ...failureDetail({ outcome, verdict, rules, attempt: attemptNumber, detail }),
            ...waitAfter(settlement),
          }),
    };
    ctx.metrics.observe('dq_callback_seconds', durationMs / 1_000);
    counted?.judged(reason, status, durationMs, call.nowMs, attempt.detail);
    if (!counts) {
      this.#log(held, attempt, { kind: 'release' }, detail);
      settler.release(held);
      return;
    }
    if (settlement.kind === 'retry') counted?.retried(job, call.nowMs + settlement.delayMs, call.nowMs);
    else if (settlement.kind !== 'again') counted?.ended(job.id);
    const isSnooze = verdict.outcome === 'again';
    ctx.metrics.count('dq_attempts_total', 1, isSnooze ? 'again' : settlement.kind, reason ?? 'none');
    this.#options.facts.ended(job.topic, { attempt: attemptNumber, durationMs, reason, status, isSnooze });
    this.#log(held, attempt, settlement, detail);
    this.#sample(held, attempt, target.origin);
    const stored = isStored(attempt) ? attempt : null;
    const outcomeWith = (deadReason: DeadReason | null) =>
      outcomeOf(ctx.topics, topic, job, {
        reason: deadReason,
        attempt: stored === null ? job.failures : attemptNumber,
        at: call.nowMs,
        status,
        reply: replyOf(outcome),
      });
    if (settlement.kind === 'bury')
      settler.bury(held, settlement.reason, stored, outcomeWith(settlement.reason));
    else if (settlement.kind === 'again' && extension !== undefined)
      settler.snooze(held, settlement.delayMs, extension);
    else if (settlement.kind === 'retry' && stored !== null)
      settler.retry(held, settlement.delayMs, stored, extension);
    else if (stored !== null) settler.ack(held, stored, outcomeWith(null));
  }

  #sample({ job }: Held, record: CalledAttempt, origin: string): void {
    const { feed } = this.#options;
    if (!feed.takes(job.topic, record.outcome)) return;
    const { attempt, startedAt, durationMs, outcome, reason, status, replyExcerpt, notifier } = record;
    feed.add({
      topic: job.topic,
      id: job.id,
      version: job.version,
      attempt,
      startedAt,
      durationMs,
      outcome,
      reason,
      status,
      replyExcerpt,
      notifier,
      origin,
      detail: record.detail ?? '',
      latenessMs: Math.max(0, startedAt - job.dueAt),
    });
  }

  #log({ job }: Held, attempt: CalledAttempt, settlement: Settlement | Released, detail: string): void {
    this.#options.ctx.log.notify({
      topic: job.topic,
      id: job.id,
      version: job.version,
      attempt: attempt.attempt,
      outcome: attempt.outcome,
      verdict: settlement.kind,
      reason: attempt.reason,
      status: attempt.status,
      durationMs: attempt.durationMs,
      lateMs: attempt.startedAt - job.dueAt,
      ...(attempt.traceparent === undefined ? {} : { traceparent: attempt.traceparent }),
      ...('delayMs' in settlement ? { delayMs: settlement.delayMs } : {}),
      ...(settlement.kind === 'bury' ? { deadReason: settlement.reason } : {}),
      ...(attempt.outcome === 'failed' ? { detail, reply: attempt.replyExcerpt } : {}),
    });
  }
}

/** The body of a whole reply: as text where its charset is known, else as it came. */
function replyOf(outcome: CallOutcome): Buffer | null {
  if (outcome.kind !== 'replied' || outcome.cut) return null;
  return outcome.text.includes('\ufffd') ? (outcome.raw ?? null) : Buffer.from(outcome.text);
}
