// dq op, dq clear: bulk work on jobs, which the daemon does by itself. It goes on when the command that waits
// for its end is interrupted; the API still reports its result.

import type { Command } from 'commander';
import type { listOperationsSchema, OperationJson } from '../../contract/api/operation.ts';
import type { ReplyOf } from '../../contract/api/schema.ts';
import { jobStates } from '../../core/job.ts';
import { sleep } from '../../runtime/time.ts';
import type { ApiClient, FlagNames } from '../daemon/api-client.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { countJobs } from '../daemon/read-pages.ts';
import { Exit } from '../exit.ts';
import { cliLimits } from '../limits.ts';
import { agree, askFor, instantOf, printData, printItems, say } from '../output/output.ts';
import { startProgress } from '../output/progress.ts';

interface ClearFlags extends DaemonOptions {
  readonly all?: boolean;
  readonly confirm?: string;
}

export function register(program: Command): void {
  const ending = 'end all jobs of a topic, delayed, ready, in flight and dead, without a call';
  daemonCommand(program, 'clear [topic]', ending, clear)
    .option('--all', 'the jobs of every topic; asks for the name of the installation (console.label)')
    .option('--confirm <name>', 'with --all: the name, instead of the question')
    .option('-y, --yes', 'do not ask');
  const family = program.command('op').description('operations: bulk work on jobs that dq does by itself');
  daemonCommand(family, 'ls', 'list the last operations, newest first', list);
  daemonCommand(family, 'get', 'show an operation', show).argument('<id>');
  daemonCommand(family, 'stop', 'stop an operation; moved jobs stay moved', stopOne).argument('<id>');
}

async function clear(topic: string | undefined, flags: ClearFlags): Promise<void> {
  if ((topic === undefined) !== (flags.all === true)) throw new Exit('usage', 'give a topic, or --all');
  const client = clientOf(flags);
  const shown = { done: 'ended', flags: { confirm: '--confirm' }, asJson: flags.json };
  const asks = flags.yes !== true && flags.confirm === undefined;
  const count = asks ? await countJobs(client, topic, jobStates) : null;
  const jobs = count === null ? 'all jobs' : `${count} jobs`;
  if (topic !== undefined) {
    await agree(`End ${jobs} of the topic ${topic}? Nothing brings them back.`, flags.yes);
    await runOperation(client, { kind: 'clear', filter: { topic } }, shown);
    return;
  }
  const question = `This ends ${jobs} of every topic, and nothing brings them back. Type the name of the installation (console.label), or all if it has none:`;
  const confirm = flags.confirm ?? (await askFor(question, '--confirm'));
  await runOperation(client, { kind: 'clear', all: true, confirm }, shown);
}

async function list(flags: DaemonOptions): Promise<void> {
  const call = { path: ['v1', 'operations'], needs: ['items'] };
  const { json } = await ask<ReplyOf<typeof listOperationsSchema>>(flags, call);
  if (!flags.json)
    printItems(json.items, {
      ID: 'id',
      KIND: ({ kind, dryRun }) => (dryRun ? `${kind} (dry run)` : kind),
      STATE: 'state',
      FILTER: filterText,
      MATCHED: 'matched',
      DONE: 'done',
      SKIPPED: 'skipped',
      FAILED: 'failed',
      BY: 'actor',
      'CREATED AT': instantOf('createdAt'),
    });
}

async function show(id: string, flags: DaemonOptions): Promise<void> {
  const { text } = await clientOf(flags).call({ path: ['v1', 'operations', id] });
  printData(flags.json ? text : JSON.stringify(JSON.parse(text), null, 2));
}

async function stopOne(id: string, flags: DaemonOptions): Promise<void> {
  const path = ['v1', 'operations', id];
  const { json } = await ask<OperationJson>(flags, { method: 'DELETE', path, needs: ['state', 'done'] });
  if (!flags.json) say(`dq: operation ${id} is ${json.state}; ${json.done} jobs were moved`);
}

function filterText({ filter }: OperationJson): string {
  const parts = Object.entries(filter).map(([name, value]) => `${name}=${value}`);
  return parts.length === 0 ? 'all' : parts.join(' ');
}

/** Members of each reply. */
const operationMembers = ['id', 'state', 'done', 'skipped', 'failed'];

interface Shown {
  /** a participle */
  readonly done: string;
  readonly flags: FlagNames;
  readonly asJson: boolean | undefined;
}

/** Begins an operation and shows its progress until it ends. Returns how many jobs it has moved, or would
 *  move. Throws Exit when the operation failed, or some jobs did. */
export async function runOperation(
  client: ApiClient,
  input: Readonly<Record<string, unknown>>,
  { done, flags, asJson }: Shown,
): Promise<number> {
  const path = ['v1', 'operations'];
  let { json: one, text } = await client.call<OperationJson>({
    method: 'POST',
    path,
    json: input,
    flags,
    needs: operationMembers,
  });
  const { id } = one;
  say(`dq: operation ${id}; it goes on without this command: dq op get ${id}, dq op stop ${id}`);
  const progress = startProgress(done, null);
  try {
    for (let shown = 0; one.state === 'not_started' || one.state === 'running'; ) {
      await sleep(cliLimits.operationPollMs);
      ({ json: one, text } = await client.call<OperationJson>({
        path: [...path, id],
        needs: operationMembers,
      }));
      progress.add(one.done - shown);
      shown = one.done;
    }
  } finally {
    progress.stop();
  }
  if (asJson === true) printData(text);
  const { state, skipped, failed } = one;
  if (state === 'failed') throw new Exit('failed', `operation ${id} failed: ${one.problem ?? 'unknown'}`);
  if (input['dryRun'] === true) {
    say(`dq: ${one.matched ?? 0} jobs would be ${done}`);
    return one.matched ?? 0;
  }
  const counts = `${one.done} ${done}, ${skipped} left as they are, ${failed} failed`;
  if (state === 'stopped') throw new Exit('partlyFailed', `operation ${id} was stopped: ${counts}`);
  if (failed > 0) throw new Exit('partlyFailed', counts);
  say(`dq: ${counts}`);
  return one.done;
}
