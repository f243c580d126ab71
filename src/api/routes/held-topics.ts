// The topics whose jobs dq does not call, whatever its notifiers do, with the number of jobs that wait there.

import { contractLimits } from '../../contract/api/limits.ts';
import { brokersOf } from '../../core/broker.ts';
import type { HeldTopic, HeldTopics } from '../../core/capacity-reasons.ts';
import { First } from '../../core/lists.ts';
import type { StateCounts } from '../../ports/job-store.ts';
import type { RoleContext } from '../../process/role.ts';
import { turn } from '../../runtime/time.ts';
import { useCaseLimits } from '../../use-cases/limits.ts';

/** Of all topics: what dq doctor shows. */
export async function heldTopics(role: RoleContext): Promise<HeldTopics> {
  const { topics } = await role.store.admin.counts();
  const held = new HeldSum(role);
  for (const [at, [topic, states]] of Object.entries(topics).entries()) {
    held.add(topic, states);
    if (at % useCaseLimits.topicsPerTurn === 0) await turn();
  }
  return held.sum();
}

type Known = Pick<RoleContext, 'topics' | 'config'>;

/** Each push to a broker asks for them. */
const brokersIn = new WeakMap<readonly string[], ReadonlySet<string>>();

function hasBroker(texts: readonly string[], name: string): boolean {
  const known = brokersIn.get(texts) ?? new Set(brokersOf(texts).keys());
  brokersIn.set(texts, known);
  return known.has(name);
}

/** Why dq calls no job of a topic; null: it does, or the registry is unread, which /readyz reports. */
export function whyHeld({ topics, config }: Known, name: string): HeldTopic['why'] | null {
  const topic = topics.get(name);
  if (topic === undefined)
    return topics.isUnreadable(name) ? 'unreadable' : topics.isKnown ? 'not_registered' : null;
  if (topic.state !== 'active') return topic.state;
  return topic.delivery === 'mq' && !hasBroker(config.brokers, topic.target.broker) ? 'unknown_broker' : null;
}

/** Adds up held topics one by one, so that other requests run between them. */
export class HeldSum {
  readonly #role: Known;
  readonly #most = new First<HeldTopic>(contractLimits.attentionMax, (a, b) => b.jobs - a.jobs);
  #topics = 0;
  #jobs = 0;

  constructor(role: Known) {
    this.#role = role;
  }

  add(topic: string, { delayed, ready }: Pick<StateCounts, 'delayed' | 'ready'>): void {
    const jobs = delayed + ready;
    const why = jobs > 0 ? whyHeld(this.#role, topic) : null;
    if (why === null) return;
    this.#topics += 1;
    this.#jobs += jobs;
    this.#most.add({ topic, why, jobs });
  }

  sum(): HeldTopics {
    return { topics: this.#topics, jobs: this.#jobs, most: this.#most.items() };
  }
}
