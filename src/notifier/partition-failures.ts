// Logs when no partition of the store answers reserves, and when one answers again.
// A single failing partition is not logged here: the store itself reports it.

import type { Partition } from '../ports/job-store.ts';
import type { Log } from '../telemetry/log.ts';

export class PartitionFailures {
  readonly #log: Log;
  readonly #all = new Set<Partition>();
  /** Partitions whose last round failed. */
  readonly #failing = new Set<Partition>();
  #isLogged = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Partitions that are asked, and of these the failing ones. */
  get counts(): { readonly all: number; readonly failing: number } {
    return { all: this.#all.size, failing: this.#failing.size };
  }

  add(partition: Partition): void {
    this.#all.add(partition);
  }

  remove(partition: Partition): void {
    this.#all.delete(partition);
    this.#failing.delete(partition);
  }

  failed(partition: Partition, error: unknown): void {
    if (this.#all.has(partition)) this.#failing.add(partition);
    this.#report(error);
  }

  succeeded(partition: Partition): void {
    this.#failing.delete(partition);
    this.#report(null);
  }

  #report(error: unknown): void {
    const isFailing = this.#failing.size > 0 && this.#failing.size === this.#all.size;
    if (isFailing === this.#isLogged) return;
    if (isFailing) this.#log.error('notifier: cannot reserve jobs', error);
    else this.#log.notice('notifier: reserves jobs again');
    this.#isLogged = isFailing;
  }
}
