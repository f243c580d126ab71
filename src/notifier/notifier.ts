// The notifier role: reserves due jobs while it has capacity, has them called and settled. One loop per
// partition of the store, none per job. Owns the partitions, what wakes them, and the drain.
// The parts: capacity.ts (what may be reserved), reserver.ts (one partition), job-starter.ts (from a
// reserved job to a call), deliverer.ts (calls), settler.ts (outcomes).
// Invariant: a partition that does not answer keeps no other waiting.

import { Brokers } from '../broker/brokers.ts';
import { openFilesMax } from '../config/open-files.ts';
import { brokersOf } from '../core/broker.ts';
import { createClock } from '../core/calendar.ts';
import type { CapacityReason } from '../core/capacity-reasons.ts';
import { type EndpointPart, originOf } from '../core/endpoint.ts';
import { limits } from '../core/limits.ts';
import { reaches } from '../core/token.ts';
import type { Partition } from '../ports/job-store.ts';
import { egressPolicyOf } from '../process/egress.ts';
import { answerQuestions } from '../process/master-questions.ts';
import type { Questions, TestCall, TestCallResult } from '../process/questions.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { CallFacts } from '../process/senders.ts';
import { Loop } from '../runtime/loop.ts';
import { ticker } from '../runtime/second-ticker.ts';
import { clearTimeout, monotonicNow, setTimeout } from '../runtime/time.ts';
import { AttemptFeed } from './attempt-feed.ts';
import { Capacity, type Gain } from './capacity.ts';
import { brokerDialing } from './connector.ts';
import { Deliverer } from './deliverer.ts';
import { EndpointCalls } from './endpoint-calls.ts';
import { JobStarter } from './job-starter.ts';
import { Leadership } from './leadership.ts';
import { notifierLimits } from './limits.ts';
import { PartitionFailures } from './partition-failures.ts';
import { PoisonIsolation } from './poison-isolation.ts';
import { type PoolSeams, Pools, TrialPass } from './pools.ts';
import { Reserver } from './reserver.ts';
import { Settler } from './settler.ts';
import { testCall } from './test-call.ts';

export function createNotifier(ctx: RoleContext, seams: PoolSeams = {}): Role {
  return new Notifier(ctx, seams);
}

class Notifier implements Role {
  readonly name = 'notifier';
  readonly url = null;
  readonly #ctx: RoleContext;
  readonly #pools: Pools;
  readonly #brokers: Brokers;
  readonly #isolation = new PoisonIsolation();
  readonly #failures: PartitionFailures;
  readonly #settler: Settler;
  readonly #capacity: Capacity;
  readonly #endpoints: EndpointCalls;
  readonly #feed: AttemptFeed;
  readonly #deliverer: Deliverer;
  readonly #starter: JobStarter;
  readonly #facts: CallFacts;
  readonly #leadership: Leadership;
  readonly #reservers = new Map<Partition, Reserver>();
  /** Follows the partitions of the store. */
  readonly #follower: Loop;
  /** index of the reserver that is woken first */
  #first = 0;
  #unsubscribe: (() => void)[] = [];
  #stopNews: () => void = () => {};
  #isStandby: boolean;
  #draining: Promise<void> | null = null;
  /** monotonicNow() when running calls are cut short */
  #deadlineAt = Number.POSITIVE_INFINITY;
  /** Ends the wait of a drain for its next condition. */
  #onChanged: (() => void) | null = null;

  constructor(ctx: RoleContext, seams: PoolSeams) {
    const { config, log, link, store } = ctx;
    const slots = config['notifier.slots'];
    const brokers = brokersOf(config.brokers);
    this.#ctx = ctx;
    this.#isStandby = ctx.takesOver;
    this.#failures = new PartitionFailures(log);
    const trial = new TrialPass(link);
    this.#pools = new Pools({ egress: egressPolicyOf(config, ctx), trial, slots, seams });
    const { lookups } = this.#pools;
    const toBrokers = egressPolicyOf(config, { ...ctx, isForBrokers: true });
    this.#brokers = new Brokers({
      brokers,
      dialingTo: (port) => brokerDialing(toBrokers, lookups, port),
      name: ctx.title,
    });
    this.#settler = new Settler({
      jobs: store.jobs,
      log,
      counters: ctx.counters,
      metrics: ctx.metrics,
      lateMax: slots,
      keepsHistory: config['history.retention'] > 0,
      onSettled: () => this.#onSettled(),
    });
    this.#capacity = new Capacity({
      topics: ctx.topics,
      brokers,
      log,
      index: ctx.index,
      count: ctx.count,
      slots,
      leaseMarginMs: config['lease.margin'],
      pollCeilingMs: config.pollCeiling,
      openFilesMax: openFilesMax(),
      lookups,
      settler: this.#settler,
      isolation: this.#isolation,
      partitions: () => store.jobs.partitions(),
      nameOf: store.jobs.nameOf?.bind(store.jobs),
      failures: this.#failures,
      onGain: (gain) => this.#onGain(gain),
    });
    this.#endpoints = new EndpointCalls(ctx.owner.incarnation);
    this.#feed = new AttemptFeed(link, ctx.count);
    this.#facts = new CallFacts(link);
    this.#deliverer = new Deliverer({
      ctx,
      capacity: this.#capacity,
      settler: this.#settler,
      pools: this.#pools,
      brokers: this.#brokers,
      endpoints: this.#endpoints,
      feed: this.#feed,
      facts: this.#facts,
      onEnded: () => this.#onEnded(),
    });
    this.#leadership = new Leadership({
      row: ctx.leader,
      owner: ctx.owner,
      log,
      now: () => monotonicNow(),
      onChange: (leads, text) => this.#leaderChanged(leads, text),
    });
    this.#starter = new JobStarter({
      ctx,
      capacity: this.#capacity,
      settler: this.#settler,
      deliverer: this.#deliverer,
      isolation: this.#isolation,
      leadership: this.#leadership,
      failures: this.#failures,
    });
    this.#follower = new Loop({
      step: () => this.#followPartitions(),
      onFailure: (error) => log.error('notifier: cannot follow the partitions of the store', error),
    });
  }

  inFlight(): number {
    return this.#deliverer.running;
  }

  async start(): Promise<void> {
    const { store, topics, link, log } = this.#ctx;
    this.#unsubscribe = [
      store.jobs.onHint((hint) => {
        if (hint.kind === 'ready') this.#reservers.get(hint.partition)?.wake();
      }),
      topics.onChange((names) => {
        this.#capacity.topicsChanged(names);
        this.#endpoints.topicsChanged(names, topics);
        this.#wake(() => true);
      }),
    ];
    answerQuestions(link, log, {
      capacity: ({ topic }) => this.#explain(topic),
      running: ({ topic, id, version }) => this.#deliverer.since({ topic, id }, version),
      endpoints: (asked) => this.#endpointsOf(asked),
      failures: (asked) => this.#endpoints.failures(asked, this.#ctx.clock.now()),
      test_call: (asked) => this.#testCall(asked),
    });
    this.#facts.start();
    this.#stopNews = ticker().each(() => void this.#sendNews());
    // In a reload, too: the older notifiers give the row up only where the next ones do not need it.
    if (!this.#ctx.config.noDeliveries) await this.#leadership.start();
    if (!this.#isStandby) await this.takeOver();
  }

  /** Before it, this notifier knows its topics and reserves no job. */
  async takeOver(): Promise<void> {
    this.#isStandby = false;
    if (this.#ctx.config.noDeliveries) return;
    await this.#followPartitions();
    await this.#follower.start();
  }

  #leaderChanged(leads: boolean, text: string): void {
    const { log, link, metrics, index } = this.#ctx;
    log.notice(`standby: this instance ${text.replace(/^standby: /, 'waits: ')}`);
    if (index === 0) {
      metrics.set('dq_leader', [[leads ? 1 : 0]]);
      link.send({ kind: 'note', note: text });
    }
    if (leads) this.#wake(() => true);
  }

  /** A stop may come while a reload drains, and leave less time for the calls. */
  drain(deadlineMs: number): Promise<void> {
    this.#deadlineAt = Math.min(this.#deadlineAt, monotonicNow() + deadlineMs);
    this.#onChanged?.();
    this.#draining ??= this.#drain(deadlineMs);
    return this.#draining;
  }

  async #drain(deadlineMs: number): Promise<void> {
    const { log } = this.#ctx;
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    // Waits for a running reserve: its jobs are released, not kept until their leases expire.
    const loops = [this.#leadership, this.#follower, ...this.#reservers.values()];
    const stopped = Promise.all(
      loops.map((loop) => loop.drain(Math.max(deadlineMs, notifierLimits.lastFinishMs))),
    );
    this.#starter.drain();
    await stopped;
    await this.#until(
      () => this.#deadlineAt,
      () => this.#deliverer.running === 0,
    );
    const interrupted = this.#deliverer.interruptAll();
    if (interrupted > 0)
      log.notice('notifier: callbacks were cut short and their jobs released', { interrupted });
    // Without calls, and beside the last finishing writes: their jobs stay leased.
    const givenUp = this.#leadership.giveUp();
    const lastFinishAt = monotonicNow() + notifierLimits.lastFinishMs;
    await this.#until(
      () => Math.max(this.#deadlineAt, lastFinishAt),
      () => this.#settler.size === 0,
    );
    await givenUp;
    const unsettled = this.#settler.abandon();
    if (unsettled > 0)
      log.error('notifier: cannot settle jobs before its end; they are delivered again', undefined, {
        unsettled,
      });
    this.#stopNews();
    await this.#sendNews();
    await this.#feed.flush();
    this.#facts.close();
    await Promise.all([this.#pools.close(), this.#brokers.close()]);
  }

  /** Failures in a row outlive this process in dq-upkeep. */
  async #sendNews(): Promise<void> {
    for (const news of this.#endpoints.news(this.#ctx.clock.now()))
      await this.#ctx.link.sent({ kind: 'failing', news });
  }

  /** Resolves when the condition holds or the time has come; checks after every end of a call and every
   *  answer. */
  async #until(atMs: () => number, condition: () => boolean): Promise<void> {
    while (!condition()) {
      const leftMs = atMs() - monotonicNow();
      if (leftMs <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(leftMs, limits.loopSleepMsMax));
        this.#onChanged = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#onChanged = null;
    }
  }

  /** Starts a reserver for each new partition, and ends those of partitions that are gone. */
  async #followPartitions(): Promise<number> {
    const ctx = this.#ctx;
    const partitions = ctx.store.jobs.partitions();
    for (const partition of partitions) {
      if (this.#reservers.has(partition) || this.#draining !== null) continue;
      const reserver = new Reserver({
        ctx,
        partition,
        capacity: this.#capacity,
        starter: this.#starter,
        settler: this.#settler,
        failures: this.#failures,
        leadership: this.#leadership,
      });
      this.#reservers.set(partition, reserver);
      this.#failures.add(partition);
      await reserver.start();
    }
    for (const [partition, reserver] of this.#reservers) {
      if (partitions.includes(partition)) continue;
      this.#reservers.delete(partition);
      this.#failures.remove(partition);
      await reserver.drain(0);
    }
    return ctx.config.pollCeiling;
  }

  /** Why this notifier calls no job of the topic, or few. */
  #explain(topic: string): readonly CapacityReason[] {
    const own: CapacityReason[] = [];
    const { running } = this.#deliverer;
    if (this.#draining !== null)
      own.push({
        code: 'draining',
        message: `this notifier ends; ${running} calls run`,
        remedy: 'wait for its successor, or start dq',
        values: { running },
      });
    else if (this.#ctx.config.noDeliveries)
      own.push({
        code: 'no_deliveries',
        message: 'dq was started with --no-deliveries',
        remedy: 'stop dq, and start it without --no-deliveries',
        values: {},
      });
    else if (this.#isStandby)
      own.push({
        code: 'standby',
        message: 'this notifier waits for the end of a reload',
        remedy: 'wait; dq status shows the generations',
        values: {},
      });
    else if (!this.#leadership.leads)
      own.push({
        code: 'not_leader',
        message: this.#leadership.text,
        remedy: 'look at the instance that leads; it calls the jobs',
        values: {},
      });
    return [...own, ...this.#capacity.explain(topic)];
  }

  #testCall(asked: TestCall): Promise<TestCallResult> {
    const { clock, config, version } = this.#ctx;
    return testCall(asked, {
      pools: this.#pools,
      brokers: this.#brokers,
      now: () => clock.now(),
      version,
      clock: createClock(config.timezone),
      retryUnitMs: config['retry.unit'],
    });
  }

  /** The endpoints of the topics that the caller may see, the most recently called first. */
  #endpointsOf({ topic, topics, origins }: Questions['endpoints']['params']): readonly EndpointPart[] {
    // Of its settings: this notifier may not have called it.
    const known = topic === null ? null : this.#ctx.topics.get(topic);
    const origin = known === null ? null : known === undefined ? '' : originOf(known);
    if (origin === '') return [];
    const wanted = origin === null ? origins : [origin];
    const isWanted = (topic: string) => reaches({ scopes: [], topics }, topic);
    const isProbing = (topic: string) => this.#capacity.isProbing(topic);
    return this.#endpoints.parts(wanted, isWanted, isProbing, this.#ctx.clock.now());
  }

  #onEnded(): void {
    this.#onChanged?.();
    // Wakes hungry reservers only: otherwise each ended call would cost a reserve.
    for (const reserver of this.#inTurn()) reserver.callEnded();
  }

  #onSettled(): void {
    this.#onChanged?.();
    // Wakes all where this ends an isolation: no hint announces the jobs that waited for it.
    const wasIsolated = this.#isolation.isActive;
    if (this.#settler.leased === 0) this.#isolation.settled(monotonicNow());
    this.#starter.callIsolated();
    this.#wake(({ isHungry }) => isHungry || wasIsolated);
  }

  #onGain(gain: Gain): void {
    if (gain === 'slots') this.#onEnded();
    else if (gain === 'topics') this.#wake(() => true);
    // Two, because each is granted half; the ends of their grants wake the next ones.
    else this.#wake(({ isShort }) => isShort, 2);
  }

  #wake(which: (reserver: Reserver) => boolean, most = Number.POSITIVE_INFINITY): void {
    for (const reserver of this.#inTurn().filter(which).slice(0, most)) reserver.wake();
  }

  /** Starts with another one each time, or one partition would get the capacity that others want, too. */
  #inTurn(): readonly Reserver[] {
    const all = [...this.#reservers.values()];
    this.#first = (this.#first + 1) % Math.max(all.length, 1);
    return [...all.slice(this.#first), ...all.slice(0, this.#first)];
  }
}
