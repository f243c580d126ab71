// Computes the part of a topic's limits that one notifier may use.
// Invariant: the notifiers of an instance together never exceed a topic's concurrency nor its rate, and one
// topic never holds more than half of a notifier's slots, so a hanging endpoint cannot stop the others.

import { bucketCapacity } from './token-bucket.ts';

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
