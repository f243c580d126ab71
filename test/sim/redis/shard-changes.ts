// The operator of a world who adds, drains and removes shards while it works, as the manual says, and the
// rules on it: no id lives on two shards, none is lost, and what drains gets no new ids but those of the jobs
// that follow its ends.
// Invariant: one machine more than the first list names takes part.

import type { Dice } from '../../../scripts/dice.ts';
import type { ShardList, ShardRecord } from '../../../src/core/shard-list.ts';
import { addShard, drainShard, removeShard, type Shards } from '../../../src/use-cases/change-shards.ts';
import { type Entry, type Ledger, outcomeTag } from '../ledger.ts';
import type { RegistryWatch } from '../registry.ts';
import type { Server } from '../roles.ts';
import type { Scene } from '../scene.ts';
import type { Action, Operators, Work } from '../works.ts';
import type { RedisSide } from './redis-side.ts';

/** virtual ms */
const [firstMs, activeMs] = [1_000, 37_000];
/** A change of the list is in force on all instances after this time (shards.md), and so is the end of a call
 *  by an older list. */
const knownMs = 2_500;
/** between two attempts to remove a shard that is not empty yet */
const againMs = 2_000;

export class ShardChanges implements Work {
  readonly #scene: Scene;
  readonly #redis: RedisSide;
  readonly #operators: Operators;
  readonly #dice: Dice;
  /** by id of a shard that drains: virtual ms since when */
  readonly #draining = new Map<string, number>();
  #previous: ShardList;
  #isEnding = false;
  readonly counts = { 'shards added': 0, 'shards drained': 0, 'shards removed': 0 };
  readonly watch: RegistryWatch = {
    writeShards: (result, list) => {
      if (result === 'updated') this.#written(list);
    },
  };

  constructor(scene: Scene, redis: RedisSide, operators: Operators) {
    this.#scene = scene;
    this.#redis = redis;
    this.#operators = operators;
    this.#dice = scene.loop.stream('shard changes end');
    this.#previous = redis.table.list;
    for (const [n, ledger] of scene.ledger.all.entries())
      ledger.listeners.push({ pushed: (entry, old) => this.#pushed(n, entry, old !== undefined) });
  }

  plan(dice: Dice): readonly Action[] {
    return Array.from({ length: 3 + dice.below(6) }, (_, n) => ({
      name: `shard change ${n}`,
      at: firstMs + dice.next() * activeMs,
      act: (own: Dice) => this.#act(own),
    }));
  }

  /** What drains is removed in the end. */
  end(): void {
    this.#isEnding = true;
    this.#removeAll();
  }

  get whyBusy(): string | null {
    if (!this.#isEnding) return 'shards are changed';
    const left = this.#drains.map(({ id }) => id);
    return left.length === 0 ? null : `shards drain: ${left.join(', ')}`;
  }

  checkEnd(): void {}

  get #drains(): readonly ShardRecord[] {
    return this.#redis.table.list.shards.filter(({ active }) => !active);
  }

  #act(dice: Dice): void {
    const { list } = this.#redis.table;
    const unlisted = this.#redis.urls.filter((url) => list.shards.every((shard) => shard.url !== url));
    const active = list.shards.filter((shard) => shard.active);
    const choices = [
      ...unlisted.map((url) => () => this.#add(url, dice)),
      // dq rejects a drain of the last one.
      ...(active.length > 1 || dice.chance(0.5) ? active : []).map(
        ({ id }) =>
          () =>
            this.#drain(id, dice),
      ),
      ...this.#drains.map(
        ({ id, url }) =>
          () =>
            dice.chance(0.3) ? this.#add(url, dice) : this.#remove(id, dice),
      ),
    ];
    if (choices.length > 0) dice.pick(choices)();
  }

  #add(url: string, dice: Dice): void {
    this.#ask(dice, `add the shard ${url}`, async (shards) => (await addShard(shards, url, 1)).id);
  }

  #drain(id: string, dice: Dice): void {
    this.#ask(dice, `drain the shard ${id}`, (shards) => drainShard(shards, id).then(() => 'it drains'));
  }

  #remove(id: string, dice: Dice): void {
    this.#ask(dice, `remove the shard ${id}`, (shards) =>
      removeShard(shards, id).then(() => 'it is removed'),
    );
  }

  #ask(dice: Dice, what: string, act: (shards: Shards) => Promise<string>): void {
    this.#operators.ask(dice, what, ({ ctx }: Server) => {
      if (ctx.shards === undefined) throw new Error('the world has no shards');
      return act({ registry: ctx.registry, ...ctx.shards });
    });
  }

  /** Dead letters are jobs: they are requeued. */
  #removeAll(): void {
    const { loop } = this.#scene;
    for (const { id, url } of this.#drains) {
      const dead = [...(this.#ledgerOf(url)?.entries.values() ?? [])].filter(({ state }) => state === 'dead');
      if (dead.length > 0)
        this.#operators.ask(this.#dice, `requeue ${dead.length} dead letters`, async ({ ctx }) => {
          const outcomes = await ctx.store.jobs.requeue(
            dead.map(({ topic, id: job }) => ({ topic, id: job })),
          );
          return outcomes.map(({ kind }) => kind).join(', ');
        });
      this.#remove(id, this.#dice);
    }
    if (this.#drains.length > 0) loop.after(againMs, null, 'a shard is removed', () => this.#removeAll());
  }

  #ledgerOf(url: string): Ledger | undefined {
    return this.#scene.ledger.all[this.#redis.urls.indexOf(url)];
  }

  #written(list: ShardList): void {
    const { judge, loop } = this.#scene;
    const previous = this.#previous;
    this.#previous = list;
    const active = list.shards.filter((shard) => shard.active);
    judge.check(active.length > 0, 'shards: one takes new ids', () => JSON.stringify(list));
    const isChanged = active.map(({ id }) => id).join() !== activeIds(previous);
    judge.check(
      list.number > previous.number || (list.number === previous.number && !isChanged),
      'shards: the number of the list rises with each change',
      () => `${previous.number}, then ${list.number}`,
    );
    for (const { id, url } of previous.shards) {
      if (list.shards.some((shard) => shard.id === id)) continue;
      this.counts['shards removed'] += 1;
      loop.tell(`The shard ${id} is removed.`);
      const left = this.#ledgerOf(url)?.entries.size ?? 0;
      judge.check(left === 0, 'shards: only an empty one is removed', () => `${url}: ${left} jobs`);
    }
    for (const { id, active: isActive } of list.shards) {
      const known = previous.shards.find((shard) => shard.id === id);
      if (known === undefined) this.counts['shards added'] += 1;
      if (isActive) this.#draining.delete(id);
      else if (known?.active === true) {
        this.counts['shards drained'] += 1;
        this.#draining.set(id, loop.at);
      }
    }
  }

  #pushed(shard: number, { key, tag }: Readonly<Entry>, isReplaced: boolean): void {
    const { loop, judge, topics, network } = this.#scene;
    const url = this.#redis.urls[shard];
    const record = this.#redis.table.list.shards.find((one) => one.url === url);
    const since = record === undefined ? undefined : this.#draining.get(record.id);
    if (since === undefined || isReplaced || !topics.isReadSoon || network.slowUntil >= since) return;
    // The end of a job and the job that follows it are one step, on one shard.
    if (outcomeTag.test(tag)) return;
    judge.check(
      loop.at - since <= knownMs,
      'shards: one that drains gets no new ids',
      () => `${key} on ${url}`,
    );
  }
}

const activeIds = ({ shards }: ShardList): string =>
  shards.flatMap(({ id, active }) => (active ? [id] : [])).join();
