// Identifies, counts and checks servers that are shards or may become shards. A server outside the shard list
// gets a connection only for the duration of one call.

import { wordsOf } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import { activeOf, placesOf, type ShardList, type ShardRecord } from '../../../core/shard-list.ts';
import { redisAddress } from '../../../core/url/redis-url.ts';
import type { Identified, ShardHolds, ShardServers } from '../../../ports/shard-servers.ts';
import { StoreError } from '../../../ports/store-error.ts';
import { randomBytes, sleep } from '../../../runtime/time.ts';
import { within } from '../../../runtime/timeout.ts';
import { silentLog } from '../../../telemetry/log.ts';
import { infoOf, whyNotWorking } from '../calls/health.ts';
import { beginToConnect, type ConnectionEvents, closeClient, createClient } from '../client/connection.ts';
import { isDenied } from '../client/failures.ts';
import { rightsOf } from '../client/rights.ts';
import { redisLimits } from '../limits.ts';
import { idOf, prefixOf, whyForeign } from '../scripts/keys.ts';
import type { RedisStore } from './redis-store.ts';
import { Shard, type ShardOptions } from './shard.ts';
import type { Arg } from './shards.ts';

/** Older servers ignore the flags of scripts: a full one would neither reject pushes cleanly nor drain. */
const majorMin = 7;

type Options = Pick<ShardOptions, 'title' | 'log' | 'registryId' | 'keepHistory' | 'onFatal' | 'connectTcp'>;

export function shardServers(store: RedisStore, options: Options): ShardServers {
  const openShard = (id: string) => {
    const shard = store.shard(id);
    if (shard === null) throw new StoreError({ kind: 'not_stored', code: 'no_such_shard' });
    return shard;
  };
  return {
    get list() {
      return store.list;
    },
    onList: (listener) => store.onList(listener),
    async identify(url, buckets) {
      const shardId = randomBytes(8).toString('hex');
      // The caller reports the result, and may call every second.
      const one = { ...options, log: silentLog, url, buckets, shardId };
      const shard = new Shard({ ...one, takesName: true });
      try {
        return await identified(shard);
      } finally {
        await shard.close(limits.redisCloseMs);
      }
    },
    whyNotAt: (shard, url) => whyNotAt(url, shard, options),
    announce: async (id) => holdsOf(openShard(id), store.list.number),
    // 0 is below every list number, so the script writes nothing.
    holds: async (id) => holdsOf(openShard(id), 0),
    trouble: async (id) => whyNotWorking(openShard(id)),
    info: async (id) => infoOf(openShard(id)),
    isCleared: (id) => isCleared(openShard(id), id, store.list),
    nameOf: (url) => redisAddress(url).shown,
    bucketsOf: (url) => (redisAddress(url).kind === 'cluster' ? limits.clusterBuckets : 1),
  };
}

async function identified(shard: Shard): Promise<Identified> {
  try {
    await shard.start();
    const { foreign } = shard.server;
    if (foreign !== null) return { kind: 'refused', code: 'foreign_marker', reason: foreign };
    const tooOld = whyTooOld(String(await shard.command('INFO', 'server')));
    if (tooOld !== null) return { kind: 'refused', code: 'redis_unsupported', reason: tooOld };
    const { jobs, list } = await holdsOf(shard, 0);
    return { kind: 'ours', id: shard.server.shardId, jobs, list };
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const { code } = error.failure;
    return { kind: 'away', code, reason: shard.server.errorText ?? code };
  }
}

async function whyNotAt(
  url: string,
  { id, buckets }: Pick<ShardRecord, 'id' | 'buckets'>,
  { title, registryId, connectTcp }: Options,
): ReturnType<ShardServers['whyNotAt']> {
  let rejection: unknown;
  const events: ConnectionEvents = {
    onReady() {},
    onLost() {},
    onError(error) {
      rejection = error;
    },
    onEnd() {},
  };
  const client = createClient(url, title, events, { connectTcp });
  const call = (name: string, ...args: Arg[]) =>
    within(limits.redisCallMs, client.call(name, ...args), () => new Error('no answer'));
  try {
    await beginToConnect(client);
    const marker = await call('HGET', `${prefixOf(0)}:n`, 'marker');
    // Without a marker the server was emptied: the shard writes it again, and reports that.
    const foreign =
      marker === null
        ? null
        : whyForeign(String(marker), { registryId: await registryId(), buckets, shardId: id });
    if (foreign !== null) return { kind: 'refused', reason: `is not this shard: ${foreign}` };
    const { refusal } = await rightsOf(call, redisAddress(url).user);
    return refusal === null ? null : { kind: 'refused', reason: refusal };
  } catch (error) {
    const cause = rejection ?? error;
    return { kind: isDenied(cause) ? 'refused' : 'away', reason: wordsOf(cause) };
  } finally {
    await closeClient(client, limits.redisCloseMs);
  }
}

/** Whether the shard holds no job with another home. Uses one list for the whole walk. A job placed by a
 *  later list then counts as foreign, which costs another walk.
 *  A draining shard is the home of none, so it must be empty. A walk would not tell: an end can push its
 *  outcome job behind the walk and take itself away before it. Outcome jobs stay in the bucket of the end,
 *  so an empty bucket stays empty. */
export async function isCleared(
  shard: Pick<Shard, 'buckets' | 'run'>,
  id: string,
  list: ShardList,
): Promise<boolean> {
  const { jobs } = await holdsOf(shard, list.number);
  if (jobs === 0 || !activeOf(list).includes(id)) return jobs === 0;
  for (const bucket of shard.buckets) {
    let cursor = '0';
    do {
      const reply = (await shard.run('ids', bucket, [cursor])) as Buffer[];
      cursor = String(reply[0]);
      for (let i = 1; i < reply.length; i += 2) {
        const key = { topic: String(reply[i]), id: idOf(reply[i + 1] as Buffer) };
        if (placesOf(list, key).home !== id) return false;
      }
      await sleep(redisLimits.clearPauseMs);
    } while (cursor !== '0');
  }
  return true;
}

async function holdsOf(shard: Pick<Shard, 'buckets' | 'run'>, list: number): Promise<ShardHolds> {
  const replies = (await Promise.all(
    shard.buckets.map((bucket) => shard.run('raiseList', bucket, [], list)),
  )) as [number, number, number, number][];
  return {
    jobs: replies.reduce((sum, [jobs]) => sum + jobs, 0),
    alerts: replies.reduce((sum, [, alerts]) => sum + alerts, 0),
    list: Math.max(...replies.map(([, , list]) => list)),
    isArrival: replies.some(([, , , moving]) => moving === 1),
  };
}

/** null = new enough. Valkey reports itself as Redis 7.2. `info`: reply to INFO server */
export function whyTooOld(info: string): string | null {
  const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '0';
  return Number.parseInt(version, 10) < majorMin
    ? `Redis ${version} is too old: dq needs ${majorMin}.0 or newer, or Valkey`
    : null;
}
