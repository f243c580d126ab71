// When restarting is no use: limits.crashLoopFailures deaths of one role within limits.crashLoopWindowMs, while nothing of
// the role is alive or the daemon was never ready. Pure; the caller says what time it is.

import { limits } from '../core/limits.ts';
import type { RoleName } from '../process/messages.ts';

export class CrashLoop {
  readonly #deaths = new Map<RoleName, number[]>();

  /** Counts a death at `nowMs` (monotonic); true = give up. */
  died(role: RoleName, nowMs: number, hopeless: boolean): boolean {
    const recent = (this.#deaths.get(role) ?? []).filter((at) => nowMs - at < limits.crashLoopWindowMs);
    recent.push(nowMs);
    this.#deaths.set(role, recent.slice(-limits.crashLoopFailures));
    return hopeless && recent.length >= limits.crashLoopFailures;
  }
}

/** 0.1, 0.2, 0.4 … 10 s after so many deaths in a row. */
export function restartDelayMs(deathsInARow: number): number {
  return Math.min(limits.restartMsMin * 2 ** Math.max(deathsInARow - 1, 0), limits.restartMsMax);
}
