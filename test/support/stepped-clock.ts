// A storage clock that stands still until a test moves it. It has whole milliseconds, as a store keeps them.
// It starts years from the clock of this machine: a store that reads another clock fails at once.

export class SteppedClock {
  #now: number;
  #onStep: (now: number) => Promise<void> = async () => {};

  constructor(start = 1_900_000_000_000) {
    this.#now = start;
  }

  /** epoch ms */
  get now(): number {
    return this.#now;
  }

  /** When it resolves, the store reads the new time. A monotonic clock moves by as much. */
  async skip(ms: number): Promise<void> {
    this.#now += ms;
    await this.#onStep(this.#now);
  }

  /** `onStep`: writes the time to where a store reads it; called now, too. */
  async drive(onStep: (now: number) => Promise<void>): Promise<void> {
    this.#onStep = onStep;
    await onStep(this.#now);
  }
}
