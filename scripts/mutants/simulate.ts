// Which simulated world shows a mistake: one that breaks a rule with it, and none without it. A world that
// breaks one without the mistake, too, shows a defect of dq or of a rule.

/** Worlds of seeds in a row. */
export interface Worlds {
  readonly from: number;
  readonly seeds: number;
}

/** Runs these worlds until one breaks a rule: what `npm run sim -- --first` prints. */
export type RunWorlds = (worlds: Worlds) => Promise<string>;

const broken = /^seed (\d+) breaks the rule ".*?"/m;
const clean = /^sim: 1 seeds, \d+ events, 0 violations$/m;

/** The rule that the first such world breaks, with its seed; null: none of these worlds shows the mistake. */
export async function shownBy(
  mistaken: RunWorlds,
  right: RunWorlds,
  { from, seeds }: Worlds,
): Promise<string | null> {
  const found = broken.exec(await mistaken({ from, seeds }));
  if (found === null) return null;
  const seed = Number(found[1]);
  if (clean.test(await right({ from: seed, seeds: 1 }))) return found[0];
  return shownBy(mistaken, right, { from: seed + 1, seeds: from + seeds - seed - 1 });
}
