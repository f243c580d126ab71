// Limits the calls of topics with a rate, and knows when the next reserve for them pays.
// Invariant: a token bucket outlives the target of its topic, so a change of the topic adds no tokens.

import type { TopicBook } from '../registry/topic-book.ts';
import { monotonicNow } from '../runtime/time.ts';
import type { NotifierShare } from './notifier-share.ts';
import { TokenBucket } from './token-bucket.ts';

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

  /** Forgets a time that has passed: the reserve that follows asks for all topics. */
  startReserve(nowMs: number): void {
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
