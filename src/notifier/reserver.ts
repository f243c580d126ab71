// Reserves jobs of one partition, again and again, as long as the notifier has capacity for them. Each
// partition has its own reserver, so that one that does not answer costs the others nothing.
// Invariant: a reserve and a releaseUnheld of a partition never run at the same time, or the second would
// release the jobs that the first is bringing.
//
// It sleeps as long as its last step says, or until it is woken by
//   a `ready` hint of its partition   the partition was empty before
//   a change of the topic book        a topic may have more capacity, or become callable
//   the end of a call                 if the last answer left jobs behind for want of capacity; otherwise
//                                     each end of a call would cost a reserve
//   the answer to a finishing write   likewise, and where it ends an isolation (poison-isolation.ts)
//   the end of another's grant        if there was too little left for this one
// Without these it wakes after pollCeiling, or sooner where a rate, a probe or a pause ends.

import type { Partition, Reserved } from '../ports/job-store.ts';
import { StoreError } from '../ports/store-error.ts';
import type { RoleContext } from '../process/role.ts';
import { Loop } from '../runtime/loop.ts';
import { monotonicNow } from '../runtime/time.ts';
import type { Capacity } from './capacity.ts';
import { type CapacityGrant, isUsedUp } from './capacity-grants.ts';
import type { JobStarter } from './job-starter.ts';
import type { Leadership } from './leadership.ts';
import { notifierLimits } from './limits.ts';
import type { PartitionFailures } from './partition-failures.ts';
import type { Settler } from './settler.ts';

export interface ReserverOptions {
  readonly ctx: Pick<RoleContext, 'store' | 'owner' | 'log' | 'config'>;
  readonly partition: Partition;
  readonly capacity: Capacity;
  readonly starter: JobStarter;
  readonly settler: Pick<Settler, 'tokens'>;
  readonly failures: PartitionFailures;
  readonly leadership: Pick<Leadership, 'leads'>;
}

export class Reserver {
  readonly #options: ReserverOptions;
  readonly #loop: Loop;
  /** monotonicNow() from which on topics without a running call may go first again */
  #keptFirstAt = 0;
  #unheldAt = monotonicNow() + notifierLimits.releaseUnheldMs;
  /** monotonicNow() of the last failed round: the store may have reserved jobs in it, or may later */
  #failedAt = Number.NEGATIVE_INFINITY;
  /** The last answer may have left jobs behind for want of capacity; the end of a call makes some. */
  #isHungry = false;
  /** Grants of other partitions hold capacity that this one could have used. */
  #isShort = false;
  /** The last answer: the partition holds its jobs until it is healed. */
  #isHealing = false;
  /** The last answer came too late for all its jobs, and the next reserve followed at once. */
  #wasLate = false;
  /** A call ended after the running reserve was sent with its capacity. */
  #hasGained = false;

  constructor(options: ReserverOptions) {
    this.#options = options;
    this.#loop = new Loop({
      step: () => this.#step(),
      onFailure: (error) => {
        this.#wantsNothing();
        this.#failedAt = monotonicNow();
        this.#unheldAt = Math.min(this.#unheldAt, this.#failedAt + notifierLimits.releaseUnheldMs);
        options.failures.failed(options.partition, error);
      },
    });
  }

  get isHungry(): boolean {
    return this.#isHungry;
  }

  get isShort(): boolean {
    return this.#isShort;
  }

  start(): Promise<void> {
    return this.#loop.start();
  }

  drain(deadlineMs: number): Promise<void> {
    return this.#loop.drain(deadlineMs);
  }

  wake(): void {
    this.#loop.wake();
  }

  callEnded(): void {
    this.#hasGained = true;
    if (this.#isHungry) this.#loop.wake();
  }

  /** One round: releases leases that nothing holds, then reserves. Returns how long to sleep, in ms. */
  async #step(): Promise<number> {
    const { capacity, starter, failures, partition } = this.#options;
    if (monotonicNow() >= this.#unheldAt) await this.#releaseUnheld();
    starter.callIsolated();
    if (!this.#options.leadership.leads) {
      failures.forget(partition);
      return this.#options.ctx.config.pollCeiling;
    }
    const kept = monotonicNow() >= this.#keptFirstAt ? capacity.requestKept(partition) : null;
    if (kept !== null) {
      this.#keptFirstAt = monotonicNow() + notifierLimits.keptFirstMs;
      await this.#reserve(kept);
    }
    const grant = capacity.request(partition);
    this.#isShort = grant === null || grant.isShort;
    this.#isHungry = grant === null;
    if (grant === null) return Math.min(capacity.sleepMs(), notifierLimits.grantMs);
    const isMore = await this.#reserve(grant);
    failures.succeeded(partition, this.#isHealing);
    this.#isHungry = isMore || capacity.isFull;
    if (isMore) return 0;
    return this.#isShort ? Math.min(capacity.sleepMs(), notifierLimits.grantMs) : capacity.sleepMs();
  }

  /** Returns whether to reserve again at once. */
  async #reserve(grant: CapacityGrant): Promise<boolean> {
    const { ctx, partition, capacity, starter } = this.#options;
    const { store, owner } = ctx;
    const { slots: max, others, topics } = grant;
    const wasFull = capacity.isFull;
    this.#hasGained = false;
    const leaseFrom = monotonicNow();
    let reserved: Reserved;
    try {
      reserved = await store.jobs.reserve(partition, { owner, max, others, topics });
    } catch (error) {
      // The next round first releases whatever this reserve may have taken.
      if (error instanceof StoreError && error.failure.kind === 'unknown') this.#unheldAt = 0;
      // First: the end of a request wakes few of the partitions that are short.
      this.#wantsNothing();
      capacity.endRequest(grant, []);
      starter.callIsolated();
      throw error;
    }
    this.#isHealing = reserved.isHealing === true;
    const { hasKept, hasBuried, isLate } = starter.start(partition, grant, reserved, leaseFrom);
    // The next reserve has a new grant, and leaves room for other jobs. Once: it may be as slow.
    const isFirstLate = !hasKept && isLate && !this.#wasLate;
    this.#wasLate = isFirstLate;
    // No end of a call announces this capacity.
    if (hasBuried || isFirstLate) return true;
    // Where nothing was kept, the next reserve would bring the same jobs: sleep instead.
    if (reserved.more || isUsedUp(grant, reserved.jobs)) return hasKept;
    return this.#hasGained && (hasKept || (wasFull && reserved.jobs.length === 0));
  }

  /** Capacity that others return does not wake a failing partition before its wait is over: a call that is
   *  rejected at once returns its own, and two such partitions would wake each other without end. */
  #wantsNothing(): void {
    this.#isHungry = false;
    this.#isShort = false;
  }

  /** Releases leases of this process that it does not hold: the answer to a reserve was lost. */
  async #releaseUnheld(): Promise<void> {
    const { ctx, settler, partition } = this.#options;
    const { store, owner, log } = ctx;
    let released = 0;
    // The first call releases nothing, and reads the last number. The later ones release leases up to it: the
    // network may delay one until after the next reserve, whose leases stay.
    for (let upTo = 0; ; ) {
      const found = await store.jobs.releaseUnheld(partition, owner, settler.tokens(), upTo);
      released += found.released;
      if (found.left === 0) break;
      upTo = found.last;
    }
    if (released > 0) log.notice('notifier: leases without a holder were released', { released });
    const now = monotonicNow();
    const isSoon = now - this.#failedAt < notifierLimits.unheldAfterMs;
    this.#unheldAt = now + (isSoon ? notifierLimits.releaseUnheldMs : notifierLimits.releaseUnheldRarelyMs);
  }
}
