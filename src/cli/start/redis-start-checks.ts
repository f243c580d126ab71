// Checks before `dq restart` whether the next start would reject a Redis: an older version, or the marker of
// another owner. Asks each server once and writes nothing. Skips an unavailable server, as a start does.

import { limits } from '../../core/limits.ts';
import type { ShardList } from '../../core/shard-list.ts';
import { redisAddress } from '../../core/url/redis-url.ts';
import { orAfter } from '../../runtime/timeout.ts';
import { type Client, closeClient, createClient } from '../../store/redis/client/connection.ts';
import { prefixOf, whyForeign } from '../../store/redis/scripts/keys.ts';
import { whyTooOld } from '../../store/redis/shard/shard-servers.ts';

export interface RedisPlan {
  /** of the configuration: the first list of shards */
  readonly urls: readonly string[];
  /** of the registry; number 0 = no list yet */
  readonly list: ShardList;
  /** '' = the start makes one */
  readonly registryId: string;
}

/** The reason; null = all checks passed. */
export async function whyNotRedis({ urls, list, registryId }: RedisPlan): Promise<string | null> {
  const hasList = list.number > 0;
  const expected = hasList
    ? list.shards.map(({ url, buckets, id }) => ({ url, buckets, shardId: id }))
    : urls.map((url) => ({
        url,
        buckets: redisAddress(url).kind === 'cluster' ? limits.clusterBuckets : 1,
        shardId: null,
      }));
  const answers = await Promise.all(expected.map(({ url }) => ask(url)));
  for (const [i, { url, buckets, shardId }] of expected.entries()) {
    const answer = answers[i] ?? null;
    if (answer === null) {
      // A first list waits for its servers in order: a start does not reach the later ones.
      if (!hasList) return null;
      continue;
    }
    const { info, marker } = answer;
    const foreign = marker === null ? null : whyForeign(marker, { registryId, buckets, shardId });
    const reason = whyTooOld(info) ?? (foreign === null ? null : `this Redis is not ours: ${foreign}`);
    if (reason !== null) return `${redisAddress(url).shown}: ${reason}`;
  }
  return null;
}

/** null = no answer within limits.redisCallMs, or an error. */
async function ask(url: string): Promise<{ readonly info: string; readonly marker: string | null } | null> {
  let client: Client | null = null;
  try {
    client = createClient(url, 'dq-start-check', {
      onReady() {},
      onLost() {},
      onError() {},
      onEnd() {},
    });
    return await orAfter(limits.redisCallMs, answerOf(client), null);
  } catch {
    // Unavailable, or this user may not read it: a start ignores both.
    return null;
  } finally {
    if (client !== null) await closeClient(client, limits.redisCloseMs);
  }
}

async function answerOf(client: Client) {
  await client.connect();
  const info = String(await client.call('INFO', 'server'));
  const marker = (await client.call('HGET', `${prefixOf(0)}:n`, 'marker')) as string | null;
  return { info, marker };
}
