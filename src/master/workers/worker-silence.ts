// Detects workers that send nothing for `silentTicks` ticks: their main loop or process is blocked.
// Counts ticks of the master, not the clock: while the master does not run (SIGSTOP, suspended machine,
// paused VM) no tick passes, and messages that arrived meanwhile are read before the second tick.
// Invariant: a worker that sends its report each second is never silent.

import type { RoleName } from '../../process/messages.ts';
import { masterLimits } from '../limits.ts';

/** Longer for dq-store: one wait for a slow disk blocks it. */
export function silentTicksOf(role: RoleName): number {
  return role === 'store' ? masterLimits.silentStoreTicks : masterLimits.silentTicks;
}

export class WorkerSilence {
  readonly #maxTicks: number;
  #ticks = 0;

  constructor(role: RoleName) {
    this.#maxTicks = silentTicksOf(role);
  }

  /** The worker has sent something, or is not expected to send yet. */
  end(): void {
    this.#ticks = 0;
  }

  /** Once a second. true = the worker has been silent for too long; once per silence. */
  tick(): boolean {
    this.#ticks += 1;
    return this.#ticks === this.#maxTicks;
  }
}
