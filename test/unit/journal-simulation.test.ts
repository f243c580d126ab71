// No accepted job is lost and no ended one comes back, whatever the store loses: many random runs of the
// rules of the journal. Each mistake in a rule loses or revives a job.

import { describe, expect, it } from 'vitest';
import { mergeRows } from '../../src/core/journal/job-row.ts';
import { type Fault, type Rules, rules, simulate } from '../support/journal-simulation.ts';

const runs = 20_000;

/** The first run with one of these faults, of the seeds from `first` on. */
function firstFault(its: Rules, faults: readonly Fault[], first = 1): number | null {
  for (let seed = first; seed < first + runs; seed += 1) {
    const fault = simulate(seed, its);
    if (fault !== null && faults.includes(fault)) return seed;
  }
  return null;
}

/** `first`: a seed that finds the mistake; the rare ones need 100,000 runs. */
const mistakes: readonly {
  readonly name: string;
  readonly mistake: Partial<Rules>;
  readonly first?: number;
}[] = [
  {
    name: 'rows are ordered by their number alone',
    mistake: { merge: (a, b) => ({ ...mergeRows(a, b), ...(a.number >= b.number ? a : b) }) },
  },
  {
    name: 'the row of a cancel has the version of the job',
    mistake: { versionOfCancel: (number, job) => job?.version ?? number },
  },
  {
    name: 'the history entry of a cancel has the version of the job',
    mistake: { entryOfCancel: (number, job) => job?.version ?? number },
    first: 8_273,
  },
  { name: 'calls do not send the known number', mistake: { sent: () => 0 } },
  {
    name: 'a newer note hides an older loss',
    mistake: { isNews: (_stored, known, note) => known > (note?.id ?? 0) },
    first: 365_177,
  },
  { name: 'a note begins at the known number', mistake: { lostFrom: (_stored, known) => known } },
  { name: 'all processes share a watermark', mistake: { markOf: () => '' } },
  { name: 'look ignores dead processes', mistake: { looksAtBatch: false } },
  { name: 'look ignores instances', mistake: { looksAtInstances: false }, first: 81_863 },
  { name: 'late rows are ignored', mistake: { isLate: () => false } },
  { name: 'rows are put back before the barrier', mistake: { needsBarrier: false } },
  { name: 'a put ignores the history', mistake: { hasEnded: () => false } },
  { name: 'a late end leaves no history entry', mistake: { leavesEntry: false }, first: 121_288 },
  { name: 'jobs are put back before ends', mistake: { phases: ['jobs', 'ends'] } },
  { name: 'phase ends ignores open rows', mistake: { replacesFirst: false } },
  { name: 'reserve is not held', mistake: { holdsReserve: () => false } },
];

describe('the rules of the journal', () => {
  it('lose and revive no job', () => {
    expect(firstFault(rules, ['lost', 'revived', 'not healed', 'false alarm'])).toBeNull();
  });

  it.each(mistakes)('a mistake loses or revives a job: $name', ({ mistake, first }) => {
    const seed = firstFault({ ...rules, ...mistake }, ['lost', 'revived'], first);
    expect(seed).not.toBeNull();
    if (first !== undefined) expect(seed).toBe(first);
  });
});
