// Whether a server is nearly full. Jobs that wait go before the memory of those that have ended: while it is, what ends leaves no
// entry, and older entries may go before their time. Looks now and then, in the background, and never holds a call up.

import { limits } from '../../core/limits.ts';

export class MemoryWatch {
  readonly #info: () => Promise<unknown>;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isTight = false;

  /** `info`: the reply of INFO memory */
  constructor(info: () => Promise<unknown>) {
    this.#info = info;
  }

  /** As it was when it was last looked at. */
  get isTight(): boolean {
    const now = performance.now();
    if (now - this.#lookedAt >= limits.redisMemoryMs) {
      this.#lookedAt = now;
      void this.#look();
    }
    return this.#isTight;
  }

  async #look(): Promise<void> {
    try {
      this.#isTight = isNearlyFull(String(await this.#info()));
    } catch {
      // It is away, or may not be asked: then what was known of it stays.
    }
  }
}

export function isNearlyFull(info: string): boolean {
  const value = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  const max = value('maxmemory');
  return max > 0 && value('used_memory') > max * limits.redisTightShare;
}
