// The timer role: moves jobs that have become due from delayed to ready. Owns when to ask; the store's clock alone decides
// what is due, so a timer that asks too early, twice, or beside another one does no harm.
// Invariant: between two questions it sleeps at most config.pollCeiling, so a lost hint or a dead neighbour costs no more.

import { limits } from '../core/limits.ts';
import { Loop } from '../core/loop.ts';
import type { Role, RoleContext } from '../process/role.ts';
import type { Partition } from '../store/job-store.ts';

export function createTimer(ctx: RoleContext): Role {
  return new Timer(ctx);
}

class Timer implements Role {
  readonly name = 'timer';
  readonly url = null;
  readonly #ctx: RoleContext;
  readonly #watches: readonly PartitionWatch[];
  #unsubscribe: () => void = () => {};

  constructor(ctx: RoleContext) {
    this.#ctx = ctx;
    this.#watches = partitionsOf(ctx).map((partition) => new PartitionWatch(ctx, partition));
  }

  inFlight(): number {
    return 0;
  }

  async start(): Promise<void> {
    this.#unsubscribe = this.#ctx.store.jobs.onHint((hint) => {
      if (hint.kind !== 'due') return;
      for (const watch of this.#watches) if (watch.partition === hint.partition) watch.dueIn(hint.waitMs);
    });
    await Promise.all(this.#watches.map((watch) => watch.loop.start()));
  }

  /** Nothing is held: what is not promoted now, another timer promotes. */
  async drain(deadlineMs: number): Promise<void> {
    this.#unsubscribe();
    await Promise.all(this.#watches.map((watch) => watch.loop.drain(deadlineMs)));
  }
}

/** Dealt out by index. A timer beyond the number of partitions stands by on one of them: two that ask are harmless, and a
 *  partition whose only timer has died would wait for its restart. */
function partitionsOf({ store, index, count }: RoleContext): readonly Partition[] {
  const partitions = store.jobs.partitions();
  return partitions.filter((_, i) => i % count === (index % partitions.length) % count);
}

class PartitionWatch {
  readonly partition: Partition;
  readonly loop: Loop;
  readonly #ctx: RoleContext;
  /** performance.now() of the next question */
  #nextAt = 0;
  #failing = false;

  constructor(ctx: RoleContext, partition: Partition) {
    this.#ctx = ctx;
    this.partition = partition;
    this.loop = new Loop({
      name: `timer-${partition}`,
      step: () => this.#step(),
      onFailure: (error) => {
        if (!this.#failing) ctx.log.error('due jobs cannot be promoted', error, { partition });
        this.#failing = true;
      },
    });
  }

  /** A hint; one that says nothing new wakes nobody. */
  dueIn(waitMs: number): void {
    if (performance.now() + waitMs < this.#nextAt) this.loop.wake();
  }

  /** Promotes what is due; answers how long nothing else will be. */
  async #step(): Promise<number> {
    // A hint that comes while the question is under way may be younger than its answer: then ask again.
    this.#nextAt = Number.POSITIVE_INFINITY;
    const { waitMs } = await this.#ctx.store.jobs.promote(this.partition, limits.promoteMax);
    if (this.#failing)
      this.#ctx.log.notice('due jobs are being promoted again', { partition: this.partition });
    this.#failing = false;
    const ceilingMs = this.#ctx.config.pollCeiling;
    const sleepMs = waitMs === null ? ceilingMs : Math.min(Math.ceil(waitMs), ceilingMs);
    this.#nextAt = performance.now() + sleepMs;
    return sleepMs;
  }
}
