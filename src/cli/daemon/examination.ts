// Prints the result of a check of the store, and ends with exit 1 where an invariant is broken. A difference
// from a journal that waits for an instance breaks none.

import { Exit } from '../exit.ts';
import { printData, printTable, say } from '../output/output.ts';

export interface Examination {
  readonly jobs: number;
  readonly problems: readonly {
    readonly invariant: string;
    readonly what: string;
    readonly count: number;
    readonly examples: readonly string[];
    readonly awaits?: readonly string[];
  }[];
}

/** `text`: the reply as it came, for --json. Throws Exit. */
export function reportExamination(
  { jobs, problems }: Examination,
  text: string,
  asJson: boolean | undefined,
): void {
  if (asJson) printData(text);
  else if (problems.length > 0)
    printTable(
      ['INVARIANT', 'WHAT', 'COUNT', 'EXAMPLES'],
      problems.map((one) => [one.invariant, one.what, String(one.count), one.examples.join(' ')]),
    );
  const broken = problems.filter(({ awaits }) => awaits === undefined);
  if (broken.length > 0) throw new Exit('failed', `${broken.length} invariants of the store are broken`);
  const awaited = new Set(problems.flatMap(({ awaits = [] }) => awaits));
  if (awaited.size === 0) say(`dq: ${jobs} jobs, no problem found`);
  else
    say(
      `dq: ${jobs} jobs, none broken; the journal lacks changes of ${[...awaited].join(', ')}: start it, or give it up (dq restore --now), then check again`,
    );
}
