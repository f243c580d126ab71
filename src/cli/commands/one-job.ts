// dq cancel, dq run, dq reschedule: change one job. They ask no question: the user typed the id, and a push
// restores a cancelled job.

import type { Command } from 'commander';
import type { cancelSchema, JobJson, MovedJobJson } from '../../contract/api/job.ts';
import type { ReplyOf } from '../../contract/api/schema.ts';
import { isHeld } from '../../core/job-why.ts';
import type { ApiCall } from '../daemon/api-client.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { atOption, flagNames } from '../flags.ts';
import { say, shownInstant } from '../output/output.ts';
import { holds } from './explain.ts';

interface RescheduleFlags extends DaemonOptions {
  readonly delay?: string;
  readonly at?: string;
}

export function register(program: Command): void {
  const add = (name: string, description: string, action: Parameters<Command['action']>[0]): Command =>
    daemonCommand(program, name, description, action).argument('<topic>').argument('<id>');
  add('cancel', 'cancel a job', cancel);
  add('run', 'deliver a job now; no effect when it is ready or reserved', run);
  add('reschedule', 'change the time of the next attempt; past attempts still count', reschedule)
    .option('--delay <duration>', 'wait from now: 30s, 10m, 1h30m')
    .addOption(atOption('time'));
}

async function cancel(topic: string, id: string, flags: DaemonOptions): Promise<void> {
  const path = ['v1', 'topics', topic, 'jobs', id];
  const { json } = await ask<ReplyOf<typeof cancelSchema>>(flags, {
    method: 'DELETE',
    path,
    needs: ['cancelled'],
  });
  say(json.inFlight ? 'dq: cancelled; the running attempt may still finish' : 'dq: cancelled');
}

async function run(topic: string, id: string, flags: DaemonOptions): Promise<void> {
  const path = ['v1', 'topics', topic, 'jobs', id];
  const isReady = await move(flags, { path: [...path, 'run'] });
  if (!isReady || flags.json) return;
  // The job has moved; a failed look at it changes nothing.
  const why = await clientOf(flags)
    .call<JobJson>({ path, needs: ['why'] })
    .then(({ json }) => json.why.code)
    .catch(() => undefined);
  if (why !== undefined && isHeld({ code: why })) say(`dq: warning: ${holds[why]}`);
}

async function reschedule(topic: string, id: string, flags: RescheduleFlags): Promise<void> {
  const query = { delay: flags.delay, at: flags.at };
  if ((query.delay === undefined) === (query.at === undefined))
    throw new Exit('usage', 'give --delay or --at');
  const path = ['v1', 'topics', topic, 'jobs', id, 'reschedule'];
  await move(flags, { path, query, flags: flagNames(Object.keys(query)) });
}

/** Whether the job is ready. */
export async function move(flags: DaemonOptions, call: ApiCall): Promise<boolean> {
  const { json } = await ask<MovedJobJson>(flags, { method: 'POST', ...call, needs: ['state'] });
  say(
    json.state === 'delayed'
      ? `dq: ${json.state}, due at ${shownInstant(json.dueAt, process.stderr)}`
      : `dq: ${json.state}`,
  );
  return json.state === 'ready';
}
