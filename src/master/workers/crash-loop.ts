// Detects crash loops: masterLimits.crashLoopFailures deaths of a role within limits.crashLoopWindowMs, or
// masterLimits.crashLoopHangs workers in a row that are not ready in time (they die too slowly for a window).
// The daemon gives up if it was never ready or no worker of the role lives; otherwise it restarts the worker.
// Invariant: a reported loop is reported at every further death until a whole window has passed without one.
// The backoff makes deaths rarer than the limit, and dq-upkeep takes a loop without reports for over.
// Pure: the caller passes the time.

import { limits } from '../../core/limits.ts';
import type { RoleName } from '../../process/messages.ts';
import { masterLimits } from '../limits.ts';

export class CrashLoop {
  readonly #deaths = new Map<RoleName, number[]>();
  readonly #reported = new Set<RoleName>();
  /** in a row, without a ready worker of the role in between */
  readonly #hangs = new Map<RoleName, number>();

  ready(role: RoleName): void {
    this.#hangs.delete(role);
  }

  /** Counts a death at `nowMs` (monotonic). `hopeless`: a restart is of no use. `hung`: killed because it was
   *  not ready in time. */
  died(
    role: RoleName,
    nowMs: number,
    hopeless: boolean,
    hung = false,
  ): 'restart' | 'restart_and_report' | 'give_up' {
    const recent = (this.#deaths.get(role) ?? []).filter((at) => nowMs - at < limits.crashLoopWindowMs);
    if (recent.length === 0) this.#reported.delete(role);
    recent.push(nowMs);
    this.#deaths.set(role, recent.slice(-masterLimits.crashLoopFailures));
    if (hung) this.#hangs.set(role, (this.#hangs.get(role) ?? 0) + 1);
    if (recent.length >= masterLimits.crashLoopFailures || this.#hangsOn(role)) {
      if (hopeless) return 'give_up';
      this.#reported.add(role);
    }
    return this.#reported.has(role) ? 'restart_and_report' : 'restart';
  }

  /** Describes the loop of a role: `died 10 times within 60 s`. */
  how(role: RoleName): string {
    if (this.#hangsOn(role)) return `was not ready in time ${this.#hangs.get(role)} times in a row`;
    return `died ${masterLimits.crashLoopFailures} times within ${limits.crashLoopWindowMs / 1_000} s`;
  }

  #hangsOn(role: RoleName): boolean {
    return (this.#hangs.get(role) ?? 0) >= masterLimits.crashLoopHangs;
  }
}

/** ms before the next start, after 0, 1, 2, 3 … early deaths in a row: 0, 100, 200, 400 … 10,000. */
export function restartDelayMs(earlyDeaths: number): number {
  return earlyDeaths === 0
    ? 0
    : Math.min(masterLimits.restartMsMin * 2 ** (earlyDeaths - 1), masterLimits.restartMsMax);
}
