// dq pull: takes due jobs of a pull topic and prints them, or runs a command for each.

import type { Command } from 'commander';
import { contractLimits } from '../../contract/api/limits.ts';
import type { PulledJson } from '../../contract/api/pull.ts';
import { parseDuration } from '../../core/duration.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { flagNames, wholeOf } from '../flags.ts';
import { cliLimits } from '../limits.ts';
import { printData } from '../output/output.ts';
import { runPuller } from '../run-puller.ts';

interface PullFlags extends DaemonOptions {
  readonly max?: string;
  readonly wait?: string;
  readonly lease?: string;
  readonly exec?: string;
  readonly concurrency?: string;
}

export function register(program: Command): void {
  daemonCommand(program, 'pull', 'take due jobs of a pull topic: print them, or run a command', pull)
    .argument('<topic>', 'topic with delivery pull')
    .option('--max <n>', 'jobs at most, 1 to 100; default 1')
    .option('--wait <duration>', 'time to wait for a job, at most 3m; default 0')
    .option('--lease <duration>', 'lease of the jobs, 1s to 1d; default: that of the topic')
    .option('--exec <command>', 'run a shell command for each job, with the body as its input')
    .option(
      '-c, --concurrency <n>',
      `with --exec: commands at once, 1 to ${cliLimits.pullCommandsMax}; default 1`,
    )
    .addHelpText(
      'after',
      `
A printed job is a JSON object on one line. Answer its lease with dq ack, nack or extend.
With --exec, dq acks a job when the command exits with 0, and makes it a dead letter at 65.
At 126 and 127 the shell cannot run the command: dq releases the job, and ends with 1.
Every other exit is a failed attempt, also one by a signal. dq extends the lease meanwhile.
The command has DQ_TOPIC, DQ_ID and DQ_ATTEMPT in its environment. SIGINT and SIGTERM end
dq when the commands that run have ended.

Examples:
  dq pull report.build --wait 30s
  dq pull report.build --max 100 | jq -r .lease | xargs -r dq ack
  dq pull report.build --exec ./build-report.sh -c 4`,
    );
}

async function pull(topic: string, flags: PullFlags): Promise<void> {
  const { max, wait, lease, exec, concurrency } = flags;
  if (exec === undefined) {
    if (concurrency !== undefined) throw new Exit('usage', '--concurrency goes with --exec');
    return printJobs(topic, flags);
  }
  if ([max, wait, flags.json].some((given) => given !== undefined))
    throw new Exit('usage', '--max, --wait and --json do not go with --exec, which runs until a signal');
  // The shell exits with 0 for an empty command: each job would be acked.
  if (exec.trim() === '') throw new Exit('usage', '--exec: give a command');
  const commands = wholeOf('--concurrency', concurrency ?? '1', 1, cliLimits.pullCommandsMax);
  await runPuller({ client: () => clientOf(flags), topic, lease, command: exec, commands });
}

async function printJobs(topic: string, flags: PullFlags): Promise<void> {
  const { max, wait, lease } = flags;
  const query = { max, wait, lease };
  const waiting = wait === undefined ? null : parseDuration(wait);
  const { json } = await ask<PulledJson>(flags, {
    method: 'POST',
    path: ['v1', 'topics', topic, 'pull'],
    query,
    needs: ['items'],
    flags: flagNames(Object.keys(query)),
    // The API rejects an invalid duration.
    waitMs: waiting?.ok ? Math.min(waiting.value, contractLimits.pullWaitMsMax) : 0,
  });
  if (!flags.json) for (const item of json.items) printData(JSON.stringify(item));
}
