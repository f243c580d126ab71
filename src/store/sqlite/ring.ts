// The topics of one priority that have ready jobs, by number, the one whose turn is next first. Knows the way back: a
// transaction that is undone must leave every turn as it was, and a copy of 10,000 turns for each would cost more than it.

interface Place {
  readonly topic: number;
  before: Place;
  after: Place;
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

  constructor() {
    const root = { topic: 0 } as Place;
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
    const place = { topic } as Place;
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
      else this.#link(place, from);
    }
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
    this.#places.set(place.topic, place);
  }

  #unlink(place: Place): void {
    place.before.after = place.after;
    place.after.before = place.before;
    this.#places.delete(place.topic);
  }
}
