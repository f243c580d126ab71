// dq restore: puts jobs back that the journal has and Redis lacks. dq restore --repair: puts jobs back into
// the keys of Redis that lost them. dq restore --now: healings no longer wait for silent instances.

import type { Command } from 'commander';
import type { GivenUpInstancesJson } from '../../contract/api/journal.ts';
import type { FsckJson } from '../../contract/api/store.ts';
import { formatDuration } from '../../core/duration.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { doLongWork, runOperation } from '../daemon/long-work.ts';
import { Exit } from '../exit.ts';
import { timeOption } from '../flags.ts';
import { agree, say } from '../output/output.ts';
import { reportExamination } from './fsck.ts';

interface Flags extends DaemonOptions {
  readonly since?: string;
  readonly until?: string;
  readonly overdue?: string;
  readonly dryRun?: boolean;
  readonly now?: boolean;
  readonly repair?: boolean;
}

const flagNames = {
  since: '--since',
  until: '--until',
  overdue: '--overdue',
};

export function register(program: Command): void {
  const description =
    'put jobs back that the journal has and Redis lacks; a job that is there stays as it is';
  daemonCommand(program, 'restore [topic] [id]', description, restore)
    .addOption(timeOption('--since', 'earliest due time'))
    .addOption(timeOption('--until', 'end of the due time, exclusive'))
    .option('--overdue <choice>', 'jobs whose due time has passed: fire, spread over 10 min, or skip', 'fire')
    .option('--dry-run', 'only count the jobs')
    .option('--now', 'restore nothing else: a healing goes on without instances that give no sign')
    .option('--repair', 'restore nothing else: put jobs back into single Redis keys that were lost')
    .option('-y, --yes', 'do not ask');
}

async function restore(topic: string | undefined, id: string | undefined, flags: Flags): Promise<void> {
  const { since, until, overdue, dryRun, yes } = flags;
  const isPlain = [topic, id, since, until, dryRun].every((given) => given === undefined);
  if (flags.repair === true) {
    if (!isPlain || overdue !== 'fire' || flags.now === true)
      throw new Exit('usage', '--repair takes no topic, id, filter or --now: it looks at every job in Redis');
    return repair(flags);
  }
  if (flags.now === true) {
    if (!isPlain || overdue !== 'fire')
      throw new Exit('usage', '--now takes no topic, id or filter: it ends the wait of a healing');
    return endWait(flags);
  }
  if (!/^(fire|spread|skip)$/.test(overdue ?? ''))
    throw new Exit('usage', `--overdue ${overdue}: use fire, spread or skip`);
  const client = clientOf(flags);
  if (overdue === 'skip' && dryRun !== true) {
    await agree('End all jobs of the journal that are overdue and not in Redis?', yes);
    await agree('They are never called. Are you sure?', yes);
  }
  const filter = {
    ...(topic === undefined ? {} : { topic }),
    ...(id === undefined ? {} : { ids: [id] }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  };
  const input = {
    kind: 'restore',
    filter,
    overdue,
    dryRun: dryRun === true,
    ...(Object.keys(filter).length === 0 ? { all: true } : {}),
  };
  await runOperation(client, input, { done: 'restored', flags: flagNames, asJson: flags.json });
}

/** Needs no journal: each job that Redis has says where it belongs. */
async function repair(flags: Flags): Promise<void> {
  await agree('Put jobs back into the keys of Redis that lost them? They can be called at once.', flags.yes);
  const start = { method: 'POST', path: ['v1', 'fsck'], query: { relink: 'true' } } as const;
  const { text, json } = await doLongWork<FsckJson>(clientOf(flags), start, 'repairing');
  say(`dq: ${json.relinked ?? 0} entries put back`);
  reportExamination(json, text, flags.json);
}

async function endWait(flags: Flags): Promise<void> {
  const { json } = await ask<GivenUpInstancesJson>(
    flags,
    { method: 'POST', path: ['v1', 'journal', 'give-up'], needs: ['instances'] },
    'Jobs that only a silent instance has cancelled or replaced can be called. Go on?',
  );
  if (flags.json) return;
  if (json.instances.length === 0) say('dq: every instance gives signs, or has ended: no healing waits');
  for (const { instance, host, seenMs } of json.instances)
    say(
      `dq: healings go on without instance ${instance} on ${host}, last sign ${formatDuration(seenMs)} ago`,
    );
}
