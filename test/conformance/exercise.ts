// Defines a job store: every implementation passes these cases unchanged, and equals the model in random
// operations. For mistakes that those may miss, mutants.test.ts shows that a case turns red. A case gets an
// empty store on a clock that only the case moves, and relies only on the port and the dump.

import { describe, it } from 'vitest';
import { adminCases } from './cases/admin.ts';
import { alertCases } from './cases/alerts.ts';
import { cancelCases, promoteCases } from './cases/cancel-promote.ts';
import { deadCases } from './cases/dead.ts';
import { editCases } from './cases/edit.ts';
import { finishCases } from './cases/finish.ts';
import { hintCases } from './cases/hints.ts';
import { historyCases } from './cases/history.ts';
import { identityCases } from './cases/identity.ts';
import { outcomeCases } from './cases/outcome.ts';
import { pullCases } from './cases/pull.ts';
import { pushCases } from './cases/push.ts';
import { recoverCases } from './cases/recover.ts';
import { reserveCases } from './cases/reserve.ts';
import { searchCases } from './cases/search.ts';
import { surveyCases } from './cases/surveys.ts';
import { verbCases } from './cases/verbs.ts';
import type { OpenStore } from './store-under-test.ts';
import type { Case } from './trial.ts';

export const cases: readonly Case[] = [
  ...pushCases,
  ...cancelCases,
  ...promoteCases,
  ...reserveCases,
  ...finishCases,
  ...outcomeCases,
  ...recoverCases,
  ...pullCases,
  ...deadCases,
  ...verbCases,
  ...editCases,
  ...historyCases,
  ...searchCases,
  ...surveyCases,
  ...alertCases,
  ...adminCases,
  ...identityCases,
  ...hintCases,
];

export function exercise(name: string, openStore: OpenStore): void {
  describe(name, () => {
    for (const each of cases) it(each.title, () => each.run(openStore));
  });
}
