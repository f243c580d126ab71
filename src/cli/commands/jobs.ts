// dq ls: searches jobs. dq get: shows one job with its attempts, for some time also after its end; or its
// changes.

import { type Command, Option } from 'commander';
import type { AttemptJson, FlowJson, JobJson, JobSummaryJson } from '../../contract/api/job.ts';
import { type JobState, jobStates } from '../../core/job.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand, type Texts } from '../daemon/daemon-options.ts';
import { countJobs, printPages } from '../daemon/read-pages.ts';
import { Exit } from '../exit.ts';
import { flagNames, limitOf, timeOption } from '../flags.ts';
import { excerpt, instantOf, printData, printItems, printRecord, shownInstant } from '../output/output.ts';
import { times } from '../output/topic-words.ts';

type ListFlags = DaemonOptions &
  Texts<'state' | 'id' | 'idPrefix' | 'body' | 'since' | 'until'> & { readonly limit: string };

interface GetFlags extends DaemonOptions {
  readonly body?: boolean;
  readonly flow?: boolean;
}

export function register(program: Command): void {
  daemonCommand(program, 'ls', 'list jobs: reserved, ready, delayed, dead; each earliest due first', list)
    .argument('[topic]', 'default: all topics')
    .option('--state <state>', 'one of these; for ended jobs, latest first: done, cancelled, purged, expired')
    .option('--id <id>', 'id, in any topic')
    .option('--id-prefix <text>', 'beginning of the id; live and dead jobs')
    .option('--body <text>', 'part of the body; live and dead jobs')
    .addOption(timeOption('--since', 'earliest due time'))
    .addOption(timeOption('--until', 'end of the due time, exclusive'))
    .option('--limit <n>', 'maximum number of jobs', '100');
  daemonCommand(program, 'get', 'show a job and its attempts', get)
    .argument('<topic>')
    .argument('<id>')
    .addOption(new Option('--body', 'only the bytes of the body').conflicts('flow'))
    .option('--flow', 'changes and attempts of the job that dq still knows, oldest first');
}

async function list(topic: string | undefined, flags: ListFlags): Promise<void> {
  const { state, id, idPrefix, body, since, until } = flags;
  const query = { id, idPrefix, body, since, until };
  const callOf = (one: string | undefined) => ({
    path: ['v1', 'jobs'],
    query: { topic, state: one, ...query },
    flags: flagNames(['state', ...Object.keys(query)]),
  });
  // One list of all states would begin with dead letters: their last attempts were due long ago.
  // A search of ids or bodies is dear, and gives all live and dead jobs.
  const isOneList = [state, id, idPrefix, body].some((given) => given !== undefined) || flags.json === true;
  await printPages<JobSummaryJson>(
    flags,
    isOneList ? callOf(state) : inOrder.map(callOf),
    {
      TOPIC: 'topic',
      ID: 'id',
      STATE: 'state',
      'DUE AT': instantOf('dueAt'),
      ATTEMPTS: 'attempt',
      'CREATED AT': instantOf('createdAt'),
      'ENDED AT': (job) => instantOf('endedAt')(job) || instantOf('deadAt')(job),
    },
    {
      limit: limitOf(flags.limit),
      what: 'jobs',
      // The counts know topics and the states of stored jobs alone.
      countOf: async (client) => {
        const states = jobStates.filter((one) => state === undefined || one === state);
        const isFiltered = Object.values(query).some((given) => given !== undefined);
        return isFiltered || states.length === 0 ? null : countJobs(client, topic, states);
      },
    },
  );
}

/** The states as an operator reads them: what runs, is due, waits, has died. */
const inOrder: readonly JobState[] = ['reserved', 'ready', 'delayed', 'dead'];

/** Characters of a body or a reply in a table. */
const excerptMax = 200;

async function get(topic: string, id: string, flags: GetFlags): Promise<void> {
  if (flags.flow) return getFlow(topic, id, flags);
  const path = ['v1', 'topics', topic, 'jobs', id];
  const { text, json: job } = await clientOf(flags).call<JobJson>({ path, needs: ['state', 'attempts'] });
  if (flags.body && job.endedAt !== undefined)
    throw new Exit('failed', `the job is ${job.state}; the end of a job removes its body`);
  if (flags.body) process.stdout.write(bytesOf(job));
  else if (flags.json) printData(text);
  else print(job);
}

async function getFlow(topic: string, id: string, flags: GetFlags): Promise<void> {
  const path = ['v1', 'topics', topic, 'jobs', id, 'flow'];
  const { json } = await ask<FlowJson>(flags, { path, needs: ['entries'] });
  if (!flags.json)
    printItems(json.entries, {
      AT: instantOf('at'),
      EVENT: 'event',
      VERSION: 'version',
      'DUE AT': instantOf('dueAt'),
      PROCESS: 'process',
      HOST: 'host',
      PLACE: 'place',
      ATTEMPT: ({ attempt }) => resultOf(attempt),
    });
}

/** `2: status 500` */
function resultOf(attempt: AttemptJson | null): string {
  if (attempt === null) return '';
  const { reason, status } = attempt;
  const result = reason === null || reason === 'status' ? `status ${status ?? '?'}` : reason;
  return `${attempt.attempt}: ${attempt.outcome === 'delivered' && status === null ? 'delivered' : result}`;
}

function bytesOf(job: JobJson): Buffer {
  return job.bodyBase64 === undefined ? Buffer.from(job.body ?? '') : Buffer.from(job.bodyBase64, 'base64');
}

function print(job: JobJson): void {
  printRecord([
    ['topic', job.topic],
    ['id', job.id],
    ['version', job.version],
    ['webhook id', job.webhookId],
    ['state', job.state],
    ...(job.deadReason === undefined ? [] : [['dead reason', job.deadReason] as const]),
    ...dueRows(job),
    ...(job.again === undefined ? [] : [['snoozed', snoozesOf(job, job.again)] as const]),
    ['created at', shownInstant(job.createdAt)],
    ['attempts', attemptsOf(job)],
    ...(job.deadline === undefined ? [] : [['deadline', shownInstant(job.deadline)] as const]),
    ...(job.backoff === undefined ? [] : [['backoff', JSON.stringify(job.backoff)] as const]),
    ...(job.traceparent === undefined ? [] : [['traceparent', job.traceparent] as const]),
    ...(job.endedAt === undefined ? contentOf(job) : [['ended at', shownInstant(job.endedAt)] as const]),
  ]);
  if (job.attempts.length === 0) return;
  process.stdout.write('\n');
  const isTraced = job.attempts.some(({ traceparent }) => traceparent !== undefined);
  printItems(job.attempts, {
    ATTEMPT: ({ attempt, beforeRequeue }) => (beforeRequeue ? `${attempt} before requeue` : String(attempt)),
    'STARTED AT': instantOf('startedAt'),
    MS: 'durationMs',
    OUTCOME: 'outcome',
    STATUS: 'status',
    REASON: 'reason',
    NOTIFIER: 'notifier',
    REPLY: ({ replyExcerpt, detail }) => excerpt(replyExcerpt || (detail ?? ''), excerptMax),
    ...(isTraced ? { TRACEPARENT: 'traceparent' } : {}),
  });
}

/** A retry moves the due time. */
function dueRows({ firstDueAt, dueAt, state }: JobJson): readonly (readonly [string, string])[] {
  if (firstDueAt === undefined) return [['due at', shownInstant(dueAt)]];
  return [
    ['first due at', firstDueAt === null ? 'not kept' : shownInstant(firstDueAt)],
    [state === 'delayed' || state === 'ready' ? 'next due at' : 'last due at', shownInstant(dueAt)],
  ];
}

/** `3 times, next at 2030-01-31T10:32:00.000Z` */
function snoozesOf({ why, dueAt }: JobJson, again: number): string {
  return why.code === 'waits_again' ? `${times(again)}, next at ${shownInstant(dueAt)}` : times(again);
}

/** A dead letter may have died by an earlier setting. */
function attemptsOf({ attempt, maxAttempts, deadReason }: JobJson): string {
  const isEarlier = deadReason === 'attempts_exhausted' && maxAttempts !== null && attempt < maxAttempts;
  return isEarlier
    ? `${attempt}, all when it died; now ${maxAttempts}`
    : `${attempt} of ${maxAttempts ?? '?'}`;
}

function contentOf(job: JobJson): [string, string][] {
  return [
    ['content type', job.contentType ?? ''],
    ['body', job.bodyBase64 === undefined ? excerpt(job.body ?? '', excerptMax) : '(not text)'],
    ['body bytes', String(bytesOf(job).length)],
  ];
}
