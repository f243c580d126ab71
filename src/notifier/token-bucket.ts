// How many calls a second a topic may start (http-api.md, `rate`). Counts time, starts nothing and waits for nothing.
// Invariant: within any t seconds at most notifierLimits.rateBurstMs' worth of calls (at least one) and perSecond × t start.

import { notifierLimits } from './limits.ts';

export class TokenBucket {
  readonly perSecond: number;
  /** the most that gather while nothing is called */
  readonly capacity: number;
  #tokens: number;
  #at: number;

  /** `tokens`: what the bucket before it held, so that a change of the topic gives nothing away; a first one is full. */
  constructor(perSecond: number, nowMs: number, tokens = Number.POSITIVE_INFINITY) {
    this.perSecond = perSecond;
    this.capacity = capacityAt(perSecond);
    this.#tokens = Math.min(tokens, this.capacity);
    this.#at = nowMs;
  }

  /** A fraction while the next token gathers; below 0 where a call was started without one. */
  tokens(nowMs: number): number {
    const gathered = (Math.max(0, nowMs - this.#at) * this.perSecond) / 1_000;
    return Math.min(this.capacity, this.#tokens + gathered);
  }

  take(nowMs: number): void {
    this.#tokens = this.tokens(nowMs) - 1;
    this.#at = nowMs;
  }

  /** The call did not start after all. */
  giveBack(nowMs: number): void {
    this.#tokens = Math.min(this.capacity, this.tokens(nowMs) + 1);
    this.#at = nowMs;
  }

  /** When it is worth while to ask for jobs again: one reserve for half a bucket, not one for every token. */
  worthAt(nowMs: number): number {
    const missing = Math.max(1, this.capacity / 2) - this.tokens(nowMs);
    return missing <= 0 ? nowMs : nowMs + (missing * 1_000) / this.perSecond;
  }
}

/** 0 for no calls at all: a share of a rate that is smaller than the number of notifiers. */
export function capacityAt(perSecond: number): number {
  return perSecond === 0 ? 0 : Math.max(1, Math.floor((perSecond * notifierLimits.rateBurstMs) / 1_000));
}
