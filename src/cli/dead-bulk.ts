// Requeue and purge of many dead letters: call after call until none is left of those that were there at the beginning, with the
// progress shown. What was done before a failure stays done and is told.

import { type ApiCall, type ApiClient, ApiRefusal, type FlagNames } from './daemon/api-client.ts';
import { clientOf, type DaemonOptions } from './daemon/daemon-options.ts';
import { Exit, exitCodes } from './exit.ts';
import { agree, printData, say } from './output/output.ts';
import { startProgress } from './output/progress.ts';

export interface BulkFlags extends DaemonOptions {
  readonly topic?: string;
  readonly since?: string;
  readonly until?: string;
  readonly id?: readonly string[];
  readonly all?: boolean;
}

/** The flags by the API's names of a filter's members. */
export const filterFlags: FlagNames = { since: '--since', until: '--until', ids: '--id', all: '--all' };

interface Filter {
  readonly topic: string | undefined;
  readonly since: string | undefined;
  readonly until: string | undefined;
  readonly ids: readonly string[] | undefined;
  readonly all: boolean | undefined;
}

export async function requeueDead(flags: BulkFlags): Promise<void> {
  const job = await begin(flags, 'requeue');
  await work(job, 'requeued', flags.json, (json) => ({
    method: 'POST',
    path: ['v1', 'dead', 'requeue'],
    json,
  }));
}

export async function purgeDead(flags: BulkFlags & { readonly yes?: boolean }): Promise<void> {
  const job = await begin(flags, 'purge');
  const many = job.count === null ? 'the dead letters of this filter' : `${job.count} dead letters`;
  await agree(`Remove ${many} for good?`, flags.yes);
  await work(job, 'purged', flags.json, ({ ids, ...query }) => ({
    method: 'DELETE',
    path: ['v1', 'dead'],
    query: { ...query, ids: ids === undefined ? undefined : JSON.stringify(ids) },
  }));
}

interface Bulk {
  readonly client: ApiClient;
  readonly filter: Filter;
  /** null when nobody knows */
  readonly count: number | null;
}

async function begin({ topic, since, until, id, all, ...flags }: BulkFlags, verb: string): Promise<Bulk> {
  if (topic === undefined && since === undefined && until === undefined && !all)
    throw new Exit('usage', `name what to ${verb}: a topic, --since, --until, --id, or --all`);
  if (id !== undefined && topic === undefined) throw new Exit('usage', '--id needs its topic');
  const client = clientOf(flags);
  if (id !== undefined) {
    const ids = [...new Set(id)];
    return { client, filter: { topic, since, until, ids, all }, count: ids.length };
  }
  const count = since === undefined && until === undefined ? await countOf(client, topic) : null;
  const end = await newestDeath(client, { topic, since, until });
  return { client, filter: { topic, since, until: end, ids: undefined, all }, count };
}

/** A job that dies again while this command runs must not be worked on again, for ever: what died after the newest of the
 *  letters that are here now stays. By the store's own times; this machine's clock may be another. */
async function newestDeath(
  client: ApiClient,
  { topic, since, until }: Pick<Filter, 'topic' | 'since' | 'until'>,
): Promise<string | undefined> {
  const { json } = await client.call<{ items: readonly { deadAt: string }[] }>({
    method: 'GET',
    path: ['v1', 'dead'],
    query: { topic, since, until, limit: 1 },
    flags: filterFlags,
    needs: ['items'],
  });
  const newest = json.items[0];
  return newest === undefined ? until : new Date(Date.parse(newest.deadAt) + 1).toISOString();
}

/** Of one topic or of all. null when it cannot be had: the work does not need it, and may be allowed to a token that may not ask. */
async function countOf(client: ApiClient, topic: string | undefined): Promise<number | null> {
  const path = topic === undefined ? ['v1', 'stats'] : ['v1', 'topics', topic, 'stats'];
  try {
    const { json } = await client.call<{ states: { dead: number } }>({
      method: 'GET',
      path,
      needs: ['states'],
    });
    return json.states.dead;
  } catch (error) {
    if (error instanceof ApiRefusal) return null;
    throw error;
  }
}

async function work(
  { client, filter, count }: Bulk,
  done: 'requeued' | 'purged',
  asJson: boolean | undefined,
  callOf: (filter: Filter) => ApiCall,
): Promise<void> {
  const progress = startProgress(done, count);
  let total = 0;
  // What an output that nobody reads any more would end this with, quietly, before all is done.
  process.exitCode = exitCodes.partlyFailed;
  try {
    for (let more = true; more; ) {
      const { text, json } = await client.call<Record<string, number> & { more: boolean }>({
        ...callOf(filter),
        flags: filterFlags,
        needs: [done, 'more'],
      });
      total += json[done] ?? 0;
      progress.add(json[done] ?? 0);
      if (asJson) printData(text);
      more = json.more;
    }
  } catch (error) {
    if (total === 0 || !(error instanceof Exit)) throw error;
    throw new Exit('partlyFailed', `${total} ${done}, then: ${error.message}`, { cause: error });
  } finally {
    progress.stop();
  }
  const asked = filter.ids?.length ?? total;
  if (total < asked)
    throw new Exit(total === 0 ? 'notFound' : 'partlyFailed', `${total} of ${asked} were dead letters`);
  process.exitCode = exitCodes.ok;
  say(`dq: ${total} ${done}`);
}
