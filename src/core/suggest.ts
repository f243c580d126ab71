// "did you mean": finds the known name that is nearest to a mistyped one.

import { editDistance } from './edit-distance.ts';

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
