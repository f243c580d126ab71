// Builds the job store on Redis: the shard list of the registry, a store over its shards, and the first list
// of a new registry. Invariant: the first list is written only when every server of `redis` answers and
// belongs to this registry.

import { wordsOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { noShards } from '../core/shard-list.ts';
import { isSamePlace } from '../core/url/redis-url.ts';
import type { Store } from '../ports/job-store.ts';
import type { Registry } from '../ports/registry.ts';
import type { ShardServers } from '../ports/shard-servers.ts';
import { StoreError, type StoreFailure } from '../ports/store-error.ts';
import { type KeptShards, ShardBook } from '../registry/shard-book.ts';
import type { WatchedStore } from '../store/redis/client/durability-watch.ts';
import { RedisStore, type RedisStoreOptions } from '../store/redis/shard/redis-store.ts';
import { shardServers } from '../store/redis/shard/shard-servers.ts';
import { fillShards, takeOverLogins } from '../use-cases/change-shards.ts';

export interface RedisJobs extends WatchedStore {
  readonly store: Store;
  readonly shards: { readonly servers: ShardServers; readonly refresh: () => Promise<void> };
  /** Where `redis` is not in force: other servers than the shard list, rejected logins. Empty while the list
   *  is unknown. */
  warnings(): readonly string[];
}

interface RedisJobsOptions extends Omit<RedisStoreOptions, 'refresh' | 'whyUnknown'> {
  readonly registry: Registry;
  /** reads the copy of the shard list on disk, of a registry in MySQL */
  readonly kept?: (() => Promise<KeptShards | null>) | undefined;
  /** option `redis` */
  readonly urls: readonly string[];
  /** takeOverLogins() has an effect: in one process of an instance, at a start and at a reload */
  readonly takesLogins: boolean;
}

export function openRedisJobs(given: RedisJobsOptions): RedisJobs {
  const { registry, kept, urls, takesLogins, ...options } = given;
  const { log } = options;
  let waiting = noList('the shard list has not been read from the registry yet');
  const redis = new RedisStore({
    ...options,
    refresh: () => book.refresh(),
    whyUnknown: () => (book.failure === null ? waiting : noList(unreadSentence(book.failure))),
  });
  const servers = shardServers(redis, options);
  let foreign: string | null = null;
  let isReported = false;
  let rejected: Awaited<ReturnType<typeof takeOverLogins>>['rejected'] = [];
  const book: ShardBook = new ShardBook({
    registry,
    log,
    onList: (list) => redis.apply(list),
    ...(kept === undefined ? {} : { kept }),
    whileEmpty: async () => {
      const missing = await fillShards({ registry, servers }, urls);
      foreign = null;
      waiting = noList('the shard list has been written to the registry and is read now');
      if (missing === null) return;
      const { url, why } = missing;
      const redis = servers.nameOf(url);
      const remedy = remedies[why.code] ?? otherwise;
      waiting = { kind: 'not_stored', code: why.code, why: `${redis}: ${why.reason}; ${remedy}` };
      if (why.kind === 'refused') foreign = `${redis}: ${why.reason}`;
      if (!isReported)
        log.error('shards: cannot write the first shard list', new StoreError(waiting), {
          redis,
          reason: `${why.reason}; ${remedy}`,
        });
      isReported = true;
    },
  });
  return {
    store: redis.store,
    admin: redis.store.admin,
    shards: { servers, refresh: () => book.refresh() },
    foreign: () => redis.foreign ?? foreign,
    infos: () => redis.infos(),
    warnings: () => [
      ...differenceOf(servers, urls),
      ...rejected.map(
        ({ name, reason }) =>
          `warning: \`redis\` has another login for ${name} than the shard list, and it does not work: ${reason}; the stored login stays in force`,
      ),
    ],
    async takeOverLogins() {
      if (!takesLogins) return true;
      try {
        const result = await takeOverLogins({ registry, servers, refresh: () => book.refresh() }, urls);
        rejected = result.rejected;
        for (const name of result.taken)
          log.notice('shards: took over user, password and TLS from `redis`', { redis: name });
        // Connects to the changed shards.
        if (result.taken.length > 0) await redis.start();
        return !result.isOpen;
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        return false;
      }
    },
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

function differenceOf(servers: ShardServers, urls: readonly string[]): readonly string[] {
  if (servers.list.number === noShards.number) return [];
  const listed = servers.list.shards.map(({ url }) => url);
  const covers = (some: readonly string[], others: readonly string[]) =>
    others.every((other) => some.some((one) => isSamePlace(one, other)));
  if (covers(listed, urls) && covers(urls, listed)) return [];
  const names = (list: readonly string[]) =>
    [...new Set(list.map((url) => servers.nameOf(url)))].sort().join(', ');
  return [
    `warning: \`redis\` names ${names(urls)}, the shard list names ${names(listed)}; change the list with \`dq shard add\`, \`drain\`, \`rm\``,
  ];
}

const noList = (why: string): StoreFailure => ({ kind: 'not_stored', code: 'no_shard_list', why });

/** by the code of the failure */
const remedies: Readonly<Record<string, string>> = {
  redis_no_database: 'correct the number of the database in `redis`, then dq restart',
  redis_denied: 'correct its user and password in `redis`, then dq restart, or the rights of the user',
  foreign_marker: 'see dq help redis, One Redis, one registry',
  redis_unsupported: 'use Redis 7.0 or newer, or Valkey',
};
const otherwise = 'start that server, or correct `redis`, then dq restart';

function unreadSentence(failure: unknown): string {
  const cause = failure instanceof StoreError ? (failure.cause ?? failure) : failure;
  return `cannot read the shard list from the registry: ${wordsOf(cause)}`;
}
