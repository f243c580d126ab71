// Plans the capacity at rest: what each topic has while none of its calls runs and all of its tokens are
// there. Most topics share one capacity and one lease; these travel as `others`, and only the exceptions
// are listed.
// Invariant: a change of one topic costs no look at all topics. Changed topics are collected, and many of
// them make a new base: a copy of all exceptions.

import { CapacityBase, isSameCapacity, type TopicCapacity } from '../core/layered-capacities.ts';
import { isCalled, type KnownTopic, topicDefaults } from '../core/topic/topic.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { notifierLimits } from './limits.ts';
import type { Probes } from './probes.ts';
import type { NotifierShare } from './topic-rates.ts';
import type { TopicTargets } from './topic-targets.ts';

interface CapacityPlanOptions {
  readonly topics: Pick<TopicBook, 'get' | 'all'>;
  readonly share: NotifierShare;
  readonly targets: TopicTargets;
  readonly probes: Probes;
  readonly leaseMarginMs: number;
}

interface Plan {
  readonly others: TopicCapacity;
  /** the exceptions, and the restricted topics, which have no capacity at rest */
  readonly base: CapacityBase;
  /** with so many exceptions another capacity may be the one that most topics share */
  readonly exceptionsMax: number;
}

export class CapacityPlan {
  readonly #options: CapacityPlanOptions;
  /** Topics whose capacity may differ from the base. */
  readonly #changed = new Set<string>();
  /** null before the first reserve */
  #plan: Plan | null = null;

  constructor(options: CapacityPlanOptions) {
    this.#options = options;
  }

  /** Capacity of a topic that nothing is known about, without jobs. */
  get none(): TopicCapacity {
    return { room: 0, leaseMs: this.leaseMsOf(topicDefaults) };
  }

  leaseMsOf({ timeoutMs }: { readonly timeoutMs: number }): number {
    return timeoutMs + this.#options.leaseMarginMs;
  }

  /** The capacity at rest of this topic may be another one now. */
  topicChanged(name: string): void {
    if (this.#plan !== null) this.#changed.add(name);
  }

  /** The plan of now, and the topics that differ from its base. */
  current(): {
    readonly others: TopicCapacity;
    readonly base: CapacityBase;
    readonly over: Map<string, TopicCapacity>;
  } {
    this.#plan = this.#revised();
    const { others, base } = this.#plan;
    const over = new Map<string, TopicCapacity>();
    for (const name of this.#changed) over.set(name, this.#atRest(name, others));
    return { others, base, over };
  }

  #revised(): Plan {
    if (this.#plan === null) return this.#build();
    if (this.#changed.size <= notifierLimits.changedTopicsMax) return this.#plan;
    const { others, base, exceptionsMax } = this.#plan;
    const exceptions = new Map(base.topics);
    for (const name of this.#changed) {
      const capacity = this.#atRest(name, others);
      if (isSameCapacity(capacity, others)) exceptions.delete(name);
      else exceptions.set(name, capacity);
    }
    if (exceptions.size - this.#options.probes.size >= exceptionsMax) return this.#build();
    this.#changed.clear();
    return { others, base: new CapacityBase(exceptions), exceptionsMax };
  }

  /** Builds the plan in two passes: an object for each of 100,000 topics would delay all calls. */
  #build(): Plan {
    const { topics, targets, probes } = this.#options;
    const counts = new Map<number, number>();
    let others = this.#capacityOf({ ...topicDefaults, state: 'active', rate: 0 });
    let most = 0;
    for (const topic of topics.all()) {
      const capacity = this.#capacityOf(topic);
      // Leases are shorter than 2^32 ms, capacities smaller than 2^20.
      const key = capacity.room * 2 ** 32 + capacity.leaseMs;
      const n = (counts.get(key) ?? 0) + 1;
      counts.set(key, n);
      // Never 0: a topic that is younger than this process's knowledge is noticed by a reserve.
      if (capacity.room > 0 && n > most) [most, others] = [n, capacity];
    }
    const exceptions = new Map<string, TopicCapacity>();
    for (const topic of topics.all()) {
      const capacity = this.#capacityOf(topic);
      if (!isSameCapacity(capacity, others)) exceptions.set(topic.topic, capacity);
    }
    for (const name of targets.heldNames()) exceptions.set(name, { room: 0, leaseMs: others.leaseMs });
    const exceptionsMax = 2 * exceptions.size + notifierLimits.exceptionsMin;
    for (const { topic } of probes.targets())
      exceptions.set(topic.topic, { room: 0, leaseMs: this.leaseMsOf(topic) });
    this.#changed.clear();
    return { others, base: new CapacityBase(exceptions), exceptionsMax };
  }

  #atRest(name: string, others: TopicCapacity): TopicCapacity {
    const { topics, targets, probes } = this.#options;
    const target = targets.get(name);
    if (target !== undefined && probes.has(target)) return { room: 0, leaseMs: this.leaseMsOf(target.topic) };
    if (targets.isHeld(name)) return { room: 0, leaseMs: others.leaseMs };
    const topic = topics.get(name);
    return topic === undefined ? others : this.#capacityOf(topic);
  }

  #capacityOf(
    topic: Pick<KnownTopic, 'state' | 'delivery' | 'concurrency' | 'rate' | 'timeoutMs'>,
  ): TopicCapacity {
    const room = isCalled(topic) ? this.#options.share.burstOf(topic) : 0;
    return { room, leaseMs: this.leaseMsOf(topic) };
  }
}
