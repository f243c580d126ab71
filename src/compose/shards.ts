// Puts the job store on shards together: the list of the registry, the servers that it names, and the first list where there is
// none. Of compose.ts, which gives it the registry.

import { limits } from '../core/limits.ts';
import { noShards } from '../core/shard-list.ts';
import { type Store, StoreError } from '../ports/job-store.ts';
import type { Registry } from '../ports/registry.ts';
import type { ShardServers } from '../ports/shard-servers.ts';
import { type KeptShards, ShardBook } from '../registry/shard-book.ts';
import type { WatchedStore } from '../store/redis/client/durability-watch.ts';
import { shardServers } from '../store/redis/shard/shard-servers.ts';
import { type ShardedOptions, ShardedStore } from '../store/redis/shard/sharded-store.ts';
import { fillShards } from '../use-cases/change-shards.ts';

export interface ShardedJobs extends WatchedStore {
  readonly store: Store;
  readonly shards: { readonly servers: ShardServers; readonly refresh: () => Promise<void> };
  /** What the configuration says and the registry does not; '' = they agree, or the registry is not known yet. */
  difference(): string;
}

export interface ShardedJobsOptions extends Omit<ShardedOptions, 'refresh' | 'whyNone'> {
  readonly registry: Registry;
  /** the list that lies beside a registry in MySQL */
  readonly kept?: (() => Promise<KeptShards | null>) | undefined;
  /** of the configuration */
  readonly urls: readonly string[];
}

export function openShardedJobs({ registry, kept, urls, ...options }: ShardedJobsOptions): ShardedJobs {
  const { log } = options;
  let waiting: string | null = 'the registry has not told yet which Redis it has';
  const sharded = new ShardedStore({
    ...options,
    refresh: () => book.refresh(),
    whyNone: () => waiting,
  });
  const servers = shardServers(sharded, options);
  let refused: string | null = null;
  let said = false;
  const book: ShardBook = new ShardBook({
    registry,
    log,
    onList: (list) => sharded.apply(list),
    ...(kept === undefined ? {} : { kept }),
    whileEmpty: async () => {
      const missing = await fillShards({ registry, servers }, urls);
      refused = null;
      waiting = null;
      if (missing === null) return;
      const { url, why } = missing;
      waiting = `${servers.nameOf(url)}: ${why.reason}`;
      if (why.kind === 'refused') refused = `${servers.nameOf(url)}: ${why.reason}`;
      const sentence = 'the first list of shards waits until every server of `redis` answers and is ours';
      if (!said)
        log.error(sentence, new StoreError({ kind: 'not_stored', code: 'redis_away' }), {
          redis: servers.nameOf(url),
          reason: why.reason,
        });
      said = true;
    },
  });
  return {
    store: sharded.store,
    admin: sharded.store.admin,
    shards: { servers, refresh: () => book.refresh() },
    foreign: () => sharded.foreign ?? refused,
    infos: () => sharded.infos(),
    difference: () => differenceOf(servers, urls),
    async start() {
      await book.start();
      await sharded.start();
    },
    async close() {
      await book.drain(limits.loopSleepMsMax);
      await sharded.close();
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
    : `warning: \`redis\` says ${wanted}, and the shards are ${inForce}: they are changed with \`dq shard add\`, \`drain\` and \`rm\``;
}
