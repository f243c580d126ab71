// Which simulated world shows a mistake: one that breaks a rule with it, and none without it. A world that
// breaks one without the mistake, too, shows a defect of dq or of a rule.

/** Worlds of seeds in a row. */
export interface Worlds {
  readonly from: number;
  readonly seeds: number;
}

/** Runs these worlds until one breaks a rule: what `npm run sim -- --first` prints. */
export type RunWorlds = (worlds: Worlds) => Promise<string>;

/** `rule`: that the first world breaks only with the mistake, with its seed; null: none of these worlds shows
 *  the mistake. `late`: some worlds have no result, which proves nothing. */
export type Shown = { readonly kind: 'ended'; readonly rule: string | null } | { readonly kind: 'late' };

const broken = /^seed (\d+) breaks the rule ".*?"/m;
const clean = /^sim: \d+ seeds, \d+ events, 0 violations$/m;

export async function shownBy(mistaken: RunWorlds, right: RunWorlds, worlds: Worlds): Promise<Shown> {
  const output = await mistaken(worlds);
  const found = broken.exec(output);
  if (found === null) return clean.test(output) ? { kind: 'ended', rule: null } : { kind: 'late' };
  const seed = Number(found[1]);
  const without = await right({ from: seed, seeds: 1 });
  if (clean.test(without)) return { kind: 'ended', rule: found[0] };
  if (!broken.test(without)) return { kind: 'late' };
  return shownBy(mistaken, right, { from: seed + 1, seeds: worlds.from + worlds.seeds - seed - 1 });
}
