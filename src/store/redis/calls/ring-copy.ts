// Copies the rings of one bucket: the topics with ready jobs, in the order of their turns. A reserve with
// many topics without capacity names the others from this copy, and the script passes over none
// (lua/reserve.lua). Topics without capacity in the base of the reserves (core/layered-capacities.ts) are
// passed over once per base.
// Invariants: each change of a ring takes a turn above all before. So reading after the last known turn
// misses only departures, and the script reports those of the named topics. A topic is in the copy of a ring
// once; the copy is in the order of turns.

import { type CapacityBase, LayeredCapacities } from '../../../core/layered-capacities.ts';
import { limits } from '../../../core/limits.ts';
import type { ReserveRequest, TopicCapacity } from '../../../ports/job-store.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { redisLimits } from '../limits.ts';

interface NamedTopic {
  readonly topic: string;
  readonly capacity: TopicCapacity;
  /** the last known ring of the topic (0 high, 1 normal, 2 low); null = in none */
  readonly priority: number | null;
}

export interface Listing {
  /** the first topics with capacity of each ring, then topics that may return */
  readonly named: readonly NamedTopic[];
  /** per ring: enough topics are named, and there may be more with capacity */
  readonly cut: readonly boolean[];
  /** per ring: the last known turn */
  readonly known: readonly number[];
}

interface Ring {
  readonly priority: number;
  /** topics by their turns, in that order */
  readonly topics: Map<string, number>;
  /** those of them with capacity in the base, or not named there, in the same order */
  readonly open: Map<string, number>;
  last: number;
}

export class RingCopy {
  /** monotonicNow() of the first reading */
  readonly #since = monotonicNow();
  readonly #rings: readonly Ring[] = [0, 1, 2].map((priority) => ({
    priority,
    topics: new Map(),
    open: new Map(),
    last: 0,
  }));
  /** of the last list; `open` follows it */
  #base: CapacityBase = LayeredCapacities.none.base;
  /** Topics that had jobs recently, the latest last. Named before they return, they cost no second script. */
  readonly #recent = new Set<string>();

  /** Shards.lossesOf when the copy was made */
  readonly losses: number;

  constructor(losses: number) {
    this.losses = losses;
  }

  /** Copies do not live long: a server that lost its last writes may repeat turns below the known ones. */
  get isOld(): boolean {
    return monotonicNow() - this.#since >= redisLimits.ringCopyMs;
  }

  list(request: ReserveRequest): Listing {
    // One more than max, so that the script knows whether any remain; at least namedMin, because some
    // may be gone.
    const most = 1 + Math.max(Math.min(request.max, limits.reserveMax), redisLimits.namedMin);
    const topics = LayeredCapacities.of(request.topics);
    const capacityOf = (topic: string) => topics.get(topic) ?? request.others;
    // Without capacity for others, and without a base, the over-layer names all topics that may have
    // capacity.
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
        const capacity = capacityOf(topic);
        if (capacity.room <= 0) continue;
        named.push({ topic, capacity, priority });
        listed.add(topic);
        count += 1;
        if (count === most) break;
      }
      cut.push(count === most);
    }
    for (const topic of this.#recent)
      if (!listed.has(topic)) named.push({ topic, capacity: capacityOf(topic), priority: null });
    return { named, cut, known: this.#rings.map(({ last }) => last) };
  }

  /** The topic is at the end of a ring, and everything before it is known. */
  learn(priority: number, topic: string, turn: number): void {
    const ring = this.#rings[priority];
    if (ring === undefined) return;
    this.forget(priority, topic);
    ring.topics.set(topic, turn);
    if (this.#isOpen(topic)) ring.open.set(topic, turn);
    ring.last = Math.max(ring.last, turn);
  }

  /** The topic has left a ring, or the known part of it. */
  forget(priority: number, topic: string): void {
    this.#rings[priority]?.topics.delete(topic);
    this.#rings[priority]?.open.delete(topic);
  }

  served(topic: string): void {
    this.#recent.delete(topic);
    this.#recent.add(topic);
    if (this.#recent.size > redisLimits.capacitiesMax)
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

/** The topics of a ring that may have capacity, by turn: those of `open` merged with the reopened ones. */
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
