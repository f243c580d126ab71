// Holds capacity per topic in two layers: a base that many reserves share, and the few topics that differ
// from it in one reserve.
// Invariant: a base and an over-layer never change after they were made. A topic that leaves the over-layer
// has the capacity of the base again.
// Thousands of topics without capacity are neither copied nor compared per reserve: bases are compared by
// identity.

/** The jobs that a notifier may still take of one topic. Both names are part of the wire format of a
 *  reserve. */
export interface TopicCapacity {
  /** at most this many jobs of the topic in the answer; 0 = skip it (paused, at a limit, unknown to the
   *  caller) */
  readonly room: number;
  /** lease of this topic's jobs, in ms: its timeout + lease.margin */
  readonly leaseMs: number;
}

/** Capacity by topic. */
export interface TopicCapacities extends Iterable<readonly [topic: string, capacity: TopicCapacity]> {
  readonly size: number;
  get(topic: string): TopicCapacity | undefined;
}

export class CapacityBase {
  readonly topics: ReadonlyMap<string, TopicCapacity>;
  /** the distinct capacities above 0 */
  readonly sizes: ReadonlySet<number>;

  constructor(topics: ReadonlyMap<string, TopicCapacity>) {
    this.topics = topics;
    const sizes = new Set<number>();
    for (const { room } of topics.values()) if (room > 0) sizes.add(room);
    this.sizes = sizes;
  }
}

const emptyBase = new CapacityBase(new Map());

export class LayeredCapacities implements TopicCapacities {
  static readonly none = new LayeredCapacities(emptyBase, new Map());

  readonly base: CapacityBase;
  readonly over: ReadonlyMap<string, TopicCapacity>;
  /** The part of each size of the base that this reserve may use; null: all. The over-layer is whole. */
  readonly parts: ReadonlyMap<number, number> | null;

  constructor(
    base: CapacityBase,
    over: ReadonlyMap<string, TopicCapacity>,
    parts: ReadonlyMap<number, number> | null = null,
  ) {
    this.base = base;
    this.over = over;
    this.parts = parts;
  }

  /** Copies any other map into an over-layer, because it may change later. */
  static of(topics: TopicCapacities): LayeredCapacities {
    return topics instanceof LayeredCapacities ? topics : new LayeredCapacities(emptyBase, new Map(topics));
  }

  get size(): number {
    const { topics } = this.base;
    let size = topics.size;
    for (const topic of this.over.keys()) if (!topics.has(topic)) size += 1;
    return size;
  }

  get(topic: string): TopicCapacity | undefined {
    return this.over.get(topic) ?? this.#ofBase(topic);
  }

  *[Symbol.iterator](): Generator<readonly [string, TopicCapacity]> {
    yield* this.over;
    for (const topic of this.base.topics.keys())
      if (!this.over.has(topic)) yield [topic, this.#ofBase(topic) as TopicCapacity];
  }

  /** Capacity here of a base topic of this `size` that the over-layer does not name. */
  partOf(size: number): number {
    return this.parts === null ? size : (this.parts.get(size) ?? 0);
  }

  /** Topics that may have another capacity than in `earlier`. */
  changedSince(earlier: LayeredCapacities): ReadonlySet<string> {
    const isShared = this.base === earlier.base && this.parts === earlier.parts;
    const names = new Set(this.over.keys());
    for (const topic of earlier.over.keys()) names.add(topic);
    if (isShared) return names;
    for (const { base } of [this, earlier]) for (const topic of base.topics.keys()) names.add(topic);
    return names;
  }

  /** Topics that are named here and not in `base`. With another base, all of its topics are among them. */
  namesBeside(base: CapacityBase): Iterable<string> {
    return this.base === base ? this.over.keys() : [...this.over.keys(), ...this.base.topics.keys()];
  }

  #ofBase(topic: string): TopicCapacity | undefined {
    const capacity = this.base.topics.get(topic);
    if (capacity === undefined || this.parts === null) return capacity;
    return { room: this.partOf(capacity.room), leaseMs: capacity.leaseMs };
  }
}

export function isSameCapacity(a: TopicCapacity | undefined, b: TopicCapacity | undefined): boolean {
  return a === b || (a?.room === b?.room && a?.leaseMs === b?.leaseMs);
}
