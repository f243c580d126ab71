// The topics of a world, in place of those of the registry (registry.ts).

import type { Dice } from '../../scripts/dice.ts';
import { asKnown, type Topic, type TopicState, topicDefaults } from '../../src/core/topic/topic.ts';
import type { Registry, TopicRecord } from '../../src/ports/registry.ts';

const secret = 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw';

export class TopicTable {
  readonly #topics = new Map<string, Topic>();
  /** by name: all settings that a topic ever had, oldest first */
  readonly #versions = new Map<string, Topic[]>();
  /** by name: virtual ms of the last change */
  readonly #changedAt = new Map<string, number>();
  readonly #now: () => number;
  #revision = 1;
  #isCalm = false;
  /** The registry answers no call. */
  isAway = false;
  /** what the registry knows about them */
  readonly registry: Pick<Registry, 'changes' | 'read' | 'get' | 'turn' | 'onChange'> = {
    changes: async (after) => {
      const changed = [...this.#topics.values()].filter(({ revision }) => revision > after.revision);
      return { revision: this.#revision, topics: changed.map(recordOf), deleted: [], next: null };
    },
    read: (record) => asKnown(JSON.parse(record.settings) as Topic),
    get: async (name) => this.#topics.get(name) ?? null,
    turn: async (name, state) =>
      this.#isCalm ? { kind: 'changed' } : { kind: 'updated', revision: this.#turn(name, state) },
    onChange: () => () => {},
  };

  /** @param now virtual ms */
  constructor(dice: Dice, now: () => number) {
    this.#now = now;
    const count = 1 + dice.below(3);
    for (let n = 0; n < count; n += 1) this.#add(`t${n}`, dice);
  }

  get names(): readonly string[] {
    return [...this.#topics.keys()];
  }

  get(name: string): Topic {
    const topic = this.#topics.get(name);
    if (topic === undefined) throw new Error(`the world has no topic ${name}`);
    return topic;
  }

  /** What a process may know about a topic: one that stands still, or whose calls fail, knows its past. */
  possible(name: string): readonly Topic[] {
    return this.#versions.get(name) ?? [this.get(name)];
  }

  /** Active, without a rate, and unchanged since this virtual ms. */
  isSteady(name: string, since: number): boolean {
    const { state, rate } = this.get(name);
    return state === 'active' && rate === 0 && (this.#changedAt.get(name) ?? 0) <= since;
  }

  /** Another operator changes settings of a topic. */
  edit(name: string, dice: Dice): void {
    this.#revision += 1;
    const edited = { ...this.get(name), ...settingsOf(dice), revision: this.#revision };
    this.#topics.set(name, edited);
    this.#changedAt.set(name, this.#now());
    this.#versions.get(name)?.push(edited);
  }

  /** Makes every topic active. A turn that was sent before and arrives later changes nothing. */
  calm(): void {
    for (const name of this.names) if (this.get(name).state !== 'active') this.#turn(name, 'active');
    this.#isCalm = true;
    this.isAway = false;
  }

  #turn(name: string, state: TopicState): number {
    this.#revision += 1;
    this.#topics.set(name, { ...this.get(name), state, revision: this.#revision });
    this.#changedAt.set(name, this.#now());
    return this.#revision;
  }

  #add(topic: string, dice: Dice): void {
    const added: Topic = {
      ...topicDefaults,
      topic,
      callbackUrl: `http://receiver/${topic}`,
      state: 'active',
      secrets: [{ secret, untilAt: null }],
      ...settingsOf(dice),
      priority: dice.pick(['high', 'normal', 'low'] as const),
      alertEmails: topic === 't1' ? ['t1@team.test'] : [],
      revision: this.#revision,
      createdAt: 0,
      updatedAt: 0,
    };
    this.#topics.set(topic, added);
    this.#versions.set(topic, [added]);
    this.#revision += 1;
  }
}

function settingsOf(
  dice: Dice,
): Pick<Topic, 'timeoutMs' | 'maxAttempts' | 'concurrency' | 'rate' | 'jitter'> {
  return {
    timeoutMs: dice.pick([500, 2_000, 10_000]),
    maxAttempts: dice.pick([1, 2, 3, 5]),
    concurrency: dice.pick([1, 2, 8, 64]),
    rate: dice.pick([0, 0, 0, 5]),
    jitter: dice.pick([0, 0, 0.5]),
  };
}

function recordOf(topic: Topic): TopicRecord {
  const { topic: name, state, revision, createdAt, updatedAt } = topic;
  return { name, state, settings: JSON.stringify(topic), secrets: '', revision, createdAt, updatedAt };
}
