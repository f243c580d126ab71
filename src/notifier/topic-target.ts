// Holds what one notifier knows about calling one topic: the endpoint, the calls allowed at once, its health.
// Built again with every change of the topic, so its constants are computed once per revision and not once
// per job.
//
// A topic is restricted while it is
//   slow    a call has been running for longer than usual, or failed after such a time, and no later call has
//           succeeded; a success or a quick reply ends it
//   ailing  notifierLimits.ailingAttempts attempts in a row did not reach the receiver; a success ends it
//   queued  the look-up of its host name got no turn for a call; the next call that starts ends it
// Restricted topics get probes only (probes.ts).
//
// A topic is slowed down while its receiver asks for it (429, or 503 with Retry-After): it gets no call for
// the time that the reply asks for, then one probe. Calls that were under way count no attempt if they get
// such a reply, too. The reply that begins it and those of probes count, so that each job ends. Another reply
// to a probe starts a ramp.
//
// After an outage a topic ramps: it gets a part of its concurrency and rate, which grows, so that its backlog
// does not overload an endpoint that just came back.
// An outage is as many attempts in a row that did not reach the receiver, or that a gateway answered for it
// while no attempt has succeeded for notifierLimits.gatewayOutageMs. Such replies restrict no topic: they
// free their slots soon, and some receivers reject single jobs with them.

import { unknownBroker } from '../broker/brokers.ts';
import type { Broker } from '../core/broker.ts';
import { originOf } from '../core/endpoint.ts';
import { type AttemptReason, failureWords } from '../core/job.ts';
import type { KnownTopic, Topic } from '../core/topic/topic.ts';
import { isOkStatus, type ReplyRules, rulesOf } from '../core/verdict.ts';
import { notifierLimits } from './limits.ts';

/** Failures of a receiver that is unreachable or hangs. Any other failure is a reply and frees its slot
 *  soon. */
const unreachedReasons: ReadonlySet<AttemptReason> = new Set(['connect', 'tls', 'dns', 'timeout']);

/** Replies of a gateway whose server is unreachable, overloaded or silent (RFC 9110, 15.6). */
const gatewayStatuses: ReadonlySet<number> = new Set([502, 503, 504]);

/** The part of the limits of a topic after an outage. */
interface Ramp {
  /** above 0, below 1 */
  readonly part: number;
  /** monotonicNow(): calls from before tell nothing about the endpoint that came back */
  readonly startedAt: number;
  /** after the receiver asked to slow down: the next such reply counts at once */
  readonly isSlowed: boolean;
  /** attempts that ended in this step, and those of them that did not reach the receiver */
  ended: number;
  missed: number;
}

/** The receiver asks to slow down. */
export interface SlowDown {
  /** monotonicNow() of its end; then the topic gets one call at once */
  readonly until: number;
  /** such replies to probes in a row, the first reply included */
  readonly inRow: number;
  /** no call */
  readonly isHeld: boolean;
  /** calls from before its end that run beside the probe */
  late: number;
}

/** An attempt that has ended. */
interface Judged {
  /** null for a success */
  readonly reason: AttemptReason | null;
  /** HTTP status; null without a reply */
  readonly status: number | null;
  /** monotonicNow() */
  readonly startedAt: number;
  readonly endedAt: number;
  /** The origin counted the call when it became slow. */
  readonly isCounted: boolean;
  /** the receiver asks to slow down for so long, 0 = without a time; null: it does not */
  readonly slowDownMs?: number | null;
  /** the failure of a call without a reply, in words; '' without one */
  readonly detail?: string;
}

export class TopicTarget {
  readonly topic: Topic;
  readonly rules: ReplyRules;
  /** as originOf */
  readonly origin: string;
  /** with delivery mq that of the broker */
  readonly hostname: string;
  /** path and query; '' with delivery mq */
  readonly path: string;
  /** Calls at once that this notifier may make for the topic in good standing. */
  readonly share: number;
  /** Probes that run. */
  probes = 0;
  /** The look-up of its host name still waits for its turn, or did a moment ago. */
  isPaused = false;
  readonly health: OriginHealth;
  #unreachedInRow = 0;
  #lastUnreached = '';
  /** as #unreachedInRow, with the replies of gateways */
  #outInRow = 0;
  #isOut = false;
  #isAiling = false;
  #isSlow = false;
  #isQueued = false;
  #ramp: Ramp | null = null;
  #slowDown: SlowDown | null = null;
  #slowedInRow = 0;
  #isTried = false;
  #succeededAt = Number.NEGATIVE_INFINITY;
  /** Duration of successful calls: the longest recent one, which fades. */
  #successMs = 0;

  /** `share`: calls at once. Throws where the registry holds what no registration accepts, or what cannot be
   *  decrypted, and for a broker that the configuration lacks. */
  constructor(
    known: KnownTopic,
    share: number,
    brokers: ReadonlyMap<string, Broker>,
    healthOf: (origin: string) => OriginHealth,
  ) {
    const topic = known.open();
    const url = topic.delivery === 'mq' ? null : new URL(topic.callbackUrl);
    const hostname = url?.hostname ?? brokers.get(topic.target.broker)?.host;
    if (hostname === undefined) throw new Error(unknownBroker(topic.target.broker));
    this.topic = topic;
    this.rules = rulesOf(topic);
    this.origin = originOf(topic);
    this.hostname = hostname;
    this.path = url === null ? '' : url.pathname + url.search;
    this.share = share;
    this.health = healthOf(this.origin);
  }

  get isAiling(): boolean {
    return this.#isAiling;
  }

  get isSlow(): boolean {
    return this.#isSlow;
  }

  get isQueued(): boolean {
    return this.#isQueued;
  }

  /** null: the topic has all of its limits. */
  get ramp(): Ramp | null {
    return this.#ramp;
  }

  /** null: the receiver does not ask to slow down. */
  get slowDown(): SlowDown | null {
    return this.#slowDown;
  }

  /** Attempts in a row that did not reach the receiver. */
  get unreachedInRow(): number {
    return this.#unreachedInRow;
  }

  /** The last of these in words. */
  get lastUnreached(): string {
    return this.#lastUnreached;
  }

  /** It gets probes: some calls at all times, few at once, and it delays no other topic. */
  get isRestricted(): boolean {
    return this.#isAiling || this.#isSlow || this.#isQueued;
  }

  /** An attempt has ended with a result. */
  get isTried(): boolean {
    return this.#isTried;
  }

  /** A call has succeeded, and the topic is not restricted. */
  get isTrusted(): boolean {
    return this.#succeededAt > Number.NEGATIVE_INFINITY && !this.isRestricted;
  }

  /** Calls at once. */
  get capacity(): number {
    // Calls of one name share one look-up.
    if (this.#isQueued) return this.isPaused ? 0 : Math.min(this.share, 1);
    if (this.#slowDown !== null) {
      const { isHeld, late } = this.#slowDown;
      return isHeld ? 0 : Math.min(this.share, late + 1);
    }
    if (this.#isAiling) return Math.min(this.share, notifierLimits.ailingCallsMax);
    return this.#ramp === null ? this.share : Math.ceil(this.share * this.#ramp.part);
  }

  /** Age in ms from which on a call of this topic is unusually long. */
  get patienceMs(): number {
    return Math.max(notifierLimits.slowCallMs, 2 * this.#successMs);
  }

  /** Before the first result, an ailing origin is the best guess. */
  started(): void {
    if (!this.#isTried && this.health.isAiling) this.#isSlow = true;
  }

  /** A call ended without a request, because the look-up of the host name got no turn. */
  notStarted(): void {
    this.#isQueued = true;
  }

  /** A call that started at `startedAt` still runs and is unusually old. */
  becameSlow(startedAt: number): void {
    if (this.#succeededAt < startedAt) this.#isSlow = true;
  }

  /** Must be called after each notifierLimits.rampStepMs of a ramp. */
  rampStep(): void {
    if (this.#ramp === null) return;
    const { part, startedAt, isSlowed, ended, missed } = this.#ramp;
    // Most, not any: at a thousand calls a second some fail in each second, and the topic would keep a tenth.
    const next = 2 * missed > ended ? part : 2 * part;
    this.#ramp = next >= 1 ? null : { part: next, startedAt, isSlowed, ended: 0, missed: 0 };
  }

  /** Must be called at the time until which the topic gets no call. `running`: calls of the topic, which the
   *  probe does not wait for: they may take as long as their timeout. */
  probeSlowDown(running: number): void {
    if (this.#slowDown !== null) this.#slowDown = { ...this.#slowDown, isHeld: false, late: running };
  }

  /** false: the attempt does not count. */
  judged(end: Judged): boolean {
    const { slowDownMs = null, startedAt, endedAt } = end;
    const slowDown = this.#slowDown;
    if (slowDown !== null && startedAt < slowDown.until) slowDown.late = Math.max(0, slowDown.late - 1);
    const counts = slowDownMs === null || this.#slowedDown(slowDownMs, startedAt, endedAt);
    this.#judged(end);
    // Not by a call from before the pause, nor by one that did not reach the receiver.
    const isAnswered = end.reason === null || !unreachedReasons.has(end.reason);
    if (slowDownMs === null && isAnswered) this.#endSlowDown(startedAt, endedAt);
    return counts;
  }

  /** Returns whether the attempt counts. */
  #slowedDown(askedMs: number, startedAt: number, endedAt: number): boolean {
    const current = this.#slowDown;
    const { slowDownMsMin, slowDownMsMax, slowDownAskedMsMax, slowDownAttempts } = notifierLimits;
    // The call was under way when it began.
    if (current !== null && startedAt < current.until) {
      const until = Math.max(current.until, endedAt + Math.min(askedMs, slowDownAskedMsMax));
      // A later time would make the running probe a call from before it.
      if (current.isHeld && until > current.until) this.#slowDown = { ...current, until };
      return false;
    }
    this.#slowedInRow += 1;
    const isKnown = current !== null || this.#ramp?.isSlowed === true;
    if (!isKnown && this.#slowedInRow < slowDownAttempts) return true;
    const inRow = (current?.inRow ?? 0) + 1;
    const ownMs = Math.min(slowDownMsMin * 2 ** Math.min(inRow - 1, 30), slowDownMsMax);
    const waitMs = askedMs > 0 ? Math.min(askedMs, slowDownAskedMsMax) : ownMs;
    this.#slowDown = { until: endedAt + waitMs, inRow, isHeld: true, late: 0 };
    this.#ramp = null;
    return true;
  }

  #endSlowDown(startedAt: number, endedAt: number): void {
    if (this.#slowDown === null) {
      this.#slowedInRow = 0;
      return;
    }
    if (startedAt < this.#slowDown.until) return;
    this.#slowDown = null;
    this.#slowedInRow = 0;
    this.#ramp = rampFrom(endedAt, true);
  }

  #judged({ reason, status, startedAt, endedAt, isCounted, slowDownMs = null, detail }: Judged): void {
    const durationMs = endedAt - startedAt;
    this.#isTried = true;
    this.#isQueued = false;
    const isUnreached = reason !== null && unreachedReasons.has(reason);
    const isGateway =
      reason !== null &&
      status !== null &&
      gatewayStatuses.has(status) &&
      !isOkStatus(this.topic.okStatus, status) &&
      slowDownMs === null &&
      endedAt - this.#succeededAt > notifierLimits.gatewayOutageMs;
    this.#outInRow = isUnreached || isGateway ? this.#outInRow + 1 : 0;
    if (this.#outInRow >= notifierLimits.ailingAttempts) this.#isOut = true;
    if (this.#ramp !== null && startedAt >= this.#ramp.startedAt) {
      this.#ramp.ended += 1;
      if (isUnreached) this.#ramp.missed += 1;
    }
    if (reason === null) {
      if (this.#isOut) this.#ramp = rampFrom(endedAt, false);
      this.#isOut = false;
      this.#isAiling = false;
      this.#isSlow = false;
      this.#unreachedInRow = 0;
      this.#succeededAt = endedAt;
      this.#successMs = Math.max(durationMs, this.#successMs * 0.9);
      this.health.countReply(endedAt);
    } else if (isUnreached) {
      this.#unreachedInRow += 1;
      this.#lastUnreached = failureWords({ reason, status, detail });
      if (this.#unreachedInRow >= notifierLimits.ailingAttempts) {
        this.#isAiling = true;
        this.#ramp = null;
      }
      if (durationMs >= notifierLimits.slowCallMs) this.becameSlow(startedAt);
      if (!isCounted) this.health.countUnreached(startedAt);
      this.health.lastUnreached = this.#lastUnreached;
    } else {
      this.#unreachedInRow = 0;
      if (durationMs >= notifierLimits.slowCallMs) return;
      this.#isSlow = false;
      this.health.countReply(endedAt);
    }
  }
}

function rampFrom(startedAt: number, isSlowed: boolean): Ramp {
  return { part: notifierLimits.rampStart, startedAt, isSlowed, ended: 0, missed: 0 };
}

/** Of calls that still run. */
const noReply = 'its calls get no reply';

/** Judges the origin (scheme, host, port) that several topics share. The restricted topics of an ailing
 *  origin share a few probes, so 400 topics on one dead server cost little more than one. */
export class OriginHealth {
  /** Topic targets that use it. */
  targets = 0;
  /** Probes that run. */
  probes = 0;
  /** What the last attempt that did not reach the receiver said. */
  lastUnreached = noReply;
  #unreachedInRow = 0;
  #unreachedSince = 0;
  #isAiling = false;
  #repliedAt = Number.NEGATIVE_INFINITY;

  get isAiling(): boolean {
    return this.#isAiling;
  }

  /** monotonicNow() at the start of the first attempt in a row that did not reach the receiver. */
  get unreachedSince(): number {
    return this.#unreachedSince;
  }

  /** An attempt did not reach the receiver, or its call became slow. Ignored where a reply came after
   *  `startedAt`. */
  countUnreached(startedAt: number): void {
    if (this.#repliedAt >= startedAt) return;
    if (this.#unreachedInRow === 0) {
      this.#unreachedSince = startedAt;
      this.lastUnreached = noReply;
    }
    this.#unreachedInRow += 1;
    if (this.#unreachedInRow >= notifierLimits.ailingAttempts) this.#isAiling = true;
  }

  /** Counts a success, or any quick reply. */
  countReply(nowMs: number): void {
    this.#repliedAt = nowMs;
    this.#unreachedInRow = 0;
    this.#isAiling = false;
  }
}
