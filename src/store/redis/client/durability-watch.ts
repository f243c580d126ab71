// What Redis survives, for whoever starts dq: asked once at the start, and until it is known, because a server that is away then
// can come without an append-only file. Holds a connection until it knows.

import { limits } from '../../../core/limits.ts';
import type { StoreAdmin, StoreHealth } from '../../../ports/job-store.ts';
import { Loop } from '../../../runtime/loop.ts';
import { StartImpossible } from '../../../runtime/start-impossible.ts';
import type { Log } from '../../../telemetry/log.ts';
import { whyTooOld } from '../shard/shard-servers.ts';

export interface DurabilityWatch {
  /** What is known after the first attempt; what comes later goes to the log and to `onKnown`. Rejects for a server that is too old, and, where
   *  `refuses`, for one that is not ours. */
  start(refuses: boolean): Promise<string>;
  close(): Promise<void>;
}

export interface WatchedStore {
  readonly admin: Pick<StoreAdmin, 'health'>;
  /** a server that was reached and can be none of ours, and why; null = there is none */
  foreign(): string | null;
  /** of every server that answers: its part of INFO about itself */
  infos(): Promise<readonly string[]>;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** `onKnown`: told the sentence when start() could not answer it */
export function watchDurability(
  redis: WatchedStore,
  log: Log,
  onKnown: (durability: string) => void,
): DurabilityWatch {
  const look = async (): Promise<StoreHealth> => {
    const health = await redis.admin.health();
    for (const info of await redis.infos()) refuseOld(info);
    return health;
  };
  const end = async () => {
    await again.drain(0);
    await redis.close();
  };
  const again = new Loop({
    name: 'durability',
    failureWaitMs: limits.loopSleepMsMax,
    step: async () => {
      const health = await look();
      if (!health.ok) return limits.loopSleepMsMax;
      // What of its configuration is dangerous, dq-upkeep says, whenever it becomes so.
      log.notice('durability', { durability: health.durability });
      onKnown(sentenceOf(health));
      void end();
      return 0;
    },
    onFailure: (error) => {
      log.error('what Redis survives cannot be found out', error);
      if (error instanceof StartImpossible) void end();
    },
  });
  return {
    async start(refuses) {
      await redis.start();
      const foreign = redis.foreign();
      if (refuses && foreign !== null) throw new StartImpossible('configuration', foreign);
      const health = await look();
      if (health.ok) await redis.close();
      else await again.start();
      return sentenceOf(health);
    },
    close: end,
  };
}

function sentenceOf({ durability, warnings }: StoreHealth): string {
  return [durability, ...warnings.map((warning) => `warning: ${warning}`)].join('; ');
}

function refuseOld(info: string): void {
  const reason = whyTooOld(info);
  if (reason !== null) throw new StartImpossible('configuration', reason);
}
