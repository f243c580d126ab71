// run/workers.json: which processes this master has forked, so that a start after its kill -9 can end those that are still
// there: one that is stopped or stuck may hold the store's file, and a timer or notifier of the dead master would work
// on beside the new ones. Invariants: a process is ended only when its start time agrees; only by the record of the directory
// that its master worked in, never by a copy of that record; never while its parent is a living dq-master.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isSameFile, type Place, placeOf } from '../../runtime/place.ts';
import { writeWhole } from '../data/run-record.ts';
import { masterLimits } from '../limits.ts';
import type { ProcessIdentity } from './process-table.ts';
import { hasLivingMaster, identityOf, isAlive } from './process-table.ts';

interface RecordedWorker extends ProcessIdentity {
  readonly title: string;
  /** of run/; undefined in records of earlier versions of dq */
  readonly place?: Place;
}

export class WorkerRecord {
  readonly #path: string;
  readonly #place: Place;
  readonly #workers = new Map<number, RecordedWorker>();

  /** `runDir` exists. */
  constructor(runDir: string) {
    this.#place = placeOf(runDir);
    this.#path = join(runDir, 'workers.json');
  }

  add(pid: number, title: string): void {
    const identity = identityOf(pid);
    if (identity === null) return;
    this.#workers.set(pid, { ...identity, title, place: this.#place });
    this.#write();
  }

  remove(pid: number): void {
    if (this.#workers.delete(pid)) this.#write();
  }

  /** Ends what a dead master left behind; answers their titles. Rejects when one does not go away. */
  async endLeftovers(): Promise<readonly string[]> {
    const alive = this.#read().filter(
      (worker) => this.#isOurs(worker) && isAlive(worker) && !hasLivingMaster(worker.pid),
    );
    for (const worker of alive) kill(worker.pid);
    const end = performance.now() + masterLimits.leftoverEndMs;
    for (const worker of alive) {
      while (isAlive(worker)) {
        if (performance.now() > end)
          throw new Error(`${worker.title} (pid ${worker.pid}) of an earlier start cannot be ended`);
        await sleep(10);
      }
    }
    this.#write();
    return alive.map((worker) => worker.title);
  }

  #isOurs({ place }: RecordedWorker): boolean {
    return place === undefined || (place.path === this.#place.path && isSameFile(place, this.#place));
  }

  #write(): void {
    writeWhole(this.#path, `${JSON.stringify([...this.#workers.values()])}\n`);
  }

  #read(): readonly RecordedWorker[] {
    try {
      return JSON.parse(readFileSync(this.#path, 'utf8')) as RecordedWorker[];
    } catch {
      // None yet, or damaged by a power cut, and then the processes are gone with it.
      return [];
    }
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
