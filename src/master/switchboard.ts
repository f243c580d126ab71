// What workers tell the master for one another: counters on their way to dq-upkeep, who lives, which processes there are.
// Keeps counters while dq-upkeep is away, so many and no more. Starts and ends nobody.

import { limits } from '../core/limits.ts';
import type { ProcessInfo, RoleName, ToMaster } from '../process/messages.ts';
import { StatBuffer } from '../process/stat-buffer.ts';
import type { Log } from '../telemetry/log.ts';
import type { Generation } from './generation.ts';
import type { WorkerProcess } from './worker-process.ts';

export class Switchboard {
  readonly #held = new StatBuffer(limits.countersHeldMax);
  readonly #generation: () => Generation;
  readonly #processes: () => readonly ProcessInfo[];
  readonly #log: Log;

  constructor(generation: () => Generation, processes: () => readonly ProcessInfo[], log: Log) {
    this.#generation = generation;
    this.#processes = processes;
    this.#log = log;
  }

  heard(from: WorkerProcess, message: ToMaster): void {
    switch (message.kind) {
      case 'ready':
        if (from.role === 'upkeep') this.#sendHeld(from);
        break;
      case 'counters': {
        const upkeep = this.#upkeep();
        if (upkeep !== undefined) upkeep.send({ kind: 'counters', deltas: message.deltas });
        else for (const delta of message.deltas) this.#held.add(delta);
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
  crashLoop(role: RoleName, reason: string): void {
    this.#upkeep()?.send({ kind: 'crash_loop', role, reason });
  }

  #upkeep(): WorkerProcess | undefined {
    return this.#generation()
      .workers('upkeep')
      .find((worker) => worker.state !== 'starting');
  }

  /** With the next life of each slot: a notifier born while upkeep still works on the answer must not lose its leases to it. */
  #livingNotifiers(): number[] {
    return this.#generation()
      .of('notifier')
      .flatMap((slot) => [...(slot.worker === null ? [] : [slot.worker.incarnation]), slot.nextIncarnation]);
  }

  #sendHeld(upkeep: WorkerProcess): void {
    const deltas = this.#held.take();
    if (deltas.length > 0) upkeep.send({ kind: 'counters', deltas });
    const dropped = this.#held.takeDropped();
    if (dropped > 0) this.#log.error(`statistics were dropped while dq-upkeep was away: ${dropped}`);
  }
}
