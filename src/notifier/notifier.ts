// The notifier role: reserves due jobs as long as it has room, has them called and settled. One loop for the process, none
// per job. Owns the rhythm of reserving and what is handed back; deliverer.ts owns the calls, settler.ts the answers.
// Invariants: a call starts only while its topic's timeout plus limits.leaseReserveMs of its lease are left, counted from
// before the reserve was sent, so no attempt outlives its lease; a reserve and a releaseUnheld are never under way together,
// or the second would hand back what the first is bringing.
//
// What wakes the loop, which sleeps as long as its step says:
//   a `ready` hint of the store     a queue has stopped being empty
//   a change of the topic book      a topic may have more room, or be called at all
//   the end of a call               if the last round left jobs behind for want of slots or room; else each end would cost a reserve
//   the answer to a settle          likewise, and where it ends a silence (below)
//   nothing of these                pollCeiling; or sooner, when the tokens of a rate or a recess are awaited
// A job that may kill its process is called alone (alone.ts). From its choice on there is silence: nothing else is reserved, and
// what is held is finished first. The recess follows: the topics of such jobs rest for a while, and the others have their turn.

import type { LookupFunction } from 'node:net';
import { limits } from '../core/limits.ts';
import { Loop } from '../core/loop.ts';
import { egressPolicyOf } from '../process/egress.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { type Partition, type Reserved, StoreError } from '../store/job-store.ts';
import { Alone } from './alone.ts';
import { Deliverer } from './deliverer.ts';
import type { Lane } from './lane.ts';
import { Pools } from './pools.ts';
import { Rooms } from './room.ts';
import { type Held, Settler } from './settler.ts';

/** For tests. */
export interface NotifierSeams {
  readonly lookup?: LookupFunction;
}

export function createNotifier(ctx: RoleContext, seams: NotifierSeams = {}): Role {
  return new Notifier(ctx, seams);
}

class Notifier implements Role {
  readonly name = 'notifier';
  readonly url = null;
  readonly #ctx: RoleContext;
  readonly #slots: number;
  readonly #pools: Pools;
  readonly #rooms: Rooms;
  readonly #settler: Settler;
  readonly #deliverer: Deliverer;
  readonly #alone = new Alone();
  readonly #loop: Loop;
  #unsubscribe: (() => void)[] = [];
  /** the last round may have left jobs behind for want of slots or room: the end of a call makes some */
  #hungry = false;
  /** a call ended after the reserve that is under way had said how much room there is */
  #roomier = false;
  #unheldAt = 0;
  #firstPartition = 0;
  #failing = false;
  #draining: Promise<void> | null = null;
  /** performance.now() by which running calls are cut short */
  #deadlineAt = Number.POSITIVE_INFINITY;
  #changed: (() => void) | null = null;

  constructor(ctx: RoleContext, seams: NotifierSeams) {
    this.#ctx = ctx;
    this.#slots = ctx.config['notifier.slots'];
    this.#pools = new Pools({ egress: egressPolicyOf(ctx.config, ctx.link), lookup: seams.lookup });
    this.#rooms = new Rooms({
      topics: ctx.topics,
      log: ctx.log,
      index: ctx.index,
      count: ctx.count,
      slots: this.#slots,
      leaseMarginMs: ctx.config['lease.margin'],
    });
    this.#settler = new Settler({
      jobs: ctx.store.jobs,
      log: ctx.log,
      counters: ctx.counters,
      metrics: ctx.metrics,
      lateMax: this.#slots,
      onSettled: () => this.#onSettled(),
    });
    this.#deliverer = new Deliverer({
      ctx,
      pools: this.#pools,
      rooms: this.#rooms,
      settler: this.#settler,
      onEnded: () => this.#onEnded(),
    });
    this.#loop = new Loop({
      name: 'notifier',
      step: () => this.#step(),
      onFailure: (error) => this.#onFailure(error),
    });
  }

  inFlight(): number {
    return this.#deliverer.running;
  }

  async start(): Promise<void> {
    this.#unheldAt = performance.now() + limits.releaseUnheldMs;
    this.#unsubscribe = [
      this.#ctx.store.jobs.onHint((hint) => {
        if (hint.kind === 'ready') this.#loop.wake();
      }),
      this.#ctx.topics.onChange((names) => {
        this.#rooms.topicsChanged(names);
        this.#loop.wake();
      }),
    ];
    if (!this.#ctx.takesOver) await this.takeOver();
  }

  /** Until then it knows its topics and takes no job. */
  async takeOver(): Promise<void> {
    await this.#loop.start();
  }

  /** A stop may come while a reload drains, and give the calls less time. */
  drain(deadlineMs: number): Promise<void> {
    this.#deadlineAt = Math.min(this.#deadlineAt, performance.now() + deadlineMs);
    this.#changed?.();
    this.#draining ??= this.#drain(deadlineMs);
    return this.#draining;
  }

  async #drain(deadlineMs: number): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    // A reserve that is under way is waited for: what it brings is released, not lost for a lease.
    const stopped = this.#loop.drain(Math.max(deadlineMs, limits.lastFinishMs));
    this.#releaseSuspect();
    await stopped;
    await this.#until(
      () => this.#deadlineAt,
      () => this.#deliverer.running === 0,
    );
    const interrupted = this.#deliverer.interruptAll();
    if (interrupted > 0)
      this.#ctx.log.notice('callbacks were cut short and their jobs released', { interrupted });
    const lastFinishAt = performance.now() + limits.lastFinishMs;
    await this.#until(
      () => Math.max(this.#deadlineAt, lastFinishAt),
      () => this.#settler.size === 0,
    );
    const unsettled = this.#settler.abandon();
    if (unsettled > 0)
      this.#ctx.log.error('jobs were left unsettled; they are delivered again', undefined, { unsettled });
    await this.#pools.close();
  }

  /** Resolves when the condition holds or the time has come; asks again after every end and every answer. */
  async #until(atMs: () => number, condition: () => boolean): Promise<void> {
    while (!condition()) {
      const leftMs = atMs() - performance.now();
      if (leftMs <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(leftMs, limits.loopSleepMsMax));
        this.#changed = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#changed = null;
    }
  }

  /** One round: hand back what is not ours to keep, then fill the free slots. Answers how long to sleep. */
  async #step(): Promise<number> {
    if (performance.now() >= this.#unheldAt) await this.#releaseUnheld();
    if (this.#alone.waiting !== null) return this.#callSuspect(this.#alone.waiting);
    if (this.#alone.quiet && this.#held() > 0) return this.#ceilingMs();
    this.#hungry = false;
    const partitions = this.#ctx.store.jobs.partitions();
    this.#firstPartition = (this.#firstPartition + 1) % Math.max(partitions.length, 1);
    let again = false;
    let failed: unknown;
    let worked = partitions.length === 0;
    for (let i = 0; i < partitions.length && this.#free() > 0 && this.#alone.waiting === null; i += 1) {
      const partition = partitions[(this.#firstPartition + i) % partitions.length] ?? 0;
      try {
        again = (await this.#fill(partition)) || again;
        worked = true;
      } catch (error) {
        // Of a store of several parts: one that does not answer holds up no other.
        if (!(error instanceof StoreError)) throw error;
        failed ??= error;
      }
    }
    if (!worked && failed !== undefined) throw failed;
    if (this.#failing) this.#ctx.log.notice('jobs are being reserved again');
    this.#failing = false;
    if (this.#alone.waiting !== null) return 0;
    this.#hungry ||= again || this.#free() <= 0 || this.#rooms.anyFull;
    // Without a free slot the end of a call wakes the loop, whatever tokens gather meanwhile.
    if (this.#free() <= 0) return this.#ceilingMs();
    return again ? 0 : Math.min(this.#ceilingMs(), this.#rooms.tokensInMs(performance.now()));
  }

  /** Free slots; none while as many outcomes wait for a store that does not answer, because their number must stay bounded. */
  #free(): number {
    return this.#settler.unsettled >= this.#slots ? 0 : this.#slots - this.#deliverer.running;
  }

  /** Jobs whose leases would end with this process. */
  #held(): number {
    return this.#settler.size - this.#settler.late;
  }

  #ceilingMs(): number {
    const ceilingMs = this.#ctx.config.pollCeiling;
    const recessMs = this.#alone.recessMs(performance.now());
    return recessMs > 0 ? Math.min(ceilingMs, recessMs) : ceilingMs;
  }

  /** Answers whether to reserve again at once. */
  async #fill(partition: Partition): Promise<boolean> {
    const { store, owner } = this.#ctx;
    const { others, topics } = this.#rooms.rooms(this.#alone.skipped(performance.now()));
    const wasFull = this.#rooms.anyFull;
    this.#roomier = false;
    const leaseFrom = performance.now();
    let reserved: Reserved;
    try {
      reserved = await store.jobs.reserve(partition, {
        owner,
        max: Math.min(this.#free(), this.#alone.quiet ? limits.silenceReserveMax : limits.reserveMax),
        others,
        topics,
      });
    } catch (error) {
      // Whatever this reserve may have taken is handed back before the next one.
      if (error instanceof StoreError && error.failure.kind === 'unknown') this.#unheldAt = 0;
      throw error;
    }
    const kept = this.#take(reserved, leaseFrom);
    // Where nothing was kept, the next question would bring the same jobs: let the ceiling pass.
    if (reserved.more) return kept;
    return this.#roomier && (kept || (wasFull && reserved.jobs.length === 0));
  }

  /** Starts every call in this tick. Answers whether any job was kept. */
  #take(reserved: Reserved, leaseFrom: number): boolean {
    const now = performance.now();
    const batch: { held: Held; lane: Lane }[] = [];
    for (const job of reserved.jobs) {
      const held = { job, leaseFrom, surelyEndsAt: now + job.leaseMs };
      this.#settler.hold(held);
      const lane = this.#callable(held);
      if (lane === null) this.#settler.release(held);
      else batch.push({ held, lane });
    }
    const suspects = batch.filter(({ held }) => Alone.concerns(held)).map(({ held }) => held);
    const chosen = this.#alone.choose(suspects, batch.length > suspects.length, now);
    for (const { held, lane } of batch) {
      if (held === chosen) continue;
      if (chosen !== null || Alone.concerns(held)) this.#settler.release(held);
      else this.#deliverer.call(held, lane);
    }
    return batch.length > 0;
  }

  /** null: this job cannot be called: its topic, what is left of its lease, or a drain forbids it. */
  #callable(held: Held): Lane | null {
    const { topic } = held.job;
    const lane = this.#rooms.laneOf(topic);
    if (lane === undefined) {
      if (this.#rooms.markUnknown(topic)) void this.#lookUp(topic);
      return null;
    }
    const leftMs = held.leaseFrom + held.job.leaseMs - performance.now();
    const enough = leftMs >= lane.topic.timeoutMs + limits.leaseReserveMs;
    return enough && lane.topic.state === 'active' && this.#draining === null ? lane : null;
  }

  /** A topic that is younger than this process's knowledge comes in as a change of the book, and that makes room for it. */
  async #lookUp(topic: string): Promise<void> {
    try {
      if ((await this.#ctx.topics.lookUp(topic)) === undefined)
        this.#ctx.log.error('jobs of an unknown topic are held', undefined, { topic });
    } catch (error) {
      this.#ctx.log.error('a topic cannot be looked up; its jobs are held until it is known', error, {
        topic,
      });
    }
  }

  #callSuspect(held: Held): number {
    const lane = this.#callable(held);
    if (lane === null) this.#releaseSuspect();
    else if (this.#held() === 1) {
      this.#alone.called(performance.now());
      this.#ctx.metrics.count('dq_strikes_alone_total', 1);
      this.#deliverer.call(held, lane);
    }
    return this.#ceilingMs();
  }

  #releaseSuspect(): void {
    const held = this.#alone.waiting;
    if (held === null) return;
    this.#alone.released();
    this.#settler.release(held);
  }

  /** Hands back leases of this process that it does not hold: the answer to a reserve was lost. */
  async #releaseUnheld(): Promise<void> {
    const { store, owner, log } = this.#ctx;
    const failures: unknown[] = [];
    const partitions = store.jobs.partitions();
    for (const partition of partitions) {
      try {
        const released = await store.jobs.releaseUnheld(partition, owner, this.#settler.tokens());
        if (released > 0) log.notice('leases without a holder were released', { released });
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        failures.push(error);
      }
    }
    // Of several that one does not answer; it is asked again with the next round of this.
    if (failures.length > 0 && failures.length === partitions.length) throw failures[0];
    this.#unheldAt = performance.now() + limits.releaseUnheldMs;
  }

  #onEnded(): void {
    this.#changed?.();
    this.#roomier = true;
    // Without need a reserve for every ended call would be paid: the next hint or the ceiling brings the next job.
    if (this.#hungry) this.#loop.wake();
  }

  #onSettled(): void {
    this.#changed?.();
    // Also where this ends the silence: no hint would tell what has waited for that.
    const wasQuiet = this.#alone.quiet;
    if (this.#held() === 0) this.#alone.settled(performance.now());
    if (this.#hungry || wasQuiet) this.#loop.wake();
  }

  #onFailure(error: unknown): void {
    if (!this.#failing) this.#ctx.log.error('jobs cannot be reserved', error);
    this.#failing = true;
  }
}
