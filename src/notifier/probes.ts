// Divides the probes of a notifier among its restricted topics (topic-target.ts), in turn. Counts what is offered, starts no call.
// Invariants: what runs and what is offered never exceed the probe account, nor the probes of an ailing origin; each
// restricted topic has its turn.

import type { CallBudget } from './call-budget.ts';
import { notifierLimits } from './limits.ts';
import type { OriginHealth } from './origin-health.ts';
import type { TopicTarget } from './topic-target.ts';

export class Probes {
  readonly #budget: CallBudget;
  readonly #runningOf: (lane: TopicTarget) => number;
  /** The one whose turn is next first. */
  readonly #lanes = new Set<TopicTarget>();
  /** Those whose turn it is. */
  #turn: readonly TopicTarget[] = [];
  /** Of them, those that a reserve was sent with. */
  readonly #offered = new Set<TopicTarget>();
  /** Some have to wait for their turn. */
  #isScarce = false;
  #isStale = false;
  #turnEndsAt = 0;

  /** `runningOf`: all calls of the topic, whether probes or not. */
  constructor(budget: CallBudget, runningOf: (lane: TopicTarget) => number) {
    this.#budget = budget;
    this.#runningOf = runningOf;
  }

  get size(): number {
    return this.#lanes.size;
  }

  has(lane: TopicTarget): boolean {
    return this.#lanes.has(lane);
  }

  lanes(): Iterable<TopicTarget> {
    return this.#lanes;
  }

  /** False where nothing changed. */
  add(lane: TopicTarget): boolean {
    if (this.#lanes.has(lane)) return false;
    this.#lanes.add(lane);
    this.#isStale = true;
    return true;
  }

  delete(lane: TopicTarget): boolean {
    if (!this.#lanes.delete(lane)) return false;
    this.#isStale = true;
    return true;
  }

  /** A probe of it has begun: the others have their turn before it has another. */
  started(lane: TopicTarget): void {
    if (this.#lanes.delete(lane)) this.#lanes.add(lane);
  }

  /** Until other topics have their turn; Infinity = all have theirs, or no probe is free. */
  turnInMs(nowMs: number): number {
    if (!this.#isScarce || this.#budget.freeProbes === 0) return Number.POSITIVE_INFINITY;
    const leftMs = this.#turnEndsAt - nowMs;
    // A turn that is over ends with the next offer, which may be held up.
    return leftMs > 0 ? leftMs : notifierLimits.probeTurnMs;
  }

  /** Calls that may begin now, by topic; topics that may begin none are not named. */
  offers(nowMs: number): ReadonlyMap<TopicTarget, number> {
    if (this.#isStale || (this.#isScarce && nowMs >= this.#turnEndsAt)) this.#nextTurn(nowMs);
    const offers = new Map<TopicTarget, number>();
    const ofOrigin = new Map<OriginHealth, number>();
    let left = this.#budget.freeProbes;
    for (const lane of this.#turn) {
      if (left === 0) break;
      const { health } = lane;
      const originLeft = health.isAiling
        ? notifierLimits.ailingOriginCallsMax - health.probes - (ofOrigin.get(health) ?? 0)
        : left;
      const n = Math.min(this.#wanted(lane), left, originLeft);
      if (n <= 0) continue;
      offers.set(lane, n);
      this.#offered.add(lane);
      ofOrigin.set(health, (ofOrigin.get(health) ?? 0) + n);
      left -= n;
    }
    return offers;
  }

  #wanted(lane: TopicTarget): number {
    const each = Math.max(1, Math.floor(this.#budget.probesMax / this.#lanes.size));
    return Math.max(0, Math.min(lane.capacity - this.#runningOf(lane), each - lane.probes));
  }

  /** Topics that were offered go to the end; one that found no free probe keeps its place. Looks at every restricted topic: some 0.1 ms for 2,000. */
  #nextTurn(nowMs: number): void {
    if (nowMs >= this.#turnEndsAt) {
      for (const lane of this.#offered) if (this.#lanes.delete(lane)) this.#lanes.add(lane);
      this.#offered.clear();
      this.#turnEndsAt = nowMs + notifierLimits.probeTurnMs;
    }
    const most = this.#budget.probesMax;
    const turn: TopicTarget[] = [];
    const ofOrigin = new Map<OriginHealth, number>();
    this.#isScarce = this.#lanes.size > most;
    for (const lane of this.#lanes) {
      const isFull = this.#wanted(lane) === 0;
      // Where every topic fits into the turn, one that runs all its calls keeps its place for the end of one.
      if (isFull && this.#isScarce) continue;
      const { health } = lane;
      const n = ofOrigin.get(health) ?? health.probes;
      if (turn.length >= most) break;
      if (!isFull && health.isAiling && n >= notifierLimits.ailingOriginCallsMax) {
        this.#isScarce = true;
        continue;
      }
      if (!isFull) ofOrigin.set(health, n + 1);
      turn.push(lane);
    }
    this.#turn = turn;
    this.#isStale = false;
  }
}
