// The storage clock as one process knows it: read now and then, and counted on from there by the monotonic clock. A wrong clock of
// this machine changes nothing that is decided by it. Before the first answer it is the clock of this machine.

import { processLimits } from './limits.ts';

/** Epoch ms. */
export interface StorageClock {
  /** At once; renewed in the background every processLimits.storeClockMs while it is asked for. */
  now(): number;
  /** Asks the store; where it does not answer, now(). */
  read(): Promise<number>;
}

export class StoreClock implements StorageClock {
  readonly #ask: () => Promise<number>;
  /** storage clock minus performance.now(); null: not known yet */
  #offset: number | null = null;
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(ask: () => Promise<number>) {
    this.#ask = ask;
  }

  now(): number {
    if (performance.now() - this.#askedAt >= processLimits.storeClockMs) void this.#renew();
    return this.#offset === null ? Date.now() : Math.round(this.#offset + performance.now());
  }

  async read(): Promise<number> {
    await this.#renew();
    return this.now();
  }

  async #renew(): Promise<void> {
    const from = performance.now();
    this.#askedAt = from;
    try {
      const now = await this.#ask();
      this.#offset = now - (from + performance.now()) / 2;
    } catch {
      // What was known stays; the store's own callers report that it does not answer.
    }
  }
}
