// How many jobs of which topic this notifier may take (architecture.md, decision 7). Owns the lanes and the names nobody has
// registered; takes no job itself.
// Invariants: the notifiers of an instance together never exceed a topic's concurrency; one topic never holds more than half
// of a notifier's slots, so a hanging endpoint cannot stop the others.

import type { Topic } from '../core/topic.ts';
import { topicDefaults } from '../core/topic.ts';
import type { TopicBook } from '../registry/topic-book.ts';
import type { Room } from '../store/job-store.ts';
import type { Log } from '../telemetry/log.ts';
import { Lane } from './lane.ts';

export interface RoomsOptions {
  readonly topics: TopicBook;
  readonly log: Log;
  /** number of this notifier, and how many share a topic's concurrency */
  readonly index: number;
  readonly count: number;
  readonly slots: number;
  readonly leaseMarginMs: number;
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
  #plan: { readonly others: Room; readonly exceptions: ReadonlyMap<string, Room> } | null = null;

  constructor(options: RoomsOptions) {
    this.#options = options;
  }

  /** A topic runs as many calls as it may. */
  get anyFull(): boolean {
    for (const lane of this.#reduced) if (this.#roomOf(lane) === 0) return true;
    return false;
  }

  /** To be told of every change of the topic book. */
  topicsChanged(names: readonly string[]): void {
    this.#plan = null;
    for (const name of names) {
      this.#unknown.delete(name);
      const old = this.#lanes.get(name);
      if (old !== undefined) {
        this.#lanes.delete(name);
        this.#reduced.delete(old);
      }
      // At once: without a lane its calls would not be counted against the next reserve.
      if (this.#running.has(name)) this.laneOf(name);
    }
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
      this.#plan = null;
      return undefined;
    }
  }

  /** Its jobs are not reserved until the topic book changes. False where that was known. */
  markUnknown(name: string): boolean {
    if (this.#unknown.has(name)) return false;
    this.#unknown.add(name);
    this.#plan = null;
    return true;
  }

  callStarted(lane: Lane): void {
    const name = lane.topic.topic;
    this.#running.set(name, this.#runningOf(name) + 1);
    this.#note(lane);
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
    this.#plan ??= this.#makePlan();
    const { others, exceptions } = this.#plan;
    if (this.#reduced.size === 0 && skipped.size === 0) return { others, topics: exceptions };
    const topics = new Map(exceptions);
    for (const lane of this.#reduced) {
      const { topic } = lane;
      topics.set(topic.topic, {
        room: topic.state === 'active' ? this.#roomOf(lane) : 0,
        leaseMs: this.#leaseMs(topic),
      });
    }
    for (const name of skipped) topics.set(name, { room: 0, leaseMs: others.leaseMs });
    return { others, topics };
  }

  /** Remainder to the first notifiers; never more than half of the slots, never none for the sake of that half. */
  #shareOf(topic: { readonly concurrency: number }): number {
    const { index, count, slots } = this.#options;
    const share = Math.floor(topic.concurrency / count) + (index < topic.concurrency % count ? 1 : 0);
    return Math.min(share, Math.max(1, Math.floor(slots / 2)));
  }

  #leaseMs(topic: { readonly timeoutMs: number }): number {
    return topic.timeoutMs + this.#options.leaseMarginMs;
  }

  #runningOf(name: string): number {
    return this.#running.get(name) ?? 0;
  }

  /** How many more calls may start. */
  #roomOf(lane: Lane): number {
    return Math.max(0, lane.capacity - this.#runningOf(lane.topic.topic));
  }

  #note(lane: Lane): void {
    if (this.#runningOf(lane.topic.topic) > 0 || lane.ailing) this.#reduced.add(lane);
    else this.#reduced.delete(lane);
  }

  /** Most topics share one room and one lease; they travel as `others`, and only the rest is listed in every request. */
  #makePlan(): { readonly others: Room; readonly exceptions: ReadonlyMap<string, Room> } {
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
    for (const [name, room] of rooms)
      if (room.room === others.room && room.leaseMs === others.leaseMs) rooms.delete(name);
    for (const name of this.#unknown) rooms.set(name, { room: 0, leaseMs: others.leaseMs });
    return { others, exceptions: rooms };
  }

  #wholeRoom(topic: Topic): Room {
    return { room: topic.state === 'active' ? this.#shareOf(topic) : 0, leaseMs: this.#leaseMs(topic) };
  }
}
