// What workers tell the master for one another: counters on their way to dq-upkeep, who lives, which processes there are.
// Keeps counters while dq-upkeep is away, so many and no more. Starts and ends nobody.

import { limits } from '../../core/limits.ts';
import type { ProcessInfo, RoleName, ToMaster } from '../../process/messages.ts';
import { StatBuffer } from '../../process/stat-buffer.ts';
import type { Log } from '../../telemetry/log.ts';
import type { Fleet } from './fleet.ts';
import type { WorkerProcess } from './worker-process.ts';

export class WorkerRelay {
  readonly #held = new StatBuffer(limits.countersHeldMax);
  readonly #fleet: Fleet;
  readonly #processes: () => readonly ProcessInfo[];
  readonly #log: Log;

  constructor(fleet: Fleet, processes: () => readonly ProcessInfo[], log: Log) {
    this.#fleet = fleet;
    this.#processes = processes;
    this.#log = log;
  }

  heard(from: WorkerProcess, message: ToMaster): void {
    switch (message.kind) {
      case 'ready':
        if (from === this.#upkeep()) this.#sendHeld(from);
        break;
      case 'counters': {
        const upkeep = this.#upkeep();
        if (upkeep !== undefined) {
          this.#sendHeld(upkeep);
          upkeep.send({ kind: 'counters', deltas: message.deltas });
        } else for (const delta of message.deltas) this.#held.add(delta);
        break;
      }
      case 'who_lives':
        from.send({ kind: 'living', incarnations: this.#livingNotifiers() });
        break;
      case 'processes':
        from.send({ kind: 'processes', call: message.call, processes: this.#processes() });
        break;
      default:
    }
  }

  /** Its leases go back at once instead of when they run out. An upkeep that is away asks `who_lives` when it is back. */
  notifierDied(incarnation: number): void {
    this.#upkeep()?.send({ kind: 'owner_dead', incarnation });
  }

  /** Lost while upkeep is away; the next death tells again. */
  crashLoop(role: RoleName, how: string, reason: string): void {
    this.#upkeep()?.send({ kind: 'crash_loop', role, how, reason });
  }

  /** The daemon ends by itself. Without an upkeep it is kept for the next start (keep-given-up.ts). */
  gaveUp(reason: string): void {
    this.#upkeep()?.send({ kind: 'gave_up', reason });
  }

  /** Of the generation in force: one that leaves may have written for the last time. */
  #upkeep(): WorkerProcess | undefined {
    return this.#fleet.current.workers('upkeep').find((worker) => worker.state !== 'starting');
  }

  /** Of all generations; with the next life of each slot: a notifier born while upkeep still works on the answer must not lose
   *  its leases to it. */
  #livingNotifiers(): number[] {
    return this.#fleet
      .all()
      .flatMap((generation) => generation.of('notifier'))
      .flatMap((slot) => [...(slot.worker === null ? [] : [slot.worker.incarnation]), slot.nextIncarnation]);
  }

  #sendHeld(upkeep: WorkerProcess): void {
    const deltas = this.#held.take();
    if (deltas.length > 0) upkeep.send({ kind: 'counters', deltas });
    const dropped = this.#held.takeDropped();
    if (dropped > 0) this.#log.error(`statistics were dropped while dq-upkeep was away: ${dropped}`);
  }
}
