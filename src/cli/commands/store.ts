// dq backup, dq restore, dq fsck: the data of a running daemon, which does the work itself. A copy of a live
// database by a file copy is not consistent.
// dq restore puts jobs back that the journal has and Redis lacks, with --repair into the keys of Redis that
// lost them; with --now healings no longer wait for silent instances.

import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { GivenUpInstancesJson } from '../../contract/api/journal.ts';
import type { BackupJson, FsckJson } from '../../contract/api/store.ts';
import { formatDuration } from '../../core/duration.ts';
import { clearInterval, monotonicNow, setInterval, sleep } from '../../runtime/time.ts';
import type { ApiCall, ApiClient, ApiReply } from '../daemon/api-client.ts';
import {
  ask,
  clientOf,
  type DaemonOptions,
  daemonCommand,
  type Switches,
  type Texts,
} from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { flagNames, timeOption } from '../flags.ts';
import { cliLimits } from '../limits.ts';
import { agree, printData, printItems, say } from '../output/output.ts';
import { runOperation } from './operations.ts';

type RestoreFlags = DaemonOptions &
  Texts<'since' | 'until'> &
  Switches<'dryRun' | 'now' | 'repair'> & { readonly overdue: string };

export function register(program: Command): void {
  const copying = 'copy store and registry of a running daemon into a new directory';
  daemonCommand(program, 'backup', copying, backup).argument(
    '<directory>',
    'path of the copy; must not exist',
  );
  const putting = 'put jobs back that the journal has and Redis lacks; a job that is there stays as it is';
  daemonCommand(program, 'restore [topic] [id]', putting, restore)
    .addOption(timeOption('--since', 'earliest due time'))
    .addOption(timeOption('--until', 'end of the due time, exclusive'))
    .option('--overdue <choice>', 'jobs whose due time has passed: fire, spread over 10 min, or skip', 'fire')
    .option('--dry-run', 'only count the jobs')
    .option('--now', 'restore nothing else: a healing goes on without instances that give no sign')
    .option('--repair', 'restore nothing else: put jobs back into single Redis keys that were lost')
    .option('-y, --yes', 'do not ask');
  daemonCommand(program, 'fsck', 'check the store of a running daemon (exit 1 for a broken invariant)', fsck);
}

async function backup(directory: string, flags: DaemonOptions): Promise<void> {
  const start = { method: 'POST', path: ['v1', 'backup'], json: { directory: resolve(directory) } } as const;
  const { text, json } = await doLongWork<BackupJson>(clientOf(flags), start, 'copying');
  printData(flags.json ? text : (json.directory ?? resolve(directory)));
  say(`dq: ${json.bytes} bytes; keep secret.key of the data directory too: the secrets in the copy need it`);
  if (json.notCopied !== undefined) say(`dq: ${json.notCopied}`);
}

async function restore(
  topic: string | undefined,
  id: string | undefined,
  flags: RestoreFlags,
): Promise<void> {
  const { since, until, overdue, dryRun, yes } = flags;
  const isPlain =
    overdue === 'fire' && [topic, id, since, until, dryRun].every((given) => given === undefined);
  if (flags.repair === true) {
    if (!isPlain || flags.now === true)
      throw new Exit('usage', '--repair takes no topic, id, filter or --now: it looks at every job in Redis');
    return repair(flags);
  }
  if (flags.now === true) {
    if (!isPlain)
      throw new Exit('usage', '--now takes no topic, id or filter: it ends the wait of a healing');
    return endWait(flags);
  }
  if (!/^(fire|spread|skip)$/.test(overdue))
    throw new Exit('usage', `--overdue ${overdue}: use fire, spread or skip`);
  const client = clientOf(flags);
  if (overdue === 'skip' && dryRun !== true) {
    await agree('End all jobs of the journal that are overdue and not in Redis?', yes);
    await agree('They are never called. Are you sure?', yes);
  }
  const filter = { topic, ids: id === undefined ? undefined : [id], since, until };
  const isFiltered = Object.values(filter).some((given) => given !== undefined);
  await runOperation(
    client,
    { kind: 'restore', filter, overdue, dryRun: dryRun === true, ...(isFiltered ? {} : { all: true }) },
    { done: 'restored', flags: flagNames(['since', 'until', 'overdue']), asJson: flags.json },
  );
}

/** Needs no journal: each job that Redis has says where it belongs. */
async function repair(flags: RestoreFlags): Promise<void> {
  await agree('Put jobs back into the keys of Redis that lost them? They can be called at once.', flags.yes);
  const start = { method: 'POST', path: ['v1', 'fsck'], query: { relink: 'true' } } as const;
  const { text, json } = await doLongWork<FsckJson>(clientOf(flags), start, 'repairing');
  say(`dq: ${json.relinked ?? 0} entries put back`);
  reportExamination(json, text, flags.json);
}

async function endWait(flags: RestoreFlags): Promise<void> {
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

async function fsck(flags: DaemonOptions): Promise<void> {
  const start = { method: 'POST', path: ['v1', 'fsck'] } as const;
  const { text, json } = await doLongWork<FsckJson>(clientOf(flags), start, 'checking');
  reportExamination(json, text, flags.json);
}

/** A difference from a journal that waits for an instance breaks no invariant. `text`: the unchanged reply,
 *  for --json. Throws Exit. */
export function reportExamination(
  { jobs = 0, problems = [] }: FsckJson,
  text: string,
  asJson: boolean | undefined,
): void {
  if (asJson) printData(text);
  else if (problems.length > 0)
    printItems(problems, {
      INVARIANT: 'invariant',
      WHAT: 'what',
      COUNT: 'count',
      EXAMPLES: ({ examples }) => examples.join(' '),
    });
  const broken = problems.filter(({ awaits }) => awaits === undefined);
  if (broken.length > 0) throw new Exit('failed', `${broken.length} invariants of the store are broken`);
  const awaited = new Set(problems.flatMap(({ awaits = [] }) => awaits));
  if (awaited.size === 0) say(`dq: ${jobs} jobs, no problem found`);
  else
    say(
      `dq: ${jobs} jobs, none broken; the journal lacks changes of ${[...awaited].join(', ')}: start it, or give it up (dq restore --now), then check again`,
    );
}

/** Starts a copy or a check, and waits for its end; it goes on when the command is interrupted. `doing`:
 *  "copying". Returns the reply with state done; throws Exit when the work failed or was lost. */
async function doLongWork<Work extends BackupJson | FsckJson>(
  client: ApiClient,
  start: ApiCall,
  doing: string,
): Promise<ApiReply<Work>> {
  await client.call(start);
  const since = monotonicNow();
  const timer = setInterval(() => {
    say(`dq: ${doing} for ${Math.round((monotonicNow() - since) / 1_000)} s`);
  }, cliLimits.progressEveryMs);
  try {
    for (;;) {
      const reply = await client.call<Work>({ path: start.path });
      const { state, reason } = reply.json;
      if (state === 'done') return reply;
      if (state === 'failed') throw new Exit('failed', reason ?? 'the work failed');
      if (state === 'none') throw new Exit('failed', 'dq-store restarted and lost the work; run this again');
      await sleep(cliLimits.workPollMs);
    }
  } finally {
    clearInterval(timer);
  }
}
