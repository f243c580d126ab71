// find-topics.ts searches the topics that this process knows, and looks up those of pushes that it does not
// know: they may be younger than its last read of the registry. A search can visit every topic, so other work
// runs between its slices.

import { DqError } from '../core/errors.ts';
import { topicNamePattern } from '../core/topic/fields.ts';
import type { KnownTopic, PlainTopic, TopicState } from '../core/topic/topic.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { turn } from '../runtime/time.ts';
import { isUnreadable, topicNotFound, topicUnreadable } from './change-topic.ts';
import { useCaseLimits } from './limits.ts';

interface TopicFilter {
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

/** The topic of a push. Throws DqError; none of its codes leaves open whether the job was stored. */
export async function topicOfPush(topics: Pick<TopicBook, 'lookUp'>, name: string): Promise<PlainTopic> {
  if (!topicNamePattern.test(name)) throw topicNotFound(name);
  const topic = await topics.lookUp(name).catch((error: unknown) => {
    if (isUnreadable(error)) throw topicUnreadable(name, error);
    throw lookUpFailed(error);
  });
  if (topic === undefined) throw topicNotFound(name);
  return topic;
}

/** Reads the registry once when it may have topics of this batch that this process does not know: a batch can
 *  name a thousand. An error: an item whose topic is unreadable. Returns why the reading failed, or null. */
export async function lookUpTopics(
  topics: Pick<TopicBook, 'get' | 'refresh'>,
  items: readonly ({ readonly topic: string } | DqError)[],
): Promise<DqError | null> {
  if (items.every((item) => item instanceof DqError || topics.get(item.topic) !== undefined)) return null;
  try {
    await topics.refresh();
    return null;
  } catch (cause) {
    return lookUpFailed(cause);
  }
}

/** However the look-up failed, the jobs of unknown topics were not stored. */
function lookUpFailed(cause: unknown): DqError {
  return new DqError('not_stored', 'topic: cannot look it up now; push again', { cause });
}
