// Who works as dq-store and as dq-upkeep: at most one process each.

import type { Judge } from './judge.ts';
import type { Process } from './process.ts';

export type SingleRole = 'store' | 'upkeep';

export class Single {
  readonly #judge: Judge;
  readonly #workers = new Map<SingleRole, Process>();

  constructor(judge: Judge) {
    this.#judge = judge;
  }

  /** The process begins the work of its role, which ends with the process. */
  begin(role: SingleRole, process: Process): void {
    const other = this.worker(role);
    this.#judge.check(
      other === null || other === process,
      `only one dq-${role} works`,
      () => `${process.title} begins beside ${other?.title}`,
    );
    this.#workers.set(role, process);
  }

  worker(role: SingleRole): Process | null {
    const process = this.#workers.get(role);
    return process?.isAlive === true ? process : null;
  }
}
