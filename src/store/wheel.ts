// The order in which ready jobs are taken: a wheel of ten tickets over the priorities, round robin over the topics inside
// one. Pure: it reads no job and keeps nothing; whoever stores jobs stores the position and the rings, and takes the
// earliest due job of the dealt topic for each deal. Invariants: reserve(1) a hundred times deals what reserve(100) deals,
// and a plan for fewer jobs is a prefix of the plan for more (so a store that stops early, at a byte limit, plans again
// with the number it took). No topic with room waits for more than ten deals times the topics of its priority.

import { type Priority, priorities } from '../core/job.ts';
import type { ReserveRequest } from '../ports/job-store.ts';

/** 5:3:2. The position names the ticket that comes next and advances by one with each job dealt. */
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
  /** how many; a caller that counts no further may give any number above the request's max for more */
  readonly ready: number;
}

/** Per priority, each topic once, the one whose turn is next first. A topic that gets its first ready job joins at the end. */
export type ReadyRings = Readonly<Record<Priority, readonly ReadyTopic[]>>;

export interface Deal {
  readonly priority: Priority;
  readonly topic: string;
}

export interface Dealt {
  /** one per job, in order */
  readonly deals: readonly Deal[];
  /** 0–9, to be stored */
  readonly position: number;
  /** What is left: served topics went to the end, those without room kept their turn, emptied ones are gone. */
  readonly rings: ReadyRings;
  /** ready jobs remain that the request had room for */
  readonly more: boolean;
}

/** What a plan takes, and no more: whoever keeps thousands of topics changes only the turns of these. */
export interface Taken extends Pick<Dealt, 'deals' | 'position' | 'more'> {
  /** Topics that were served and how many jobs they have left, the latest last. In this order they go to the end of their ring;
   *  those with none leave it. */
  readonly served: Readonly<Record<Priority, ReadonlyMap<string, number>>>;
}

/** Deals up to request.max jobs, in O(max + topics). A ticket of a priority that is empty or without room goes to the first
 *  of high, normal, low that is not. A topic's room counts over all priorities. */
export function dealTickets(
  position: number,
  rings: ReadyRings,
  request: Pick<ReserveRequest, 'max' | 'others' | 'topics'>,
): Dealt {
  const { served, ...taken } = takeTickets(position, rings, request);
  const left = (priority: Priority) => leftOf(rings[priority], served[priority]);
  return { ...taken, rings: { high: left('high'), normal: left('normal'), low: left('low') } };
}

/** The same in O(max + topics without room before them): rings are read as far as they are needed. */
export function takeTickets(
  position: number,
  rings: Readonly<Record<Priority, Iterable<ReadyTopic>>>,
  request: Pick<ReserveRequest, 'max' | 'others' | 'topics'>,
): Taken {
  const taken = new Map<string, number>();
  const hasRoom = (topic: string) =>
    (taken.get(topic) ?? 0) < (request.topics.get(topic) ?? request.others).room;
  const turns = {
    high: new Turns(rings.high, hasRoom),
    normal: new Turns(rings.normal, hasRoom),
    low: new Turns(rings.low, hasRoom),
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

/** The topics of one priority taking turns. */
class Turns {
  readonly #ring: Iterator<ReadyTopic>;
  readonly #hasRoom: (topic: string) => boolean;
  /** Those that were served and have more, the latest last; what stands before #head is over. */
  readonly #again: ReadyTopic[] = [];
  #head = 0;
  #next: ReadyTopic | null = null;
  /** how many jobs each that was served has left, the latest last */
  readonly served = new Map<string, number>();

  constructor(ring: Iterable<ReadyTopic>, hasRoom: (topic: string) => boolean) {
    this.#ring = ring[Symbol.iterator]();
    this.#hasRoom = hasRoom;
  }

  /** Whose turn it is. TopicCapacity never grows during one plan, so a topic found without any drops out and is looked at once. */
  next(): ReadyTopic | null {
    while (this.#next === null || this.#next.ready === 0 || !this.#hasRoom(this.#next.topic)) {
      this.#next = this.#following();
      if (this.#next === null) return null;
    }
    return this.#next;
  }

  /** The whole ring once, then whoever was served, in the order of the serving. */
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

function leftOf(ring: readonly ReadyTopic[], served: ReadonlyMap<string, number>): readonly ReadyTopic[] {
  const waiting = ring.filter((entry) => entry.ready > 0 && !served.has(entry.topic));
  const after = [...served].map(([topic, ready]) => ({ topic, ready }));
  return [...waiting, ...after.filter((entry) => entry.ready > 0)];
}
