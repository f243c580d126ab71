// dq ls: searches jobs.

import type { Command } from 'commander';
import type { JobSummaryJson } from '../../contract/api/job.ts';
import { type JobState, jobStates } from '../../core/job.ts';
import { type DaemonOptions, daemonCommand, type Texts } from '../daemon/daemon-options.ts';
import { countJobs, printPages } from '../daemon/read-pages.ts';
import { flagNames, limitOf, timeOption } from '../flags.ts';
import { instantOf } from '../output/output.ts';

type ListFlags = DaemonOptions &
  Texts<'state' | 'id' | 'idPrefix' | 'body' | 'since' | 'until'> & { readonly limit: string };

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
