// What the master or a worker does once a second, all of it in one wake-up: an idle process is woken seldom, and seven of them are idle
// most of the time.

import { limits } from '../core/limits.ts';

export class SecondTicker {
  readonly #beats: (() => void)[] = [];

  constructor() {
    const timer = setInterval(() => {
      for (const beat of this.#beats) beat();
    }, limits.pulseMs);
    timer.unref();
  }

  /** From now on; it must not throw. */
  each(beat: () => void): void {
    this.#beats.push(beat);
  }
}
