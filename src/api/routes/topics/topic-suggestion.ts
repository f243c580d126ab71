// TopicSuggestion adds "did you mean" to an error about an unknown topic or schedule. It suggests only names
// that the caller's token covers: an error must not reveal others. Bounded work: a 404 costs at most
// apiLimits.suggestLooks names and apiLimits.suggestDistances comparisons, and a server makes at most
// apiLimits.suggestPerSecond suggestions per second.

import { DqError, invalidField } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import { editDistance } from '../../../core/suggest.ts';
import type { TopicBook } from '../../../registry/topic-book.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { OutcomeTopicUnknown, TopicNotFound } from '../../../use-cases/change-topic.ts';
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
    const isOutcome = error instanceof OutcomeTopicUnknown;
    if (!(isOutcome || error instanceof TopicNotFound) || !this.#mayTry(error.topic)) return error;
    const near = nearest(error.topic, namesOf(this.#topics.all()), mayTouch);
    if (!isOutcome) return withName(error, near);
    return near === null ? error : invalidField(error.field, `${error.errors[0]?.message ?? ''} (${near}?)`);
  }

  /** The same for an unknown name of which `read` returns the known ones. */
  async addedOf(error: DqError, given: string, read: () => Promise<Iterable<string>>): Promise<DqError> {
    return this.#mayTry(given)
      ? withName(
          error,
          nearest(given, await read(), () => true),
        )
      : error;
  }

  #mayTry(given: string): boolean {
    if (given.length > limits.topicNameMax) return false;
    const second = Math.floor(this.#now() / 1_000);
    if (second !== this.#second) {
      this.#second = second;
      this.#made = 0;
    }
    this.#made += 1;
    return this.#made <= apiLimits.suggestPerSecond;
  }
}

function* namesOf(topics: Iterable<{ readonly topic: string }>): Generator<string> {
  for (const { topic } of topics) yield topic;
}

const withName = (error: DqError, near: string | null): DqError =>
  near === null ? error : new DqError(error.code, `${error.message}; did you mean ${near}?`);

function nearest(given: string, names: Iterable<string>, mayTouch: (name: string) => boolean): string | null {
  const wanted = given.toLowerCase();
  let best: string | null = null;
  // One letter in three may be wrong, at most three, and one must be right.
  let bestDistance = Math.min(3, Math.max(1, Math.floor(wanted.length / 3)), wanted.length - 1) + 1;
  let looks = 0;
  let distances = 0;
  for (const name of names) {
    looks += 1;
    if (looks > apiLimits.suggestLooks || distances >= apiLimits.suggestDistances) break;
    if (Math.abs(name.length - wanted.length) >= bestDistance) continue;
    distances += 1;
    const distance = editDistance(wanted, name.toLowerCase(), bestDistance - 1);
    if (distance >= bestDistance || !mayTouch(name)) continue;
    best = name;
    bestDistance = distance;
    if (distance === 0) break;
  }
  return best;
}
