// Opens the adapters that several roles use: the connection to dq-store, the registry in MySQL, the job store
// on Redis, the key file.
// Each function imports its adapter when it needs it: a process loads no database driver that it does not
// use.

import { join } from 'node:path';
import { type Config, journalModeOf, keyPathOf } from '../config/options.ts';
import { messageOf } from '../core/errors.ts';
import { parseMysqlUrl } from '../core/url/server-url.ts';
import type { Store, StoreAdmin } from '../ports/job-store.ts';
import type { Registry } from '../ports/registry.ts';
import type { Init } from '../process/messages.ts';
import type { WorkerChannel } from '../process/own-process.ts';
import type { SecretCipher } from '../registry/sql/keys/encryption.ts';
import type { MysqlRegistry } from '../registry/sql/mysql/mysql-registry.ts';
import type { Resources } from '../runtime/service.ts';
import type { MovingStore } from '../store/moving-store.ts';
import type { RedisStoreOptions } from '../store/redis/shard/redis-store.ts';
import type { StoreConnection } from '../store/sqlite/client/client.ts';
import { fatalLine, type OpenLog } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { JournalSeams, ProcessJournal } from './journal.ts';
import type { RedisJobs } from './shards.ts';

/** For a simulation. `connectTcp`: instead of this machine's network; `capacitiesMax`: lower, so that few
 *  topics exceed it. */
export type RedisSeams = Pick<RedisStoreOptions, 'connectTcp' | 'capacitiesMax'>;

/** What each worker has, whatever its role is. */
export interface Worker {
  readonly init: Init;
  readonly title: string;
  readonly log: OpenLog;
  readonly channel: WorkerChannel;
  readonly metrics: Metrics;
  /** aborted when a drain begins: ends each wait of a start */
  readonly leaving: AbortSignal;
  /** ended by the drain */
  readonly opened: Resources;
  /** Ends this process, which cannot survive an error. */
  readonly end: (reason: string) => void;
  readonly redisSeams?: RedisSeams | undefined;
}

/** The registry in MySQL; null = the registry is embedded. Each process has its own connections, opened at
 *  the first call. */
export async function mysqlRegistryOf({ init, log, opened }: Worker): Promise<MysqlRegistry | null> {
  const { config, role, takesOver } = init;
  const server = parseMysqlUrl(config['mysql.url']);
  if (!server.ok) return null;
  const { mysqlRegistry } = await import('../registry/sql/mysql/mysql-registry.ts');
  const registry = mysqlRegistry({
    server: server.value,
    keyPath: keyPathOf(config),
    snapshotPath: join(config.dataDir, 'registry-copy.json'),
    keepsSnapshot: role === 'upkeep',
    // In a reload, workers of the previous generation still use the schema as it is.
    migrates: (role === 'store' || role === 'upkeep') && !takesOver,
    warn: (sentence) => log.notice(`warning: ${sentence}`),
  });
  return opened.add(registry, () => registry.close());
}

/** The job store on Redis; null = jobs are in the embedded store. `embedded`: the client of dq-store, in the
 *  other processes */
export async function redisJobsOf(
  { init, title, log, end, redisSeams }: Worker,
  registry: Registry,
  mysql: MysqlRegistry | null,
  embedded?: StoreAdmin,
): Promise<RedisJobs | null> {
  const { config, role } = init;
  if (config.redis.length === 0) return null;
  const { openRedisJobs } = await import('./shards.ts');
  return openRedisJobs({
    registry,
    kept: mysql === null ? undefined : () => mysql.keptShards(),
    backups: embedded ?? null,
    urls: config.redis,
    takesLogins: role === 'store' && init.restarts === 0,
    registryId: () => registry.id(),
    title,
    log,
    keepHistory: config['history.retention'] > 0,
    // The name under which this process changes jobs.
    writer: journalModeOf(config) === 'off' ? undefined : `${init.instance}.${init.incarnation}`,
    // A server waits for jobs from its first puller on; the other roles do not.
    hints: role === 'timer' || role === 'notifier',
    onFatal: (error) => end(messageOf(error)),
    ...redisSeams,
  });
}

/** null: this process has nothing to do with a journal */
export async function journalOf(
  { init, log, metrics, opened }: Worker,
  seams?: JournalSeams,
): Promise<ProcessJournal | null> {
  const { config, role } = init;
  if (config.redis.length === 0) return null;
  const hasJournal = journalModeOf(config) !== 'off';
  if (!hasJournal && (role !== 'upkeep' || config['mysql.url'] === '')) return null;
  const { openJournal, openWithoutJournal } = await import('./journal.ts');
  if (hasJournal) return openJournal(init, log, metrics, opened, seams);
  const notes = await openWithoutJournal(config, log, opened);
  return { over: (store) => store, parts: undefined, start: () => notes.start() };
}

/** Reports an error that this process cannot survive, and exits with 1. */
export function endProcess(channel: WorkerChannel, title: string, reason: string): void {
  fatalLine(`${title}: ${reason}`);
  void channel.sent({ kind: 'crashed', message: reason }).finally(() => process.exit(1));
}

/** Decrypts topics of the embedded registry in the process that calls. The key file exists before any
 *  record. */
export async function storeConnectionOf({ init, title, log }: Worker): Promise<StoreConnection> {
  const [{ connectStore }, { readTopic }, { openKeyFile }] = await Promise.all([
    import('../store/sqlite/client/client.ts'),
    import('../registry/sql/tables/topic-row.ts'),
    import('../registry/sql/keys/registry-key.ts'),
  ]);
  const { config, socketPath } = init;
  let cipher: SecretCipher | null = null;
  const key = () => {
    cipher ??= openKeyFile(keyPathOf(config));
    return cipher;
  };
  return connectStore({ socketPath, title, log, readTopic: (record) => readTopic(record, key) });
}

/** The store over Redis while this instance has a jobs.db with jobs; null: Redis is not in force. */
export async function movingStoreOf(
  store: Store,
  { store: source, leaving }: StoreConnection,
): Promise<MovingStore | null> {
  const { arrivals } = store;
  if (arrivals === undefined) return null;
  const { MovingStore } = await import('../store/moving-store.ts');
  return new MovingStore(store, arrivals, { store: source, leaving });
}

/** Key of the texts of pull leases; read at the first lease, when the key file exists. */
export async function leaseKeyOf(config: Config): Promise<() => Buffer> {
  const { openLeaseKey } = await import('../registry/sql/keys/registry-key.ts');
  let key: Buffer | null = null;
  return () => {
    key ??= openLeaseKey(keyPathOf(config));
    return key;
  };
}
