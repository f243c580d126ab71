// "did you mean": finds the known name that is nearest to a mistyped one.

/** The Levenshtein distance: letters to insert, remove or change; `max` + 1 for every larger distance. The
 *  bound makes its cost linear in the length of the texts. */
export function editDistance(a: string, b: string, max: number): number {
  if (Math.abs(a.length - b.length) > max) return max + 1;
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    // Cells further than `max` from the diagonal exceed `max`.
    const from = Math.max(1, i - max);
    const to = Math.min(b.length, i + max);
    const row = new Array<number>(b.length + 1).fill(max + 1);
    if (from === 1) row[0] = i;
    let best = row[0] ?? max + 1;
    for (let j = from; j <= to; j++) {
      const changed = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const cell = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, changed);
      row[j] = cell;
      if (cell < best) best = cell;
    }
    if (best > max) return max + 1;
    last = row;
  }
  return Math.min(last[b.length] ?? 0, max + 1);
}

/** The nearest of `known`, or null where more than one letter in three differs. */
export function suggest(given: string, known: readonly string[]): string | null {
  const wanted = given.slice(0, 64).toLowerCase();
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const name of known) {
    const distance = editDistance(wanted, name.toLowerCase(), bestDistance);
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}
