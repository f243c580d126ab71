// dq fsck: checks the invariants of the store of a running daemon. Changes nothing.

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
    .description('check the store of a running daemon (exit 1 for a broken invariant)');
  withDaemonOptions(command).action(fsck);
}

async function fsck(flags: DaemonOptions): Promise<void> {
  const start = { method: 'POST', path: ['v1', 'fsck'] } as const;
  const { text, json } = await doLongWork<Examination>(clientOf(flags), start, 'checking');
  const { jobs, problems } = json;
  if (flags.json) printData(text);
  else if (problems.length > 0)
    printTable(
      ['INVARIANT', 'WHAT', 'COUNT', 'EXAMPLES'],
      problems.map((one) => [one.invariant, one.what, String(one.count), one.examples.join(' ')]),
    );
  if (problems.length > 0) throw new Exit('failed', `${problems.length} invariants of the store are broken`);
  say(`dq: ${jobs} jobs, no problem found`);
}
