// Capacity per topic in two layers: a base that many reserves share, and an over-layer of the few topics that differ from it
// in one reserve. A reserve neither copies nor compares thousands of topics: consumers compare bases by identity.
// Invariant: a base and an over-layer never change. A topic that leaves the over-layer has the capacity of the base again.

/** Capacity of a notifier for one topic. */
export interface TopicCapacity {
  /** most jobs of this topic in the reply; 0 = skip it (paused, at a limit, unknown to the caller) */
  readonly room: number;
  /** lease of this topic's jobs: its timeout + lease.margin */
  readonly leaseMs: number;
}

/** Capacity by topic. */
export interface TopicRooms extends Iterable<readonly [topic: string, room: TopicCapacity]> {
  readonly size: number;
  get(topic: string): TopicCapacity | undefined;
}

export class BaseRooms {
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

const noRooms = new BaseRooms(new Map());

export class LayeredCapacities implements TopicRooms {
  static readonly none = new LayeredCapacities(noRooms, new Map());

  readonly base: BaseRooms;
  readonly over: ReadonlyMap<string, TopicCapacity>;
  /** Share of each base capacity that this reserve may use; null: all. Capacities of the over-layer are final. */
  readonly parts: ReadonlyMap<number, number> | null;

  constructor(
    base: BaseRooms,
    over: ReadonlyMap<string, TopicCapacity>,
    parts: ReadonlyMap<number, number> | null = null,
  ) {
    this.base = base;
    this.over = over;
    this.parts = parts;
  }

  /** Copies any other map into an over-layer: the map may change later. */
  static of(topics: TopicRooms): LayeredCapacities {
    return topics instanceof LayeredCapacities ? topics : new LayeredCapacities(noRooms, new Map(topics));
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

  /** The capacity of a base topic with `size`, unless the over-layer names it. */
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

  /** Topics that are named here and not in `base`; all topics when this has another base. */
  namesBeside(base: BaseRooms): Iterable<string> {
    return this.base === base ? this.over.keys() : [...this.over.keys(), ...this.base.topics.keys()];
  }

  #ofBase(topic: string): TopicCapacity | undefined {
    const room = this.base.topics.get(topic);
    if (room === undefined || this.parts === null) return room;
    return { room: this.partOf(room.room), leaseMs: room.leaseMs };
  }
}

export function isSameRoom(a: TopicCapacity | undefined, b: TopicCapacity | undefined): boolean {
  return a === b || (a?.room === b?.room && a?.leaseMs === b?.leaseMs);
}
