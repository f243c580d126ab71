// Keeps one numbered slot of a role filled: forks its worker, and forks again when the worker has died: at
// once after a long run (a single server is the only one on the port), after a growing delay if it died
// early. Detects crash loops of a role.
// Invariant: at most one live process per slot; none is started after release().

import { limits } from '../../core/limits.ts';
import type { RoleName } from '../../process/messages.ts';
import { clearTimeout, setTimeout, type Timer } from '../../runtime/time.ts';
import { masterLimits } from '../limits.ts';
import type { Ending, WorkerProcess } from './worker-process.ts';

export interface SlotHost {
  /** Throws if no process can be made: no memory, or its file is missing during an upgrade. */
  fork(slot: WorkerSlot): WorkerProcess;
  /** fork() has thrown; false = do not try again. */
  spawnFailed(slot: WorkerSlot, error: unknown): boolean;
  /** The worker died without a drain; false = do not start another. */
  died(slot: WorkerSlot, worker: WorkerProcess, ending: Ending): boolean;
}

/** A signal to the process group kills a worker that has not installed its handlers yet. */
const groupSignals: readonly (NodeJS.Signals | null)[] = [
  'SIGHUP',
  'SIGINT',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
];

export class WorkerSlot {
  readonly role: RoleName;
  readonly index: number;
  readonly count: number;
  restarts = 0;
  worker: WorkerProcess | null = null;
  /** of the worker after the current one: drawn early, so that dq-upkeep counts it as living before it
   *  exists */
  nextIncarnation: number;
  readonly #host: SlotHost;
  readonly #drawIncarnation: () => number;
  #earlyDeaths = 0;
  #released = false;
  #isResting = false;
  #timer: Timer | null = null;

  constructor(
    place: { readonly role: RoleName; readonly index: number; readonly count: number },
    host: SlotHost,
    drawIncarnation: () => number,
  ) {
    this.role = place.role;
    this.index = place.index;
    this.count = place.count;
    this.#host = host;
    this.#drawIncarnation = drawIncarnation;
    this.nextIncarnation = drawIncarnation();
  }

  fill(): void {
    this.#timer = null;
    if (this.#released) return;
    try {
      this.worker = this.#host.fork(this);
    } catch (error) {
      this.#earlyDeaths += 1;
      if (this.#host.spawnFailed(this, error)) this.#fillLater();
      return;
    }
    this.nextIncarnation = this.#drawIncarnation();
  }

  /** Starts no further worker here; the current one stays until it is drained or killed. */
  release(): void {
    this.#released = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  /** The master ends its worker, which counts as no death; want() starts the next one. */
  rest(): void {
    this.#isResting = true;
  }

  /** Starts a worker, after the delay of those that died, unless one lives or will be started. */
  want(): void {
    if (this.worker === null && this.#timer === null) this.#fillLater();
  }

  exited(worker: WorkerProcess, ending: Ending): void {
    this.worker = null;
    if (this.#released) return;
    if (this.#isResting) {
      this.#isResting = false;
      return;
    }
    // Killed by a group signal before its handlers: not a crash.
    if (!ending.wasReady && groupSignals.includes(ending.signal)) {
      this.fill();
      return;
    }
    this.restarts += 1;
    // A run longer than the longest delay ends the row.
    this.#earlyDeaths = ending.readyMs > masterLimits.restartMsMax ? 0 : this.#earlyDeaths + 1;
    if (this.#host.died(this, worker, ending)) this.#fillLater();
  }

  #fillLater(): void {
    if (this.#released) return;
    const delayMs = restartDelayMs(this.#earlyDeaths);
    if (delayMs === 0) this.fill();
    else this.#timer = setTimeout(() => this.fill(), delayMs);
  }
}

/** A crash loop: masterLimits.crashLoopFailures deaths of a role within limits.crashLoopWindowMs, or
 *  masterLimits.crashLoopHangs workers in a row that are not ready in time (they die too slowly for a
 *  window). The daemon gives up if it was never ready or no worker of the role lives; otherwise it restarts
 *  the worker. Invariant: a reported loop is reported at every further death until a whole window has passed
 *  without one. The backoff makes deaths rarer than the limit, and dq-upkeep takes a loop without reports for
 *  over. Pure: the caller passes the time. */
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
