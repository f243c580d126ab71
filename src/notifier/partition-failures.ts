// Knows which partitions of the store give no jobs, and why: their last reserve failed, or they heal. Logs
// when no partition answers reserves, and when one answers again.
// A single failing partition is not logged here: the store itself reports it.

import type { Partition } from '../ports/job-store.ts';
import { failureCodeOf } from '../ports/store-error.ts';
import type { Log } from '../telemetry/log.ts';

export class PartitionFailures {
  readonly #log: Log;
  readonly #all = new Set<Partition>();
  /** Partitions whose last round failed, with the code of the failure. */
  readonly #failing = new Map<Partition, string>();
  /** Partitions that hold their jobs until they are healed (Reserved.isHealing). */
  readonly #healing = new Set<Partition>();
  #isLogged = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Failing partitions, with the code of the failure. */
  get failing(): ReadonlyMap<Partition, string> {
    return this.#failing;
  }

  get healing(): ReadonlySet<Partition> {
    return this.#healing;
  }

  add(partition: Partition): void {
    this.#all.add(partition);
  }

  remove(partition: Partition): void {
    this.#all.delete(partition);
    this.#failing.delete(partition);
    this.#healing.delete(partition);
  }

  failed(partition: Partition, error: unknown): void {
    if (this.#all.has(partition)) this.#failing.set(partition, failureCodeOf(error));
    this.#report(error);
  }

  succeeded(partition: Partition, isHealing: boolean): void {
    this.#failing.delete(partition);
    if (isHealing) this.#healing.add(partition);
    else this.#healing.delete(partition);
    this.#report(null);
  }

  /** This process does not reserve from the partition now, so an earlier answer says nothing about it. */
  forget(partition: Partition): void {
    this.#failing.delete(partition);
    this.#healing.delete(partition);
  }

  #report(error: unknown): void {
    const isFailing = this.#failing.size > 0 && this.#failing.size === this.#all.size;
    if (isFailing === this.#isLogged) return;
    if (isFailing) this.#log.error('notifier: cannot reserve jobs', error);
    else this.#log.notice('notifier: reserves jobs again');
    this.#isLogged = isFailing;
  }
}
