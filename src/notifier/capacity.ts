// How many jobs of which topic this notifier may take (architecture.md, decision 7). Owns the lanes and the names nobody has
// registered; takes no job itself.
// Invariants: the notifiers of an instance together never exceed a topic's concurrency nor its rate; one topic never holds
// more than half of a notifier's slots, so a hanging endpoint cannot stop the others; nor can many of them: a call that hangs
// leaves its slot after notifierLimits.slowCallMs (call-budget.ts), its topic gets probes only (probes.ts), and the last slots are
// kept for topics in good standing that run no call.

import type { AttemptReason } from '../core/job.ts';
import { CapacityBase, isSameCapacity, LayeredCapacities, type TopicCapacity } from '../core/layered-capacities.ts';
import { limits } from '../core/limits.ts';
import type { KnownTopic } from '../core/topic/topic.ts';
import { topicDefaults } from '../core/topic/topic.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import type { Log } from '../telemetry/log.ts';
import { CallBudget, type RunningCall } from './call-budget.ts';
import type { Free } from './capacity-grants.ts';
import { notifierLimits } from './limits.ts';
import { OriginHealth } from './origin-health.ts';
import { Probes } from './probes.ts';
import { capacityAt, TokenBucket } from './token-bucket.ts';
import { TopicTarget } from './topic-target.ts';

export interface RoomsOptions {
  readonly topics: TopicBook;
  readonly log: Log;
  /** number of this notifier, and how many share a topic's concurrency and rate */
  readonly index: number;
  readonly count: number;
  readonly slots: number;
  readonly leaseMarginMs: number;
  /** limit of open files of this process; null = unknown */
  readonly openFilesMax: number | null;
  /** The look-up of a host name waits for its turn. */
  readonly isLookupQueued: (hostname: string) => boolean;
  /** Slots have become free though no call has ended. */
  readonly onFreed: () => void;
  /** A probe has ended, or a topic is no longer restricted: its jobs may be asked for, which no hint tells. */
  readonly onProbed: () => void;
}

/** Most topics share one room and one lease; they travel as `others`, and only the rest is listed in every request. */
interface Plan {
  readonly others: TopicCapacity;
  /** the exceptions, and the restricted topics, which have no room at rest */
  readonly base: CapacityBase;
  /** of exceptions from which on another room may be the one that most share */
  readonly worth: number;
}

export class Capacity {
  readonly #options: RoomsOptions;
  readonly #lanes = new Map<string, TopicTarget>();
  /** Calls that run, by topic; only those that have any. Not the lane's: calls outlive the lane they began with, and a topic
   *  that was deleted and registered again meanwhile. */
  readonly #running = new Map<string, number>();
  /** Lanes whose room is not the topic's whole share at the moment; the restricted ones are among the probes instead. */
  readonly #reduced = new Set<TopicTarget>();
  readonly #budget: CallBudget;
  readonly #probes: Probes;
  /** By origin, as long as a lane uses it. */
  readonly #origins = new Map<string, OriginHealth>();
  /** Lanes in good standing, the latest success last. */
  readonly #trusted = new Set<TopicTarget>();
  /** Topics that may have another room at rest than in the base of the plan. */
  readonly #changed = new Set<string>();
  /** Names without a topic that have been asked for: their jobs are held, not fetched again and again. */
  readonly #unknown = new Set<string>();
  /** Of topics with a rate that were called. They outlive lanes for the reason that counts do. */
  readonly #buckets = new Map<string, TokenBucket>();
  /** Lanes whose look-up is queued, by the time of the next check; the earliest first. */
  readonly #paused = new Map<TopicTarget, number>();
  #pauseTimer: NodeJS.Timeout | null = null;
  /** Topics whose queued look-up was logged. */
  readonly #saidQueued = new Set<string>();
  /** When a topic that was short of tokens is worth asking for again (performance.now()). */
  #tokensAt = Number.POSITIVE_INFINITY;
  #plan: Plan | null = null;

  constructor(options: RoomsOptions) {
    this.#options = options;
    const { slots, openFilesMax } = options;
    this.#budget = new CallBudget({ slots, openFilesMax, onSlow: (...slow) => this.#onSlow(...slow) });
    this.#probes = new Probes(this.#budget, ({ topic }) => this.#runningOf(topic.topic));
  }

  /** Slots that any topic may take. */
  get #openSlots(): number {
    return this.#budget.freeSlots - this.#budget.keptSlots;
  }

  /** A topic, or everything, runs as many calls as it may; the end of one makes room. */
  get anyFull(): boolean {
    if (this.#openSlots <= 0) return true;
    for (const lane of this.#reduced) if (this.#freeCalls(lane) === 0) return true;
    return false;
  }

  /** Until tokens make room, or probes have another turn; Infinity = nothing waits for that. */
  roomInMs(nowMs: number): number {
    if (this.#openSlots <= 0) return Number.POSITIVE_INFINITY;
    return Math.min(Math.max(0, this.#tokensAt - nowMs), this.#probes.turnInMs(nowMs));
  }

  /** To be told of every change of the topic book. */
  topicsChanged(names: readonly string[]): void {
    for (const name of names) {
      this.#unknown.delete(name);
      this.#forget(name);
      this.#refit(name);
      if (this.#options.topics.get(name) === undefined) this.#saidQueued.delete(name);
      // At once: without a lane its calls would not be counted against the next reserve.
      if (this.#running.has(name) || this.#buckets.has(name)) this.laneOf(name);
    }
    this.#replan(names);
  }

  /** undefined: the topic is unknown to this process, or cannot be called. */
  laneOf(name: string): TopicTarget | undefined {
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    const topic = this.#options.topics.get(name);
    if (topic === undefined || this.#unknown.has(name)) return undefined;
    try {
      const lane = new TopicTarget(topic, this.#shareOf(topic), (origin) => this.#healthOf(origin));
      if (topic.dangerouslySkipTlsVerify)
        this.#options.log.notice('certificates are not verified', { topic: name, url: lane.origin });
      this.#lanes.set(name, lane);
      this.#note(lane);
      return lane;
    } catch (error) {
      // Held rather than called wrongly, until somebody changes the topic.
      this.#options.log.error('topic cannot be called', error, { topic: name });
      this.#unknown.add(name);
      this.#replan([name]);
      return undefined;
    }
  }

  /** Its jobs are not reserved until the topic book changes. False where that was known. */
  markUnknown(name: string): boolean {
    if (this.#unknown.has(name)) return false;
    this.#unknown.add(name);
    this.#replan([name]);
    return true;
  }

  callStarted(lane: TopicTarget): RunningCall {
    const name = lane.topic.topic;
    const now = performance.now();
    lane.started();
    const call = this.#budget.start(lane, lane.isRestricted, now);
    if (call.isProbe) this.#probes.started(lane);
    this.#running.set(name, this.#runningOf(name) + 1);
    this.#note(lane);
    const bucket = this.#bucketOf(lane.topic);
    if (bucket !== null) {
      bucket.take(now);
      this.#tokensAt = Math.min(this.#tokensAt, bucket.worthAt(now));
    }
    return call;
  }

  callEnded(call: RunningCall): void {
    this.#budget.end(call);
    const name = call.lane.topic.topic;
    const running = this.#runningOf(name) - 1;
    if (running > 0) this.#running.set(name, running);
    else this.#running.delete(name);
    const lane = this.#lanes.get(name);
    if (lane !== undefined) this.#note(lane);
    if (call.isProbe) this.#options.onProbed();
  }

  /** The call ended without a request: the look-up of the host name had no turn. The topic gets no call before that turn. */
  notBegun({ lane }: RunningCall): void {
    const { topic: name } = lane.topic;
    const now = performance.now();
    this.#buckets.get(name)?.giveBack(now);
    if (this.#lanes.get(name) !== lane) return;
    lane.notBegun();
    lane.isPaused = true;
    if (!this.#paused.has(lane)) this.#paused.set(lane, now + notifierLimits.lookupPauseMs);
    this.#schedulePause(now);
    this.#note(lane);
    if (this.#saidQueued.has(name)) return;
    this.#saidQueued.add(name);
    const fields = { topic: name, host: lane.hostname };
    this.#options.log.notice('notifier: host name look-up is queued; calls of the topic wait for it', fields);
  }

  /** Nothing of a call that began before a change of its topic: the change may have been the cure. */
  judged({ lane, startedAt, isSlow }: RunningCall, reason: AttemptReason | null): void {
    if (this.#lanes.get(lane.topic.topic) !== lane) return;
    const wasRestricted = lane.isRestricted;
    this.#paused.delete(lane);
    if (this.#saidQueued.delete(lane.topic.topic)) {
      const fields = { topic: lane.topic.topic, host: lane.hostname };
      this.#options.log.notice(
        'notifier: host name look-up had its turn; calls of the topic begin again',
        fields,
      );
    }
    lane.judged({ reason, startedAt, endedAt: performance.now(), isCounted: isSlow });
    this.#trusted.delete(lane);
    if (lane.isTrusted) {
      this.#trusted.add(lane);
      const [oldest] = this.#trusted;
      if (this.#trusted.size > limits.keptTopicsMax && oldest !== undefined) this.#trusted.delete(oldest);
    }
    if (wasRestricted || lane.isRestricted) this.#note(lane);
    if (wasRestricted && !lane.isRestricted) this.#options.onProbed();
  }

  /** One call for each topic in good standing that runs none, or null where the ring of the store serves them soon enough. It is
   *  asked for first from time to time: behind 2,000 topics that are being tried, a turn comes after a second. */
  firstOf(skipped: ReadonlySet<string>): Free | null {
    if (this.#openSlots <= 0 || this.#budget.freeSlots > this.#budget.slots * notifierLimits.calmShare)
      return null;
    const free = this.#keptOnly(skipped, performance.now());
    return free.topics.size === 0 ? null : free;
  }

  /** What to ask the store for now; nothing of `skipped`. */
  free(skipped: ReadonlySet<string>): Free {
    const now = performance.now();
    if (this.#tokensAt <= now) this.#tokensAt = Number.POSITIVE_INFINITY;
    if (this.#openSlots <= 0) return this.#keptOnly(skipped, now);
    this.#plan = this.#currentPlan();
    const { others, base } = this.#plan;
    // Each call of a topic that was never called opens a connection, and all of an answer start in one turn of the event loop.
    const isTrying = this.#budget.untried >= notifierLimits.untriedAtOnce;
    const slots = isTrying ? Math.min(this.#openSlots, notifierLimits.untriedAtOnce) : this.#openSlots;
    // Later ones replace earlier ones.
    const over = new Map<string, TopicCapacity>();
    for (const name of this.#changed) over.set(name, this.#roomAtRest(name, others));
    for (const lane of this.#reduced)
      over.set(lane.topic.topic, this.#roomNow(lane, this.#freeCalls(lane), now));
    if (this.#probes.size > 0)
      for (const [lane, free] of this.#probes.offers(now))
        over.set(lane.topic.topic, this.#roomNow(lane, free, now));
    for (const name of skipped) over.set(name, { room: 0, leaseMs: others.leaseMs });
    for (const [name, room] of over) if (isSameCapacity(room, base.topics.get(name) ?? others)) over.delete(name);
    return { slots, others, topics: new LayeredCapacities(base, over) };
  }

  /** The other slots are used up: one call for each topic in good standing that runs none. */
  #keptOnly(skipped: ReadonlySet<string>, nowMs: number): Free {
    const topics = new Map<string, TopicCapacity>();
    for (const lane of this.#trusted) {
      const name = lane.topic.topic;
      if (this.#runningOf(name) === 0 && !skipped.has(name))
        topics.set(name, this.#roomNow(lane, Math.min(1, lane.capacity), nowMs));
    }
    const slots = topics.size === 0 ? 0 : this.#budget.freeSlots;
    const others = { room: 0, leaseMs: this.#leaseMs(topicDefaults) };
    return { slots, others, topics: LayeredCapacities.of(topics) };
  }

  #roomNow({ topic }: TopicTarget, free: number, nowMs: number): TopicCapacity {
    const room = topic.state === 'active' ? this.#withTokens(topic, free, nowMs) : 0;
    return { room, leaseMs: this.#leaseMs(topic) };
  }

  #onSlow(calls: readonly RunningCall[], nowMs: number): void {
    for (const call of calls) {
      call.lane.health.countAway(call.startedAt);
      this.#suspect(call, nowMs);
    }
    this.#options.onFreed();
  }

  #suspect(call: RunningCall, nowMs: number): void {
    const { lane, startedAt, hasEnded } = call;
    if (hasEnded || this.#lanes.get(lane.topic.topic) !== lane || lane.isRestricted) return;
    const leftMs = startedAt + lane.patienceMs - nowMs;
    if (leftMs > 0) {
      setTimeout(() => this.#suspect(call, performance.now()), leftMs + 1).unref();
      return;
    }
    lane.suspect(startedAt);
    this.#note(lane);
  }

  #schedulePause(nowMs: number): void {
    const [firstAt] = this.#paused.values();
    if (this.#pauseTimer !== null || firstAt === undefined) return;
    this.#pauseTimer = setTimeout(
      () => {
        this.#pauseTimer = null;
        this.#checkPaused(performance.now());
      },
      Math.max(firstAt - nowMs, notifierLimits.lookupPauseStepMs),
    );
    this.#pauseTimer.unref();
  }

  #checkPaused(nowMs: number): void {
    let hasEnded = false;
    for (const [lane, checkAt] of this.#paused) {
      if (checkAt > nowMs) break;
      this.#paused.delete(lane);
      if (this.#options.isLookupQueued(lane.hostname)) {
        this.#paused.set(lane, nowMs + notifierLimits.lookupPauseMs);
        continue;
      }
      lane.isPaused = false;
      hasEnded = true;
    }
    this.#schedulePause(nowMs);
    if (hasEnded) this.#options.onProbed();
  }

  #healthOf(origin: string): OriginHealth {
    const health = this.#origins.get(origin) ?? new OriginHealth();
    this.#origins.set(origin, health);
    health.lanes += 1;
    return health;
  }

  #forget(name: string): void {
    const lane = this.#lanes.get(name);
    if (lane === undefined) return;
    this.#lanes.delete(name);
    this.#reduced.delete(lane);
    this.#trusted.delete(lane);
    this.#paused.delete(lane);
    if (this.#probes.delete(lane)) this.#changed.add(name);
    lane.health.lanes -= 1;
    if (lane.health.lanes === 0) this.#origins.delete(lane.origin);
  }

  /** Remainder to the first notifiers; never more than half of the slots, never none for the sake of that half. */
  #shareOf(topic: { readonly concurrency: number }): number {
    return Math.min(this.#partOf(topic.concurrency), Math.max(1, Math.floor(this.#options.slots / 2)));
  }

  #partOf(whole: number): number {
    const { index, count } = this.#options;
    return Math.floor(whole / count) + (index < whole % count ? 1 : 0);
  }

  /** null: the topic has no rate. */
  #bucketOf({ topic: name, rate }: Pick<KnownTopic, 'topic' | 'rate'>): TokenBucket | null {
    if (rate === 0) return null;
    const known = this.#buckets.get(name);
    if (known !== undefined) return known;
    const bucket = new TokenBucket(this.#partOf(rate), performance.now());
    this.#buckets.set(name, bucket);
    return bucket;
  }

  /** After a change of the topic. */
  #refit(name: string): void {
    const old = this.#buckets.get(name);
    if (old === undefined) return;
    const rate = this.#options.topics.get(name)?.rate ?? 0;
    const now = performance.now();
    if (rate === 0) this.#buckets.delete(name);
    else this.#buckets.set(name, new TokenBucket(this.#partOf(rate), now, old.tokens(now)));
  }

  #leaseMs(topic: { readonly timeoutMs: number }): number {
    return topic.timeoutMs + this.#options.leaseMarginMs;
  }

  #runningOf(name: string): number {
    return this.#running.get(name) ?? 0;
  }

  /** Calls that may run beside those that do. */
  #freeCalls(lane: TopicTarget): number {
    return Math.max(0, lane.capacity - this.#runningOf(lane.topic.topic));
  }

  /** Of `free` calls, how many may start now; where tokens keep them few, the time is noted at which they no longer do. */
  #withTokens(topic: Pick<KnownTopic, 'topic' | 'rate'>, free: number, nowMs: number): number {
    const bucket = this.#bucketOf(topic);
    if (bucket === null) return free;
    const worthAt = bucket.worthAt(nowMs);
    if (worthAt > nowMs) this.#tokensAt = Math.min(this.#tokensAt, worthAt);
    return Math.min(free, Math.max(0, Math.floor(bucket.tokens(nowMs))));
  }

  /** After a change of what runs or of its standing. */
  #note(lane: TopicTarget): void {
    if (this.#lanes.get(lane.topic.topic) !== lane) return;
    const isRestricted = lane.isRestricted;
    if (isRestricted ? this.#probes.add(lane) : this.#probes.delete(lane))
      this.#changed.add(lane.topic.topic);
    if (isRestricted) this.#trusted.delete(lane);
    if (!isRestricted && (this.#runningOf(lane.topic.topic) > 0 || lane.topic.rate > 0))
      this.#reduced.add(lane);
    else this.#reduced.delete(lane);
  }

  /** For these names alone: topics that are registered one after another would each cost a look at all of them. */
  #replan(names: readonly string[]): void {
    if (this.#plan !== null) for (const name of names) this.#changed.add(name);
  }

  /** A new base costs a copy of all exceptions: changes are collected for it. */
  #currentPlan(): Plan {
    if (this.#plan === null) return this.#makePlan();
    if (this.#changed.size <= notifierLimits.changedRoomsMax) return this.#plan;
    const { others, base, worth } = this.#plan;
    const rooms = new Map(base.topics);
    for (const name of this.#changed) {
      const room = this.#roomAtRest(name, others);
      if (isSameCapacity(room, others)) rooms.delete(name);
      else rooms.set(name, room);
    }
    if (rooms.size - this.#probes.size >= worth) return this.#makePlan();
    this.#changed.clear();
    return { others, base: new CapacityBase(rooms), worth };
  }

  /** Two passes, because a room for each of 100,000 topics would hold all calls up. */
  #makePlan(): Plan {
    const times = new Map<number, number>();
    let others: TopicCapacity = { room: this.#shareOf(topicDefaults), leaseMs: this.#leaseMs(topicDefaults) };
    let most = 0;
    for (const topic of this.#options.topics.all()) {
      const room = this.#wholeRoom(topic);
      // Leases are shorter than 2^32 ms, rooms are fewer than 2^20.
      const key = room.room * 2 ** 32 + room.leaseMs;
      const n = (times.get(key) ?? 0) + 1;
      times.set(key, n);
      // Never 0: a topic younger than this process's knowledge is met by being reserved.
      if (room.room > 0 && n > most) [most, others] = [n, room];
    }
    const rooms = new Map<string, TopicCapacity>();
    for (const topic of this.#options.topics.all()) {
      const room = this.#wholeRoom(topic);
      if (!isSameCapacity(room, others)) rooms.set(topic.topic, room);
    }
    for (const name of this.#unknown) rooms.set(name, { room: 0, leaseMs: others.leaseMs });
    const worth = 2 * rooms.size + notifierLimits.plannedAnew;
    for (const { topic } of this.#probes.lanes())
      rooms.set(topic.topic, { room: 0, leaseMs: this.#leaseMs(topic) });
    this.#changed.clear();
    return { others, base: new CapacityBase(rooms), worth };
  }

  /** Of a topic none of whose calls runs, with all its tokens. */
  #roomAtRest(name: string, others: TopicCapacity): TopicCapacity {
    const lane = this.#lanes.get(name);
    if (lane !== undefined && this.#probes.has(lane)) return { room: 0, leaseMs: this.#leaseMs(lane.topic) };
    if (this.#unknown.has(name)) return { room: 0, leaseMs: others.leaseMs };
    const topic = this.#options.topics.get(name);
    return topic === undefined ? others : this.#wholeRoom(topic);
  }

  #wholeRoom(topic: KnownTopic): TopicCapacity {
    const share = this.#shareOf(topic);
    const room = topic.rate === 0 ? share : Math.min(share, capacityAt(this.#partOf(topic.rate)));
    return { room: topic.state === 'active' ? room : 0, leaseMs: this.#leaseMs(topic) };
  }
}
