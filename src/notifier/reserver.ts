// Asks one partition for jobs, again and again, as long as the notifier has a share of its room for it. Each partition has one of
// these, so that one that does not answer costs the others nothing. Owns its rhythm, and the mending of its lost answers.
// Invariant: a reserve and a releaseUnheld of a partition are never under way together, or the second would hand back what the
// first is bringing.
//
// What wakes it, which else sleeps as long as its step says:
//   a `ready` hint of its partition   a queue has stopped being empty
//   a change of the topic book        a topic may have more room, or be called at all
//   the end of a call                 if the last answer left jobs behind for want of slots or room; else each end would cost a reserve
//   the answer to a settle            likewise, and where it ends a silence (poison-isolation.ts)
//   the end of another's share        if there was too little left for this one
//   nothing of these                  pollCeiling; or sooner, when the tokens of a rate or a recess are awaited

import { type Partition, type Reserved, StoreError } from '../ports/job-store.ts';
import type { RoleContext } from '../process/role.ts';
import { Loop } from '../runtime/loop.ts';
import { isSpent, type Share } from './capacity-grants.ts';
import { notifierLimits } from './limits.ts';
import type { Settler } from './settler.ts';

/** What the notifier decides for all of its partitions. */
export interface ReserverOptions {
  readonly ctx: RoleContext;
  readonly settler: Settler;
  readonly partition: Partition;
  /** null: nothing may be asked for now */
  readonly ask: () => Share | null;
  /** A part of it that goes first; null: there is no need */
  readonly askFirst: () => Share | null;
  /** Ends the share; undefined: without an answer. Answers whether any job was kept. */
  readonly take: (share: Share, reserved: Reserved | undefined, leaseFrom: number) => boolean;
  /** some topic, or everything, runs as many calls as it may */
  readonly isFull: () => boolean;
  /** until something is worth asking for that nothing wakes for */
  readonly sleepMs: () => number;
  /** told after each round; null: it went well */
  readonly onRound: (failure: unknown) => void;
}

export class Reserver {
  readonly #options: ReserverOptions;
  readonly #loop: Loop;
  /** performance.now() from which on a part may go first again */
  #firstAt = 0;
  #unheldAt = performance.now() + notifierLimits.releaseUnheldMs;
  /** performance.now() of the last round that failed: what it reserved may be given out, or be so later */
  #failedAt = Number.NEGATIVE_INFINITY;
  /** the last answer may have left jobs behind for want of slots or room: the end of a call makes some */
  #hungry = false;
  /** room was promised to others that this one could have used */
  #short = false;
  /** a call ended after the reserve that is under way had said how much room there is */
  #roomier = false;

  constructor(options: ReserverOptions) {
    this.#options = options;
    this.#loop = new Loop({
      name: `notifier-${options.partition}`,
      step: () => this.#step(),
      onFailure: (error) => {
        this.#failedAt = performance.now();
        this.#unheldAt = Math.min(this.#unheldAt, this.#failedAt + notifierLimits.releaseUnheldMs);
        options.onRound(error);
      },
    });
  }

  get isHungry(): boolean {
    return this.#hungry;
  }

  get isShort(): boolean {
    return this.#short;
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
    this.#roomier = true;
    if (this.#hungry) this.#loop.wake();
  }

  /** One round: hand back what is not ours to keep, then ask for more. Answers how long to sleep. */
  async #step(): Promise<number> {
    const { ask, askFirst, sleepMs, isFull, onRound } = this.#options;
    if (performance.now() >= this.#unheldAt) await this.#releaseUnheld();
    const first = performance.now() >= this.#firstAt ? askFirst() : null;
    if (first !== null) {
      this.#firstAt = performance.now() + notifierLimits.keptFirstMs;
      await this.#reserve(first);
    }
    const share = ask();
    this.#short = share === null || share.isShort;
    this.#hungry = share === null;
    if (share === null) return Math.min(sleepMs(), notifierLimits.shareMs);
    const again = await this.#reserve(share);
    onRound(null);
    this.#hungry = again || isFull();
    if (again) return 0;
    return this.#short ? Math.min(sleepMs(), notifierLimits.shareMs) : sleepMs();
  }

  /** Answers whether to reserve again at once. */
  async #reserve(share: Share): Promise<boolean> {
    const { ctx, partition, take, isFull } = this.#options;
    const { store, owner } = ctx;
    const { slots: max, others, topics } = share;
    const wasFull = isFull();
    this.#roomier = false;
    const leaseFrom = performance.now();
    let reserved: Reserved;
    try {
      reserved = await store.jobs.reserve(partition, { owner, max, others, topics });
    } catch (error) {
      // Whatever this reserve may have taken is handed back before the next one.
      if (error instanceof StoreError && error.failure.kind === 'unknown') this.#unheldAt = 0;
      take(share, undefined, leaseFrom);
      throw error;
    }
    const kept = take(share, reserved, leaseFrom);
    // Where nothing was kept, the next question would bring the same jobs: let the ceiling pass.
    if (reserved.more || isSpent(share, reserved.jobs)) return kept;
    return this.#roomier && (kept || (wasFull && reserved.jobs.length === 0));
  }

  /** Leases of this process that it does not hold: the answer to a reserve was lost. */
  async #releaseUnheld(): Promise<void> {
    const { ctx, settler, partition } = this.#options;
    const { store, owner, log } = ctx;
    const released = await store.jobs.releaseUnheld(partition, owner, settler.tokens());
    if (released > 0) log.notice('leases without a holder were released', { released });
    const now = performance.now();
    const isSoon = now - this.#failedAt < notifierLimits.unheldAfterMs;
    this.#unheldAt = now + (isSoon ? notifierLimits.releaseUnheldMs : notifierLimits.releaseUnheldRarelyMs);
  }
}
