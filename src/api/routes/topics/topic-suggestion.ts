// TopicSuggestion adds "did you mean" to an error about an unknown topic. It suggests only topics that the
// caller's token covers: an error must not reveal other names. Bounded work: a 404 costs at most
// apiLimits.suggestLooks names and apiLimits.suggestDistances comparisons, and a server makes at most
// apiLimits.suggestPerSecond suggestions per second.

import { DqError } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import { editDistance } from '../../../core/suggest.ts';
import type { TopicBook } from '../../../registry/topic-book.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { TopicNotFound } from '../../../use-cases/change-topic.ts';
import { apiLimits } from '../../limits.ts';

export class TopicSuggestion {
  readonly #topics: Pick<TopicBook, 'all'>;
  readonly #now: () => number;
  #second = 0;
  #made = 0;

  constructor(topics: Pick<TopicBook, 'all'>, now: () => number = () => monotonicNow()) {
    this.#topics = topics;
    this.#now = now;
  }

  /** The same error, or a copy with the most similar topic name. */
  added(error: DqError, mayTouch: (topic: string) => boolean): DqError {
    if (!(error instanceof TopicNotFound)) return error;
    const near = this.#nearest(error.topic, mayTouch);
    if (near === null) return error;
    return new DqError(error.code, `${error.message}; did you mean ${near}?`);
  }

  #nearest(given: string, mayTouch: (topic: string) => boolean): string | null {
    if (given.length > limits.topicNameMax || !this.#mayTry()) return null;
    const wanted = given.toLowerCase();
    let best: string | null = null;
    // One letter in three may be wrong, at most three.
    let bestDistance = Math.min(3, Math.max(1, Math.floor(wanted.length / 3))) + 1;
    let looks = 0;
    let distances = 0;
    for (const { topic } of this.#topics.all()) {
      looks += 1;
      if (looks > apiLimits.suggestLooks || distances >= apiLimits.suggestDistances) break;
      if (Math.abs(topic.length - wanted.length) >= bestDistance) continue;
      distances += 1;
      const distance = editDistance(wanted, topic.toLowerCase(), bestDistance - 1);
      if (distance >= bestDistance || !mayTouch(topic)) continue;
      best = topic;
      bestDistance = distance;
      if (distance === 0) break;
    }
    return best;
  }

  #mayTry(): boolean {
    const second = Math.floor(this.#now() / 1_000);
    if (second !== this.#second) {
      this.#second = second;
      this.#made = 0;
    }
    this.#made += 1;
    return this.#made <= apiLimits.suggestPerSecond;
  }
}
