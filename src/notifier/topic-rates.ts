// Limits the calls of topics with a rate, and knows when the next reserve for them pays. NotifierShare is the
// part of a topic's limits that one notifier may use.
// Invariants: the notifiers of an instance together never exceed a topic's concurrency nor its rate. One
// topic never holds more than half of a notifier's slots, so a hanging endpoint cannot stop the others. A
// token bucket outlives the target of its topic, so a change of the topic adds no tokens.

import type { TopicBook } from '../registry/topic-book.ts';
import { monotonicNow } from '../runtime/time.ts';
import { notifierLimits } from './limits.ts';

/** The limits of a topic that matter here. */
type TopicLimits = { readonly concurrency: number; readonly rate: number };

export class NotifierShare {
  /** number of this notifier, and how many notifiers share a topic's concurrency and rate */
  readonly index: number;
  readonly count: number;
  /** calls at once of one topic, at most */
  readonly callsMax: number;

  constructor({
    index,
    count,
    slots,
  }: { readonly index: number; readonly count: number; readonly slots: number }) {
    this.index = index;
    this.count = count;
    this.callsMax = Math.max(1, Math.floor(slots / 2));
  }

  /** The part of a limit of the instance; the remainder goes to the first notifiers. */
  of(whole: number): number {
    return Math.floor(whole / this.count) + (this.index < whole % this.count ? 1 : 0);
  }

  /** Calls of the topic at once; 0 where the concurrency is smaller than the number of notifiers. */
  callsOf({ concurrency }: Pick<TopicLimits, 'concurrency'>): number {
    return Math.min(this.of(concurrency), this.callsMax);
  }

  /** Calls of the topic that may start at once while none of it runs. */
  burstOf(topic: TopicLimits): number {
    const calls = this.callsOf(topic);
    return topic.rate === 0 ? calls : Math.min(calls, bucketCapacity(this.of(topic.rate)));
  }
}

/** Counts the calls a second that a topic may start (its `rate`). Within any t seconds at most
 *  notifierLimits.rateBurstMs' worth of calls (at least one) and perSecond × t calls start. */
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

interface Rated {
  readonly topic: string;
  /** calls a second of the instance; 0 = no limit */
  readonly rate: number;
}

export class TopicRates {
  readonly #topics: Pick<TopicBook, 'get'>;
  readonly #share: NotifierShare;
  /** Of topics with a rate that were called. */
  readonly #buckets = new Map<string, TokenBucket>();
  /** monotonicNow() when a topic that was short of tokens is worth a reserve again */
  #worthAt = Number.POSITIVE_INFINITY;

  constructor(topics: Pick<TopicBook, 'get'>, share: NotifierShare) {
    this.#topics = topics;
    this.#share = share;
  }

  has(name: string): boolean {
    return this.#buckets.has(name);
  }

  /** ms until a reserve for a topic that was short of tokens pays; Infinity = no topic was. */
  worthInMs(nowMs: number): number {
    return Math.max(0, this.#worthAt - nowMs);
  }

  /** Forgets a time that has passed: the request asks for all topics, or a wake-up ends what it waits for. */
  startRequest(nowMs: number): void {
    if (this.#worthAt <= nowMs) this.#worthAt = Number.POSITIVE_INFINITY;
  }

  /** How many of `free` calls may start now. Notes the time at which more may. */
  limit(topic: Rated, free: number, nowMs: number): number {
    const bucket = this.#bucketOf(topic);
    if (bucket === null) return free;
    const worthAt = bucket.worthAt(nowMs);
    if (worthAt > nowMs) this.#worthAt = Math.min(this.#worthAt, worthAt);
    return Math.min(free, Math.max(0, Math.floor(bucket.tokens(nowMs))));
  }

  /** ms until a call of the topic may start; Infinity where none ever may. */
  waitMs({ topic }: Rated, nowMs: number): number {
    return this.#buckets.get(topic)?.waitMs(nowMs) ?? 0;
  }

  callStarted(topic: Rated, nowMs: number): void {
    const bucket = this.#bucketOf(topic);
    if (bucket === null) return;
    bucket.take(nowMs);
    this.#worthAt = Math.min(this.#worthAt, bucket.worthAt(nowMs));
  }

  /** Returns the token of a call that sent no request. */
  callNotStarted(name: string, nowMs: number): void {
    this.#buckets.get(name)?.putBack(nowMs);
  }

  /** Gives the topic this part of its rate, without new tokens. */
  scale(topic: Rated, part: number, nowMs: number): void {
    const old = this.#bucketOf(topic);
    if (old === null) return;
    const perSecond = this.#share.of(topic.rate) * part;
    this.#buckets.set(topic.topic, new TokenBucket(perSecond, nowMs, old.tokens(nowMs)));
  }

  topicChanged(name: string): void {
    const old = this.#buckets.get(name);
    if (old === undefined) return;
    const rate = this.#topics.get(name)?.rate ?? 0;
    const now = monotonicNow();
    if (rate === 0) this.#buckets.delete(name);
    else this.#buckets.set(name, new TokenBucket(this.#share.of(rate), now, old.tokens(now)));
  }

  /** null: the topic has no rate. */
  #bucketOf({ topic, rate }: Rated): TokenBucket | null {
    if (rate === 0) return null;
    const known = this.#buckets.get(topic);
    if (known !== undefined) return known;
    const bucket = new TokenBucket(this.#share.of(rate), monotonicNow());
    this.#buckets.set(topic, bucket);
    return bucket;
  }
}
