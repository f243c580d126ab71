// dq nack: attempts of pulled jobs have failed.

import type { Command } from 'commander';
import { answerLeases } from '../answer-leases.ts';
import { type DaemonOptions, withDaemonOptions } from '../daemon/daemon-options.ts';

interface NackFlags extends DaemonOptions {
  readonly delay?: string;
  readonly reason?: string;
  readonly dead?: boolean;
  readonly release?: boolean;
}

export function register(program: Command): void {
  const command = program
    .command('nack')
    .description('end attempts of pulled jobs as failed')
    .argument('<lease...>', 'leases of dq pull, at most 1000')
    .option('--delay <duration>', 'wait before the next attempt; default: the backoff of the topic')
    .option('--reason <text>', 'reason, kept with the attempt')
    .option('--dead', 'no further attempt: the jobs become dead letters')
    .option('--release', 'back in their places at once, no attempt counted');
  withDaemonOptions(command).action(
    (leases: readonly string[], { delay, reason, dead, release, ...flags }: NackFlags) =>
      answerLeases('nack', leases, { delay, reason, dead, release }, flags),
  );
}
