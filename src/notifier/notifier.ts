// The notifier role: reserves due jobs as long as it has room, has them called and settled. A loop for each partition of the store,
// none per job. Owns what may be asked for and what is handed back; reserver.ts owns the rhythm of a partition, capacity-grants.ts how the
// room is divided among them, deliverer.ts the calls, settler.ts the answers.
// Invariants: a call starts only while its topic's timeout plus limits.leaseReserveMs of its lease are left, counted from
// before the reserve was sent, so no attempt outlives its lease; a partition that does not answer keeps no other waiting.
//
// A job that may kill its process is called alone (poison-isolation.ts). From its choice on there is silence: nothing else is reserved, and
// what is held, or on its way, is finished first. The recess follows: the topics of such jobs rest for a while, and the others have
// their turn.

import { openFilesMax } from '../config/open-files.ts';
import { limits } from '../core/limits.ts';
import type { Partition, Reserved } from '../ports/job-store.ts';
import { egressPolicyOf } from '../process/egress.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { Loop } from '../runtime/loop.ts';
import { Capacity } from './capacity.ts';
import { CapacityGrants, type Free, type Share } from './capacity-grants.ts';
import { Deliverer } from './deliverer.ts';
import { notifierLimits } from './limits.ts';
import { PoisonIsolation } from './poison-isolation.ts';
import { type PoolSeams, Pools } from './pools.ts';
import { Reserver } from './reserver.ts';
import { type Held, Settler } from './settler.ts';
import type { TopicTarget } from './topic-target.ts';

export function createNotifier(ctx: RoleContext, seams: PoolSeams = {}): Role {
  return new Notifier(ctx, seams);
}

class Notifier implements Role {
  readonly name = 'notifier';
  readonly url = null;
  readonly #ctx: RoleContext;
  readonly #slots: number;
  readonly #pools: Pools;
  readonly #rooms: Capacity;
  readonly #settler: Settler;
  readonly #deliverer: Deliverer;
  readonly #alone = new PoisonIsolation();
  readonly #shares = new CapacityGrants();
  readonly #reservers = new Map<Partition, Reserver>();
  /** begins to ask partitions that have come, and leaves those that have gone */
  readonly #round: Loop;
  /** whose turn it is to be woken first */
  #first = 0;
  #unsubscribe: (() => void)[] = [];
  /** partitions whose last round failed */
  readonly #failing = new Set<Partition>();
  /** said that none works, and not that one does again */
  #saidFailing = false;
  #draining: Promise<void> | null = null;
  /** performance.now() by which running calls are cut short */
  #deadlineAt = Number.POSITIVE_INFINITY;
  #changed: (() => void) | null = null;

  constructor(ctx: RoleContext, seams: PoolSeams) {
    this.#ctx = ctx;
    this.#slots = ctx.config['notifier.slots'];
    this.#pools = new Pools({ egress: egressPolicyOf(ctx.config, ctx.link), slots: this.#slots, seams });
    this.#rooms = new Capacity({
      topics: ctx.topics,
      log: ctx.log,
      index: ctx.index,
      count: ctx.count,
      slots: this.#slots,
      leaseMarginMs: ctx.config['lease.margin'],
      openFilesMax: openFilesMax(),
      isLookupQueued: (hostname) => this.#pools.isLookupQueued(hostname),
      onFreed: () => this.#onEnded(),
      onProbed: () => this.#wake(() => true),
    });
    this.#settler = new Settler({
      jobs: ctx.store.jobs,
      log: ctx.log,
      counters: ctx.counters,
      metrics: ctx.metrics,
      lateMax: this.#slots,
      keepsHistory: ctx.config['history.retention'] > 0,
      onSettled: () => this.#onSettled(),
    });
    this.#deliverer = new Deliverer({
      ctx,
      pools: this.#pools,
      rooms: this.#rooms,
      settler: this.#settler,
      onEnded: () => this.#onEnded(),
    });
    this.#round = new Loop({
      name: 'notifier-partitions',
      step: () => this.#look(),
      onFailure: (error) => ctx.log.error('the partitions of the store cannot be looked through', error),
    });
  }

  inFlight(): number {
    return this.#deliverer.running;
  }

  async start(): Promise<void> {
    this.#unsubscribe = [
      this.#ctx.store.jobs.onHint((hint) => {
        if (hint.kind === 'ready') this.#reservers.get(hint.partition)?.wake();
      }),
      this.#ctx.topics.onChange((names) => {
        this.#rooms.topicsChanged(names);
        this.#wake(() => true);
      }),
    ];
    if (!this.#ctx.takesOver) await this.takeOver();
  }

  /** Until then it knows its topics and takes no job. */
  async takeOver(): Promise<void> {
    await this.#look();
    await this.#round.start();
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
    const loops = [this.#round, ...this.#reservers.values()];
    const stopped = Promise.all(
      loops.map((loop) => loop.drain(Math.max(deadlineMs, notifierLimits.lastFinishMs))),
    );
    this.#releaseSuspect();
    await stopped;
    await this.#until(
      () => this.#deadlineAt,
      () => this.#deliverer.running === 0,
    );
    const interrupted = this.#deliverer.interruptAll();
    if (interrupted > 0)
      this.#ctx.log.notice('callbacks were cut short and their jobs released', { interrupted });
    const lastFinishAt = performance.now() + notifierLimits.lastFinishMs;
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

  async #look(): Promise<number> {
    const partitions = this.#ctx.store.jobs.partitions();
    for (const partition of partitions) {
      if (this.#reservers.has(partition) || this.#draining !== null) continue;
      const reserver = this.#reserverOf(partition);
      this.#reservers.set(partition, reserver);
      await reserver.start();
    }
    for (const [partition, reserver] of this.#reservers) {
      if (partitions.includes(partition)) continue;
      this.#reservers.delete(partition);
      this.#failing.delete(partition);
      await reserver.drain(0);
    }
    return this.#ctx.config.pollCeiling;
  }

  #reserverOf(partition: Partition): Reserver {
    return new Reserver({
      ctx: this.#ctx,
      settler: this.#settler,
      partition,
      ask: () => this.#ask(partition, () => this.#free()),
      askFirst: () => this.#ask(partition, () => this.#rooms.firstOf(this.#skipped())),
      take: (share, reserved, leaseFrom) => this.#taken(partition, share, reserved, leaseFrom),
      isFull: () => this.#rooms.anyFull,
      sleepMs: () => this.#sleepMs(),
      onRound: (failure) => this.#onRound(partition, failure),
    });
  }

  /** What a partition may be asked for; null: nothing now. */
  #ask(partition: Partition, freeNow: () => Free | null): Share | null {
    this.#callSuspect();
    if (this.#alone.waiting !== null) return null;
    if (this.#alone.quiet && (this.#held() > 0 || this.#shares.underWay > 0)) return null;
    // Their number must stay bounded where a store that does not answer goes on giving jobs out.
    if (this.#settler.unsettled(partition) >= this.#slots) return null;
    const most = this.#alone.quiet ? notifierLimits.silenceReserveMax : limits.reserveMax;
    const isDivided = this.#ctx.store.jobs.partitions().length > 1;
    const free = freeNow();
    if (free === null) return null;
    return this.#shares.take(free, most, isDivided, performance.now());
  }

  #free(): Free {
    return this.#rooms.free(this.#skipped());
  }

  #skipped(): ReadonlySet<string> {
    return this.#alone.skipped(performance.now());
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

  #sleepMs(): number {
    return Math.min(this.#ceilingMs(), this.#rooms.roomInMs(performance.now()));
  }

  /** The end of a share, with what it brought. */
  #taken(partition: Partition, share: Share, reserved: Reserved | undefined, leaseFrom: number): boolean {
    const kept = reserved !== undefined && this.#take(partition, share, reserved, leaseFrom);
    this.#shares.end(share);
    this.#callSuspect();
    // Two, because each is told of half; the ends of theirs wake the next ones.
    this.#wake(({ isShort }) => isShort, 2);
    return kept;
  }

  /** Starts every call in this tick. Answers whether any job was kept. */
  #take(partition: Partition, share: Share, reserved: Reserved, leaseFrom: number): boolean {
    const now = performance.now();
    const clockOffset = (reserved.now ?? Date.now()) - now;
    const fitting = this.#shares.fitting(share, reserved.jobs, () => this.#free(), now);
    const batch: { held: Held; lane: TopicTarget }[] = [];
    for (const job of reserved.jobs) {
      const held = { job, partition, leaseFrom, surelyEndsAt: now + job.leaseMs, clockOffset };
      this.#settler.hold(held);
      const lane = fitting?.has(job) === false ? null : this.#callable(held);
      if (lane === null) this.#settler.release(held);
      else batch.push({ held, lane });
    }
    const suspects = batch.filter(({ held }) => PoisonIsolation.concerns(held)).map(({ held }) => held);
    const isTaken = this.#alone.isTaken;
    const chosen = this.#alone.choose(suspects, batch.length > suspects.length, now);
    for (const { held, lane } of batch) {
      if (held === chosen) continue;
      if (isTaken || chosen !== null || PoisonIsolation.concerns(held)) this.#settler.release(held);
      else this.#deliverer.call(held, lane);
    }
    return batch.length > 0 && !isTaken;
  }

  /** null: this job cannot be called: its topic, what is left of its lease, or a drain forbids it. */
  #callable(held: Held): TopicTarget | null {
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

  /** Calls the one that waits, when its time has come; also what is on its way might have to be held. */
  #callSuspect(): void {
    const held = this.#alone.waiting;
    if (held === null) return;
    const lane = this.#callable(held);
    if (lane === null) this.#releaseSuspect();
    else if (this.#held() === 1 && this.#shares.underWay === 0) {
      this.#alone.called(performance.now());
      this.#ctx.metrics.count('dq_strikes_alone_total', 1);
      this.#deliverer.call(held, lane);
    }
  }

  #releaseSuspect(): void {
    const held = this.#alone.waiting;
    if (held === null) return;
    this.#alone.released();
    this.#settler.release(held);
  }

  #onEnded(): void {
    this.#changed?.();
    // Without need a reserve for every ended call would be paid: the next hint or the ceiling brings the next job.
    for (const reserver of this.#inTurn()) reserver.callEnded();
  }

  #onSettled(): void {
    this.#changed?.();
    // Also where this ends the silence: no hint would tell what has waited for that.
    const wasQuiet = this.#alone.quiet;
    if (this.#held() === 0) this.#alone.settled(performance.now());
    this.#callSuspect();
    this.#wake(({ isHungry }) => isHungry || wasQuiet);
  }

  /** Another one is the first each time, or one partition would have what others want, too. */
  #inTurn(): readonly Reserver[] {
    const all = [...this.#reservers.values()];
    this.#first = (this.#first + 1) % Math.max(all.length, 1);
    return [...all.slice(this.#first), ...all.slice(0, this.#first)];
  }

  #wake(which: (reserver: Reserver) => boolean, most = Number.POSITIVE_INFINITY): void {
    for (const reserver of this.#inTurn().filter(which).slice(0, most)) reserver.wake();
  }

  /** Of a store of several parts: that one does not answer is the store's to say. */
  #onRound(partition: Partition, failure: unknown): void {
    const { log } = this.#ctx;
    if (failure === null) this.#failing.delete(partition);
    else if (this.#reservers.has(partition)) this.#failing.add(partition);
    const isFailing = this.#failing.size > 0 && this.#failing.size === this.#reservers.size;
    if (isFailing && !this.#saidFailing) log.error('jobs cannot be reserved', failure);
    if (!isFailing && this.#saidFailing) log.notice('jobs are being reserved again');
    this.#saidFailing = isFailing;
  }
}
