// change-shards.ts holds the use cases of shards: write the first shard list; add, drain and remove a shard;
// take over logins from the configuration.
// Each changes the list in the registry by compare-and-set, then announces it to every shard that answers, so
// that no process places ids by an earlier list.
// Invariants: dq removes only a shard that holds nothing and gets nothing; at least one shard takes new ids;
// a new list has a number above every number that a shard has seen, even when the registry has lost later
// lists.

import { DqError, invalidField } from '../core/errors.ts';
import {
  clearedAt,
  draining,
  filled,
  type NewShard,
  readdressed,
  type ShardList,
  type ShardReports,
  without,
  withShard,
} from '../core/shard-list.ts';
import { isSameLogin, isSamePlace } from '../core/url/redis-url.ts';
import type { JournalDb } from '../ports/journal.ts';
import type { Registry } from '../ports/registry.ts';
import type { NotOurs, ShardHolds, ShardServers } from '../ports/shard-servers.ts';
import { StoreError } from '../ports/store-error.ts';
import { wallNow } from '../runtime/time.ts';
import { useCaseLimits } from './limits.ts';

export interface Shards {
  readonly registry: Registry;
  readonly servers: ShardServers;
  /** makes this process use the registry's current list */
  readonly refresh: () => Promise<void>;
  /** absent: lost jobs stay lost */
  readonly journal?: Pick<JournalDb, 'beginRestore' | 'restores'> | undefined;
}

/** Writes all servers of the configuration as the first list, once each has answered. Returns null, or the
 *  server without an answer and the reason. */
export async function fillShards(
  { registry, servers }: Omit<Shards, 'refresh'>,
  urls: readonly string[],
): Promise<{ readonly url: string; readonly why: NotOurs } | null> {
  const { revision, list } = await registry.shards(-1);
  if (list === null || list.number > 0) return null;
  const found: NewShard[] = [];
  const holding: string[] = [];
  let number = 0;
  for (const url of urls) {
    const buckets = servers.bucketsOf(url);
    const identified = await servers.identify(url, buckets);
    if (identified.kind !== 'ours') return { url, why: identified };
    const { id, jobs, list: seen } = identified;
    if (!found.some((shard) => shard.id === id)) found.push({ id, url, buckets, addedAt: wallNow() });
    if (jobs > 0) holding.push(id);
    number = Math.max(number, seen);
  }
  // After a concurrent change another process has written it.
  await registry.writeShards(filled(found, { number, holding }), revision);
  return null;
}

/** Adds a new shard, changes the address of a known one, or ends its draining. A restored registry can
 *  lack a shard that holds jobs: dq finds those jobs again from now on. */
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
    throw new DqError('shard_unreachable', `${name}: no answer (${identified.reason})`);
  const { id, jobs, list: seen } = identified;
  if (jobs > 0 && !(await listOf(shards)).list.shards.some((shard) => shard.id === id))
    await rejectRestored(shards, id, name);
  await changeList(shards, (list, reports) => {
    const isKnown = list.shards.some((shard) => shard.id === id);
    if (!isKnown && list.shards.length >= useCaseLimits.shardsMax)
      throw invalidField('url', `${useCaseLimits.shardsMax} shards exist; remove one first`);
    if (list.earlier.length >= useCaseLimits.earlierListsMax)
      throw new DqError('shard_refused', 'too many earlier lists still have jobs; remove draining shards');
    const all = { number: Math.max(reports.number, seen), holding: jobs > 0 ? [id] : [] };
    return withShard(list, { id, url, buckets, addedAt: wallNow() }, all);
  });
  return { id };
}

/** The jobs of a shard that was removed as lost are on other shards: dq would call them twice. */
async function rejectRestored({ journal }: Shards, id: string, name: string): Promise<void> {
  const works = (await journal?.restores(useCaseLimits.restoresMax, 'lost_shard')) ?? [];
  if (!works.some(({ about, state }) => about === id && state !== 'failed')) return;
  throw new DqError(
    'shard_refused',
    `${name}: its jobs were restored on other shards when it was removed as lost; empty it (FLUSHDB), then add it`,
  );
}

/** Stores user, password and TLS of `urls` for the shards at the same addresses, if the server accepts them:
 *  an outdated configuration must not replace a login that works. Returns addresses without their login. */
export async function takeOverLogins(
  shards: Shards,
  urls: readonly string[],
): Promise<{
  readonly taken: readonly string[];
  readonly rejected: readonly { readonly name: string; readonly reason: string }[];
  /** A server did not answer: a repeat may take its login over. */
  readonly isOpen: boolean;
}> {
  const { servers } = shards;
  const taken: string[] = [];
  const rejected: { name: string; reason: string }[] = [];
  let isOpen = false;
  for (const shard of servers.list.shards) {
    const url = urls.find((one) => isSamePlace(one, shard.url));
    if (url === undefined || isSameLogin(url, shard.url)) continue;
    const why = await servers.whyNotAt(shard, url);
    const name = servers.nameOf(url);
    if (why !== null) {
      rejected.push({ name, reason: why.reason });
      isOpen ||= why.kind === 'away';
    } else {
      await changeList(shards, (list) => readdressed(list, shard.id, url));
      taken.push(name);
    }
  }
  return { taken, rejected, isOpen };
}

/** Places no new ids on the shard; dq serves its jobs. Repeating it changes nothing. */
export async function drainShard(shards: Shards, id: string): Promise<void> {
  await changeList(shards, (list, reports) => {
    knownShard(list, id);
    const others = list.shards.filter((shard) => shard.id !== id && shard.active);
    if (others.length === 0)
      throw new DqError('shard_in_use', 'the last shard that takes new jobs; add another one first');
    return draining(list, id, reports);
  });
}

/** Removes a draining shard that is empty; with `isLost` also one that does not answer. With a journal, dq
 *  restores the jobs of a lost shard on the others. Without one it does not deliver them, and accepts pushes
 *  of their ids; after addShard it delivers them again. `lost`: its address for the log, because dq does not
 *  notice when a lost shard answers again. */
export async function removeShard(
  shards: Shards,
  id: string,
  isLost = false,
): Promise<{ readonly lost: string | null }> {
  if (knownShard((await listOf(shards)).list, id).active)
    throw new DqError('shard_in_use', 'it takes new jobs; drain it first (dq shard drain)');
  await shards.refresh();
  const { url } = knownShard(shards.servers.list, id);
  const held = await holds(shards, id, isLost);
  const { jobs, alerts } = held ?? { jobs: 0, alerts: 0 };
  if (jobs + alerts > 0)
    throw new DqError(
      'shard_in_use',
      `it holds ${jobs} jobs and ${alerts} unsent alerts; wait until it is empty`,
      { extra: { jobs, alerts } },
    );
  if (held?.isArrival === true)
    throw new DqError(
      'shard_in_use',
      'jobs of a jobs.db move to Redis; remove it after the move (dq status)',
    );
  // First: a process that dies between the two leaves work that waits for the removal, not lost jobs. Its
  // note, the time, tells it from an earlier removal of the shard.
  if (held === null) await shards.journal?.beginRestore({ kind: 'lost_shard', about: id, note: wallNow() });
  await changeList(shards, (list) => {
    if (knownShard(list, id).active)
      throw new DqError('shard_in_use', 'it takes new jobs again; drain it first');
    return without(list, id);
  });
  return { lost: held === null ? shards.servers.nameOf(url) : null };
}

/** Records the shards that hold no job of an earlier list any more, and returns their ids. A shard without
 *  an answer waits for the next call. */
export async function recordCleared(shards: Shards): Promise<readonly string[]> {
  const { servers, registry } = shards;
  await shards.refresh();
  const { number, earlier, shards: all } = servers.list;
  const cleared: string[] = [];
  for (const { id, settled: since } of earlier.length === 0 ? [] : all) {
    if (since >= number || !(await isCleared(servers, id))) continue;
    const { revision, list } = await registry.shards(-1);
    // After a concurrent change the next call examines it again; an older list does not cover what was
    // examined.
    if (list === null || list.number < number) continue;
    if ((await registry.writeShards(clearedAt(list, id, number), revision)) === 'updated') cleared.push(id);
  }
  if (cleared.length > 0) await shards.refresh();
  return cleared;
}

async function isCleared(servers: ShardServers, id: string): Promise<boolean> {
  try {
    return await servers.isCleared(id);
  } catch (error) {
    if (error instanceof StoreError) return false;
    throw error;
  }
}

/** null: it does not answer, and the caller declares it lost. */
async function holds({ servers }: Shards, id: string, isLost: boolean): Promise<ShardHolds | null> {
  try {
    return await servers.announce(id);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (isLost) return null;
    throw new DqError(
      'shard_unreachable',
      `no answer (${error.failure.code}), and it may hold jobs; if it is lost for good: dq shard rm --lost`,
      { cause: error },
    );
  }
}

export function knownShard({ shards }: ShardList, id: string) {
  const shard = shards.find((one) => one.id === id);
  if (shard === undefined) throw new DqError('shard_not_found', `there is no shard ${JSON.stringify(id)}`);
  return shard;
}

async function listOf({
  registry,
}: Pick<Shards, 'registry'>): Promise<{ revision: number; list: ShardList }> {
  const { revision, list } = await registry.shards(-1);
  if (list === null) throw new Error('the registry returned no shard list');
  return { revision, list };
}

async function changeList(
  shards: Shards,
  next: (list: ShardList, reports: ShardReports) => ShardList,
): Promise<void> {
  await shards.refresh();
  const reports = await reportsOf(shards.servers);
  for (;;) {
    const { revision, list } = await listOf(shards);
    const wanted = next(list, reports);
    if (wanted === list) break;
    if ((await shards.registry.writeShards(wanted, revision)) === 'updated') break;
  }
  await shards.refresh();
  // An unavailable shard gets the list with the first push by it, and rejects no earlier list until then.
  await Promise.allSettled(shards.servers.list.shards.map(({ id }) => shards.servers.announce(id)));
}

/** Ignores unavailable shards: one that has seen a later number keeps rejecting, and another change goes
 *  above it. */
async function reportsOf(servers: ShardServers): Promise<ShardReports> {
  const answers = await Promise.allSettled(servers.list.shards.map(({ id }) => servers.holds(id)));
  const numbers = answers.map((each) => (each.status === 'fulfilled' ? each.value.list : 0));
  return { number: Math.max(0, ...numbers), holding: [] };
}
