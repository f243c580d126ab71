// dq reschedule: changes the time of the next attempt of a job.

import type { Command } from 'commander';
import { clientOf, type DaemonOptions, withDaemonOptions } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { type MovedJob, printMoved } from '../output/moved-job.ts';

interface RescheduleFlags extends DaemonOptions {
  readonly delay?: string;
  readonly at?: string;
}

export function register(program: Command): void {
  const command = program
    .command('reschedule')
    .description('change the time of the next attempt; past attempts still count')
    .argument('<topic>')
    .argument('<id>')
    .option('--delay <duration>', 'wait from now: 30s, 10m, 1h30m')
    .option('--at <time>', 'time: RFC 3339 with an offset, or epoch milliseconds');
  withDaemonOptions(command).action(reschedule);
}

async function reschedule(topic: string, id: string, flags: RescheduleFlags): Promise<void> {
  const { delay, at } = flags;
  if ((delay === undefined) === (at === undefined)) throw new Exit('usage', 'give --delay or --at');
  const path = ['v1', 'topics', topic, 'jobs', id, 'reschedule'];
  const call = {
    method: 'POST',
    path,
    query: { delay, at },
    flags: { delay: '--delay', at: '--at' },
    needs: ['state'],
  } as const;
  const { text, json } = await clientOf(flags).call<MovedJob>(call);
  printMoved(text, json, flags);
}
