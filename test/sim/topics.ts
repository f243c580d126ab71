// The topics of a world, and the part of the registry that its roles use. The registry is not under test: it
// never fails, and dies with no process.

import type { Dice } from '../../scripts/dice.ts';
import { noShards, type ShardList } from '../../src/core/shard-list.ts';
import { asKnown, type Topic, type TopicState, topicDefaults } from '../../src/core/topic/topic.ts';
import type { Registry, TopicRecord } from '../../src/ports/registry.ts';

const secret = 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw';

export class TopicTable {
  readonly #topics = new Map<string, Topic>();
  #revision = 1;
  #isCalm = false;

  constructor(dice: Dice) {
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

  /** Makes every topic active. A turn that was sent before and arrives later changes nothing. */
  calm(): void {
    for (const name of this.names) if (this.get(name).state !== 'active') this.#turn(name, 'active');
    this.#isCalm = true;
  }

  #turn(name: string, state: TopicState): number {
    this.#revision += 1;
    this.#topics.set(name, { ...this.get(name), state, revision: this.#revision });
    return this.#revision;
  }

  /** @param shards - empty: the jobs are in the embedded store */
  registry(shards: ShardList = noShards): Registry {
    const known: Pick<
      Registry,
      'changes' | 'read' | 'get' | 'turn' | 'trimAudit' | 'close' | 'shards' | 'id' | 'onChange'
    > = {
      changes: async (after) => {
        const changed = [...this.#topics.values()].filter(({ revision }) => revision > after.revision);
        return { revision: this.#revision, topics: changed.map(recordOf), deleted: [], next: null };
      },
      read: (record) => asKnown(JSON.parse(record.settings) as Topic),
      get: async (name) => this.#topics.get(name) ?? null,
      turn: async (name, state) =>
        this.#isCalm ? { kind: 'changed' } : { kind: 'updated', revision: this.#turn(name, state) },
      trimAudit: async () => ({ more: false }),
      close: async () => {},
      id: async () => 'r1',
      onChange: () => () => {},
      shards: async () => ({ revision: 1, list: shards }),
    };
    return known as Registry;
  }

  #add(topic: string, dice: Dice): void {
    this.#topics.set(topic, {
      ...topicDefaults,
      topic,
      callbackUrl: `http://receiver/${topic}`,
      state: 'active',
      secrets: [{ secret, untilAt: null }],
      timeoutMs: dice.pick([500, 2_000, 10_000]),
      maxAttempts: dice.pick([1, 2, 3, 5]),
      concurrency: dice.pick([1, 2, 8, 64]),
      rate: dice.pick([0, 0, 0, 5]),
      priority: dice.pick(['high', 'normal', 'low'] as const),
      revision: this.#revision,
      createdAt: 0,
      updatedAt: 0,
    });
    this.#revision += 1;
  }
}

function recordOf(topic: Topic): TopicRecord {
  const { topic: name, state, revision, createdAt, updatedAt } = topic;
  return { name, state, settings: JSON.stringify(topic), secrets: '', revision, createdAt, updatedAt };
}
