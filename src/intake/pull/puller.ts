// The Puller hands due jobs to waiting clients. It holds no lease: a lease belongs to its client and outlives
// this process.
// Clients are served first come, first served. A turn asks each partition once for what the waiting clients
// want. A turn begins with a new client, a `ready` hint, a client whose time is up, or after pollCeiling.
// Invariants: a job that the store reserved is in an answer, or its release is sent. A client gets an empty
// answer only after a turn that began after its arrival and that some partition answered.

import { DqError } from '../../core/errors.ts';
import { pullOwner, type ReservedJob } from '../../core/job.ts';
import { LayeredCapacities, type TopicCapacity } from '../../core/layered-capacities.ts';
import { limits } from '../../core/limits.ts';
import type { Partition } from '../../ports/job-store.ts';
import type { RoleContext } from '../../process/role.ts';
import { FailureLog } from '../../runtime/failure-log.ts';
import { Loop } from '../../runtime/loop.ts';
import type { Service } from '../../runtime/service.ts';
import { orAfter } from '../../runtime/timeout.ts';
import { pullLimits } from './limits.ts';

export interface PullRequest {
  /** pull topics; others bring nothing */
  readonly topics: readonly string[];
  /** 1 … pullLimits.jobsMax */
  readonly max: number;
  /** 0 … pullLimits.waitMsMax */
  readonly waitMs: number;
  /** for jobs without a lease of their own; null: that of the topic */
  readonly leaseMs: number | null;
}

export interface PulledJob {
  readonly job: ReservedJob;
  /** epoch ms by the storage clock */
  readonly pulledAt: number;
}

/** A request under way. */
export interface Pull {
  /** Rejects with unavailable: too many wait, or no store answers. */
  readonly jobs: Promise<readonly PulledJob[]>;
  /** The client has left: what it would get goes to others, or is released. */
  readonly cancel: () => void;
}

interface Waiter extends PullRequest {
  readonly found: PulledJob[];
  /** the last turn that began before it arrived */
  readonly since: number;
  readonly timer: NodeJS.Timeout;
  isDue: boolean;
  resolve: (jobs: readonly PulledJob[]) => void;
  reject: (error: DqError) => void;
}

type Context = Pick<RoleContext, 'store' | 'topics' | 'clock' | 'log' | 'metrics' | 'config'>;

export class Puller implements Service {
  readonly #ctx: Context;
  readonly #loop: Loop;
  readonly #failures: FailureLog;
  /** in the order of arrival */
  readonly #waiters = new Set<Waiter>();
  readonly #ofTopic = new Map<string, Set<Waiter>>();
  /** partitions with a reserve that is not answered */
  readonly #asked = new Set<Partition>();
  #turn = 0;
  /** The last turn that some partition answered. */
  #answeredTurn = 0;
  #isDraining = false;
  #unsubscribe: (() => void) | null = null;

  constructor(ctx: Context) {
    this.#ctx = ctx;
    this.#failures = new FailureLog(ctx.log, {
      failure: 'pull: cannot reserve jobs; clients wait',
      end: 'pull: jobs are reserved again',
    });
    this.#loop = new Loop({ step: () => this.#step(), onFailure: (error) => this.#failures.failed(error) });
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#waiters.size;
  }

  async start(): Promise<void> {}

  pull(request: PullRequest): Pull {
    if (this.#isDraining) return { jobs: Promise.resolve([]), cancel: () => {} };
    if (this.#waiters.size >= pullLimits.waitersMax)
      throw new DqError('unavailable', `pull: ${pullLimits.waitersMax} requests wait already; try again`);
    this.#begin();
    let waiter: Waiter | null = null;
    const jobs = new Promise<readonly PulledJob[]>((resolve, reject) => {
      const timer = setTimeout(() => this.#timeIsUp(own), request.waitMs);
      const own: Waiter = {
        ...{ ...request, found: [], since: this.#turn, timer, isDue: request.waitMs === 0, resolve, reject },
      };
      waiter = own;
      this.#add(own);
    });
    this.#loop.wake();
    return { jobs, cancel: () => waiter !== null && this.#cancel(waiter) };
  }

  /** Answers all with what they have, and new ones with nothing. */
  async drain(deadlineMs: number): Promise<void> {
    this.#isDraining = true;
    for (const waiter of this.#waiters) this.#answer(waiter);
    this.#unsubscribe?.();
    await this.#loop.drain(deadlineMs);
  }

  /** From the first request on: a server without pullers needs no hints. */
  #begin(): void {
    if (this.#unsubscribe !== null) return;
    this.#unsubscribe = this.#ctx.store.jobs.onHint((hint) => {
      if (hint.kind === 'ready' && this.#waiters.size > 0) this.#loop.wake();
    });
    void this.#loop.start();
  }

  #add(waiter: Waiter): void {
    this.#waiters.add(waiter);
    this.#ctx.metrics.set('dq_pull_waiting', [[this.#waiters.size]]);
    for (const topic of waiter.topics) {
      const all = this.#ofTopic.get(topic) ?? new Set();
      this.#ofTopic.set(topic, all.add(waiter));
    }
  }

  #remove(waiter: Waiter): void {
    clearTimeout(waiter.timer);
    this.#waiters.delete(waiter);
    this.#ctx.metrics.set('dq_pull_waiting', [[this.#waiters.size]]);
    for (const topic of waiter.topics) {
      const all = this.#ofTopic.get(topic);
      all?.delete(waiter);
      if (all?.size === 0) this.#ofTopic.delete(topic);
    }
  }

  #timeIsUp(waiter: Waiter): void {
    waiter.isDue = true;
    if (waiter.found.length > 0) this.#answer(waiter);
    else this.#loop.wake();
  }

  #answer(waiter: Waiter): void {
    this.#remove(waiter);
    this.#ctx.metrics.count('dq_pulls_total', 1, waiter.found.length > 0 ? 'jobs' : 'empty');
    waiter.resolve(waiter.found);
  }

  #cancel(waiter: Waiter): void {
    if (!this.#waiters.has(waiter)) return;
    this.#remove(waiter);
    this.#ctx.metrics.count('dq_pulls_total', 1, 'gone');
    waiter.resolve([]);
    void this.#release(waiter.found);
  }

  async #step(): Promise<number> {
    if (this.#waiters.size === 0) return limits.loopSleepMsMax;
    this.#turn += 1;
    const turn = this.#turn;
    let isMore = false;
    const partitions = this.#ctx.store.jobs.partitions();
    const waitMs = partitions.length > 1 ? pullLimits.partitionMs : Number.POSITIVE_INFINITY;
    for (let n = 0; n < partitions.length; n++) {
      const partition = partitions[(turn + n) % partitions.length] as Partition;
      if (this.#asked.has(partition)) continue;
      const wanted = this.#wanted();
      if (wanted === null) break;
      const reserving = this.#reserve(partition, wanted, turn);
      isMore =
        (waitMs === Number.POSITIVE_INFINITY ? await reserving : await orAfter(waitMs, reserving, false)) ||
        isMore;
    }
    this.#endTurn(turn);
    return isMore && this.#waiters.size > 0 ? 0 : this.#ctx.config['pollCeiling'];
  }

  /** What the waiting clients want of each topic: with the lease of the first of them, since a reserve has
   *  one lease for a topic. The others follow in a later turn. null: nothing. */
  #wanted(): { readonly max: number; readonly topics: Map<string, TopicCapacity> } | null {
    const topics = new Map<string, TopicCapacity>();
    let max = 0;
    for (const waiter of this.#waiters) {
      if (max >= limits.reserveMax) break;
      const room = waiter.max - waiter.found.length;
      let isOffered = false;
      for (const name of room > 0 ? waiter.topics : []) {
        const topic = this.#ctx.topics.get(name);
        if (topic === undefined || topic.state !== 'active' || topic.delivery !== 'pull') continue;
        const leaseMs = waiter.leaseMs ?? topic.leaseMs;
        const capacity = topics.get(name);
        if (capacity !== undefined && capacity.leaseMs !== leaseMs) continue;
        topics.set(name, { room: (capacity?.room ?? 0) + room, leaseMs });
        isOffered = true;
      }
      if (isOffered) max += room;
    }
    return topics.size === 0 ? null : { max: Math.min(max, limits.reserveMax), topics };
  }

  /** Never rejects. Returns whether the partition has more jobs for the request. */
  async #reserve(
    partition: Partition,
    { max, topics }: { readonly max: number; readonly topics: ReadonlyMap<string, TopicCapacity> },
    turn: number,
  ): Promise<boolean> {
    const others: TopicCapacity = { room: 0, leaseMs: limits.pullLeaseMsMin };
    this.#asked.add(partition);
    try {
      const reserved = await this.#ctx.store.jobs.reserve(partition, {
        ...{ owner: pullOwner, max, others, topics: LayeredCapacities.of(topics) },
      });
      this.#failures.succeeded();
      this.#answeredTurn = Math.max(this.#answeredTurn, turn);
      const pulledAt = reserved.now ?? this.#ctx.clock.now();
      const surplus = reserved.jobs
        .map((job) => ({ job, pulledAt }))
        .filter((pulled) => !this.#give(pulled, topics));
      void this.#release(surplus);
      return reserved.more;
    } catch (error) {
      this.#failures.failed(error);
      return false;
    } finally {
      this.#asked.delete(partition);
    }
  }

  /** False: no client waits for it. */
  #give(pulled: PulledJob, requested: ReadonlyMap<string, TopicCapacity>): boolean {
    const { topic } = pulled.job;
    const leaseMs = requested.get(topic)?.leaseMs;
    const topicLeaseMs = this.#ctx.topics.get(topic)?.leaseMs;
    for (const waiter of this.#ofTopic.get(topic) ?? []) {
      if (waiter.found.length >= waiter.max || (waiter.leaseMs ?? topicLeaseMs) !== leaseMs) continue;
      waiter.found.push(pulled);
      if (waiter.found.length >= waiter.max) this.#answer(waiter);
      return true;
    }
    return false;
  }

  #endTurn(turn: number): void {
    for (const waiter of this.#waiters) {
      if (waiter.found.length > 0) this.#answer(waiter);
      else if (waiter.isDue && waiter.since < turn) this.#endEmpty(waiter);
    }
  }

  /** Without an answer of the store an empty reply would say that there are no jobs. */
  #endEmpty(waiter: Waiter): void {
    const isKnown = this.#answeredTurn > waiter.since || this.#wantsNothing(waiter);
    if (isKnown) this.#answer(waiter);
    else {
      this.#remove(waiter);
      waiter.reject(new DqError('unavailable', 'pull: the store does not answer; try again'));
    }
  }

  #wantsNothing(waiter: Waiter): boolean {
    return waiter.topics.every((name) => {
      const topic = this.#ctx.topics.get(name);
      return topic === undefined || topic.state !== 'active' || topic.delivery !== 'pull';
    });
  }

  /** For jobs of an answer that cannot be sent. */
  release(pulled: readonly PulledJob[]): void {
    void this.#release(pulled);
  }

  /** Never rejects. */
  async #release(pulled: readonly PulledJob[]): Promise<void> {
    let left = pulled.map(({ job: { topic, id, version, token } }) => ({ topic, id, version, token }));
    for (let tries = 0; left.length > 0 && tries < pullLimits.releaseTries; tries++) {
      if (tries > 0) await new Promise((resolve) => setTimeout(resolve, pullLimits.releaseAgainMs).unref());
      const outcomes = await this.#ctx.store.jobs.release(left);
      const { length: before } = left;
      left = left.filter((_, n) => ['not_stored', 'unknown'].includes(outcomes[n]?.kind ?? 'unknown'));
      if (before > left.length) this.#ctx.metrics.count('dq_jobs_released_total', before - left.length);
    }
    if (left.length > 0)
      this.#ctx.log.error('pull: jobs were not released; their leases expire', undefined, {
        jobs: left.length,
      });
  }
}
