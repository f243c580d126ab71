// When a role dies again and again: limits.crashLoopFailures deaths within limits.crashLoopWindowMs. Restarting is of no use
// while nothing of the role is alive or the daemon was never ready; else it goes on, and somebody is told. Pure; the caller says
// what time it is.

import { limits } from '../core/limits.ts';
import type { RoleName } from '../process/messages.ts';

export class CrashLoop {
  readonly #deaths = new Map<RoleName, number[]>();

  /** Counts a death at `nowMs` (monotonic). */
  died(role: RoleName, nowMs: number, hopeless: boolean): 'restart' | 'restart_and_tell' | 'give_up' {
    const recent = (this.#deaths.get(role) ?? []).filter((at) => nowMs - at < limits.crashLoopWindowMs);
    recent.push(nowMs);
    this.#deaths.set(role, recent.slice(-limits.crashLoopFailures));
    if (recent.length < limits.crashLoopFailures) return 'restart';
    return hopeless ? 'give_up' : 'restart_and_tell';
  }
}

/** 0.1, 0.2, 0.4 … 10 s after so many deaths in a row. */
export function restartDelayMs(deathsInARow: number): number {
  return Math.min(limits.restartMsMin * 2 ** Math.max(deathsInARow - 1, 0), limits.restartMsMax);
}
