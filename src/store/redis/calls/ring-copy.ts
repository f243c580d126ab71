// The rings of one bucket as one process knows them: which topics have ready jobs, in the order of their turns. A caller with many
// topics without room names the others in its reserve, and the script passes over none (lua/reserve.lua).
// Topics without capacity in the base of the reserves (core/layered-capacities.ts) are passed over once per base.
// Invariants: each change of a ring takes a turn above all before, so reading what stands behind the last known turn misses
// nothing but departures, and the script reports those of the topics that were named; a topic stands in the copy of a ring once,
// and the copy is in the order of turns.

import { type CapacityBase, LayeredCapacities } from '../../../core/layered-capacities.ts';
import { limits } from '../../../core/limits.ts';
import type { ReserveRequest, TopicCapacity } from '../../../ports/job-store.ts';
import { redisLimits } from '../limits.ts';

export interface NamedTopic {
  readonly topic: string;
  readonly room: TopicCapacity;
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
  /** with their turns, in the order of these */
  readonly topics: Map<string, number>;
  /** of them, in the same order, all that have capacity in the base, or are not named there */
  readonly open: Map<string, number>;
  last: number;
}

export class RingCopy {
  /** performance.now() of the first reading */
  readonly #since = performance.now();
  readonly #rings: readonly Ring[] = [0, 1, 2].map((priority) => ({
    ...{ priority, topics: new Map(), open: new Map(), last: 0 },
  }));
  /** of the last list: `open` is by it */
  #base: CapacityBase = LayeredCapacities.none.base;
  /** Topics that had jobs lately, the latest last: named before they come back, they cost no second script. */
  readonly #recent = new Set<string>();

  /** of its server, when it was begun (shards.ts) */
  readonly losses: number;

  constructor(losses: number) {
    this.losses = losses;
  }

  /** A server that lost its last writes may give turns out again, below those that are known here. */
  get isOld(): boolean {
    return performance.now() - this.#since >= redisLimits.redisRingCopyMs;
  }

  list(request: ReserveRequest): Listing {
    // One more than can be taken, so that the script knows whether any remain. Few are named anyway: some may have gone.
    const most = 1 + Math.max(Math.min(request.max, limits.reserveMax), redisLimits.redisNamedMin);
    const topics = LayeredCapacities.of(request.topics);
    const roomOf = (topic: string) => topics.get(topic) ?? request.others;
    // Without room for others, and without a base, the over-layer names all that may have room.
    const isOverOnly = request.others.room <= 0 && topics.base.topics.size === 0;
    if (!isOverOnly) this.#passOver(topics.base);
    const reopened = [...topics.over]
      .filter(([topic, { room }]) => room > 0 && (isOverOnly || !this.#isOpen(topic)))
      .map(([topic]) => topic);
    const named: NamedTopic[] = [];
    const cut: boolean[] = [];
    const listed = new Set<string>();
    for (const ring of this.#rings) {
      const { priority } = ring;
      let count = 0;
      for (const topic of inTurn(ring, isOverOnly ? [] : ring.open, reopened)) {
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
    this.forget(priority, topic);
    ring.topics.set(topic, turn);
    if (this.#isOpen(topic)) ring.open.set(topic, turn);
    ring.last = Math.max(ring.last, turn);
  }

  /** It has left a ring, or the part of it that is known. */
  forget(priority: number, topic: string): void {
    this.#rings[priority]?.topics.delete(topic);
    this.#rings[priority]?.open.delete(topic);
  }

  served(topic: string): void {
    this.#recent.delete(topic);
    this.#recent.add(topic);
    if (this.#recent.size > redisLimits.redisRoomsMax)
      for (const oldest of this.#recent) {
        this.#recent.delete(oldest);
        break;
      }
  }

  #isOpen(topic: string): boolean {
    return (this.#base.topics.get(topic)?.room ?? 1) > 0;
  }

  #passOver(base: CapacityBase): void {
    if (this.#base === base) return;
    this.#base = base;
    for (const { topics, open } of this.#rings) {
      open.clear();
      for (const [topic, turn] of topics) if (this.#isOpen(topic)) open.set(topic, turn);
    }
  }
}

/** The topics of a ring that may have capacity: those of `open`, and between them the reopened ones. */
function* inTurn(
  { topics }: Ring,
  open: Iterable<readonly [topic: string, turn: number]>,
  reopened: readonly string[],
): Generator<string> {
  const turnOf = (topic: string) => topics.get(topic) as number;
  const between = reopened.filter((topic) => topics.has(topic)).sort((a, b) => turnOf(a) - turnOf(b));
  let next = 0;
  for (const [topic, turn] of open) {
    for (; next < between.length && turnOf(between[next] as string) < turn; next += 1)
      yield between[next] as string;
    yield topic;
  }
  yield* between.slice(next);
}
