// dq ls: searches jobs.

import type { Command } from 'commander';
import type { JobSummaryJson } from '../../contract/api/job.ts';
import { type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { printPages } from '../daemon/read-pages.ts';
import { flagNames, limitOf, timeOption } from '../flags.ts';
import { instantOf } from '../output/output.ts';

interface ListFlags extends DaemonOptions {
  readonly state?: string;
  readonly id?: string;
  readonly since?: string;
  readonly until?: string;
  readonly limit: string;
}

export function register(program: Command): void {
  daemonCommand(program, 'ls', 'list jobs, earliest due first; ended jobs, latest first', list)
    .argument('[topic]', 'default: all topics')
    .option(
      '--state <state>',
      'delayed, ready, reserved, dead; for ended jobs done, cancelled, purged, expired',
    )
    .option('--id <id>', 'id, in any topic')
    .addOption(timeOption('--since', 'earliest due time'))
    .addOption(timeOption('--until', 'end of the due time, exclusive'))
    .option('--limit <n>', 'maximum number of jobs', '100');
}

async function list(topic: string | undefined, flags: ListFlags): Promise<void> {
  const { state, id, since, until } = flags;
  const query = { state, id, since, until };
  await printPages<JobSummaryJson>(
    flags,
    { path: ['v1', 'jobs'], query: { topic, ...query }, flags: flagNames(Object.keys(query)) },
    {
      TOPIC: 'topic',
      ID: 'id',
      STATE: 'state',
      'DUE AT': instantOf('dueAt'),
      ATTEMPTS: 'attempt',
      'CREATED AT': instantOf('createdAt'),
      'ENDED AT': (job) => instantOf('endedAt')(job) || instantOf('deadAt')(job),
    },
    { limit: limitOf(flags.limit), what: 'jobs' },
  );
}
