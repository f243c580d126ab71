// Builds the job store on Redis: the shard list of the registry, a store over its shards, and the first list
// of a new registry. Invariant: the first list is written only when every server of `redis` answers and
// belongs to this registry.

import { limits } from '../core/limits.ts';
import { noShards } from '../core/shard-list.ts';
import type { Store } from '../ports/job-store.ts';
import type { Registry } from '../ports/registry.ts';
import type { ShardServers } from '../ports/shard-servers.ts';
import { StoreError } from '../ports/store-error.ts';
import { type KeptShards, ShardBook } from '../registry/shard-book.ts';
import type { WatchedStore } from '../store/redis/client/durability-watch.ts';
import { RedisStore, type RedisStoreOptions } from '../store/redis/shard/redis-store.ts';
import { shardServers } from '../store/redis/shard/shard-servers.ts';
import { fillShards } from '../use-cases/change-shards.ts';

export interface RedisJobs extends WatchedStore {
  readonly store: Store;
  readonly shards: { readonly servers: ShardServers; readonly refresh: () => Promise<void> };
  /** One sentence if `redis` and the shard list name different servers;
   *  '' = they agree, or the list is not known yet. */
  difference(): string;
}

export interface RedisJobsOptions extends Omit<RedisStoreOptions, 'refresh' | 'whyNone'> {
  readonly registry: Registry;
  /** reads the copy of the shard list on disk, of a registry in MySQL */
  readonly kept?: (() => Promise<KeptShards | null>) | undefined;
  /** option `redis` */
  readonly urls: readonly string[];
}

export function openRedisJobs({ registry, kept, urls, ...options }: RedisJobsOptions): RedisJobs {
  const { log } = options;
  let waiting: string | null = 'the shard list has not been read from the registry yet';
  const redis = new RedisStore({
    ...options,
    refresh: () => book.refresh(),
    whyNone: () => waiting,
  });
  const servers = shardServers(redis, options);
  let foreign: string | null = null;
  let isReported = false;
  const book: ShardBook = new ShardBook({
    registry,
    log,
    onList: (list) => redis.apply(list),
    ...(kept === undefined ? {} : { kept }),
    whileEmpty: async () => {
      const missing = await fillShards({ registry, servers }, urls);
      foreign = null;
      waiting = null;
      if (missing === null) return;
      const { url, why } = missing;
      waiting = `${servers.nameOf(url)}: ${why.reason}`;
      if (why.kind === 'refused') foreign = `${servers.nameOf(url)}: ${why.reason}`;
      if (!isReported)
        log.error(
          'shards: cannot write the first shard list',
          new StoreError({ kind: 'not_stored', code: 'redis_away' }),
          {
            redis: servers.nameOf(url),
            reason: why.reason,
          },
        );
      isReported = true;
    },
  });
  return {
    store: redis.store,
    admin: redis.store.admin,
    shards: { servers, refresh: () => book.refresh() },
    foreign: () => redis.foreign ?? foreign,
    infos: () => redis.infos(),
    difference: () => differenceOf(servers, urls),
    async start() {
      await book.start();
      await redis.start();
    },
    async close() {
      await book.drain(limits.loopSleepMsMax);
      await redis.close();
    },
  };
}

function differenceOf(servers: ShardServers, urls: readonly string[]): string {
  if (servers.list.number === noShards.number) return '';
  const names = (list: readonly string[]) =>
    [...new Set(list.map((url) => servers.nameOf(url)))].sort().join(', ');
  const [wanted, inForce] = [names(urls), names(servers.list.shards.map(({ url }) => url))];
  return wanted === inForce
    ? ''
    : `warning: \`redis\` names ${wanted}, the shard list names ${inForce}; change the list with \`dq shard add\`, \`drain\`, \`rm\``;
}
