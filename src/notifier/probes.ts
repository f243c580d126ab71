// Divides the probes of a notifier among its restricted topics (topic-target.ts), in turn. Starts no call.
// Invariants: running and offered probes never exceed the probe account, nor the probes of an ailing
// origin; each restricted topic gets its turn.

import type { CallBudget } from './call-budget.ts';
import { notifierLimits } from './limits.ts';
import type { OriginHealth, TopicTarget } from './topic-target.ts';

export class Probes {
  readonly #budget: CallBudget;
  /** The next in turn first. */
  readonly #targets = new Set<TopicTarget>();
  /** Targets whose turn it is. */
  #turn: readonly TopicTarget[] = [];
  /** Targets of this turn that were part of a reserve. */
  readonly #offered = new Set<TopicTarget>();
  /** Some targets have to wait for their turn. */
  #isScarce = false;
  #isStale = false;
  #turnEndsAt = 0;

  constructor(budget: CallBudget) {
    this.#budget = budget;
  }

  get size(): number {
    return this.#targets.size;
  }

  has(target: TopicTarget): boolean {
    return this.#targets.has(target);
  }

  targets(): Iterable<TopicTarget> {
    return this.#targets;
  }

  /** Returns false where nothing changed. */
  add(target: TopicTarget): boolean {
    if (this.#targets.has(target)) return false;
    this.#targets.add(target);
    this.#isStale = true;
    return true;
  }

  delete(target: TopicTarget): boolean {
    if (!this.#targets.delete(target)) return false;
    this.#isStale = true;
    return true;
  }

  /** A probe of it has started: the others get their turn before it gets another. */
  started(target: TopicTarget): void {
    if (this.#targets.delete(target)) this.#targets.add(target);
  }

  /** ms until other topics get their turn; Infinity = all have theirs, or no probe is free. */
  turnInMs(nowMs: number): number {
    if (!this.#isScarce || this.#budget.freeProbes === 0) return Number.POSITIVE_INFINITY;
    const leftMs = this.#turnEndsAt - nowMs;
    // A turn ends with the next offer, which may be late.
    return leftMs > 0 ? leftMs : notifierLimits.probeTurnMs;
  }

  /** Calls that may start now, by target; targets that may start none are left out. */
  offers(nowMs: number): ReadonlyMap<TopicTarget, number> {
    if (this.#isStale || (this.#isScarce && nowMs >= this.#turnEndsAt)) this.#nextTurn(nowMs);
    const offers = new Map<TopicTarget, number>();
    const ofOrigin = new Map<OriginHealth, number>();
    let left = this.#budget.freeProbes;
    for (const target of this.#turn) {
      if (left === 0) break;
      const { health } = target;
      const originLeft = health.isAiling
        ? notifierLimits.ailingOriginCallsMax - health.probes - (ofOrigin.get(health) ?? 0)
        : left;
      const n = Math.min(this.#wanted(target), left, originLeft);
      if (n <= 0) continue;
      offers.set(target, n);
      this.#offered.add(target);
      ofOrigin.set(health, (ofOrigin.get(health) ?? 0) + n);
      left -= n;
    }
    return offers;
  }

  #wanted(target: TopicTarget): number {
    const each = Math.max(1, Math.floor(this.#budget.probesMax / this.#targets.size));
    const running = this.#budget.runningOf(target.topic.topic);
    return Math.max(0, Math.min(target.capacity - running, each - target.probes));
  }

  /** Offered targets go to the end; one without a free probe keeps its place. 0.1 ms for 2,000 targets. */
  #nextTurn(nowMs: number): void {
    if (nowMs >= this.#turnEndsAt) {
      for (const target of this.#offered) if (this.#targets.delete(target)) this.#targets.add(target);
      this.#offered.clear();
      this.#turnEndsAt = nowMs + notifierLimits.probeTurnMs;
    }
    const most = this.#budget.probesMax;
    const turn: TopicTarget[] = [];
    const ofOrigin = new Map<OriginHealth, number>();
    this.#isScarce = this.#targets.size > most;
    for (const target of this.#targets) {
      const isFull = this.#wanted(target) === 0;
      // Where every target fits into the turn, one that runs all its calls keeps its place for the end of a
      // call.
      if (isFull && this.#isScarce) continue;
      const { health } = target;
      const n = ofOrigin.get(health) ?? health.probes;
      if (turn.length >= most) break;
      if (!isFull && health.isAiling && n >= notifierLimits.ailingOriginCallsMax) {
        this.#isScarce = true;
        continue;
      }
      if (!isFull) ofOrigin.set(health, n + 1);
      turn.push(target);
    }
    this.#turn = turn;
    this.#isStale = false;
  }
}
