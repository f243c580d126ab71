// topic-of-push.ts finds the topic of a push that this process does not know: it may be younger than the last
// read of the registry.

import { DqError } from '../core/errors.ts';
import { topicNamePattern } from '../core/topic/fields.ts';
import type { PlainTopic } from '../core/topic/topic.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { isUnreadable, topicNotFound, topicUnreadable } from './change-topic.ts';

/** Throws DqError; none of its codes leaves open whether the job was stored. */
export async function topicOfPush(topics: Pick<TopicBook, 'lookUp'>, name: string): Promise<PlainTopic> {
  if (!topicNamePattern.test(name)) throw topicNotFound(name);
  const topic = await topics.lookUp(name).catch((error: unknown) => {
    if (isUnreadable(error)) throw topicUnreadable(name, error);
    // However the look-up failed, the job was not stored.
    throw new DqError('not_stored', 'topic: cannot look it up now; push again', { cause: error });
  });
  if (topic === undefined) throw topicNotFound(name);
  return topic;
}
