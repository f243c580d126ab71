// The rings of one bucket as one process knows them: which topics have ready jobs, in the order of their turns. A caller with many
// topics without room names the others in its reserve, and the script passes over none (lua/reserve.lua).
// Invariants: each change of a ring takes a turn above all before, so reading what stands behind the last known turn misses
// nothing but departures, and the script reports those of the topics that were named; a topic stands in the copy of a ring once,
// and the copy is in the order of turns.

import { limits } from '../../core/limits.ts';
import type { ReserveRequest, Room } from '../job-store.ts';

export interface NamedTopic {
  readonly topic: string;
  readonly room: Room;
  /** the ring in which it stands (0 high, 1 normal, 2 low), as far as is known; null = in none */
  readonly priority: number | null;
}

export interface Listing {
  /** of each ring the first topics with room; then topics that may come back */
  readonly named: readonly NamedTopic[];
  /** per ring: there may be more topics with room, and enough are named */
  readonly cut: readonly boolean[];
  /** per ring: the last turn that is known */
  readonly known: readonly number[];
}

interface Ring {
  readonly priority: number;
  /** in the order of their turns */
  readonly topics: Set<string>;
  last: number;
}

export class RingCopy {
  /** performance.now() of the first reading */
  readonly #since = performance.now();
  readonly #rings: readonly Ring[] = [0, 1, 2].map((priority) => ({ priority, topics: new Set(), last: 0 }));
  /** Topics that had jobs lately, the latest last: named before they come back, they cost no second script. */
  readonly #recent = new Set<string>();

  /** of its server, when it was begun (shards.ts) */
  readonly losses: number;

  constructor(losses: number) {
    this.losses = losses;
  }

  /** A server that lost its last writes may give turns out again, below those that are known here. */
  get isOld(): boolean {
    return performance.now() - this.#since >= limits.redisRingCopyMs;
  }

  list(request: ReserveRequest): Listing {
    // One more than can be taken, so that the script knows whether any remain. Few are named anyway: some may have gone.
    const most = 1 + Math.max(Math.min(request.max, limits.reserveMax), limits.redisNamedMin);
    const roomOf = (topic: string) => request.topics.get(topic) ?? request.others;
    const named: NamedTopic[] = [];
    const cut: boolean[] = [];
    const listed = new Set<string>();
    for (const { priority, topics } of this.#rings) {
      let count = 0;
      for (const topic of topics) {
        const room = roomOf(topic);
        if (room.room <= 0) continue;
        named.push({ topic, room, priority });
        listed.add(topic);
        count += 1;
        if (count === most) break;
      }
      cut.push(count === most);
    }
    for (const topic of this.#recent)
      if (!listed.has(topic)) named.push({ topic, room: roomOf(topic), priority: null });
    return { named, cut, known: this.#rings.map(({ last }) => last) };
  }

  /** It stands at the end of a ring, and everything before it is known. */
  learn(priority: number, topic: string, turn: number): void {
    const ring = this.#rings[priority];
    if (ring === undefined) return;
    ring.topics.delete(topic);
    ring.topics.add(topic);
    ring.last = Math.max(ring.last, turn);
  }

  /** It has left a ring, or the part of it that is known. */
  forget(priority: number, topic: string): void {
    this.#rings[priority]?.topics.delete(topic);
  }

  served(topic: string): void {
    this.#recent.delete(topic);
    this.#recent.add(topic);
    if (this.#recent.size > limits.redisRoomsMax)
      for (const oldest of this.#recent) {
        this.#recent.delete(oldest);
        break;
      }
  }
}
