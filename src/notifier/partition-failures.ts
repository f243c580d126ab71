// Knows which partitions of the store give no jobs, and why: their last reserve failed or came too late, or
// they heal. Logs when no partition answers reserves, and when one answers again; when reserves of any
// partition begin to take so long that their jobs are released, and when those of none do.
// A single failing partition is not logged here: the store itself reports it.
// Invariant: nothing is known of a removed partition, whose last answer may come after its removal.

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
  /** Partitions whose last answer with jobs came too late to call some of them. */
  readonly #late = new Set<Partition>();
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
    this.forget(partition);
  }

  failed(partition: Partition, error: unknown): void {
    if (!this.#all.has(partition)) return;
    this.#failing.set(partition, failureCodeOf(error));
    this.#report(error);
  }

  succeeded(partition: Partition, isHealing: boolean): void {
    if (!this.#all.has(partition)) return;
    this.#failing.delete(partition);
    if (isHealing) this.#healing.add(partition);
    else this.#healing.delete(partition);
    this.#report(null);
  }

  /** `released`: jobs whose leases were too short for a call, because the answer took so long */
  answered(partition: Partition, released: number, tookMs: number): void {
    const wasLate = this.#late.size > 0;
    if (released > 0 && this.#all.has(partition)) this.#late.add(partition);
    else this.#late.delete(partition);
    const isLate = this.#late.size > 0;
    if (isLate === wasLate) return;
    const fields = { released, tookMs: Math.round(tookMs) };
    if (isLate)
      this.#log.error('notifier: jobs of slow reserves are released; raise lease.margin', undefined, fields);
    else this.#log.notice('notifier: reserves are in time again');
  }

  /** This process does not reserve from the partition now, so an earlier answer says nothing about it. */
  forget(partition: Partition): void {
    this.#failing.delete(partition);
    this.#healing.delete(partition);
    this.answered(partition, 0, 0);
  }

  #report(error: unknown): void {
    const isFailing = this.#failing.size > 0 && this.#failing.size === this.#all.size;
    if (isFailing === this.#isLogged) return;
    if (isFailing) this.#log.error('notifier: cannot reserve jobs', error);
    else this.#log.notice('notifier: reserves jobs again');
    this.#isLogged = isFailing;
  }
}
