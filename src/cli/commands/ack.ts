// dq ack: pulled jobs are done.

import type { Command } from 'commander';
import { answerLeases } from '../answer-leases.ts';
import { type DaemonOptions, withDaemonOptions } from '../daemon/daemon-options.ts';

export function register(program: Command): void {
  const command = program
    .command('ack')
    .description('end pulled jobs as done')
    .argument('<lease...>', 'leases of dq pull, at most 1000');
  withDaemonOptions(command).action((leases: readonly string[], flags: DaemonOptions) =>
    answerLeases('ack', leases, {}, flags),
  );
}
