// dq cancel, dq run, dq reschedule, dq edit: change one job. They ask no question: the user typed the id, and
// a push restores a cancelled job. dq edit gives a delayed, ready or dead job another body or other options.
// Without --if-version it reads the job first: a job that changes between the two calls stays as it is.

import { isUtf8 } from 'node:buffer';
import type { Command } from 'commander';
import type { cancelSchema, JobJson, MovedJobJson } from '../../contract/api/job.ts';
import type { ReplyOf } from '../../contract/api/schema.ts';
import { isHeld } from '../../core/job-why.ts';
import { isJsonType } from '../../core/json-text.ts';
import { backoffJson } from '../../core/topic/backoff.ts';
import type { ApiCall } from '../daemon/api-client.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { atOption, flagNames, readBody } from '../flags.ts';
import { say, shownInstant } from '../output/output.ts';
import { holds } from './explain.ts';

interface RescheduleFlags extends DaemonOptions {
  readonly delay?: string;
  readonly at?: string;
}

/** Flags that are members of an edit, by the API's names. */
const members = ['delay', 'at', 'maxAttempts', 'deadline', 'requeue', 'newWebhookId'] as const;

interface EditFlags extends DaemonOptions, Partial<Record<(typeof members)[number], string | boolean>> {
  readonly body?: string;
  readonly type?: string;
  readonly backoff?: string;
  readonly ifVersion?: string;
}

export function register(program: Command): void {
  const add = (name: string, description: string, action: Parameters<Command['action']>[0]): Command =>
    daemonCommand(program, name, description, action).argument('<topic>').argument('<id>');
  add('cancel', 'cancel a job', cancel);
  add('run', 'deliver a job now; no effect when it is ready or reserved', run);
  add('reschedule', 'change the time of the next attempt; past attempts still count', reschedule)
    .option('--delay <duration>', 'wait from now: 30s, 10m, 1h30m')
    .addOption(atOption('time'));
  add('edit', 'change the body or options of a waiting or dead job', edit)
    .option('--body <body>', 'job body, @FILE, or - for standard input')
    .option('--type <type>', 'content type of the body; default: it stays')
    .option('--delay <duration>', 'wait from now until the next attempt: 30s, 10m, 1h30m')
    .addOption(atOption('time of the next attempt'))
    .option('--max-attempts <n>', 'attempts of this job in all')
    .option('--backoff <policy>', 'waits between attempts of this job')
    .option('--deadline <time>', 'no attempt starts later: a duration from now, or a time as of --at')
    .option('--requeue', 'a dead letter: its attempts start again, in the same step')
    .option('--new-webhook-id', 'another webhook-id, for receivers that remember the old one')
    .option('--if-version <version>', 'only if the job has this version; default: the present one')
    .addHelpText(
      'after',
      `
Examples:
  dq edit order.close 4711 --body @order.json --requeue
  dq edit order.close 4711 --max-attempts 3 --delay 5m`,
    );
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
async function move(flags: DaemonOptions, call: ApiCall): Promise<boolean> {
  const { json } = await ask<MovedJobJson>(flags, { method: 'POST', ...call, needs: ['state'] });
  say(
    json.state === 'delayed'
      ? `dq: ${json.state}, due at ${shownInstant(json.dueAt, process.stderr)}`
      : `dq: ${json.state}`,
  );
  return json.state === 'ready';
}

async function edit(topic: string, id: string, flags: EditFlags): Promise<void> {
  const path = ['v1', 'topics', topic, 'jobs', id];
  const { body, backoff, type, ifVersion } = flags;
  const needsJob = ifVersion === undefined || (body !== undefined && type === undefined);
  const { json: job } = needsJob
    ? await clientOf(flags).call<JobJson>({ path, needs: ['version'] })
    : { json: { version: ifVersion } as Partial<JobJson> };
  const bytes = body === undefined ? undefined : await readBody(body);
  const json: Record<string, unknown> = Object.fromEntries(members.map((name) => [name, flags[name]]));
  if (type !== undefined) json['contentType'] = type;
  if (backoff !== undefined) json['backoff'] = backoffOf(backoff);
  const given = JSON.stringify(json);
  // The characters of the body are sent as they are: a parse would change big integers.
  const bodyText = bytes === undefined ? '' : `"body":${bodyMember(bytes, type ?? job.contentType ?? '')}`;
  const text = bodyText === '' ? given : `${given.slice(0, -1)}${given === '{}' ? '' : ','}${bodyText}}`;
  await move(flags, {
    method: 'PATCH',
    path,
    headers: { 'if-match': `"${ifVersion ?? job.version}"` },
    body: { bytes: Buffer.from(text), contentType: 'application/json' },
    flags: {
      ...flagNames([...members, 'body', 'backoff']),
      contentType: '--type',
      'if-match': '--if-version',
    },
  });
}

function bodyMember(bytes: Buffer, contentType: string): string {
  if (!isUtf8(bytes)) throw new Exit('usage', '--body: not UTF-8; only dq push sends other bytes');
  const text = bytes.toString();
  if (!isJsonType(contentType)) return JSON.stringify(text);
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Exit(
      'usage',
      `--body: not JSON (${(error as Error).message}); to send text add --type text/plain`,
    );
  }
  return text;
}

function backoffOf(text: string): unknown {
  try {
    return backoffJson(text);
  } catch {
    return text;
  }
}
