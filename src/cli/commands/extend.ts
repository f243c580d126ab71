// dq extend: leases of pulled jobs end later.

import type { Command } from 'commander';
import { answerLeases } from '../answer-leases.ts';
import { type DaemonOptions, withDaemonOptions } from '../daemon/daemon-options.ts';

interface ExtendFlags extends DaemonOptions {
  readonly for: string;
}

export function register(program: Command): void {
  const command = program
    .command('extend')
    .description('let leases of pulled jobs end later, and print when')
    .argument('<lease...>', 'leases of dq pull, at most 1000')
    .requiredOption('--for <duration>', 'from now on, 1s to 1d');
  withDaemonOptions(command).action((leases: readonly string[], { for: length, ...flags }: ExtendFlags) =>
    answerLeases('extend', leases, { for: length }, flags),
  );
}
