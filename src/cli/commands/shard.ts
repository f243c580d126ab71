// dq shard: the Redis servers that hold the jobs.

import type { Command } from 'commander';
import type { ReplyOf } from '../../contract/api/schema.ts';
import type { listShardsSchema, removeShardSchema, ShardJson } from '../../contract/api/store.ts';
import { forgottenSentence } from '../../core/shard-list.ts';
import { ApiRefusal } from '../daemon/api-client.ts';
import { ask, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { printData, printItems, say } from '../output/output.ts';

interface AddFlags extends DaemonOptions {
  readonly buckets?: string;
}
interface RemoveFlags extends DaemonOptions {
  readonly lost?: boolean;
}

export function register(program: Command): void {
  const family = program
    .command('shard')
    .description('the Redis servers that hold the jobs; jobs never move between them');
  daemonCommand(family, 'ls', 'list shards and their jobs', list);
  daemonCommand(family, 'add', 'add a shard, change its address, or end its drain', addShard)
    .argument('<url>')
    .option('--buckets <n>', 'partitions of it, fixed for ever (default: 1, on a Cluster 32)');
  daemonCommand(family, 'drain', 'place no new ids on a shard; its jobs are still delivered', drainShard)
    .argument('<id>')
    .option('-y, --yes', 'do not ask');
  daemonCommand(family, 'rm', 'remove a drained, empty shard', remove)
    .argument('<id>')
    .option('--lost', 'remove a drained shard that never answers again, with its jobs')
    .option('-y, --yes', 'do not ask');
}

async function list(flags: DaemonOptions): Promise<void> {
  const call = { path: ['v1', 'shards'], needs: ['items'] };
  const { number, items } = (await ask<ReplyOf<typeof listShardsSchema>>(flags, call)).json;
  const newest = Math.max(0, ...items.map(({ list }) => list ?? 0));
  if (newest > number) say(`dq: ${forgottenSentence(newest, number)}`);
  if (!flags.json)
    printItems(items, {
      ID: 'id',
      STATE: 'state',
      JOBS: ({ jobs }) => jobs ?? '?',
      ALERTS: ({ alerts }) => alerts ?? '?',
      URL: 'url',
      TROUBLE: 'trouble',
    });
}

async function addShard(url: string, flags: AddFlags): Promise<void> {
  const buckets = flags.buckets === undefined ? undefined : Number(flags.buckets);
  if (buckets !== undefined && !Number.isInteger(buckets))
    throw new Exit('usage', `--buckets: invalid number "${flags.buckets}"`);
  const { json: shard } = await ask<ShardJson>(flags, {
    method: 'POST',
    path: ['v1', 'shards'],
    json: { url, buckets },
    flags: { buckets: '--buckets' },
    needs: ['id'],
  }).catch((error: unknown) => {
    if (error instanceof ApiRefusal && error.problem.code === 'shard_unreachable')
      throw new Exit('storeUnreachable', error.message, { cause: error });
    throw error;
  });
  if (!flags.json) printData(shard.id);
  say(`dq: ${shard.url} is shard ${shard.id}; it receives jobs within 2 s`);
}

async function drainShard(id: string, flags: DaemonOptions): Promise<void> {
  const call = { method: 'POST', path: ['v1', 'shards', id, 'drain'] } as const;
  const question = `Drain the shard ${id}? It receives no new jobs from then on.`;
  const { jobs } = (await ask<ShardJson>(flags, call, question)).json;
  const holds = jobs === null ? 'it does not answer now' : `it has ${jobs} jobs`;
  say(`dq: shard ${id} drains: ${holds}; when it is empty: dq shard rm ${id}`);
}

async function remove(id: string, flags: RemoveFlags): Promise<void> {
  const cost =
    flags.lost === true
      ? 'With a journal its jobs are restored; else they are not delivered unless it is added again.'
      : 'Its history of ended jobs is no longer shown.';
  const { json } = await ask<ReplyOf<typeof removeShardSchema>>(
    flags,
    { method: 'DELETE', path: ['v1', 'shards', id], query: flags.lost === true ? { jobs: 'lost' } : {} },
    `Remove the shard ${id}? ${cost}`,
  );
  const more = json.restores ? '; its jobs are restored from the journal' : '';
  say(`dq: removed shard ${id}${more}`);
}
