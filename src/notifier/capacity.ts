// Answers how many jobs of which topic this notifier may reserve now, and why a topic gets none. Reserves
// no job itself.
// The parts: topic-rates.ts (this notifier's part of a topic's limits, and its rate), topic-targets.ts,
// call-budget.ts (slots), probes.ts (restricted topics), capacity-plan.ts (capacity at
// rest), capacity-grants.ts (several partitions), poison-isolation.ts, and explain-capacity.ts.
// Invariants: the notifiers together never exceed a topic's concurrency or rate. One topic holds at most
// half of the slots. Hanging topics cannot stop the others: a hanging call leaves its slot after
// notifierLimits.slowCallMs, its topic gets probes only, and the last slots are kept for topics in good
// standing that run no call.

import type { Broker } from '../core/broker.ts';
import type { CapacityReason } from '../core/capacity-reasons.ts';
import type { AttemptReason, ReservedJob } from '../core/job.ts';
import { isSameCapacity, LayeredCapacities, type TopicCapacity } from '../core/layered-capacities.ts';
import { limits } from '../core/limits.ts';
import { isCalled } from '../core/topic/topic.ts';
import type { Partition } from '../ports/job-store.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import { monotonicNow, setTimeout } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { CallBudget, type RunningCall } from './call-budget.ts';
import { type CapacityGrant, CapacityGrants, type FreeCapacity } from './capacity-grants.ts';
import { CapacityPlan } from './capacity-plan.ts';
import { type CapacityView, explainCapacity } from './explain-capacity.ts';
import { notifierLimits } from './limits.ts';
import type { NameLookups } from './name-lookups.ts';
import type { PoisonIsolation } from './poison-isolation.ts';
import { Probes } from './probes.ts';
import type { Settler } from './settler.ts';
import { NotifierShare, TopicRates } from './topic-rates.ts';
import type { TopicTarget } from './topic-target.ts';
import { QueuedTargets, TopicTargets } from './topic-targets.ts';

/** What there is more of now:
 *  slots   slow calls have left their slots, though no call has ended
 *  topics  a probe has ended, or a topic is no longer restricted or paused; no hint announces its jobs
 *  grants  a reserve was answered, and its grant is free for other partitions */
export type Gain = 'slots' | 'topics' | 'grants';

export interface CapacityOptions {
  readonly topics: Pick<TopicBook, 'get' | 'all' | 'isUnreadable' | 'isKnown'>;
  readonly brokers: ReadonlyMap<string, Broker>;
  readonly log: Log;
  /** number of this notifier, and how many notifiers share a topic's concurrency and rate */
  readonly index: number;
  readonly count: number;
  readonly slots: number;
  readonly leaseMarginMs: number;
  readonly pollCeilingMs: number;
  /** limit of open files of this process; null = unknown */
  readonly openFilesMax: number | null;
  readonly lookups: Pick<NameLookups, 'isQueued'>;
  readonly settler: Pick<Settler, 'leased' | 'unsettled'>;
  readonly isolation: PoisonIsolation;
  readonly partitions: () => readonly Partition[];
  readonly nameOf?: CapacityView['nameOf'];
  readonly failures: CapacityView['failures'];
  readonly onGain: (gain: Gain) => void;
}

export class Capacity {
  readonly #options: CapacityOptions;
  readonly #budget: CallBudget;
  readonly #targets: TopicTargets;
  readonly #rates: TopicRates;
  readonly #probes: Probes;
  readonly #queued: QueuedTargets;
  readonly #plan: CapacityPlan;
  readonly #grants = new CapacityGrants();
  readonly #view: CapacityView;
  /** Targets in good standing whose capacity is not that at rest: they run calls, have a rate, ramp, or
   *  are slowed down. */
  readonly #reduced = new Set<TopicTarget>();
  /** The limits.keptTopicsMax targets in good standing with the latest successes, the latest last. */
  readonly #trusted = new Set<TopicTarget>();

  constructor(options: CapacityOptions) {
    this.#options = options;
    const { topics, log, slots, openFilesMax, lookups, leaseMarginMs } = options;
    const share = new NotifierShare(options);
    this.#budget = new CallBudget({ slots, openFilesMax, onSlow: (...slow) => this.#onSlow(...slow) });
    this.#targets = new TopicTargets(topics, share, options.brokers, log);
    this.#rates = new TopicRates(topics, share);
    this.#probes = new Probes(this.#budget);
    this.#queued = new QueuedTargets({ lookups, log, onTurn: () => options.onGain('topics') });
    this.#plan = new CapacityPlan({
      topics,
      share,
      leaseMarginMs,
      targets: this.#targets,
      probes: this.#probes,
    });
    this.#view = {
      ...options,
      share,
      budget: this.#budget,
      targets: this.#targets,
      rates: this.#rates,
      probes: this.#probes,
      trusted: this.#trusted,
    };
  }

  // ── reserves

  /** What a reserve of this partition may bring; null: nothing now. Ends with endRequest(). */
  request(partition: Partition): CapacityGrant | null {
    this.#rates.startRequest(monotonicNow());
    return this.#grant(partition, () => this.#free());
  }

  /** A request of one job for each topic in good standing that runs none; null: the topics need no reserve
   *  of their own. It goes first from time to time: behind 2,000 topics that are being tried, a
   *  turn comes after a second. */
  requestKept(partition: Partition): CapacityGrant | null {
    return this.#grant(partition, () => {
      const { freeSlots, openSlots, slots } = this.#budget;
      if (openSlots <= 0 || freeSlots > slots * notifierLimits.calmShare) return null;
      const topics = this.#keptCalls(this.#skipped(), monotonicNow());
      return topics.size === 0 ? null : this.#onlyOf(topics, freeSlots);
    });
  }

  /** Ends a request with the jobs that it brought, or none where it failed. Returns the jobs that there is
   *  capacity for; null: all. */
  endRequest(grant: CapacityGrant, jobs: readonly ReservedJob[]): ReadonlySet<ReservedJob> | null {
    const fitting = this.#grants.fitting(grant, jobs, () => this.#free(), monotonicNow());
    this.#grants.end(grant);
    this.#options.onGain('grants');
    return fitting;
  }

  /** Requests that have not ended. */
  get openRequests(): number {
    return this.#grants.open;
  }

  /** A topic, or everything, runs as many calls as it may, so the end of a call makes capacity. */
  get isFull(): boolean {
    if (this.#budget.openSlots <= 0) return true;
    for (const target of this.#reduced) if (target.capacity > 0 && this.#freeCalls(target) === 0) return true;
    return false;
  }

  /** ms until the next request, unless something wakes the partition before. */
  sleepMs(): number {
    const { isolation, pollCeilingMs } = this.#options;
    const now = monotonicNow();
    const pauseMs = isolation.pauseMs(now);
    const ceilingMs = pauseMs > 0 ? Math.min(pollCeilingMs, pauseMs) : pollCeilingMs;
    return Math.min(ceilingMs, this.#probes.turnInMs(now), this.#rates.worthInMs(now));
  }

  /** Why this notifier reserves no job of the topic, or few; [] where nothing keeps it. */
  explain(topic: string): readonly CapacityReason[] {
    return explainCapacity(this.#view, topic, monotonicNow());
  }

  /** Whether the topic gets few calls until one succeeds. */
  isProbing(topic: string): boolean {
    return this.#targets.get(topic)?.isRestricted === true;
  }

  // ── topics

  /** Must be called for every change of the topic book. */
  topicsChanged(names: readonly string[]): void {
    this.#grants.topicsChanged();
    for (const name of names) {
      const target = this.#targets.forget(name);
      if (target !== undefined) this.#forget(target);
      this.#rates.topicChanged(name);
      if (this.#options.topics.get(name) === undefined) this.#queued.forgetTopic(name);
      // At once: without a target its calls would not be counted against the next reserve.
      if (this.#budget.runningOf(name) > 0 || this.#rates.has(name)) this.targetOf(name);
      this.#plan.topicChanged(name);
    }
  }

  /** undefined: the topic is unknown to this process, or cannot be called. */
  targetOf(name: string): TopicTarget | undefined {
    const known = this.#targets.get(name);
    if (known !== undefined) return known;
    const target = this.#targets.build(name);
    if (target === null) this.#plan.topicChanged(name);
    if (target === null || target === undefined) return undefined;
    this.#update(target);
    return target;
  }

  /** Reserves no job of the topic until the topic book changes. Returns false where they were held before. */
  hold(name: string): boolean {
    const isNew = this.#targets.hold(name);
    if (isNew) this.#plan.topicChanged(name);
    return isNew;
  }

  // ── calls

  started(target: TopicTarget): RunningCall {
    const now = monotonicNow();
    target.started();
    const call = this.#budget.start(target, target.isRestricted, now);
    if (call.isProbe) this.#probes.started(target);
    this.#update(target);
    this.#rates.callStarted(target.topic, now);
    return call;
  }

  /** The call has ended, whatever its result. */
  released(call: RunningCall): void {
    this.#budget.end(call);
    const target = this.#targets.get(call.target.topic.topic);
    if (target !== undefined) this.#update(target);
    if (call.isProbe) this.#options.onGain('topics');
  }

  /** The call ended without a request: the look-up of the host name got no turn. The topic gets no call
   *  before that. */
  notStarted({ target }: RunningCall): void {
    const now = monotonicNow();
    this.#rates.callNotStarted(target.topic.topic, now);
    if (!this.#targets.isCurrent(target)) return;
    target.notStarted();
    this.#queued.pause(target, now);
    this.#update(target);
  }

  /** `reason`: null for a success; `status`: null without a reply; `slowDownMs`, `detail`: as in Judged.
   *  Ignores a call from before a change of its topic: the change may have been the cure. Returns false where
   *  the attempt does not count: the receiver asked to slow down, and the call was under way. */
  judged(
    { target, startedAt, isSlow }: RunningCall,
    reason: AttemptReason | null,
    status: number | null,
    slowDownMs: number | null = null,
    detail = '',
  ): boolean {
    if (!this.#targets.isCurrent(target)) return true;
    const wasRestricted = target.isRestricted;
    const { ramp, slowDown } = target;
    this.#queued.resume(target);
    const end = { reason, status, startedAt, endedAt: monotonicNow(), isCounted: isSlow, slowDownMs, detail };
    const counts = target.judged(end);
    if (target.slowDown !== null && target.slowDown !== slowDown) this.#slowDown(target);
    if (target.ramp !== null && target.ramp !== ramp) this.#ramp(target);
    if (slowDown !== null && target.slowDown === null) this.#options.onGain('topics');
    this.#trusted.delete(target);
    if (target.isTrusted) {
      this.#trusted.add(target);
      const [oldest] = this.#trusted;
      if (this.#trusted.size > limits.keptTopicsMax && oldest !== undefined) this.#trusted.delete(oldest);
    }
    if (wasRestricted || target.isRestricted) this.#update(target);
    // A reserve without an answer may bring more jobs than a pause or a ramp allows.
    if (target.slowDown !== slowDown || target.ramp !== ramp) this.#grants.topicsChanged();
    if (wasRestricted && !target.isRestricted) this.#options.onGain('topics');
    return counts;
  }

  // ── what is free

  #grant(partition: Partition, freeNow: () => FreeCapacity | null): CapacityGrant | null {
    const { isolation, settler, slots, partitions } = this.#options;
    if (isolation.waiting !== null) return null;
    if (isolation.isActive && (settler.leased > 0 || this.#grants.open > 0)) return null;
    // A store that gives out jobs but answers no finishing write must not fill the memory.
    if (settler.unsettled(partition) >= slots) return null;
    const free = freeNow();
    if (free === null) return null;
    const most = isolation.isActive ? notifierLimits.isolationReserveMax : limits.reserveMax;
    return this.#grants.grant(free, most, partitions().length > 1, monotonicNow());
  }

  #skipped(): ReadonlySet<string> {
    return this.#options.isolation.skipped(monotonicNow());
  }

  #free(): FreeCapacity {
    const now = monotonicNow();
    const skipped = this.#skipped();
    const { openSlots } = this.#budget;
    if (openSlots <= 0) return this.#freeWithoutSlots(skipped, now);
    const { others, base, over } = this.#plan.current();
    // A first call of a topic opens a connection, and all calls of an answer start in one turn of the event
    // loop.
    const isTrying = this.#budget.untried >= notifierLimits.untriedAtOnce;
    const slots = isTrying ? Math.min(openSlots, notifierLimits.untriedAtOnce) : openSlots;
    // Later entries replace earlier ones.
    for (const target of this.#reduced)
      over.set(target.topic.topic, this.#capacityNow(target, this.#freeCalls(target), now));
    for (const [name, capacity] of this.#probeCalls(skipped, now)) over.set(name, capacity);
    for (const name of skipped) over.set(name, { room: 0, leaseMs: others.leaseMs });
    for (const [name, capacity] of over)
      if (isSameCapacity(capacity, base.topics.get(name) ?? others)) over.delete(name);
    return { slots, others, topics: new LayeredCapacities(base, over) };
  }

  /** The free capacity without open slots: the kept slots, and probes, which have their own account. */
  #freeWithoutSlots(skipped: ReadonlySet<string>, nowMs: number): FreeCapacity {
    const { freeSlots } = this.#budget;
    const kept = freeSlots > 0 ? this.#keptCalls(skipped, nowMs) : new Map<string, TopicCapacity>();
    const probes = this.#probeCalls(skipped, nowMs);
    const ofProbes = [...probes.values()].reduce((sum, { room }) => sum + room, 0);
    // Beside kept calls probes share their number: a reserve may bring jobs of any of these topics.
    return this.#onlyOf(new Map([...kept, ...probes]), kept.size > 0 ? freeSlots : ofProbes);
  }

  #onlyOf(topics: ReadonlyMap<string, TopicCapacity>, slots: number): FreeCapacity {
    return { slots, others: this.#plan.none, topics: LayeredCapacities.of(topics) };
  }

  /** Calls of restricted topics that may start now. */
  #probeCalls(skipped: ReadonlySet<string>, nowMs: number): ReadonlyMap<string, TopicCapacity> {
    const topics = new Map<string, TopicCapacity>();
    if (this.#probes.size === 0) return topics;
    for (const [target, probes] of this.#probes.offers(nowMs)) {
      const name = target.topic.topic;
      if (!skipped.has(name)) topics.set(name, this.#capacityNow(target, probes, nowMs));
    }
    return topics;
  }

  /** One call for each topic in good standing that runs none. */
  #keptCalls(skipped: ReadonlySet<string>, nowMs: number): ReadonlyMap<string, TopicCapacity> {
    const topics = new Map<string, TopicCapacity>();
    for (const target of this.#trusted) {
      const name = target.topic.topic;
      if (this.#budget.runningOf(name) === 0 && !skipped.has(name))
        topics.set(name, this.#capacityNow(target, Math.min(1, target.capacity), nowMs));
    }
    return topics;
  }

  #capacityNow({ topic }: TopicTarget, calls: number, nowMs: number): TopicCapacity {
    const room = isCalled(topic) ? this.#rates.limit(topic, calls, nowMs) : 0;
    return { room, leaseMs: this.#plan.leaseMsOf(topic) };
  }

  /** Calls that may run beside the running ones. */
  #freeCalls(target: TopicTarget): number {
    return Math.max(0, target.capacity - this.#budget.runningOf(target.topic.topic));
  }

  // ── standing

  #onSlow(calls: readonly RunningCall[], nowMs: number): void {
    for (const call of calls) {
      call.target.health.countUnreached(call.startedAt);
      this.#restrictSlow(call, nowMs);
    }
    this.#options.onGain('slots');
  }

  /** Restricts the topic of a call when the call is older than the topic's calls usually get. */
  #restrictSlow(call: RunningCall, nowMs: number): void {
    const { target, startedAt, hasEnded } = call;
    if (hasEnded || !this.#targets.isCurrent(target) || target.isRestricted) return;
    const leftMs = startedAt + target.patienceMs - nowMs;
    if (leftMs > 0) {
      setTimeout(() => this.#restrictSlow(call, monotonicNow()), leftMs + 1).unref();
      return;
    }
    target.becameSlow(startedAt);
    this.#update(target);
  }

  /** The target gets no call until its time is over, and one then. */
  #slowDown(target: TopicTarget): void {
    const { slowDown } = target;
    if (slowDown === null) return;
    this.#update(target);
    setTimeout(
      () => {
        // A later reply asked for more time, or the topic has changed.
        if (target.slowDown !== slowDown || !this.#targets.isCurrent(target)) return;
        target.probeSlowDown(this.#budget.runningOf(target.topic.topic));
        this.#options.onGain('topics');
      },
      Math.ceil(slowDown.until - monotonicNow()),
    ).unref();
  }

  /** Applies the part of its limits that the target has after an outage, and the next parts. */
  #ramp(target: TopicTarget): void {
    const { ramp, topic } = target;
    this.#rates.scale(topic, ramp?.part ?? 1, monotonicNow());
    this.#update(target);
    if (ramp === null) return;
    setTimeout(() => {
      // Another outage has ended this ramp, or a change of the topic.
      if (target.ramp !== ramp || !this.#targets.isCurrent(target)) return;
      target.rampStep();
      this.#ramp(target);
      this.#options.onGain('topics');
    }, notifierLimits.rampStepMs).unref();
  }

  /** Files the target by its standing and its running calls. */
  #update(target: TopicTarget): void {
    if (!this.#targets.isCurrent(target)) return;
    const { topic, isRestricted, ramp, slowDown } = target;
    if (isRestricted ? this.#probes.add(target) : this.#probes.delete(target)) {
      this.#plan.topicChanged(topic.topic);
      // A call of a reserve without an answer would start on another account than it was granted for.
      this.#grants.topicsChanged();
    }
    if (isRestricted) this.#trusted.delete(target);
    const isLimited =
      ramp !== null || slowDown !== null || topic.rate > 0 || this.#budget.runningOf(topic.topic) > 0;
    if (!isRestricted && isLimited) this.#reduced.add(target);
    else this.#reduced.delete(target);
  }

  #forget(target: TopicTarget): void {
    this.#reduced.delete(target);
    this.#trusted.delete(target);
    this.#queued.forget(target);
    this.#probes.delete(target);
  }
}
