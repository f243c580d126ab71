// dq fsck: whether the store of a running daemon keeps its invariants. Changes nothing.

import type { Command } from 'commander';
import { clientOf, type DaemonOptions, withDaemonOptions } from '../daemon/daemon-options.ts';
import { doLongWork } from '../daemon/long-work.ts';
import { Exit } from '../exit.ts';
import { printData, printTable, say } from '../output/output.ts';

interface Examination {
  readonly jobs: number;
  readonly problems: readonly {
    readonly invariant: string;
    readonly what: string;
    readonly count: number;
    readonly examples: readonly string[];
  }[];
}

export function register(program: Command): void {
  const command = program
    .command('fsck')
    .description(
      'examine the store of a running daemon; changes nothing, ends with 1 when something is wrong',
    );
  withDaemonOptions(command).action(fsck);
}

async function fsck(flags: DaemonOptions): Promise<void> {
  const start = { method: 'POST', path: ['v1', 'fsck'] } as const;
  const { text, json } = await doLongWork<Examination>(clientOf(flags), start, 'examining');
  const { jobs, problems } = json;
  if (flags.json) printData(text);
  else if (problems.length > 0)
    printTable(
      ['INVARIANT', 'WHAT', 'COUNT', 'EXAMPLES'],
      problems.map((one) => [one.invariant, one.what, String(one.count), one.examples.join(' ')]),
    );
  if (problems.length > 0) throw new Exit('failed', `the store breaks ${problems.length} of its invariants`);
  say(`dq: ${jobs} jobs, nothing is wrong`);
}
