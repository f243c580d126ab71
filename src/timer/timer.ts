// Runs the timer role: promotes due jobs from delayed to ready. Owns when to call promote; the store's clock
// alone decides what is due, so an early or repeated call, or a second timer, does no harm. Partitions may
// change while it runs. Invariant: it sleeps at most config.pollCeiling between calls: a lost hint delays
// jobs no longer.

import { limits } from '../core/limits.ts';
import type { Partition } from '../ports/job-store.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { FailureLog } from '../runtime/failure-log.ts';
import { Loop } from '../runtime/loop.ts';
import { monotonicNow } from '../runtime/time.ts';

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
      step: () => this.#refresh(),
      onFailure: (error) => ctx.log.error('timer: cannot read the partitions', error),
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
    await this.#refresh();
    await this.#round.start();
  }

  /** Leaves unpromoted jobs to the next timer. */
  async drain(deadlineMs: number): Promise<void> {
    this.#unsubscribe();
    await this.#round.drain(deadlineMs);
    await Promise.all([...this.#watches.values()].map((watch) => watch.loop.drain(deadlineMs)));
  }

  /** Starts a watch per new partition of this timer, and stops those of removed ones. */
  async #refresh(): Promise<number> {
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

/** Assigned by index. A timer beyond the number of partitions shares one as a standby: two timers are
 *  harmless, and a partition whose only timer died would wait for its restart. */
function partitionsOf({ store, index, count }: RoleContext): readonly Partition[] {
  const partitions = store.jobs.partitions();
  return partitions.filter((_, i) => i % count === (index % partitions.length) % count);
}

class PartitionWatch {
  readonly partition: Partition;
  readonly loop: Loop;
  readonly #ctx: RoleContext;
  /** monotonicNow() of the next promote */
  #nextAt = 0;
  readonly #failures: FailureLog;

  constructor(ctx: RoleContext, partition: Partition) {
    this.#ctx = ctx;
    this.partition = partition;
    this.#failures = new FailureLog(
      ctx.log,
      { failure: 'timer: cannot promote due jobs', end: 'timer: promoting again' },
      { partition },
    );
    this.loop = new Loop({
      step: () => this.#step(),
      onFailure: (error) => {
        // The partition was removed; the next check stops this watch.
        if (!ctx.store.jobs.partitions().includes(partition)) return;
        this.#failures.failed(error);
      },
    });
  }

  /** A hint; ignored unless it is earlier than the next promote. */
  dueIn(waitMs: number): void {
    if (monotonicNow() + waitMs < this.#nextAt) this.loop.wake();
  }

  /** Promotes due jobs; returns ms until the next promote. */
  async #step(): Promise<number> {
    // A hint during the call may be newer than the answer: then promote again at once.
    this.#nextAt = Number.POSITIVE_INFINITY;
    const { moved, waitMs } = await this.#ctx.store.jobs.promote(this.partition, limits.promoteMax);
    if (moved > 0) this.#ctx.metrics.count('dq_jobs_promoted_total', moved);
    this.#failures.succeeded();
    const ceilingMs = this.#ctx.config.pollCeiling;
    const sleepMs = waitMs === null ? ceilingMs : Math.min(Math.ceil(waitMs), ceilingMs);
    this.#nextAt = monotonicNow() + sleepMs;
    return sleepMs;
  }
}
