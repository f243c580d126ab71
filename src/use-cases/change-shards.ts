// The use cases of shards: the first list, and a shard that comes, drains or goes. The registry's list decides, changed by
// compare-and-set; then every shard that answers hears of it, so that nobody goes on placing by the one before.
// Invariants: a shard goes only when it holds nothing, and nothing can come any more; one at least takes new ids; a new list has a
// number that no shard has heard of, also where the registry has forgotten what they have.

import { DqError, invalidField } from '../core/errors.ts';
import {
  draining,
  filled,
  type NewShard,
  type ShardList,
  type ShardReports,
  settledAt,
  without,
  withShard,
} from '../core/shard-list.ts';
import type { Registry } from '../ports/registry.ts';
import type { Identified, ShardHolds, ShardServers } from '../ports/shard-servers.ts';
import { StoreError } from '../ports/store-error.ts';
import { useCaseLimits } from './limits.ts';

export interface Shards {
  readonly registry: Registry;
  readonly servers: ShardServers;
  /** has this process work by the list that the registry has now */
  readonly refresh: () => Promise<void>;
}

/** The servers of the configuration become the first list: all of them, once each has answered. Answers null, or the server that it
 *  waits for and why. */
export async function fillShards(
  { registry, servers }: Omit<Shards, 'refresh'>,
  urls: readonly string[],
): Promise<{ readonly url: string; readonly why: Exclude<Identified, { kind: 'ours' }> } | null> {
  const { revision, list } = await registry.shards(-1);
  if (list === null || list.number > 0) return null;
  const found: NewShard[] = [];
  const holding: string[] = [];
  let number = 0;
  for (const url of urls) {
    const buckets = servers.bucketsOf(url);
    const identified = await servers.identify(url, buckets);
    if (identified.kind !== 'ours') return { url, why: identified };
    const { id, jobs, list: heard } = identified;
    if (!found.some((shard) => shard.id === id)) found.push({ id, url, buckets, addedAt: Date.now() });
    if (jobs > 0) holding.push(id);
    number = Math.max(number, heard);
  }
  // Changed meanwhile: by somebody who has filled it.
  await registry.writeShards(filled(found, { number, holding }), revision);
  return null;
}

/** A new shard, a known one at another address, or one that drains and shall take ids again. One that holds jobs which no list tells
 *  of is one that a registry put back from a backup has forgotten: what it holds is found there from now on. */
export async function addShard(
  shards: Shards,
  url: string,
  buckets: number,
): Promise<{ readonly id: string }> {
  const { servers } = shards;
  const identified = await servers.identify(url, buckets);
  const name = servers.nameOf(url);
  if (identified.kind === 'refused') throw new DqError('shard_refused', `${name}: ${identified.reason}`);
  if (identified.kind === 'away')
    throw new DqError('shard_unreachable', `${name} does not answer (${identified.reason})`);
  const { id, jobs, list: its } = identified;
  await change(shards, (list, heard) => {
    const isKnown = list.shards.some((shard) => shard.id === id);
    if (!isKnown && list.shards.length >= useCaseLimits.shardsMax)
      throw invalidField('url', `there are ${useCaseLimits.shardsMax} shards already`);
    if (list.earlier.length >= useCaseLimits.earlierListsMax)
      throw new DqError('shard_refused', 'too many earlier lists still have jobs; remove shards that drain');
    const all = { number: Math.max(heard.number, its), holding: jobs > 0 ? [id] : [] };
    return withShard(list, { id, url, buckets, addedAt: Date.now() }, all);
  });
  return { id };
}

/** No new ids from now on; what it holds is served. Repeating it changes nothing. */
export async function drainShard(shards: Shards, id: string): Promise<void> {
  await change(shards, (list, heard) => {
    known(list, id);
    const others = list.shards.filter((shard) => shard.id !== id && shard.active);
    if (others.length === 0)
      throw new DqError('shard_in_use', 'it is the last shard that takes new jobs; add another one first');
    return draining(list, id, heard);
  });
}

/** Only one that drains and holds nothing any more; or, said to be lost, one that drains and does not answer. What a lost one held is
 *  not delivered, and its ids can be pushed anew; added again it brings its jobs back. Answers what somebody has to be told: nobody
 *  looks at it any more, and when it comes back nobody notices. */
export async function removeShard(
  shards: Shards,
  id: string,
  isLost = false,
): Promise<{ readonly lost: string | null }> {
  if (known((await listOf(shards)).list, id).active)
    throw new DqError('shard_in_use', 'it takes new jobs: `dq shard drain` it first');
  await shards.refresh();
  const { url } = known(shards.servers.list, id);
  const held = await holds(shards, id, isLost);
  const { jobs, alerts } = held ?? { jobs: 0, alerts: 0 };
  if (jobs + alerts > 0)
    throw new DqError(
      'shard_in_use',
      `it still holds ${jobs} jobs and ${alerts} alerts that are to be sent`,
      {
        extra: { jobs, alerts },
      },
    );
  await change(shards, (list) => {
    if (known(list, id).active) throw new DqError('shard_in_use', 'it takes new jobs again');
    return without(list, id);
  });
  return { lost: held === null ? shards.servers.nameOf(url) : null };
}

/** Notes which shards hold no more job of an earlier list; answers them. One that does not answer waits for the next time. */
export async function settleShards(shards: Shards): Promise<readonly string[]> {
  const { servers, registry } = shards;
  await shards.refresh();
  const { number, earlier, shards: all } = servers.list;
  const settled: string[] = [];
  for (const { id, settled: since } of earlier.length === 0 ? [] : all) {
    if (since >= number || !(await isSettled(servers, id))) continue;
    const { revision, list } = await registry.shards(-1);
    // Written meanwhile by somebody else: it is looked at again. An older one says nothing of what was looked at.
    if (list === null || list.number < number) continue;
    if ((await registry.writeShards(settledAt(list, id, number), revision)) === 'updated') settled.push(id);
  }
  if (settled.length > 0) await shards.refresh();
  return settled;
}

async function isSettled(servers: ShardServers, id: string): Promise<boolean> {
  try {
    return await servers.isSettled(id);
  } catch (error) {
    if (error instanceof StoreError) return false;
    throw error;
  }
}

/** null: it does not answer, and is said to be lost. */
async function holds({ servers }: Shards, id: string, isLost: boolean): Promise<ShardHolds | null> {
  try {
    return await servers.announce(id);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (isLost) return null;
    throw new DqError(
      'shard_unreachable',
      `it does not answer (${error.failure.code}), and may hold jobs; one that never comes back: \`dq shard rm --lost\``,
      { cause: error },
    );
  }
}

export function known({ shards }: ShardList, id: string) {
  const shard = shards.find((one) => one.id === id);
  if (shard === undefined) throw new DqError('shard_not_found', `there is no shard ${JSON.stringify(id)}`);
  return shard;
}

async function listOf({
  registry,
}: Pick<Shards, 'registry'>): Promise<{ revision: number; list: ShardList }> {
  const { revision, list } = await registry.shards(-1);
  if (list === null) throw new Error('a registry that is asked for its list has answered none');
  return { revision, list };
}

async function change(
  shards: Shards,
  next: (list: ShardList, reports: ShardReports) => ShardList,
): Promise<void> {
  await shards.refresh();
  const heard = await heardBy(shards.servers);
  for (;;) {
    const { revision, list } = await listOf(shards);
    const wanted = next(list, heard);
    if (wanted === list) break;
    if ((await shards.registry.writeShards(wanted, revision)) === 'updated') break;
  }
  await shards.refresh();
  // Who is away hears of it from the first push that comes by the new list; until then it refuses nobody.
  await Promise.allSettled(shards.servers.list.shards.map(({ id }) => shards.servers.announce(id)));
}

/** Who is away is not asked: if it has heard of more, it goes on refusing, and another change is above it. */
async function heardBy(servers: ShardServers): Promise<ShardReports> {
  const asked = await Promise.allSettled(servers.list.shards.map(({ id }) => servers.holds(id)));
  const numbers = asked.map((each) => (each.status === 'fulfilled' ? each.value.list : 0));
  return { number: Math.max(0, ...numbers), holding: [] };
}
