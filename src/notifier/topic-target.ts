// What one notifier knows of one topic: how it is called, how many calls it may have at once, how its endpoint has been.
// Made anew with every change of the topic, so its constants are worked out once per revision and not once per job.
//
// A topic is restricted while it is
//   suspect  a call has been running for longer than usual, or failed after such a time, and no call that began later has
//            succeeded; a success or a quick reply ends it
//   ailing   notifierLimits.ailingAttempts attempts in a row did not reach the receiver; a success ends it
//   queued   the look-up of its host name had no turn for a call; the next call that begins ends it
// Restricted topics get probes only (probes.ts).

import type { AttemptReason } from '../core/job.ts';
import { parseRule, type Rule } from '../core/rule/reply-rule.ts';
import type { KnownTopic, Topic } from '../core/topic/topic.ts';
import { notifierLimits } from './limits.ts';
import type { OriginHealth } from './origin-health.ts';

/** How a receiver fails that is away or hangs. Anything else is an answer of some kind and frees its slot soon. */
const awayReasons: ReadonlySet<AttemptReason> = new Set(['connect', 'tls', 'dns', 'timeout']);

/** An attempt that has ended. */
export interface Judged {
  /** null for a success */
  readonly reason: AttemptReason | null;
  /** performance.now() */
  readonly startedAt: number;
  readonly endedAt: number;
  /** The origin was told when the call became slow. */
  readonly isCounted: boolean;
}

export class TopicTarget {
  readonly topic: Topic;
  readonly rule: Rule | null;
  readonly origin: string;
  readonly hostname: string;
  /** path and query */
  readonly path: string;
  /** Probes that run. */
  probes = 0;
  /** The look-up of its host name still waits for its turn, or did a moment ago. */
  isPaused = false;
  readonly #share: number;
  readonly #health: OriginHealth;
  #awayInRow = 0;
  #ailing = false;
  #suspect = false;
  #isQueued = false;
  #isTried = false;
  #succeededAt = Number.NEGATIVE_INFINITY;
  /** How long successful calls take: the longest of late, which fades. */
  #successMs = 0;

  /** `share`: calls at once that this notifier may make for the topic. Throws where the registry holds what no registration
   *  accepts, or what cannot be decrypted. */
  constructor(known: KnownTopic, share: number, healthOf: (origin: string) => OriginHealth) {
    const topic = known.open();
    const url = new URL(topic.callbackUrl);
    const rule = topic.retryIf === '' ? null : parseRule(topic.retryIf);
    if (rule !== null && !rule.ok) throw new Error(`retryIf: ${rule.message}`);
    this.topic = topic;
    this.rule = rule === null ? null : rule.rule;
    this.origin = url.origin;
    this.hostname = url.hostname;
    this.path = url.pathname + url.search;
    this.#share = share;
    this.#health = healthOf(url.origin);
  }

  get health(): OriginHealth {
    return this.#health;
  }

  /** It is probed, never hammered and never withheld for ever, and delays no other topic. */
  get isRestricted(): boolean {
    return this.#ailing || this.#suspect || this.#isQueued;
  }

  /** It has a result. */
  get isTried(): boolean {
    return this.#isTried;
  }

  /** Its last known success stands. */
  get isTrusted(): boolean {
    return this.#succeededAt > Number.NEGATIVE_INFINITY && !this.isRestricted;
  }

  /** Calls at once. */
  get capacity(): number {
    // Calls of one name share one look-up.
    if (this.#isQueued) return this.isPaused ? 0 : Math.min(this.#share, 1);
    return this.#ailing ? Math.min(this.#share, notifierLimits.ailingCallsMax) : this.#share;
  }

  /** A call of this topic is unusual from this age on. */
  get patienceMs(): number {
    return Math.max(notifierLimits.slowCallMs, 2 * this.#successMs);
  }

  /** Before the first result, an ailing origin is the best guess. */
  started(): void {
    if (!this.#isTried && this.#health.isAiling) this.#suspect = true;
  }

  /** A call ended without a request, because the look-up of the host name had no turn. */
  notBegun(): void {
    this.#isQueued = true;
  }

  /** A call that began at `startedAt` still runs and is unusually old. */
  suspect(startedAt: number): void {
    if (this.#succeededAt < startedAt) this.#suspect = true;
  }

  judged({ reason, startedAt, endedAt, isCounted }: Judged): void {
    const durationMs = endedAt - startedAt;
    this.#isTried = true;
    this.#isQueued = false;
    if (reason === null) {
      this.#ailing = false;
      this.#suspect = false;
      this.#awayInRow = 0;
      this.#succeededAt = endedAt;
      this.#successMs = Math.max(durationMs, this.#successMs * 0.9);
      this.#health.countReply(endedAt);
    } else if (awayReasons.has(reason)) {
      this.#awayInRow += 1;
      if (this.#awayInRow >= notifierLimits.ailingAttempts) this.#ailing = true;
      if (durationMs >= notifierLimits.slowCallMs) this.suspect(startedAt);
      if (!isCounted) this.#health.countAway(startedAt);
    } else {
      this.#awayInRow = 0;
      if (durationMs >= notifierLimits.slowCallMs) return;
      this.#suspect = false;
      this.#health.countReply(endedAt);
    }
  }
}
