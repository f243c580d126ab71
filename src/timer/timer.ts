// The timer role: moves jobs that have become due from delayed to ready. Owns when to ask; the store's clock alone decides
// what is due, so a timer that asks too early, twice, or beside another one does no harm.
// Partitions may come and go while it works.
// Invariant: between two questions it sleeps at most config.pollCeiling, so a lost hint or a dead neighbour costs no more.

import { limits } from '../core/limits.ts';
import type { Partition } from '../ports/job-store.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { Loop } from '../runtime/loop.ts';

export function createTimer(ctx: RoleContext): Role {
  return new Timer(ctx);
}

class Timer implements Role {
  readonly name = 'timer';
  readonly url = null;
  readonly #ctx: RoleContext;
  readonly #watches = new Map<Partition, PartitionWatch>();
  readonly #round: Loop;
  #unsubscribe: () => void = () => {};

  constructor(ctx: RoleContext) {
    this.#ctx = ctx;
    this.#round = new Loop({
      name: 'timer-partitions',
      step: () => this.#look(),
      onFailure: (error) => ctx.log.error('the partitions of the store cannot be looked through', error),
    });
  }

  inFlight(): number {
    return 0;
  }

  async start(): Promise<void> {
    this.#unsubscribe = this.#ctx.store.jobs.onHint((hint) => {
      if (hint.kind !== 'due') return;
      this.#watches.get(hint.partition)?.dueIn(hint.waitMs);
    });
    await this.#look();
    await this.#round.start();
  }

  /** Nothing is held: what is not promoted now, another timer promotes. */
  async drain(deadlineMs: number): Promise<void> {
    this.#unsubscribe();
    await this.#round.drain(deadlineMs);
    await Promise.all([...this.#watches.values()].map((watch) => watch.loop.drain(deadlineMs)));
  }

  /** Begins to watch what has become this timer's, and leaves what has gone. */
  async #look(): Promise<number> {
    const mine = partitionsOf(this.#ctx);
    for (const partition of mine) {
      if (this.#watches.has(partition)) continue;
      const watch = new PartitionWatch(this.#ctx, partition);
      this.#watches.set(partition, watch);
      await watch.loop.start();
    }
    for (const [partition, watch] of this.#watches) {
      if (mine.includes(partition)) continue;
      this.#watches.delete(partition);
      await watch.loop.drain(0);
    }
    return limits.loopSleepMsMax;
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
        // It has gone, and the next look leaves it.
        if (!ctx.store.jobs.partitions().includes(partition)) return;
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
    const { moved, waitMs } = await this.#ctx.store.jobs.promote(this.partition, limits.promoteMax);
    if (moved > 0) this.#ctx.metrics.count('dq_jobs_promoted_total', moved);
    if (this.#failing)
      this.#ctx.log.notice('due jobs are being promoted again', { partition: this.partition });
    this.#failing = false;
    const ceilingMs = this.#ctx.config.pollCeiling;
    const sleepMs = waitMs === null ? ceilingMs : Math.min(Math.ceil(waitMs), ceilingMs);
    this.#nextAt = performance.now() + sleepMs;
    return sleepMs;
  }
}
