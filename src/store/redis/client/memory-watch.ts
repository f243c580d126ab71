// Whether a server, or one of a Cluster, is nearly full. Jobs that wait go before the memory of those that have ended: while it is, what ends leaves no
// entry, and older entries may go before their time. Looks now and then, in the background, and never holds a call up.

import { redisLimits } from '../limits.ts';

export class MemoryWatch {
  readonly #infos: () => Promise<readonly string[]>;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isTight = false;

  /** `infos`: the replies to INFO memory */
  constructor(infos: () => Promise<readonly string[]>) {
    this.#infos = infos;
  }

  /** As it was when it was last looked at. */
  get isTight(): boolean {
    const now = performance.now();
    if (now - this.#lookedAt >= redisLimits.redisMemoryMs) {
      this.#lookedAt = now;
      void this.#look();
    }
    return this.#isTight;
  }

  async #look(): Promise<void> {
    const infos = await this.#infos();
    // Of one that is away, or may not be asked, what was known stays.
    if (infos.length > 0) this.#isTight = infos.some(isNearlyFull);
  }
}

export function isNearlyFull(info: string): boolean {
  const value = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  const max = value('maxmemory');
  return max > 0 && value('used_memory') > max * redisLimits.redisTightShare;
}
