// Owns the target of each topic that was called, the health of each origin, and the names of topics that
// cannot be called. The jobs of such a name are held: they are not reserved until the topic book changes.

import type { Broker } from '../core/broker.ts';
import { messageOf } from '../core/errors.ts';
import type { KnownTopic } from '../core/topic/topic.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { monotonicNow, setTimeout, type Timer } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { notifierLimits } from './limits.ts';
import type { NameLookups } from './name-lookups.ts';
import type { NotifierShare } from './topic-rates.ts';
import { OriginHealth, TopicTarget } from './topic-target.ts';

export class TopicTargets {
  readonly #topics: Pick<TopicBook, 'get'>;
  readonly #share: NotifierShare;
  readonly #brokers: ReadonlyMap<string, Broker>;
  readonly #log: Log;
  readonly #targets = new Map<string, TopicTarget>();
  /** By origin, as long as a target uses it. */
  readonly #origins = new Map<string, OriginHealth>();
  /** Names whose jobs are held, with the reason why the topic cannot be called; null: no such topic. */
  readonly #held = new Map<string, string | null>();

  constructor(
    topics: Pick<TopicBook, 'get'>,
    share: NotifierShare,
    brokers: ReadonlyMap<string, Broker>,
    log: Log,
  ) {
    this.#topics = topics;
    this.#share = share;
    this.#brokers = brokers;
    this.#log = log;
  }

  get(name: string): TopicTarget | undefined {
    return this.#targets.get(name);
  }

  /** False for a target from before a change of its topic: the change may have been the cure. */
  isCurrent(target: TopicTarget): boolean {
    return this.#targets.get(target.topic.topic) === target;
  }

  /** Builds the target of a topic that has none. null: the topic cannot be called, and its jobs are held
   *  from now on; undefined: its jobs were held before, dq calls no pull topic, or this process does not know
   *  the topic. */
  build(name: string): TopicTarget | null | undefined {
    const topic = this.#topics.get(name);
    if (topic === undefined || topic.delivery === 'pull' || this.#held.has(name)) return undefined;
    try {
      const target = this.#targetOf(topic);
      if (topic.dangerouslySkipTlsVerify)
        this.#log.notice('notifier: certificates are not verified', { topic: name, url: target.origin });
      this.#targets.set(name, target);
      target.health.targets += 1;
      return target;
    } catch (error) {
      this.#log.error('notifier: cannot call topic; its jobs are held until it changes', error, {
        topic: name,
      });
      this.#held.set(name, messageOf(error));
      return null;
    }
  }

  /** The target goes, and so does the hold of the name. Returns the target. */
  forget(name: string): TopicTarget | undefined {
    this.#held.delete(name);
    const target = this.#targets.get(name);
    if (target === undefined) return undefined;
    this.#targets.delete(name);
    target.health.targets -= 1;
    if (target.health.targets === 0) this.#origins.delete(target.origin);
    return target;
  }

  /** Holds the jobs of an unknown name. Returns false where they were held before. */
  hold(name: string): boolean {
    if (this.#held.has(name)) return false;
    this.#held.set(name, null);
    return true;
  }

  isHeld(name: string): boolean {
    return this.#held.has(name);
  }

  heldNames(): Iterable<string> {
    return this.#held.keys();
  }

  /** Why the topic cannot be called; null where it can, or where this process does not know it. Holds no
   *  job: a topic that was never called is tried and forgotten. */
  failureOf(name: string): string | null {
    const topic = this.#topics.get(name);
    if (this.#held.has(name)) return this.#held.get(name) ?? null;
    if (topic === undefined || topic.delivery === 'pull' || this.#targets.has(name)) return null;
    try {
      this.#create(topic, () => new OriginHealth());
      return null;
    } catch (error) {
      return messageOf(error);
    }
  }

  hasBroker(name: string): boolean {
    return this.#brokers.has(name);
  }

  #targetOf(topic: KnownTopic): TopicTarget {
    return this.#create(topic, (origin) => {
      const health = this.#origins.get(origin) ?? new OriginHealth();
      this.#origins.set(origin, health);
      return health;
    });
  }

  #create(topic: KnownTopic, healthOf: (origin: string) => OriginHealth): TopicTarget {
    return new TopicTarget(topic, this.#share.callsOf(topic), this.#brokers, healthOf);
  }
}

interface QueuedTargetsOptions {
  readonly lookups: Pick<NameLookups, 'isQueued'>;
  readonly log: Log;
  /** The pause of at least one topic has ended. */
  readonly onTurn: () => void;
}

/** Pauses the topics whose host name look-up got no turn for a call, until it has had one. One look-up is
 *  enough for all calls of a name, so calls before its turn would only be released again. */
export class QueuedTargets {
  readonly #options: QueuedTargetsOptions;
  /** By the time of the next check (monotonicNow()), the earliest first. */
  readonly #paused = new Map<TopicTarget, number>();
  /** Topics whose queued look-up is in the log. */
  readonly #logged = new Set<string>();
  #timer: Timer | null = null;

  constructor(options: QueuedTargetsOptions) {
    this.#options = options;
  }

  pause(target: TopicTarget, nowMs: number): void {
    target.isPaused = true;
    if (!this.#paused.has(target)) this.#paused.set(target, nowMs + notifierLimits.lookupPauseMs);
    this.#schedule(nowMs);
    if (this.#logged.has(target.topic.topic)) return;
    this.#logged.add(target.topic.topic);
    this.#notice('notifier: host name look-up is queued; calls of the topic wait for it', target);
  }

  /** A call of the topic has started. */
  resume(target: TopicTarget): void {
    this.#paused.delete(target);
    if (this.#logged.delete(target.topic.topic))
      this.#notice('notifier: host name look-up had its turn; calls of the topic start again', target);
  }

  /** The target goes. */
  forget(target: TopicTarget): void {
    this.#paused.delete(target);
  }

  /** The topic was removed. */
  forgetTopic(name: string): void {
    this.#logged.delete(name);
  }

  #notice(message: string, { topic, hostname }: TopicTarget): void {
    this.#options.log.notice(message, { topic: topic.topic, host: hostname });
  }

  #schedule(nowMs: number): void {
    const [firstAt] = this.#paused.values();
    if (this.#timer !== null || firstAt === undefined) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        this.#check(monotonicNow());
      },
      Math.max(firstAt - nowMs, notifierLimits.lookupPauseStepMs),
    );
    this.#timer.unref();
  }

  #check(nowMs: number): void {
    let hasEnded = false;
    for (const [target, checkAt] of this.#paused) {
      if (checkAt > nowMs) break;
      this.#paused.delete(target);
      if (this.#options.lookups.isQueued(target.hostname)) {
        this.#paused.set(target, nowMs + notifierLimits.lookupPauseMs);
        continue;
      }
      target.isPaused = false;
      hasEnded = true;
    }
    this.#schedule(nowMs);
    if (hasEnded) this.#options.onTurn();
  }
}
