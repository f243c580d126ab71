// The faults of the Redis of a world.

import type { Dice } from '../../../scripts/dice.ts';
import { seconds } from '../ledger.ts';
import type { Loop } from '../loop.ts';
import type { Process } from '../process.ts';
import type { RedisShard, RedisSide } from './redis-side.ts';

export const redisFaultKinds = [
  'redisKill',
  'redisDown',
  'redisPause',
  'redisEmptied',
  'redisFailover',
  'redisRejects',
  'redisForgets',
] as const;
export type RedisFaultKind = (typeof redisFaultKinds)[number];

export interface RedisFaultsOptions {
  readonly loop: Loop;
  readonly redis: RedisSide | null;
  readonly tell: (what: string) => void;
  /** until this virtual ms outcomes can reach the store late */
  readonly onSlow: (until: number) => void;
  /** ends a fault, unless all have ended before */
  readonly later: (ms: number, act: () => void) => void;
}

export class RedisFaults {
  readonly #options: RedisFaultsOptions;
  readonly act: Readonly<Record<RedisFaultKind, (dice: Dice) => void>> = {
    redisKill: (dice) => this.#onLiving(dice, (_, process) => this.#kill(process, dice)),
    redisDown: (dice) => this.#onLiving(dice, (redis, process) => this.#down(redis, process, dice)),
    redisPause: (dice) => this.#onLiving(dice, (_, process) => this.#pause(process, dice)),
    redisEmptied: (dice) => this.#onLiving(dice, (redis, process) => this.#empty(redis, process)),
    redisFailover: (dice) => this.#onLiving(dice, (redis) => this.#failOver(redis, dice)),
    redisRejects: (dice) => this.#onLiving(dice, (redis) => this.#reject(redis, dice)),
    redisForgets: (dice) =>
      this.#onLiving(dice, ({ machine }) => {
        this.#options.tell('Redis forgets the scripts');
        machine.forgetScripts();
      }),
  };

  constructor(options: RedisFaultsOptions) {
    this.#options = options;
  }

  calm(): void {
    const { redis } = this.#options;
    for (const { machine } of redis?.shards ?? []) machine.mood = 'works';
  }

  /** One shard, or at times all of them. */
  #onLiving(dice: Dice, act: (redis: RedisShard, process: Process) => void): void {
    const shards = this.#options.redis?.shards ?? [];
    const isOne = shards.length > 1 && dice.chance(0.8);
    for (const shard of isOne ? [dice.pick(shards)] : shards) {
      const { process } = shard.machine;
      if (process !== null) act(shard, process);
    }
  }

  #kill(process: Process, dice: Dice): void {
    if (dice.chance(0.5)) {
      this.#options.loop.kill(process, 'fault: it is killed');
      return;
    }
    process.sendsLeft = dice.below(4);
    this.#options.tell(`${process.title} dies after ${process.sendsLeft} messages`);
  }

  /** Longer than leases last. */
  #down(redis: RedisShard, process: Process, dice: Dice): void {
    redis.downMs = 5_000 + dice.next() * 20_000;
    const why = `fault: it is killed, and starts again after ${seconds(redis.downMs)}`;
    this.#options.loop.kill(process, why);
  }

  #pause(process: Process, dice: Dice): void {
    const { at } = this.#options.loop;
    const ms = dice.pick([50, 800, 5_000, 20_000]) * dice.next();
    this.#options.tell(`${process.title} stands still for ${seconds(ms)}`);
    process.pauseUntil(at + ms, at);
    this.#options.onSlow(process.pausedUntil);
  }

  #empty(redis: RedisShard, process: Process): void {
    redis.nextHolds = null;
    this.#options.loop.kill(process, 'fault: it is killed, and has no files');
  }

  /** A replica gets no more writes, and becomes the master after a moment. */
  #failOver(redis: RedisShard, dice: Dice): void {
    const { tell, later, loop } = this.#options;
    const replica = redis.replicate();
    const ms = dice.pick([5, 100, 1_000, 3_000]) * dice.next();
    tell(`a replica of Redis gets no more writes, and becomes the master in ${seconds(ms)}`);
    later(ms, () => {
      const { process } = redis.machine;
      if (process === null) return;
      redis.nextHolds = replica;
      loop.kill(process, 'fault: its replica becomes the master');
    });
  }

  #reject(redis: RedisShard, dice: Dice): void {
    const { tell, later } = this.#options;
    const mood = dice.pick(['readOnly', 'full', 'unsaved', 'loading'] as const);
    redis.machine.mood = mood;
    tell(`Redis rejects commands: ${mood}`);
    later(dice.next() * 8_000, () => {
      redis.machine.mood = 'works';
    });
  }
}
