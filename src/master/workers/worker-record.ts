// Records in run/workers.json the processes that this master has forked, so that a start after its kill -9
// can end them: a stuck one may hold the store's file, and timers and notifiers of the dead master would work
// beside the new ones. Invariants: a process is killed only if its start time matches; only by the record of
// its master's directory, never by a copy of it; never while its parent is a running dq-master.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isSameFile, type Place, placeOf, writeWhole } from '../../runtime/files.ts';
import { monotonicNow, sleep } from '../../runtime/time.ts';
import { masterLimits } from '../limits.ts';
import { hasLivingMaster, identityOf, isAlive, type ProcessIdentity } from './process-table.ts';

interface RecordedWorker extends ProcessIdentity {
  readonly title: string;
  /** of run/ */
  readonly place: Place;
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

  addWorker(pid: number, title: string): void {
    const identity = identityOf(pid);
    if (identity === null) return;
    this.#workers.set(pid, { ...identity, title, place: this.#place });
    this.#write();
  }

  removeWorker(pid: number): void {
    if (this.#workers.delete(pid)) this.#write();
  }

  /** Kills the workers of a dead master and returns their titles. Rejects when one does not exit in time. */
  async endLeftovers(): Promise<readonly string[]> {
    const alive = this.#read().filter(
      (worker) => this.#isOurs(worker) && isAlive(worker) && !hasLivingMaster(worker.pid),
    );
    for (const worker of alive) kill(worker.pid);
    const end = monotonicNow() + masterLimits.leftoverEndMs;
    for (const worker of alive) {
      while (isAlive(worker)) {
        if (monotonicNow() > end)
          throw new Error(`${worker.title} (pid ${worker.pid}) of an earlier start does not exit`);
        await sleep(10);
      }
    }
    this.#write();
    return alive.map((worker) => worker.title);
  }

  #isOurs({ place }: RecordedWorker): boolean {
    return place.path === this.#place.path && isSameFile(place, this.#place);
  }

  #write(): void {
    writeWhole(this.#path, `${JSON.stringify([...this.#workers.values()])}\n`);
  }

  #read(): readonly RecordedWorker[] {
    try {
      return JSON.parse(readFileSync(this.#path, 'utf8')) as RecordedWorker[];
    } catch {
      // No record, or damaged by a power cut, which has ended the processes, too.
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
