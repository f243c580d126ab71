// The end of dq fsck: which findings make it exit with 1.
import { expect, it } from 'vitest';
import { reportExamination } from '../../src/cli/commands/fsck.ts';
import { Exit } from '../../src/cli/exit.ts';
import type { FsckJson } from '../../src/contract/api/store.ts';

const found = { what: 'live jobs without an open row', count: 1, examples: ['t/a'] };

it('fsck: differences that await an instance break no invariant; others beside them do', () => {
  const awaiting = { invariant: 'J1', ...found, awaits: ['instance 9 on far'] };
  const report = (problems: NonNullable<FsckJson['problems']>) => () =>
    reportExamination({ state: 'done', jobs: 3, problems }, '{}', false);
  expect(report([])).not.toThrow();
  expect(report([awaiting])).not.toThrow();
  expect(report([awaiting, { invariant: 'J3', ...found }])).toThrow(Exit);
  expect(report([awaiting, { invariant: 'J3', ...found }])).toThrow('1 invariants of the store are broken');
});
