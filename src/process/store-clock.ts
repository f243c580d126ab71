// Follows the storage clock: reads it from time to time, and adds the monotonic clock in between. So a
// wrong clock of this machine does not matter. Before the first answer it returns the clock of this machine.
// An answer that took long, as to a process that stood still, does not tell when the store read its clock:
// the known time stays where such an answer allows it.

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
    // Kept from before the question: after a step during it, the next call asks again.
    const machine = machineOffset();
    this.#readAt = from;
    const now = await this.#readStore();
    const [least, most] = [now - monotonicNow(), now - from];
    const known = this.#isStepped() ? null : (this.#offset ?? this.#machineOffset);
    const isAllowed = known !== null && known >= least && known <= most;
    this.#offset = isAllowed ? known : (least + most) / 2;
    this.#machineOffset = machine;
  }

  #isStepped(): boolean {
    return Math.abs(machineOffset() - this.#machineOffset) > processLimits.clockStepMs;
  }
}

const machineOffset = (): number => wallNow() - monotonicNow();
