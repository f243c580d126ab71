// FirstTopics decides which topics have records of their own: the first `max` by creation, a choice that new
// topics and restarts do not change, and that is the same on every instance.

import type { KnownTopic } from '../core/topic/topic.ts';
import type { TopicBook } from '../registry/topic-book.ts';

export class FirstTopics {
  readonly #topics: TopicBook;
  readonly #max: number;
  /** null = to be computed again */
  #names: ReadonlySet<string> | null = null;
  /** creation time of the last of them */
  #youngest = Number.POSITIVE_INFINITY;

  constructor(topics: TopicBook, max: number) {
    this.#topics = topics;
    this.#max = max;
    topics.onChange((names) => {
      if (names.some((name) => this.#mayChange(name))) this.#names = null;
    });
  }

  /** The same set until it changes. */
  get names(): ReadonlySet<string> {
    this.#names ??= this.#firstRegistered();
    return this.#names;
  }

  /** Every registered topic is one of them. */
  get isAll(): boolean {
    return this.#topics.isKnown && this.#topics.size <= this.#max;
  }

  /** Whether this topic was removed from the first ones, or may belong to them now. */
  #mayChange(name: string): boolean {
    if (this.#names === null) return false;
    const topic = this.#topics.get(name);
    if (this.#names.has(name)) return topic === undefined;
    if (topic === undefined) return false;
    return this.#names.size < this.#max || topic.createdAt <= this.#youngest;
  }

  /** One pass: there may be 100,000 topics. */
  #firstRegistered(): ReadonlySet<string> {
    const first: KnownTopic[] = [];
    for (const topic of this.#topics.all()) {
      const last = first.at(-1);
      if (first.length >= this.#max && last !== undefined && byAge(topic, last) > 0) continue;
      const at = first.findIndex((other) => byAge(topic, other) < 0);
      first.splice(at < 0 ? first.length : at, 0, topic);
      if (first.length > this.#max) first.pop();
    }
    this.#youngest = first.at(-1)?.createdAt ?? Number.POSITIVE_INFINITY;
    return new Set(first.map(({ topic }) => topic));
  }
}

function byAge(a: KnownTopic, b: KnownTopic): number {
  return a.createdAt - b.createdAt || (a.topic < b.topic ? -1 : 1);
}
