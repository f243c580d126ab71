// The topics of one priority that have ready jobs, by number, the one whose turn is next first. Knows the way back: a
// transaction that is undone must leave every turn as it was, and a copy of 10,000 turns for each would cost more than it.
// A RingView iterates it for one caller, past the topics that this caller has no room for.

interface Place {
  readonly topic: number;
  /** above those of all places that were made before */
  readonly turn: number;
  /** of a place that is not linked: what stood before it when it was */
  before: Place;
  /** of a place that is not linked: itself, because later places would stay in memory for as long as a view refers to it */
  after: Place;
  isLinked: boolean;
}

interface Step {
  readonly place: Place;
  /** it went from behind this one; null = it came */
  readonly from: Place | null;
}

export class Ring implements Iterable<number> {
  readonly #root: Place;
  readonly #places = new Map<number, Place>();
  /** latest last */
  readonly #steps: Step[] = [];
  #turn = 0;
  #returns = 0;

  constructor() {
    const root = { topic: 0, turn: 0, isLinked: true } as Place;
    root.before = root;
    root.after = root;
    this.#root = root;
  }

  *[Symbol.iterator](): Generator<number> {
    for (let place = this.#root.after; place !== this.#root; place = place.after) yield place.topic;
  }

  /** Its turn is the last one. */
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

  mark(): number {
    return this.#steps.length;
  }

  takeBack(mark: number): void {
    while (this.#steps.length > mark) {
      const { place, from } = this.#steps.pop() as Step;
      if (from === null) this.#unlink(place);
      else {
        this.#link(place, from);
        this.#returns += 1;
      }
    }
  }

  /** How often a place came back to where it was: views must start again. */
  get returns(): number {
    return this.#returns;
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

  /** There is no way back from here. */
  keep(): void {
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
  /** by priority; for requests with room for topics that they do not name */
  readonly rings: readonly RingView[];
  /** The caller has room for a topic again. */
  gained(topic: string): void;
}

/** A ring for one caller, which has told all changes of its rooms (`gained`). Invariant: each topic up to #last is without room,
 *  or among #gained. */
export class RingView {
  readonly #ring: Ring;
  #last: Place;
  #returns: number;
  /** topics that may stand before #last and have room */
  readonly #gained = new Set<number>();

  constructor(ring: Ring) {
    this.#ring = ring;
    this.#last = ring.root;
    this.#returns = ring.returns;
  }

  /** The caller has room for it again. */
  gained(topic: number): void {
    this.#gained.add(topic);
  }

  /** In turn; topics without room need not be among them. `hasRoom`: of the caller, as it has told. */
  *topics(hasRoom: (topic: number) => boolean): Generator<number> {
    this.#settle();
    yield* this.#regained(hasRoom);
    let isFront = true;
    for (let place = this.#last.after; place !== this.#ring.root; place = place.after) {
      const isOpen = hasRoom(place.topic);
      isFront &&= !isOpen;
      if (isFront) this.#last = place;
      else if (isOpen) yield place.topic;
    }
  }

  /** What was passed over may have gone, or come back. */
  #settle(): void {
    if (this.#returns !== this.#ring.returns) {
      this.#returns = this.#ring.returns;
      this.#last = this.#ring.root;
    }
    while (!this.#last.isLinked) this.#last = this.#last.before;
  }

  #regained(hasRoom: (topic: number) => boolean): number[] {
    const places: Place[] = [];
    for (const topic of this.#gained) {
      const place = this.#ring.placeOf(topic);
      // Where it is absent or stands behind, it is met in its turn.
      if (place === undefined || place.turn > this.#last.turn || !hasRoom(topic)) this.#gained.delete(topic);
      else places.push(place);
    }
    return places.sort((a, b) => a.turn - b.turn).map(({ topic }) => topic);
  }
}
