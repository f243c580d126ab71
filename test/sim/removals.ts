// The operator of a world who removes topics with the jobs that wait in them, and creates them again; and the
// rules on it: a removed topic has no job and gets no call.

import type { Dice } from '../../scripts/dice.ts';
import { removeTopic } from '../../src/use-cases/remove-topic.ts';
import { keyOf } from './ledger.ts';
import type { RegistryWatch } from './registry.ts';
import type { Scene } from './scene.ts';
import type { Action, Operators, Work } from './works.ts';

/** virtual ms */
const [firstMs, activeMs] = [4_000, 26_000];

export class Removals implements Work {
  readonly #scene: Scene;
  readonly #operators: Operators;
  /** by topic: jobs that purges of the topic removed */
  readonly #purged = new Map<string, number>();
  readonly counts = { 'topics removed': 0 };
  readonly watch: RegistryWatch = {
    remove: (result, topic) => {
      if (result === 'removed') this.#removed(topic);
      this.#scene.occasions.happened('work', 'removal');
    },
  };
  readonly whyBusy = null;

  constructor(scene: Scene, operators: Operators) {
    this.#scene = scene;
    this.#operators = operators;
    scene.ledger.listen({
      touched: ({ verb, entry: { topic } }) => {
        if (verb === 'purge topic') this.#purged.set(topic, (this.#purged.get(topic) ?? 0) + 1);
      },
    });
  }

  plan(dice: Dice): readonly Action[] {
    return Array.from({ length: 1 + dice.below(3) }, (_, n) => ({
      name: `removal ${n}`,
      at: firstMs + dice.next() * activeMs,
      act: (own: Dice) => this.#remove(own),
    }));
  }

  end(): void {}

  checkEnd(): void {}

  #remove(dice: Dice): void {
    const { topics, judge, ledger } = this.#scene;
    const topic = dice.pick(topics.names);
    const purge = dice.chance(0.7);
    const waitMs = 500 + dice.next() * 8_000;
    if (topics.isRemoved(topic)) return;
    this.#operators.ask(dice, `remove topic ${topic}${purge ? ' and its jobs' : ''}`, async ({ ctx }) => {
      const { losses } = ledger;
      const before = this.#purged.get(topic) ?? 0;
      const purged = await removeTopic(ctx.registry, ctx.store.admin, topic, purge);
      const were = (this.#purged.get(topic) ?? 0) - before;
      judge.check(
        losses !== ledger.losses || purged <= were,
        'a removal counts the jobs that it purged',
        () => `${topic}: ${purged} of ${were}`,
      );
      this.#createLater(topic, waitMs, dice);
      return `${purged} jobs are purged`;
    });
  }

  /** Where no fault keeps a process from reading that the topic is offline. */
  #removed(topic: string): void {
    const { topics, ledger, judge } = this.#scene;
    this.counts['topics removed'] += 1;
    if (!topics.isReadSoon) return;
    const left = [...ledger.entries.values()].filter((entry) => entry.topic === topic);
    judge.check(left.length === 0, 'a removed topic has no jobs', () => left.map(keyOf).join(', '));
  }

  #createLater(topic: string, waitMs: number, dice: Dice): void {
    const { loop, topics } = this.#scene;
    loop.after(waitMs, null, 'create topic', () => {
      if (this.#scene.isCalm() || !topics.isRemoved(topic)) return;
      this.#operators.ask(dice, `create topic ${topic}`, async ({ ctx }) => {
        const { kind } = await ctx.registry.create(topics.get(topic));
        return kind;
      });
    });
  }
}
