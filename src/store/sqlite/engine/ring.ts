// Orders the topics of one priority that have ready jobs, next turn first. Records its changes, so that an
// undone transaction restores every turn; copying 10,000 turns per transaction would cost more than the work.
// A RingView iterates it for one caller and skips topics without capacity.

interface Place {
  readonly topic: number;
  /** higher than that of all older places */
  readonly turn: number;
  /** of an unlinked place: the place before it when it was unlinked */
  before: Place;
  /** of an unlinked place: itself; a view that refers to it must not keep later places in memory */
  after: Place;
  isLinked: boolean;
}

interface Step {
  readonly place: Place;
  /** removed from behind this place; null: added */
  readonly from: Place | null;
}

export class Ring implements Iterable<number> {
  readonly #root: Place;
  readonly #places = new Map<number, Place>();
  /** latest last */
  readonly #steps: Step[] = [];
  #turn = 0;
  #restores = 0;

  constructor() {
    const root = { topic: 0, turn: 0, isLinked: true } as Place;
    root.before = root;
    root.after = root;
    this.#root = root;
  }

  *[Symbol.iterator](): Generator<number> {
    for (let place = this.#root.after; place !== this.#root; place = place.after) yield place.topic;
  }

  /** Appends the topic: its turn comes last. */
  add(topic: number): void {
    if (this.#places.has(topic)) return;
    this.#turn += 1;
    const place = { topic, turn: this.#turn } as Place;
    this.#link(place, this.#root.before);
    this.#steps.push({ place, from: null });
  }

  delete(topic: number): void {
    const place = this.#places.get(topic);
    if (place === undefined) return;
    this.#steps.push({ place, from: place.before });
    this.#unlink(place);
  }

  savepoint(): number {
    return this.#steps.length;
  }

  rollBackTo(savepoint: number): void {
    while (this.#steps.length > savepoint) {
      const { place, from } = this.#steps.pop() as Step;
      if (from === null) this.#unlink(place);
      else {
        this.#link(place, from);
        this.#restores += 1;
      }
    }
  }

  /** How often a removed place was restored: views must start again. */
  get restores(): number {
    return this.#restores;
  }

  get root(): Place {
    return this.#root;
  }

  /** Those of the topics that have a place, in turn. */
  inTurn(topics: readonly number[]): readonly number[] {
    const places = topics.map((topic) => this.#places.get(topic)).filter((place) => place !== undefined);
    return places.sort((a, b) => a.turn - b.turn).map(({ topic }) => topic);
  }

  placeOf(topic: number): Place | undefined {
    return this.#places.get(topic);
  }

  /** Ends the possibility to roll back. */
  commit(): void {
    this.#steps.length = 0;
  }

  #link(place: Place, before: Place): void {
    place.before = before;
    place.after = before.after;
    before.after.before = place;
    before.after = place;
    place.isLinked = true;
    this.#places.set(place.topic, place);
  }

  #unlink(place: Place): void {
    place.before.after = place.after;
    place.after.before = place.before;
    place.after = place;
    place.isLinked = false;
    this.#places.delete(place.topic);
  }
}

/** The rings of all priorities for one caller. */
export interface RingViews {
  /** by priority; for requests with capacity for topics that they do not name */
  readonly rings: readonly RingView[];
  /** The caller has capacity for a topic again. */
  gained(topic: string): void;
}

/** A ring for one caller, which reports each topic that gains capacity (`gained`). Invariant: each topic up
 *  to #last is without capacity, or in #gained. */
export class RingView {
  readonly #ring: Ring;
  #last: Place;
  #restores: number;
  /** topics that may stand before #last and have capacity */
  readonly #gained = new Set<number>();

  constructor(ring: Ring) {
    this.#ring = ring;
    this.#last = ring.root;
    this.#restores = ring.restores;
  }

  /** The caller has capacity for it again. */
  gained(topic: number): void {
    this.#gained.add(topic);
  }

  /** In turn; may omit topics without capacity. `hasCapacity`: of the caller, as reported. */
  *topics(hasCapacity: (topic: number) => boolean): Generator<number> {
    this.#resync();
    yield* this.#regained(hasCapacity);
    let isFront = true;
    for (let place = this.#last.after; place !== this.#ring.root; place = place.after) {
      const isOpen = hasCapacity(place.topic);
      isFront &&= !isOpen;
      if (isFront) this.#last = place;
      else if (isOpen) yield place.topic;
    }
  }

  /** Skipped places may have been removed or restored. */
  #resync(): void {
    if (this.#restores !== this.#ring.restores) {
      this.#restores = this.#ring.restores;
      this.#last = this.#ring.root;
    }
    while (!this.#last.isLinked) this.#last = this.#last.before;
  }

  #regained(hasCapacity: (topic: number) => boolean): number[] {
    const places: Place[] = [];
    for (const topic of this.#gained) {
      const place = this.#ring.placeOf(topic);
      // An absent topic, or one behind #last, is met in its turn.
      if (place === undefined || place.turn > this.#last.turn || !hasCapacity(topic))
        this.#gained.delete(topic);
      else places.push(place);
    }
    return places.sort((a, b) => a.turn - b.turn).map(({ topic }) => topic);
  }
}
