// One numbered place of a role, kept filled: forks its worker, and forks again when it has died: at once after a long life (the
// only server of an instance is the port that it listens on), with a growing delay after early deaths.
// Invariant: at most one live process per slot; after release() none is started any more.

import type { RoleName } from '../../process/messages.ts';
import { masterLimits } from '../limits.ts';
import { restartDelayMs } from './crash-loop.ts';
import type { Ending, WorkerProcess } from './worker-process.ts';

export interface SlotHost {
  /** Throws where no process can be made: no memory, or its file is away for the moment of an upgrade. */
  fork(slot: WorkerSlot): WorkerProcess;
  /** A fork has thrown; false = do not try again. */
  unborn(slot: WorkerSlot, error: unknown): boolean;
  /** A worker of a slot that is kept filled has died by itself; false = do not start another. */
  died(slot: WorkerSlot, worker: WorkerProcess, ending: Ending): boolean;
}

/** What a signal to the whole process group does to a worker that has not reached its first line. */
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
  /** of the life after the current one: drawn early, so that it can be named among the living before it exists */
  nextIncarnation: number;
  readonly #host: SlotHost;
  readonly #drawIncarnation: () => number;
  #earlyDeaths = 0;
  #released = false;
  #timer: NodeJS.Timeout | undefined;

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
    if (this.#released) return;
    try {
      this.worker = this.#host.fork(this);
    } catch (error) {
      this.#earlyDeaths += 1;
      if (this.#host.unborn(this, error)) this.#fillLater();
      return;
    }
    this.nextIncarnation = this.#drawIncarnation();
  }

  /** No worker is started here any more; the current one stays until somebody ends it. */
  release(): void {
    this.#released = true;
    clearTimeout(this.#timer);
  }

  /** The slot's worker has exited. */
  emptied(worker: WorkerProcess, ending: Ending): void {
    this.worker = null;
    if (this.#released) return;
    // No crash and no life: what was born so is another first one.
    if (!ending.wasReady && groupSignals.includes(ending.signal)) {
      this.fill();
      return;
    }
    this.restarts += 1;
    // A life longer than the longest delay ends the row.
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
