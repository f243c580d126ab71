// Divides lists: into parts of bounded size, and into groups by a key. Both keep the order.

export function inBatches<T>(items: readonly T[], max: number): readonly (readonly T[])[] {
  const batches: (readonly T[])[] = [];
  for (let at = 0; at < items.length; at += max) batches.push(items.slice(at, at + max));
  return batches;
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
