// dq shard: the Redis servers that jobs are spread over.

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
    .description('the Redis servers that jobs are spread over; jobs never move between them');
  withDaemonOptions(family.command('ls').description('list them, and what they hold')).action(list);
  const add = family
    .command('add')
    .description('add one; a known one at another address, or one that drains and shall take ids again')
    .argument('<url>')
    .option('--buckets <n>', 'parts of it, fixed for ever (1, and 32 on a Cluster)');
  withDaemonOptions(add).action(addShard);
  const drain = family
    .command('drain')
    .description('no new ids from now on; what it holds is served')
    .argument('<id>')
    .option('-y, --yes', 'do not ask');
  withDaemonOptions(drain).action(drainShard);
  const rm = family
    .command('rm')
    .description('remove one that drains and is empty')
    .argument('<id>')
    .option('--lost', 'one that drains and never answers again: what it holds is given up')
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
  const heard = Math.max(0, ...items.map(({ list }) => list ?? 0));
  if (heard > number) say(`dq: ${forgottenSentence(heard, number)}`);
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
    throw new Exit('usage', `--buckets: "${flags.buckets}" is no number`);
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
  say(`dq: ${reply.json.url} is shard ${reply.json.id}; every process places jobs on it within 2 s`);
}

async function drainShard(id: string, flags: SureFlags): Promise<void> {
  const client = clientOf(flags);
  await agree(`Drain the shard ${id}? It takes no new jobs from then on.`, flags.yes);
  const reply = await client.call<Shard>({ method: 'POST', path: ['v1', 'shards', id, 'drain'] });
  if (flags.json) printData(reply.text);
  const holds = reply.json.jobs === null ? 'it does not answer now' : `it holds ${reply.json.jobs} jobs`;
  say(`dq: shard ${id} drains: ${holds}; once it is empty: dq shard rm ${id}`);
}

async function remove(id: string, flags: RemoveFlags): Promise<void> {
  const client = clientOf(flags);
  const cost =
    flags.lost === true
      ? 'The jobs that it holds are not delivered unless it is added again.'
      : 'What it remembers of ended jobs is no longer seen.';
  await agree(`Remove the shard ${id}? ${cost}`, flags.yes);
  const query = flags.lost === true ? { jobs: 'lost' } : {};
  const reply = await client.call({ method: 'DELETE', path: ['v1', 'shards', id], query });
  if (flags.json) printData(reply.text);
  say(`dq: shard ${id} is removed`);
}
