// Divides lists: into parts of bounded length or size, and into groups by a key. All keep the order.

export function inBatches<T>(items: readonly T[], max: number): readonly (readonly T[])[] {
  const batches: (readonly T[])[] = [];
  for (let at = 0; at < items.length; at += max) batches.push(items.slice(at, at + max));
  return batches;
}

/** The first items that have at most this size together; at least one. */
export function firstWithin<T>(items: readonly T[], max: number, sizeOf: (item: T) => number): readonly T[] {
  let size = 0;
  const end = items.findIndex((item, n) => {
    size += sizeOf(item);
    return n > 0 && size > max;
  });
  return end < 0 ? items : items.slice(0, end);
}

/** All items, in parts of at most this size. A larger item is a part of its own. */
export function* partsWithin<T>(
  items: readonly T[],
  max: number,
  sizeOf: (item: T) => number,
): Generator<readonly T[]> {
  for (let left = items; left.length > 0; ) {
    const part = firstWithin(left, max, sizeOf);
    yield part;
    left = left.slice(part.length);
  }
}

/** Keys in the order of their first items. */
export function grouped<T, K>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/** The first `max` of any number of items in an order: it holds at most twice as many, and most items cost
 *  one comparison. */
export class First<T> {
  readonly #max: number;
  readonly #order: (a: T, b: T) => number;
  #kept: T[] = [];
  #last: T | undefined;

  constructor(max: number, order: (a: T, b: T) => number) {
    this.#max = max;
    this.#order = order;
  }

  add(item: T): void {
    if (this.#last !== undefined && this.#order(item, this.#last) >= 0) return;
    this.#kept.push(item);
    if (this.#kept.length < 2 * this.#max) return;
    this.#kept = this.items();
    this.#last = this.#kept.at(-1);
  }

  items(): T[] {
    return this.#kept.toSorted(this.#order).slice(0, this.#max);
  }
}
