// Finds out when a shard holds no more job that an earlier list of shards has put there: from then on nobody looks for ids there
// whose home is elsewhere, and a shard that is away costs its own ids alone. Owns the rhythm; what is found stands in the registry.
// A shard whose jobs wait for weeks is looked at as long: it stops at the first that does not belong there.

import { limits } from '../core/limits.ts';
import { Loop, onceIn } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import { type Shards, settleShards } from '../use-cases/change-shards.ts';

export class ShardClearer implements Service {
  readonly #loop: Loop;
  #failing = false;

  constructor(shards: Shards, log: Log, everyMs: number = limits.settleEveryMs) {
    this.#loop = new Loop({
      name: 'shard-settler',
      step: onceIn(everyMs, async () => {
        for (const id of await settleShards(shards))
          log.notice('a shard holds no more job of an earlier list', { shard: id });
        this.#failing = false;
      }),
      onFailure: (error) => {
        if (!this.#failing) log.error('whether shards hold jobs of earlier lists cannot be found out', error);
        this.#failing = true;
      },
      failureWaitMs: limits.loopSleepMsMax,
    });
  }

  async start(): Promise<void> {
    await this.#loop.start();
  }

  async drain(deadlineMs: number): Promise<void> {
    await this.#loop.drain(deadlineMs);
  }
}
