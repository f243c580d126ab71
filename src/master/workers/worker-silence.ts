// Detects workers that send nothing for `silentTicks` ticks: main loop or process blocked. Counts ticks of the
// master, not the clock: while the master itself does not run (SIGSTOP, a suspended machine, a pause of the VM, a long turn), no
// tick passes, and the messages that arrived meanwhile are read before the second tick. Invariant: a worker that sends
// its report each second is never silent.

import type { RoleName } from '../../process/messages.ts';
import { masterLimits } from '../limits.ts';

/** dq-store may wait for a slow disk in one piece. */
export function silentTicksOf(role: RoleName): number {
  return role === 'store' ? masterLimits.silentStoreTicks : masterLimits.silentTicks;
}

export class WorkerSilence {
  readonly #most: number;
  #ticks = 0;

  constructor(role: RoleName) {
    this.#most = silentTicksOf(role);
  }

  /** The worker has sent something, or is not expected to send yet. */
  end(): void {
    this.#ticks = 0;
  }

  /** Once a second. true = the worker has been silent for too long; once per silence. */
  tick(): boolean {
    this.#ticks += 1;
    return this.#ticks === this.#most;
  }
}
