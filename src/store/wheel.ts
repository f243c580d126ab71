// Plans the order in which ready jobs are reserved: a wheel of ten tickets over the priorities, round robin
// over the topics of each. Pure: the store keeps position and rings, and reserves the earliest due job of
// each dealt topic. Invariants: reserve(1) a hundred times deals what reserve(100) deals; a plan for fewer
// jobs is a prefix of the plan for more, so a store that stops early at a byte limit plans again with the
// smaller number. A topic with capacity waits at most for ten deals times the topics of its priority.

import { type Priority, priorities } from '../core/job.ts';
import type { ReserveRequest } from '../ports/job-store.ts';

/** 5:3:2. The position is the index of the next ticket; each dealt job advances it by one. */
const wheel: readonly Priority[] = [
  'high',
  'normal',
  'high',
  'low',
  'high',
  'normal',
  'high',
  'normal',
  'high',
  'low',
];

/** A topic that has ready jobs of one priority. */
export interface ReadyTopic {
  readonly topic: string;
  /** their number; any number above the request's max stands for more */
  readonly ready: number;
}

interface Deal {
  readonly priority: Priority;
  readonly topic: string;
}

export interface DealPlan {
  /** one per job, in order */
  readonly deals: readonly Deal[];
  /** 0–9, to be stored */
  readonly position: number;
  /** ready jobs remain for which the request has capacity */
  readonly more: boolean;
  /** Served topics and their remaining jobs, latest last. In this order they move to the end of their ring;
   *  topics without remaining jobs leave it. */
  readonly served: Readonly<Record<Priority, ReadonlyMap<string, number>>>;
}

/** Deals up to request.max jobs in O(max + topics without capacity before them): rings hold each topic once,
 *  next turn first, and are read only as far as needed. A ticket of an empty priority, or of one without
 *  capacity, goes to the first other one of high, normal, low. A topic's capacity counts over all
 *  priorities. */
export function planDeals(
  position: number,
  rings: Readonly<Record<Priority, Iterable<ReadyTopic>>>,
  request: Pick<ReserveRequest, 'max' | 'others' | 'topics'>,
): DealPlan {
  const taken = new Map<string, number>();
  const hasCapacity = (topic: string) =>
    (taken.get(topic) ?? 0) < (request.topics.get(topic) ?? request.others).room;
  const turns = {
    high: new Turns(rings.high, hasCapacity),
    normal: new Turns(rings.normal, hasCapacity),
    low: new Turns(rings.low, hasCapacity),
  };
  const deals: Deal[] = [];
  while (deals.length < request.max) {
    const ticket = wheel[(position + deals.length) % wheel.length] as Priority;
    const priority =
      turns[ticket].next() !== null ? ticket : priorities.find((p) => turns[p].next() !== null);
    if (priority === undefined) break;
    const topic = turns[priority].take();
    taken.set(topic, (taken.get(topic) ?? 0) + 1);
    deals.push({ priority, topic });
  }
  return {
    deals,
    position: (position + deals.length) % wheel.length,
    served: { high: turns.high.served, normal: turns.normal.served, low: turns.low.served },
    more: priorities.some((priority) => turns[priority].next() !== null),
  };
}

/** The turns of one priority's topics. */
class Turns {
  readonly #ring: Iterator<ReadyTopic>;
  readonly #hasCapacity: (topic: string) => boolean;
  /** Served topics with remaining jobs, latest last; entries before #head are done. */
  readonly #again: ReadyTopic[] = [];
  #head = 0;
  #next: ReadyTopic | null = null;
  /** remaining jobs of each served topic, latest last */
  readonly served = new Map<string, number>();

  constructor(ring: Iterable<ReadyTopic>, hasCapacity: (topic: string) => boolean) {
    this.#ring = ring[Symbol.iterator]();
    this.#hasCapacity = hasCapacity;
  }

  /** The topic whose turn it is. Capacity never grows during a plan: a topic without it is checked only
   *  once. */
  next(): ReadyTopic | null {
    while (this.#next === null || this.#next.ready === 0 || !this.#hasCapacity(this.#next.topic)) {
      this.#next = this.#following();
      if (this.#next === null) return null;
    }
    return this.#next;
  }

  /** The whole ring once, then the served topics, in order of serving. */
  #following(): ReadyTopic | null {
    const step = this.#ring.next();
    if (step.done !== true) return step.value;
    this.#head += 1;
    return this.#again[this.#head - 1] ?? null;
  }

  take(): string {
    const entry = this.next();
    if (entry === null) throw new Error('take() without a turn');
    this.#next = null;
    const ready = entry.ready - 1;
    if (ready > 0) this.#again.push({ topic: entry.topic, ready });
    this.served.delete(entry.topic);
    this.served.set(entry.topic, ready);
    return entry.topic;
  }
}
