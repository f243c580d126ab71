// Finds topics among those that this process knows, by name. A search can visit every topic, so other work
// runs between its slices.

import type { KnownTopic, TopicState } from '../core/topic/topic.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { turn } from '../runtime/time.ts';
import { useCaseLimits } from './limits.ts';

export interface TopicFilter {
  /** part of name, title or owner; ignores case; undefined = any */
  readonly search: string | undefined;
  /** exact; undefined = any */
  readonly owner: string | undefined;
  /** undefined = any */
  readonly state: TopicState | undefined;
  /** whether the caller may see a topic of this name */
  readonly isVisible: (name: string) => boolean;
}

/** The first `max` matches after this name. */
export async function findTopics(
  topics: TopicBook,
  filter: TopicFilter,
  after: string,
  max: number,
): Promise<readonly KnownTopic[]> {
  const found: KnownTopic[] = [];
  for (let from = after; ; await turn()) {
    const names = topics.namesAfter(from, useCaseLimits.topicsPerTurn);
    for (const name of names) {
      const topic = topics.get(name);
      if (topic === undefined || !matches(topic, filter)) continue;
      found.push(topic);
      if (found.length === max) return found;
    }
    const last = names.at(-1);
    if (last === undefined || names.length < useCaseLimits.topicsPerTurn) return found;
    from = last;
  }
}

function matches({ topic, title, owner, state }: KnownTopic, filter: TopicFilter): boolean {
  if (filter.owner !== undefined && owner !== filter.owner) return false;
  if (filter.state !== undefined && state !== filter.state) return false;
  const part = filter.search?.toLowerCase();
  const isFound =
    part === undefined || [topic, title, owner].some((value) => value.toLowerCase().includes(part));
  return isFound && filter.isVisible(topic);
}
