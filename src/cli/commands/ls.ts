// dq ls: searches jobs.

import type { Command } from 'commander';
import { clientOf, type DaemonOptions, withDaemonOptions } from '../daemon/daemon-options.ts';
import { readPages } from '../daemon/read-pages.ts';
import { printData, printTable, say } from '../output/output.ts';
import { limitOf } from '../whole-number.ts';

interface ListFlags extends DaemonOptions {
  readonly state?: string;
  readonly id?: string;
  readonly since?: string;
  readonly until?: string;
  readonly limit: string;
}

interface FoundJob {
  readonly topic: string;
  readonly id: string;
  readonly state: string;
  readonly dueAt: string;
  readonly createdAt: string;
  readonly attempt: number;
  readonly deadAt?: string;
  readonly endedAt?: string;
}

export function register(program: Command): void {
  const command = program
    .command('ls')
    .description('list jobs, earliest due first; ended jobs, latest first')
    .argument('[topic]', 'default: all topics')
    .option(
      '--state <state>',
      'delayed, ready, reserved, dead; for ended jobs done, cancelled, purged, expired',
    )
    .option('--id <id>', 'id, in any topic')
    .option('--since <time>', 'earliest due time: RFC 3339 with an offset, or epoch milliseconds')
    .option('--until <time>', 'end of the due time, exclusive')
    .option('--limit <n>', 'maximum number of jobs', '100');
  withDaemonOptions(command).action(list);
}

async function list(topic: string | undefined, flags: ListFlags): Promise<void> {
  const limit = limitOf(flags.limit);
  const { state, id, since, until } = flags;
  const jobs: FoundJob[] = [];
  const call = {
    method: 'GET',
    path: ['v1', 'jobs'],
    query: { topic, state, id, since, until },
    flags: { state: '--state', id: '--id', since: '--since', until: '--until' },
  } as const;
  const more = await readPages<FoundJob>(clientOf(flags), call, limit, (page) => {
    if (flags.json) printData(page.text);
    else jobs.push(...page.json.items);
  });
  if (!flags.json)
    printTable(
      ['TOPIC', 'ID', 'STATE', 'DUE AT', 'ATTEMPTS', 'CREATED AT', 'ENDED AT'],
      jobs.map((job) => [
        ...[job.topic, job.id, job.state, job.dueAt, String(job.attempt), job.createdAt],
        job.endedAt ?? job.deadAt ?? '',
      ]),
    );
  if (more) say(`dq: more than ${limit} jobs match; raise --limit`);
}
