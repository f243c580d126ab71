// dq shard: the Redis servers that hold the jobs.

import type { Command } from 'commander';
import { forgottenSentence } from '../../store/redis/shard/shard-list-conflict.ts';
import { ApiRefusal } from '../daemon/api-client.ts';
import type { DaemonOptions } from '../daemon/daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { agree, printData, printTable, say } from '../output/output.ts';

interface AddFlags extends DaemonOptions {
  readonly buckets?: string;
}
interface SureFlags extends DaemonOptions {
  readonly yes?: boolean;
}
interface RemoveFlags extends SureFlags {
  readonly lost?: boolean;
}

interface Shard {
  readonly id: string;
  readonly url: string;
  readonly state: string;
  readonly buckets: number;
  readonly jobs: number | null;
  readonly alerts: number | null;
  readonly list: number | null;
  readonly trouble: string | null;
}

export function register(program: Command): void {
  const family = program
    .command('shard')
    .description('the Redis servers that hold the jobs; jobs never move between them');
  withDaemonOptions(family.command('ls').description('list shards and their jobs')).action(list);
  const add = family
    .command('add')
    .description('add a shard, change its address, or end its drain')
    .argument('<url>')
    .option('--buckets <n>', 'partitions of it, fixed for ever (default: 1, on a Cluster 32)');
  withDaemonOptions(add).action(addShard);
  const drain = family
    .command('drain')
    .description('place no new ids on a shard; its jobs are still delivered')
    .argument('<id>')
    .option('-y, --yes', 'do not ask');
  withDaemonOptions(drain).action(drainShard);
  const rm = family
    .command('rm')
    .description('remove a drained, empty shard')
    .argument('<id>')
    .option('--lost', 'remove a drained shard that never answers again, with its jobs')
    .option('-y, --yes', 'do not ask');
  withDaemonOptions(rm).action(remove);
}

async function list(flags: DaemonOptions): Promise<void> {
  const reply = await clientOf(flags).call<{ number: number; items: readonly Shard[] }>({
    method: 'GET',
    path: ['v1', 'shards'],
    needs: ['items'],
  });
  const { number, items } = reply.json;
  const newest = Math.max(0, ...items.map(({ list }) => list ?? 0));
  if (newest > number) say(`dq: ${forgottenSentence(newest, number)}`);
  if (flags.json) {
    printData(reply.text);
    return;
  }
  printTable(['ID', 'STATE', 'JOBS', 'ALERTS', 'URL', 'TROUBLE'], items.map(rowOf));
}

function rowOf({ id, state, jobs, alerts, url, trouble }: Shard): readonly string[] {
  return [id, state, String(jobs ?? '?'), String(alerts ?? '?'), url, trouble ?? ''];
}

async function addShard(url: string, flags: AddFlags): Promise<void> {
  const buckets = flags.buckets === undefined ? undefined : Number(flags.buckets);
  if (buckets !== undefined && !Number.isInteger(buckets))
    throw new Exit('usage', `--buckets: invalid number "${flags.buckets}"`);
  const json = { url, buckets };
  const reply = await clientOf(flags)
    .call<Shard>({
      method: 'POST',
      path: ['v1', 'shards'],
      json,
      flags: { buckets: '--buckets' },
      needs: ['id'],
    })
    .catch((error: unknown) => {
      if (error instanceof ApiRefusal && error.problem.code === 'shard_unreachable')
        throw new Exit('storeUnreachable', error.message, { cause: error });
      throw error;
    });
  if (flags.json) printData(reply.text);
  else printData(reply.json.id);
  say(`dq: ${reply.json.url} is shard ${reply.json.id}; it receives jobs within 2 s`);
}

async function drainShard(id: string, flags: SureFlags): Promise<void> {
  const client = clientOf(flags);
  await agree(`Drain the shard ${id}? It receives no new jobs from then on.`, flags.yes);
  const reply = await client.call<Shard>({ method: 'POST', path: ['v1', 'shards', id, 'drain'] });
  if (flags.json) printData(reply.text);
  const holds = reply.json.jobs === null ? 'it does not answer now' : `it has ${reply.json.jobs} jobs`;
  say(`dq: shard ${id} drains: ${holds}; when it is empty: dq shard rm ${id}`);
}

async function remove(id: string, flags: RemoveFlags): Promise<void> {
  const client = clientOf(flags);
  const cost =
    flags.lost === true
      ? 'With a journal its jobs are restored; else they are not delivered unless it is added again.'
      : 'Its history of ended jobs is no longer shown.';
  await agree(`Remove the shard ${id}? ${cost}`, flags.yes);
  const query = flags.lost === true ? { jobs: 'lost' } : {};
  const reply = await client.call<{ readonly restores?: boolean }>({
    method: 'DELETE',
    path: ['v1', 'shards', id],
    query,
  });
  if (flags.json) printData(reply.text);
  const more = reply.json.restores === true ? '; its jobs are restored from the journal' : '';
  say(`dq: removed shard ${id}${more}`);
}
