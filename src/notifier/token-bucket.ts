// Counts the calls a second that a topic may start (its `rate`). Starts nothing and waits for nothing.
// Invariant: within any t seconds at most notifierLimits.rateBurstMs' worth of calls (at least one) and
// perSecond × t calls start.

import { notifierLimits } from './limits.ts';

export class TokenBucket {
  readonly perSecond: number;
  /** the most tokens that gather while nothing is called */
  readonly capacity: number;
  #tokens: number;
  #at: number;

  /** `tokens`: those of the previous bucket, so that a change of the topic adds none; a first bucket is
   *  full. */
  constructor(perSecond: number, nowMs: number, tokens = Number.POSITIVE_INFINITY) {
    this.perSecond = perSecond;
    this.capacity = bucketCapacity(perSecond);
    this.#tokens = Math.min(tokens, this.capacity);
    this.#at = nowMs;
  }

  /** A fraction while the next token gathers; below 0 where a call started without a token. */
  tokens(nowMs: number): number {
    const gathered = (Math.max(0, nowMs - this.#at) * this.perSecond) / 1_000;
    return Math.min(this.capacity, this.#tokens + gathered);
  }

  take(nowMs: number): void {
    this.#tokens = this.tokens(nowMs) - 1;
    this.#at = nowMs;
  }

  /** Returns the token of a call that did not start. */
  putBack(nowMs: number): void {
    this.#tokens = Math.min(this.capacity, this.tokens(nowMs) + 1);
    this.#at = nowMs;
  }

  /** ms until a call may start; Infinity where none ever may. */
  waitMs(nowMs: number): number {
    const missing = 1 - this.tokens(nowMs);
    return missing <= 0 ? 0 : (missing * 1_000) / this.perSecond;
  }

  /** When the next reserve pays: one for half a bucket, not one for every token. monotonicNow() */
  worthAt(nowMs: number): number {
    const missing = Math.max(1, this.capacity / 2) - this.tokens(nowMs);
    return missing <= 0 ? nowMs : nowMs + (missing * 1_000) / this.perSecond;
  }
}

/** 0: no call at all, where a notifier's share of the rate is 0. */
export function bucketCapacity(perSecond: number): number {
  return perSecond === 0 ? 0 : Math.max(1, Math.floor((perSecond * notifierLimits.rateBurstMs) / 1_000));
}
