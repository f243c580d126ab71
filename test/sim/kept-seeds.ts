// The worlds of test/sim/seeds, each of which once broke a rule. A file is a plan and a defect in a sentence.
// `npm run sim -- --kept` runs them before the others.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Plan } from './world.ts';

export interface KeptSeed extends Plan {
  readonly defect: string;
}

/** @param directory - test/sim/seeds */
export function keptSeeds(directory: string): readonly KeptSeed[] {
  const names = readdirSync(directory).filter((name) => name.endsWith('.json'));
  return names.sort().map((name) => JSON.parse(readFileSync(join(directory, name), 'utf8')) as KeptSeed);
}
