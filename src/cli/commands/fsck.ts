// dq fsck: checks the invariants of the store of a running daemon. Changes nothing.

import type { Command } from 'commander';
import { clientOf, type DaemonOptions, withDaemonOptions } from '../daemon/daemon-options.ts';
import { type Examination, reportExamination } from '../daemon/examination.ts';
import { doLongWork } from '../daemon/long-work.ts';

export function register(program: Command): void {
  const command = program
    .command('fsck')
    .description('check the store of a running daemon (exit 1 for a broken invariant)');
  withDaemonOptions(command).action(fsck);
}

async function fsck(flags: DaemonOptions): Promise<void> {
  const start = { method: 'POST', path: ['v1', 'fsck'] } as const;
  const { text, json } = await doLongWork<Examination>(clientOf(flags), start, 'checking');
  reportExamination(json, text, flags.json);
}
