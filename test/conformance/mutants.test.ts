// Shows that the suite detects the mistakes that random operations may miss: the named case passes on the
// model and fails on the mutant.

import { describe, expect, it } from 'vitest';
import { setUsualDeadline } from '../support/until.ts';
import { cases } from './exercise.ts';
import { coldMutants, silentMutant } from './mutants/cold.ts';
import { editMutants } from './mutants/edit.ts';
import { endingMutants } from './mutants/endings.ts';
import { fenceMutants } from './mutants/fence.ts';
import { historyMutants } from './mutants/history.ts';
import type { Mutant } from './mutants/mutant.ts';
import { pullMutants } from './mutants/pull.ts';
import { pushMutants } from './mutants/push.ts';
import { searchMutants } from './mutants/search.ts';
import { surveyMutants } from './mutants/surveys.ts';

const mutants: readonly Mutant[] = [
  ...fenceMutants,
  ...pushMutants,
  ...endingMutants,
  ...pullMutants,
  ...coldMutants,
  ...editMutants,
  ...historyMutants,
  ...searchMutants,
  ...surveyMutants,
  silentMutant,
];

// Mutants that never send or never end run into this deadline. On the model, in this process, the right
// answer takes milliseconds.
setUsualDeadline(5_000);

describe('a store with a mistake fails the suite', () => {
  it.each(mutants)('$mistake', async ({ caughtBy, openStore }) => {
    const named = cases.find((each) => each.title === caughtBy);
    if (named === undefined) throw new Error(`unknown case "${caughtBy}"`);
    await expect(named.run(openStore)).rejects.toThrow();
  });
});
