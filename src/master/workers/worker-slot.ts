// Keeps one numbered slot of a role filled: forks its worker, and forks again when
// the worker has died: at once after a long run (a single server is the only one on
// the port), after a growing delay if it died early.
// Invariant: at most one live process per slot; none is started after release().

import type { RoleName } from '../../process/messages.ts';
import { clearTimeout, setTimeout, type Timer } from '../../runtime/time.ts';
import { masterLimits } from '../limits.ts';
import { restartDelayMs } from './crash-loop.ts';
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
