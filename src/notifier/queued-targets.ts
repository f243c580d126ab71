// Pauses the topics whose host name look-up got no turn for a call, until it has had one.
// One look-up is enough for all calls of a name, so calls before its turn would only be released again.

import { monotonicNow, setTimeout, type Timer } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { notifierLimits } from './limits.ts';
import type { TopicTarget } from './topic-target.ts';

export interface QueuedTargetsOptions {
  readonly lookups: { isLookupQueued(hostname: string): boolean };
  readonly log: Log;
  /** The pause of at least one topic has ended. */
  readonly onTurn: () => void;
}

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
      if (this.#options.lookups.isLookupQueued(target.hostname)) {
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
