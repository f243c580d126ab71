// The topics whose jobs dq does not call, whatever its notifiers do, with the number of jobs that wait there.

import { contractLimits } from '../../contract/api/limits.ts';
import { brokersOf } from '../../core/broker.ts';
import type { HeldTopic, HeldTopics } from '../../core/held-topics.ts';
import type { StoreAdmin } from '../../ports/job-store.ts';
import type { RoleContext } from '../../process/role.ts';

type Stored = Awaited<ReturnType<StoreAdmin['counts']>>['topics'];

/** Of all topics: what dq doctor shows. */
export async function heldTopics(role: RoleContext): Promise<HeldTopics> {
  const { topics } = await role.store.admin.counts();
  return heldAmong(role, topics, () => true);
}

type Known = Pick<RoleContext, 'topics' | 'config'>;

/** Why dq calls no job of a topic; null: it does, or the registry is unread, which /readyz reports. */
export function heldBy({ topics, config }: Known): (topic: string) => HeldTopic['why'] | null {
  const brokers = brokersOf(config.brokers);
  return (name) => {
    const topic = topics.get(name);
    if (topic === undefined)
      return topics.isUnreadable(name) ? 'unreadable' : topics.isKnown ? 'not_registered' : null;
    if (topic.state !== 'active') return topic.state;
    return topic.delivery === 'mq' && !brokers.has(topic.target.broker) ? 'unknown_broker' : null;
  };
}

export function heldAmong(role: Known, stored: Stored, maySee: (topic: string) => boolean): HeldTopics {
  const whyHeld = heldBy(role);
  const held = Object.entries(stored).flatMap(([topic, { delayed, ready }]) => {
    const jobs = delayed + ready;
    const why = jobs > 0 && maySee(topic) ? whyHeld(topic) : null;
    return why === null ? [] : [{ topic, why, jobs }];
  });
  return {
    topics: held.length,
    jobs: held.reduce((sum, { jobs }) => sum + jobs, 0),
    most: held.sort((a, b) => b.jobs - a.jobs).slice(0, contractLimits.attentionMax),
  };
}
