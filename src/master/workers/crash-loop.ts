// When a role dies again and again: limits.crashLoopFailures deaths within limits.crashLoopWindowMs. Restarting is of no use
// while nothing of the role is alive or the daemon was never ready; else it goes on, and somebody is told. Pure; the caller says
// what time it is.
// One that is not ready in time counts too: each of its lives lasts so long that ten of them never fall into one window, and a
// start whose worker hangs would be waited for without end. So masterLimits.crashLoopHangs of them in a row count as a loop.
// Invariant: a loop that was told of is told of at every further death until a whole window has passed without one. The back-off
// makes deaths rarer than that many in a window, and who is told of none takes the trouble for over.

import { limits } from '../../core/limits.ts';
import type { RoleName } from '../../process/messages.ts';
import { masterLimits } from '../limits.ts';

export class CrashLoop {
  readonly #deaths = new Map<RoleName, number[]>();
  readonly #told = new Set<RoleName>();
  /** in a row, with no worker of the role ready in between */
  readonly #hangs = new Map<RoleName, number>();

  /** A worker of this role is ready. */
  ready(role: RoleName): void {
    this.#hangs.delete(role);
  }

  /** Counts a death at `nowMs` (monotonic). `hung`: it was ended because it was not ready in time. */
  died(
    role: RoleName,
    nowMs: number,
    hopeless: boolean,
    hung = false,
  ): 'restart' | 'restart_and_tell' | 'give_up' {
    const recent = (this.#deaths.get(role) ?? []).filter((at) => nowMs - at < limits.crashLoopWindowMs);
    if (recent.length === 0) this.#told.delete(role);
    recent.push(nowMs);
    this.#deaths.set(role, recent.slice(-limits.crashLoopFailures));
    if (hung) this.#hangs.set(role, (this.#hangs.get(role) ?? 0) + 1);
    if (recent.length >= limits.crashLoopFailures || this.#hangsOn(role)) {
      if (hopeless) return 'give_up';
      this.#told.add(role);
    }
    return this.#told.has(role) ? 'restart_and_tell' : 'restart';
  }

  /** Of a role whose loop is told of: what it did, for a sentence. */
  how(role: RoleName): string {
    if (this.#hangsOn(role)) return `was not ready in time ${this.#hangs.get(role)} times in a row`;
    return `died ${limits.crashLoopFailures} times within ${limits.crashLoopWindowMs / 1_000} s`;
  }

  #hangsOn(role: RoleName): boolean {
    return (this.#hangs.get(role) ?? 0) >= masterLimits.crashLoopHangs;
  }
}

/** After so many early deaths in a row: 0 (the one that ended a long life), 0.1, 0.2, 0.4 … 10 s. */
export function restartDelayMs(earlyDeaths: number): number {
  return earlyDeaths === 0
    ? 0
    : Math.min(masterLimits.restartMsMin * 2 ** (earlyDeaths - 1), masterLimits.restartMsMax);
}
