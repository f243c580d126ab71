// Prints the result of a check of the store, and ends with exit 1 where an invariant is broken.

import { Exit } from '../exit.ts';
import { printData, printTable, say } from '../output/output.ts';

export interface Examination {
  readonly jobs: number;
  readonly problems: readonly {
    readonly invariant: string;
    readonly what: string;
    readonly count: number;
    readonly examples: readonly string[];
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
  if (problems.length > 0) throw new Exit('failed', `${problems.length} invariants of the store are broken`);
  say(`dq: ${jobs} jobs, no problem found`);
}
