// Makes the pull topic of a push whose topic does not exist: the queues whose clients push know no
// registration. It is in the registry before the push is stored.

import { DqError } from '../../core/errors.ts';
import { foreignOfTopic, type PlainTopic, type TopicSettings } from '../../core/topic/topic.ts';
import type { RoleContext } from '../../process/role.ts';
import { createTopic } from '../../use-cases/change-topic.ts';
import { topicOfPush } from '../../use-cases/find-topics.ts';
import { compatLimits } from '../limits.ts';

const owner = 'compat';

/** Throws DqError; none of its codes leaves open whether the job was stored. */
export async function topicOrMade(role: RoleContext, name: string): Promise<PlainTopic> {
  const { topics, config } = role;
  try {
    return await topicOfPush(topics, name);
  } catch (error) {
    const isUnknown = error instanceof DqError && error.code === 'topic_not_found';
    if (!isUnknown || config['compat.autoTopics'] === 'off') throw error;
  }
  let made = 0;
  for (const topic of topics.all()) if (topic.owner === owner) made += 1;
  if (made >= compatLimits.autoTopicsMax)
    throw new DqError(
      'topic_not_found',
      `there is no topic ${JSON.stringify(name)}, and pushes have made ${made} topics already; make it with dq topic add`,
    );
  await make(role, name);
  return topicOfPush(topics, name);
}

async function make({ registry, log }: RoleContext, name: string): Promise<void> {
  const settings: Partial<TopicSettings> = {
    delivery: 'pull',
    leaseMs: 60_000,
    maxAttempts: 100,
    owner,
    title: titleOf(name),
    backoff: { type: 'ladder', stepsMs: [0] },
  };
  try {
    await createTopic(registry, name, { settings });
    log.notice('compat: a push has made a pull topic', { topic: name });
  } catch (error) {
    // Another push was first.
    if (!(error instanceof DqError && error.code === 'topic_exists'))
      throw new DqError('not_stored', 'topic: cannot register it now; push again', { cause: error });
  }
}

/** Consoles, tables and mails show it, so it has no control characters. */
function titleOf(topic: string): string {
  return foreignOfTopic(topic).replace(/\p{Cc}/gu, ' ');
}
