// Marks a shard as cleared in the registry when it holds no job that an earlier shard list placed there. From
// then on ids with another home are not looked up there, and if it is unavailable only its own ids are
// affected. A check stops at the first job of an earlier list, so that a shard whose jobs are delayed for
// weeks costs little.

import { limits } from '../core/limits.ts';
import { FailureLog } from '../runtime/failure-log.ts';
import { Loop, onceIn } from '../runtime/loop.ts';
import type { Service } from '../runtime/service.ts';
import type { Log } from '../telemetry/log.ts';
import { recordCleared, type Shards } from '../use-cases/change-shards.ts';
import { upkeepLimits } from './limits.ts';

export class ShardClearer implements Service {
  readonly #loop: Loop;

  constructor(shards: Shards, log: Log, everyMs: number = upkeepLimits.clearEveryMs) {
    const failures = new FailureLog(log, {
      failure: 'shard-clearer: cannot check the shards for jobs of earlier lists',
    });
    this.#loop = new Loop({
      step: onceIn(everyMs, async () => {
        for (const id of await recordCleared(shards))
          log.notice('shard-clearer: a shard holds no job of an earlier list', { shard: id });
        failures.succeeded();
      }),
      onFailure: (error) => failures.failed(error),
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
