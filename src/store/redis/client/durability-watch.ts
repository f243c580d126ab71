// Finds out what Redis survives and takes over the logins of the configuration, for the start of dq. Asks
// until both are done, because an unavailable server may come back without an append-only file, or with
// another password. Keeps its connections open only that long.

import { durabilityOf, type JournalMode } from '../../../core/durability.ts';
import { limits } from '../../../core/limits.ts';
import type { StoreAdmin, StoreHealth } from '../../../ports/job-store.ts';
import { Loop } from '../../../runtime/loop.ts';
import { StartImpossible } from '../../../runtime/service.ts';
import type { Log } from '../../../telemetry/log.ts';
import { whyTooOld } from '../shard/shard-servers.ts';

export interface DurabilityWatch {
  /** The sentence after the first attempt; a later one goes to the log and to `onKnown`. Rejects for a server
   *  that is too old, and, with `rejectsForeign`, for one of another store. */
  start(rejectsForeign: boolean): Promise<string>;
  close(): Promise<void>;
}

export interface WatchedStore {
  readonly admin: Pick<StoreAdmin, 'health'>;
  /** a reached server of another store, with the reason; null = none */
  foreign(): string | null;
  /** INFO server, of every server that answers */
  infos(): Promise<readonly string[]>;
  /** Stores the logins of the configuration that the servers accept. false: a server or the registry did not
   *  answer, and a repeat may store more. */
  takeOverLogins(): Promise<boolean>;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** `journal`: in force; it decides the sentence. `onKnown`: called with the sentence if start() did not know
 *  it yet */
export function watchDurability(
  redis: WatchedStore,
  journal: JournalMode,
  log: Log,
  onKnown: (durability: string) => void,
): DurabilityWatch {
  const healthOf = async (): Promise<StoreHealth> => {
    const health = await redis.admin.health();
    return health.ok ? { ...health, durability: durabilityOf(health.durability, journal) } : health;
  };
  const look = async (): Promise<{ readonly health: StoreHealth; readonly isDone: boolean }> => {
    const areTaken = await redis.takeOverLogins();
    const health = await healthOf();
    for (const info of await redis.infos()) rejectOld(info);
    return { health, isDone: health.ok && areTaken };
  };
  const end = async () => {
    await again.drain(0);
    await redis.close();
  };
  const again = new Loop({
    failureWaitMs: limits.loopSleepMsMax,
    step: async () => {
      const { health, isDone } = await look();
      if (!isDone) return limits.loopSleepMsMax;
      // dq-upkeep logs dangerous settings, whenever they appear.
      log.notice('durability', { durability: health.durability });
      onKnown(sentenceOf(health));
      void end();
      return 0;
    },
    onFailure: (error) => {
      log.error('redis: cannot determine its durability', error);
      if (error instanceof StartImpossible) void end();
    },
  });
  return {
    async start(rejectsForeign) {
      await redis.start();
      const foreign = redis.foreign();
      if (rejectsForeign && foreign !== null) throw new StartImpossible('configuration', foreign);
      const { health, isDone } = await look();
      if (isDone) await redis.close();
      else await again.start();
      return sentenceOf(health);
    },
    close: end,
  };
}

/** Without the reasons of a store that is not ok: /readyz and dq status name those. */
function sentenceOf({ ok, durability, warnings }: StoreHealth): string {
  return [durability, ...(ok ? warnings : []).map((warning) => `warning: ${warning}`)].join('; ');
}

function rejectOld(info: string): void {
  const reason = whyTooOld(info);
  if (reason !== null) throw new StartImpossible('configuration', reason);
}
