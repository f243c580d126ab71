// SecondTicker runs all once-a-second work of a process in one wake-up: most of the seven processes are idle
// most of the time.

import { limits } from '../core/limits.ts';

export class SecondTicker {
  readonly #beats: (() => void)[] = [];

  constructor() {
    const timer = setInterval(() => {
      for (const beat of this.#beats) beat();
    }, limits.tickMs);
    timer.unref();
  }

  /** Calls `beat` once a second from now on; it must not throw. */
  each(beat: () => void): void {
    this.#beats.push(beat);
  }
}
