// dq clear: ends all jobs of a topic, or all jobs.

import type { Command } from 'commander';
import { clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { runOperation } from '../daemon/long-work.ts';
import { Exit } from '../exit.ts';
import { agree, askFor } from '../output/output.ts';

interface Flags extends DaemonOptions {
  readonly all?: boolean;
  readonly confirm?: string;
}

export function register(program: Command): void {
  const description = 'end all jobs of a topic, delayed, ready, in flight and dead, without a call';
  daemonCommand(program, 'clear [topic]', description, clear)
    .option('--all', 'the jobs of every topic; asks for the name of the installation (console.label)')
    .option('--confirm <name>', 'with --all: the name, instead of the question')
    .option('-y, --yes', 'do not ask');
}

async function clear(topic: string | undefined, flags: Flags): Promise<void> {
  if ((topic === undefined) !== (flags.all === true)) throw new Exit('usage', 'give a topic, or --all');
  const client = clientOf(flags);
  if (topic !== undefined)
    await agree(`End all jobs of the topic ${topic}? Nothing brings them back.`, flags.yes);
  const confirm =
    topic === undefined
      ? (flags.confirm ??
        (await askFor(
          'Type the name of the installation (console.label), or all if it has none:',
          '--confirm',
        )))
      : undefined;
  const input = {
    kind: 'clear',
    ...(topic === undefined ? { all: true, confirm } : { filter: { topic } }),
  };
  await runOperation(client, input, { done: 'ended', flags: { confirm: '--confirm' }, asJson: flags.json });
}
