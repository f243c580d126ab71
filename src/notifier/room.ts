// How many jobs of which topic this notifier may take (architecture.md, decision 7). Owns the lanes and the names nobody has
// registered; takes no job itself.
// Invariants: the notifiers of an instance together never exceed a topic's concurrency nor its rate; one topic never holds
// more than half of a notifier's slots, so a hanging endpoint cannot stop the others.

import { limits } from '../core/limits.ts';
import type { Topic } from '../core/topic.ts';
import { topicDefaults } from '../core/topic.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import type { Room } from '../store/job-store.ts';
import type { Log } from '../telemetry/log.ts';
import { Lane } from './lane.ts';
import { capacityAt, TokenBucket } from './token-bucket.ts';

export interface RoomsOptions {
  readonly topics: TopicBook;
  readonly log: Log;
  /** number of this notifier, and how many share a topic's concurrency and rate */
  readonly index: number;
  readonly count: number;
  readonly slots: number;
  readonly leaseMarginMs: number;
}

/** Most topics share one room and one lease; they travel as `others`, and only the rest is listed in every request. */
interface Plan {
  readonly others: Room;
  /** never changed: a reserve may be under way with it */
  readonly exceptions: ReadonlyMap<string, Room>;
  /** of exceptions from which on another room may be the one that most share */
  readonly worth: number;
}

export class Rooms {
  readonly #options: RoomsOptions;
  readonly #lanes = new Map<string, Lane>();
  /** Calls that run, by topic; only those that have any. Not the lane's: calls outlive the lane they began with, and a topic
   *  that was deleted and registered again meanwhile. */
  readonly #running = new Map<string, number>();
  /** Lanes whose room is not the topic's whole share at the moment. */
  readonly #reduced = new Set<Lane>();
  /** Names without a topic that have been asked for: their jobs are held, not fetched again and again. */
  readonly #unknown = new Set<string>();
  /** Of topics with a rate that were called. They outlive lanes for the reason that counts do. */
  readonly #buckets = new Map<string, TokenBucket>();
  /** When a topic that was short of tokens is worth asking for again (performance.now()). */
  #tokensAt = Number.POSITIVE_INFINITY;
  #plan: Plan | null = null;

  constructor(options: RoomsOptions) {
    this.#options = options;
  }

  /** A topic runs as many calls as it may; the end of one makes room. */
  get anyFull(): boolean {
    for (const lane of this.#reduced) if (this.#freeCalls(lane) === 0) return true;
    return false;
  }

  /** Until tokens make room; Infinity = nothing waits for any. */
  tokensInMs(nowMs: number): number {
    return Math.max(0, this.#tokensAt - nowMs);
  }

  /** To be told of every change of the topic book. */
  topicsChanged(names: readonly string[]): void {
    for (const name of names) {
      this.#unknown.delete(name);
      const old = this.#lanes.get(name);
      if (old !== undefined) {
        this.#lanes.delete(name);
        this.#reduced.delete(old);
      }
      this.#refit(name);
      // At once: without a lane its calls would not be counted against the next reserve.
      if (this.#running.has(name) || this.#buckets.has(name)) this.laneOf(name);
    }
    this.#replan(names);
  }

  /** undefined: the topic is unknown to this process, or cannot be called. */
  laneOf(name: string): Lane | undefined {
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    const topic = this.#options.topics.get(name);
    if (topic === undefined || this.#unknown.has(name)) return undefined;
    try {
      const lane = new Lane(topic, this.#shareOf(topic));
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

  callStarted(lane: Lane): void {
    const name = lane.topic.topic;
    this.#running.set(name, this.#runningOf(name) + 1);
    this.#note(lane);
    const bucket = this.#bucketOf(lane.topic);
    if (bucket === null) return;
    const now = performance.now();
    bucket.take(now);
    this.#tokensAt = Math.min(this.#tokensAt, bucket.worthAt(now));
  }

  callEnded(name: string): void {
    const running = this.#runningOf(name) - 1;
    if (running > 0) this.#running.set(name, running);
    else this.#running.delete(name);
    const lane = this.#lanes.get(name);
    if (lane !== undefined) this.#note(lane);
  }

  judged(name: string, ...[reason]: Parameters<Lane['judged']>): void {
    const lane = this.#lanes.get(name);
    lane?.judged(reason);
    if (lane !== undefined) this.#note(lane);
  }

  /** What to ask the store for now; nothing of `skipped`. */
  rooms(skipped: ReadonlySet<string>): { readonly others: Room; readonly topics: ReadonlyMap<string, Room> } {
    const now = performance.now();
    if (this.#tokensAt <= now) this.#tokensAt = Number.POSITIVE_INFINITY;
    this.#plan ??= this.#makePlan();
    const { others, exceptions } = this.#plan;
    if (this.#reduced.size === 0 && skipped.size === 0) return { others, topics: exceptions };
    const topics = new Map(exceptions);
    for (const lane of this.#reduced) {
      const { topic } = lane;
      topics.set(topic.topic, {
        room: topic.state === 'active' ? this.#roomOf(lane, now) : 0,
        leaseMs: this.#leaseMs(topic),
      });
    }
    for (const name of skipped) topics.set(name, { room: 0, leaseMs: others.leaseMs });
    return { others, topics };
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
  #bucketOf({ topic: name, rate }: Topic): TokenBucket | null {
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
  #freeCalls(lane: Lane): number {
    return Math.max(0, lane.capacity - this.#runningOf(lane.topic.topic));
  }

  /** How many more calls may start now; where tokens keep it small, the time is noted at which they no longer do. */
  #roomOf(lane: Lane, nowMs: number): number {
    const free = this.#freeCalls(lane);
    const bucket = this.#bucketOf(lane.topic);
    if (bucket === null) return free;
    const worthAt = bucket.worthAt(nowMs);
    if (worthAt > nowMs) this.#tokensAt = Math.min(this.#tokensAt, worthAt);
    return Math.min(free, Math.max(0, Math.floor(bucket.tokens(nowMs))));
  }

  #note(lane: Lane): void {
    if (this.#runningOf(lane.topic.topic) > 0 || lane.ailing || lane.topic.rate > 0) this.#reduced.add(lane);
    else this.#reduced.delete(lane);
  }

  /** For these names alone: topics that are registered one after another would each cost a look at all of them. */
  #replan(names: readonly string[]): void {
    if (this.#plan === null) return;
    const { others, worth } = this.#plan;
    const exceptions = new Map(this.#plan.exceptions);
    for (const name of names) {
      const topic = this.#options.topics.get(name);
      if (this.#unknown.has(name)) exceptions.set(name, { room: 0, leaseMs: others.leaseMs });
      else if (topic === undefined) exceptions.delete(name);
      else {
        const room = this.#wholeRoom(topic);
        if (isSame(room, others)) exceptions.delete(name);
        else exceptions.set(name, room);
      }
    }
    this.#plan = exceptions.size < worth ? { others, exceptions, worth } : null;
  }

  #makePlan(): Plan {
    const rooms = new Map<string, Room>();
    const times = new Map<string, number>();
    let others: Room = { room: this.#shareOf(topicDefaults), leaseMs: this.#leaseMs(topicDefaults) };
    let most = 0;
    for (const topic of this.#options.topics.all()) {
      const room = this.#wholeRoom(topic);
      rooms.set(topic.topic, room);
      const key = `${room.room} ${room.leaseMs}`;
      const n = (times.get(key) ?? 0) + 1;
      times.set(key, n);
      // Never 0: a topic younger than this process's knowledge is met by being reserved.
      if (room.room > 0 && n > most) [most, others] = [n, room];
    }
    for (const [name, room] of rooms) if (isSame(room, others)) rooms.delete(name);
    for (const name of this.#unknown) rooms.set(name, { room: 0, leaseMs: others.leaseMs });
    return { others, exceptions: rooms, worth: 2 * rooms.size + limits.plannedAnew };
  }

  #wholeRoom(topic: Topic): Room {
    const share = this.#shareOf(topic);
    const room = topic.rate === 0 ? share : Math.min(share, capacityAt(this.#partOf(topic.rate)));
    return { room: topic.state === 'active' ? room : 0, leaseMs: this.#leaseMs(topic) };
  }
}

function isSame(a: Room, b: Room): boolean {
  return a.room === b.room && a.leaseMs === b.leaseMs;
}
