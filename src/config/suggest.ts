// "did you mean": the known name that a mistyped one is nearest to.

import { editDistance } from '../core/edit-distance.ts';

/** The nearest of `known`, or null when none is near enough to be meant: at most one letter in three wrong. */
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
