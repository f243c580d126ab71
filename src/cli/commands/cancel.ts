// dq cancel: ends a job before its callback. Asks no question: the user typed the id, and a push restores the
// job.

import type { Command } from 'commander';
import type { DaemonOptions } from '../daemon/daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon/daemon-options.ts';
import { printData, say } from '../output/output.ts';

export function register(program: Command): void {
  const command = program.command('cancel').description('cancel a job').argument('<topic>').argument('<id>');
  withDaemonOptions(command).action(cancel);
}

async function cancel(topic: string, id: string, flags: DaemonOptions): Promise<void> {
  const { text, json } = await clientOf(flags).call<{ inFlight: boolean }>({
    method: 'DELETE',
    path: ['v1', 'topics', topic, 'jobs', id],
    needs: ['cancelled'],
  });
  if (flags.json) printData(text);
  say(json.inFlight ? 'dq: cancelled; the running attempt may still finish' : 'dq: cancelled');
}
