// Watches whether a server, or one node of a Cluster, is nearly full. Waiting jobs matter more than the
// history: while it is, ended jobs leave no entry, and older entries may go early. Reads INFO in the
// background and never delays a call.

import { monotonicNow } from '../../../runtime/time.ts';
import { redisLimits } from '../limits.ts';

export class MemoryWatch {
  readonly #infos: () => Promise<readonly string[]>;
  #readAt = Number.NEGATIVE_INFINITY;
  #isNearlyFull = false;

  /** `infos`: the replies to INFO memory */
  constructor(infos: () => Promise<readonly string[]>) {
    this.#infos = infos;
  }

  /** As of the last reading, which may start another one. */
  get isNearlyFull(): boolean {
    const now = monotonicNow();
    if (now - this.#readAt >= redisLimits.memoryMs) {
      this.#readAt = now;
      void this.#read();
    }
    return this.#isNearlyFull;
  }

  async #read(): Promise<void> {
    const infos = await this.#infos();
    // Without an answer, or without the right to INFO, the last state stays.
    if (infos.length > 0) this.#isNearlyFull = infos.some(isNearlyFull);
  }
}

export function isNearlyFull(info: string): boolean {
  const value = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  const max = value('maxmemory');
  return max > 0 && value('used_memory') > max * redisLimits.nearlyFullShare;
}
