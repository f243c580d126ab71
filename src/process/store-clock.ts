// Follows the storage clock: reads it from time to time, and adds the monotonic clock in between. So a
// wrong clock of this machine does not matter. Before the first answer it returns the clock of this machine.

import { monotonicNow, wallNow } from '../runtime/time.ts';
import { processLimits } from './limits.ts';

/** Epoch ms. */
export interface StorageClock {
  /** Returns at once; reads the store in the background, at most every processLimits.storeClockMs. */
  now(): number;
  /** Reads the store first; without an answer, the same as now(). */
  read(): Promise<number>;
  /** now(), but never of the clock of this machine: rejects as the store does before its first answer. For
   *  claims, which a wrong clock would hold for as long as it is wrong. */
  known(): Promise<number>;
}

export class StoreClock implements StorageClock {
  readonly #readStore: () => Promise<number>;
  /** storage clock minus monotonicNow(); null: not known yet */
  #offset: number | null = null;
  #readAt = Number.NEGATIVE_INFINITY;
  /** this machine's clock minus monotonicNow() at the last answer */
  #machineOffset = machineOffset();

  /** `readStore`: resolves with epoch ms. */
  constructor(readStore: () => Promise<number>) {
    this.#readStore = readStore;
  }

  now(): number {
    const { clockStepMs, storeClockMs } = processLimits;
    if (monotonicNow() - this.#readAt >= (this.#isStepped() ? clockStepMs : storeClockMs)) void this.#renew();
    return this.#offset === null ? wallNow() : Math.round(this.#offset + monotonicNow());
  }

  async read(): Promise<number> {
    await this.#renew();
    return this.now();
  }

  async known(): Promise<number> {
    if (this.#offset === null || this.#isStepped()) await this.#follow();
    return this.now();
  }

  async #renew(): Promise<void> {
    // The last offset stays; the callers of the store report the failure.
    await this.#follow().catch(() => {});
  }

  async #follow(): Promise<void> {
    const from = monotonicNow();
    this.#readAt = from;
    const now = await this.#readStore();
    this.#offset = now - (from + monotonicNow()) / 2;
    this.#machineOffset = machineOffset();
  }

  #isStepped(): boolean {
    return Math.abs(machineOffset() - this.#machineOffset) > processLimits.clockStepMs;
  }
}

const machineOffset = (): number => wallNow() - monotonicNow();
