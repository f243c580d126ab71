// dq run: starts the next attempt of a job now instead of when it is due.

import type { Command } from 'commander';
import { clientOf, type DaemonOptions, withDaemonOptions } from '../daemon/daemon-options.ts';
import { type MovedJob, printMoved } from '../output/moved-job.ts';

export function register(program: Command): void {
  const command = program
    .command('run')
    .description('deliver a job now; no effect when it is ready or reserved')
    .argument('<topic>')
    .argument('<id>');
  withDaemonOptions(command).action(run);
}

async function run(topic: string, id: string, flags: DaemonOptions): Promise<void> {
  const path = ['v1', 'topics', topic, 'jobs', id, 'run'];
  const { text, json } = await clientOf(flags).call<MovedJob>({ method: 'POST', path, needs: ['state'] });
  printMoved(text, json, flags);
}
