// The Puller hands due jobs to waiting clients. It holds no lease: a lease belongs to its client and outlives
// this process.
// The clients of a topic are served first come, first served. A turn asks each partition for what the waiting
// clients want, until it has nothing for them, some times at most. A turn begins with a new client,
// a `ready` hint, a client whose time is up, or after pollCeiling.
// Invariants: no job leaves for a client whose rights have ended. A job that the store reserved is in an
// answer, its release is sent, or, past its deadline, it is buried. A client gets an empty answer only after
// a turn that began after its arrival and that some partition answered.

import { DqError } from '../../core/errors.ts';
import { deadlineOf, optionsIn } from '../../core/extension.ts';
import { pullOwner, type ReservedJob } from '../../core/job.ts';
import { LayeredCapacities, type TopicCapacity } from '../../core/layered-capacities.ts';
import { limits } from '../../core/limits.ts';
import type { PlainTopic } from '../../core/topic/topic.ts';
import type { Partition } from '../../ports/job-store.ts';
import { type StoreFailure, storeFailed } from '../../ports/store-error.ts';
import type { RoleContext } from '../../process/role.ts';
import { FailureLog } from '../../runtime/failure-log.ts';
import { Loop } from '../../runtime/loop.ts';
import type { Service } from '../../runtime/service.ts';
import { clearTimeout, monotonicNow, setTimeout, sleep, type Timer, turn } from '../../runtime/time.ts';
import { orAfter } from '../../runtime/timeout.ts';
import { pullLimits } from './limits.ts';
import { leaseOf, type PulledLeases } from './pulled-leases.ts';

export interface PullRequest {
  /** pull topics; others bring nothing */
  readonly topics: readonly string[];
  /** 1 … contractLimits.pullJobsMax */
  readonly max: number;
  /** 0 … contractLimits.pullWaitMsMax */
  readonly waitMs: number;
  /** for jobs without a lease of their own; null: that of the topic */
  readonly leaseMs: number | null;
  /** its token; without one: its address */
  readonly client: string;
  /** Checks the rights of the client again, which may have ended while it waited. null: they still hold. */
  readonly refusal: () => DqError | null;
}

export interface PulledJob {
  readonly job: ReservedJob;
  /** epoch ms by the storage clock */
  readonly pulledAt: number;
}

/** A request under way. */
interface Pull {
  /** Rejects with unavailable: too many wait, or no store answers. */
  readonly jobs: Promise<readonly PulledJob[]>;
  /** The client has left, before `jobs` is settled: what it would get goes to others, or is released. */
  readonly cancel: () => void;
}

interface Waiter extends PullRequest {
  readonly found: PulledJob[];
  /** the last turn that began before it arrived */
  readonly since: number;
  readonly timer: Timer;
  isDue: boolean;
  hasLeft: boolean;
  resolve: (jobs: readonly PulledJob[]) => void;
  reject: (error: DqError) => void;
}

/** What the waiting clients want of the store. */
interface Wanted {
  readonly max: number;
  readonly topics: ReadonlyMap<string, TopicCapacity>;
  /** some clients of a topic want another lease than its first client */
  readonly isPartial: boolean;
}

/** What a partition had for them. */
interface Given {
  /** the partition has further jobs */
  readonly isMore: boolean;
  /** the next reserve can bring a job for another client */
  readonly asksAgain: boolean;
}

type Context = Pick<RoleContext, 'store' | 'topics' | 'clock' | 'log' | 'metrics' | 'config'>;

export class Puller implements Service {
  readonly #ctx: Context;
  readonly #leases: Pick<PulledLeases, 'expire'>;
  readonly #loop: Loop;
  readonly #failures: FailureLog;
  /** in the order of arrival */
  readonly #waiters = new Set<Waiter>();
  readonly #ofTopic = new Map<string, Set<Waiter>>();
  /** requests that wait, by client */
  readonly #ofClient = new Map<string, number>();
  /** jobs that the waiting clients can still get, in all */
  #room = 0;
  /** by topic with too many leases: monotonicNow() of its last log line */
  readonly #loggedAt = new Map<string, number>();
  /** partitions with a reserve that is not answered */
  readonly #asked = new Set<Partition>();
  /** reserves and releases under way */
  readonly #running = new Set<Promise<unknown>>();
  /** undefined: to be read from the waiting clients */
  #wants: Wanted | null | undefined;
  #turn = 0;
  /** The last turn that some partition answered. */
  #answeredTurn = 0;
  #isDraining = false;
  #unsubscribe: (() => void) | null = null;

  constructor(ctx: Context, leases: Pick<PulledLeases, 'expire'>) {
    this.#ctx = ctx;
    this.#leases = leases;
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
    const full = this.#whyFull(request);
    if (full !== null) throw new DqError('unavailable', `pull: ${full}`);
    this.#begin();
    let waiter: Waiter | null = null;
    const jobs = new Promise<readonly PulledJob[]>((resolve, reject) => {
      const timer = setTimeout(() => this.#timeIsUp(own), request.waitMs);
      const own: Waiter = {
        ...request,
        found: [],
        since: this.#turn,
        timer,
        isDue: request.waitMs === 0,
        hasLeft: false,
        resolve,
        reject,
      };
      waiter = own;
      this.#add(own);
    });
    this.#loop.wake();
    return { jobs, cancel: () => waiter !== null && this.#cancel(waiter) };
  }

  /** Why no place is free for this request; null: there is one. A client takes places while it has fewer than
   *  are left, a topic while it has fewer than three times as many: others find places at any time, also on
   *  the topic of a client that takes all it can. */
  #whyFull({ client, topics }: PullRequest): string | null {
    const left = pullLimits.waitersMax - this.#waiters.size;
    if (left <= 0) return `${pullLimits.waitersMax} requests wait already; try again`;
    const own = this.#ofClient.get(client) ?? 0;
    if (own >= left) return `${own} requests of this client wait already, its share; try again later`;
    const full = topics.find((topic) => (this.#ofTopic.get(topic)?.size ?? 0) >= 3 * left);
    return full === undefined ? null : `the topic ${full} has its share of waiting requests; try again later`;
  }

  /** Answers all with what they have, at once, and new ones with nothing. What the store still reserves is
   *  released. */
  async drain(deadlineMs: number): Promise<void> {
    this.#isDraining = true;
    for (const waiter of this.#waiters) this.#answer(waiter);
    this.#unsubscribe?.();
    await Promise.all([this.#loop.drain(deadlineMs), orAfter(deadlineMs, this.#untilIdle(), undefined)]);
  }

  async #untilIdle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #run<T>(work: Promise<T>): Promise<T> {
    this.#running.add(work);
    return work.finally(() => this.#running.delete(work));
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
    this.#wants = undefined;
    this.#waiters.add(waiter);
    this.#room += waiter.max;
    this.#ofClient.set(waiter.client, (this.#ofClient.get(waiter.client) ?? 0) + 1);
    this.#ctx.metrics.set('dq_pull_waiting', [[this.#waiters.size]]);
    for (const topic of waiter.topics) {
      const all = this.#ofTopic.get(topic) ?? new Set();
      this.#ofTopic.set(topic, all.add(waiter));
    }
  }

  #remove(waiter: Waiter): void {
    clearTimeout(waiter.timer);
    this.#wants = undefined;
    this.#waiters.delete(waiter);
    this.#room -= waiter.max - waiter.found.length;
    const own = (this.#ofClient.get(waiter.client) ?? 1) - 1;
    if (own > 0) this.#ofClient.set(waiter.client, own);
    else this.#ofClient.delete(waiter.client);
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
    if (waiter.found.length > 0) void this.#run(this.#deliver(waiter));
    else this.#resolve(waiter, [], 'empty');
  }

  #resolve(waiter: Waiter, jobs: readonly PulledJob[], result: 'jobs' | 'empty' | 'gone'): void {
    this.#ctx.metrics.count('dq_pulls_total', 1, result);
    waiter.resolve(jobs);
  }

  /** An end of the connection that has arrived by now is read first: this turn of the event loop may have
   *  read its sockets, the next one reads them. Never rejects. */
  async #deliver(waiter: Waiter): Promise<void> {
    await turn();
    await turn();
    const refusal = waiter.hasLeft ? null : waiter.refusal();
    if (waiter.hasLeft) this.#resolve(waiter, [], 'gone');
    else if (refusal !== null) waiter.reject(refusal);
    else return this.#resolve(waiter, waiter.found, 'jobs');
    this.release(waiter.found);
  }

  #cancel(waiter: Waiter): void {
    waiter.hasLeft = true;
    if (!this.#waiters.has(waiter)) return;
    this.#remove(waiter);
    this.#resolve(waiter, [], 'gone');
    this.release(waiter.found);
  }

  async #step(): Promise<number> {
    if (this.#waiters.size === 0) return limits.loopSleepMsMax;
    this.#turn += 1;
    // Topics may have changed since the last turn.
    this.#wants = undefined;
    const turn = this.#turn;
    let isMore = false;
    const partitions = this.#ctx.store.jobs.partitions();
    const waitMs = partitions.length > 1 ? pullLimits.partitionMs : Number.POSITIVE_INFINITY;
    for (let n = 0; n < partitions.length; n++) {
      const partition = partitions[(turn + n) % partitions.length] as Partition;
      isMore = (await this.#ask(partition, turn, waitMs)) || isMore;
    }
    this.#endTurn(turn);
    return isMore && this.#waiters.size > 0 ? 0 : this.#ctx.config['pollCeiling'];
  }

  /** Returns whether the partition has more jobs, as far as it answers in time. */
  async #ask(partition: Partition, turn: number, waitMs: number): Promise<boolean> {
    for (let asked = 0; asked < pullLimits.asksMax; asked++) {
      if (this.#wants === undefined) this.#wants = this.#wanted();
      const wanted = this.#wants;
      if (wanted === null || this.#isDraining || this.#asked.has(partition)) return false;
      const reserving = this.#run(this.#reserve(partition, wanted, turn));
      const given =
        waitMs === Number.POSITIVE_INFINITY ? await reserving : await orAfter(waitMs, reserving, nothing);
      if (!given.asksAgain) return given.isMore;
    }
    return true;
  }

  /** Of each topic with the lease of its first client, since a reserve has one lease for a topic. A topic is
   *  asked for no more than a reserve can bring. null: nothing. */
  #wanted(): Wanted | null {
    const topics = new Map<string, TopicCapacity>();
    const max = Math.min(this.#room, limits.reserveMax);
    let isPartial = false;
    for (const [name, waiters] of this.#ofTopic) {
      const topic = this.#ctx.topics.get(name);
      if (!isPulled(topic)) continue;
      let leaseMs: number | null = null;
      let room = 0;
      for (const waiter of waiters) {
        if (room >= max) break;
        const free = waiter.max - waiter.found.length;
        if (free === 0) continue;
        const own = waiter.leaseMs ?? topic.leaseMs;
        leaseMs ??= own;
        if (own === leaseMs) room += free;
        else isPartial = true;
      }
      if (leaseMs !== null) topics.set(name, { room: Math.min(room, max), leaseMs });
    }
    return topics.size === 0 ? null : { max, topics, isPartial };
  }

  /** Never rejects. */
  async #reserve(partition: Partition, wanted: Wanted, turn: number): Promise<Given> {
    const others: TopicCapacity = { room: 0, leaseMs: limits.pullLeaseMsMin };
    const { max, topics, isPartial } = wanted;
    this.#asked.add(partition);
    try {
      const reserved = await this.#ctx.store.jobs.reserve(partition, {
        owner: pullOwner,
        max,
        others,
        topics: LayeredCapacities.of(topics),
      });
      this.#failures.succeeded();
      this.#answeredTurn = Math.max(this.#answeredTurn, turn);
      this.#logLeaseLimit(reserved.atLeaseLimit ?? []);
      const pulledAt = reserved.now ?? this.#ctx.clock.now();
      const live = reserved.jobs.filter((job) => pulledAt <= deadlineOf(optionsIn(job.extension), job));
      const expired = reserved.jobs.filter((job) => !live.includes(job));
      if (expired.length > 0) void this.#run(this.#leases.expire(expired));
      const surplus = live.map((job) => ({ job, pulledAt })).filter((pulled) => !this.#give(pulled, topics));
      this.release(surplus);
      // A client of several topics got one job and left the others, another lease is next, or jobs had
      // expired.
      const isLeft = isPartial || surplus.length > 0 || expired.length > 0;
      const asksAgain = reserved.jobs.length > surplus.length && isLeft;
      return { isMore: reserved.more, asksAgain };
    } catch (error) {
      this.#failures.failed(error);
      return nothing;
    } finally {
      this.#asked.delete(partition);
    }
  }

  /** Otherwise a client would only see that its topic has no jobs. */
  #logLeaseLimit(topics: readonly string[]): void {
    const now = monotonicNow();
    for (const [topic, at] of this.#loggedAt)
      if (now - at >= pullLimits.leaseLimitLogMs) this.#loggedAt.delete(topic);
    for (const topic of topics) {
      if (this.#loggedAt.has(topic)) continue;
      this.#loggedAt.set(topic, now);
      this.#ctx.log.error('pull: a topic has too many leases; its jobs wait for an ack or nack', undefined, {
        topic,
      });
    }
  }

  /** False: no client waits for it. */
  #give(pulled: PulledJob, requested: ReadonlyMap<string, TopicCapacity>): boolean {
    const { topic } = pulled.job;
    const leaseMs = requested.get(topic)?.leaseMs;
    const topicLeaseMs = this.#ctx.topics.get(topic)?.leaseMs;
    for (const waiter of this.#ofTopic.get(topic) ?? []) {
      if (waiter.found.length >= waiter.max || (waiter.leaseMs ?? topicLeaseMs) !== leaseMs) continue;
      this.#wants = undefined;
      waiter.found.push(pulled);
      this.#room -= 1;
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
      const failure = this.#ctx.store.jobs.whyUnknown?.() ?? noAnswer;
      waiter.reject(storeFailed('unavailable', 'pull: the store does not answer', failure, 'try again'));
    }
  }

  #wantsNothing(waiter: Waiter): boolean {
    return waiter.topics.every((name) => !isPulled(this.#ctx.topics.get(name)));
  }

  /** Releases the jobs when their answer cannot be made. Rejects as `answerOf` does. */
  async answer<T>(
    pulled: readonly PulledJob[],
    answerOf: (pulled: readonly PulledJob[]) => T | Promise<T>,
  ): Promise<T> {
    try {
      return await answerOf(pulled);
    } catch (error) {
      this.release(pulled);
      throw error;
    }
  }

  /** For jobs of an answer that cannot be sent. */
  release(pulled: readonly PulledJob[]): void {
    if (pulled.length > 0) void this.#run(this.#release(pulled));
  }

  /** Never rejects. */
  async #release(pulled: readonly PulledJob[]): Promise<void> {
    let left = pulled.map(({ job }) => leaseOf(job));
    for (let tries = 0; left.length > 0 && tries < pullLimits.releaseTries; tries++) {
      if (tries > 0) await sleep(pullLimits.releaseAgainMs);
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

const nothing: Given = { isMore: false, asksAgain: false };
const noAnswer: StoreFailure = { kind: 'not_stored', code: 'no_answer' };
const isPulled = <T extends Pick<PlainTopic, 'state' | 'delivery'>>(topic: T | undefined): topic is T =>
  topic?.state === 'active' && topic.delivery === 'pull';
