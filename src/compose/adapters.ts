// Opens the adapters that several roles use: the registry in MySQL, the job store on Redis, the key file.
// Each function imports its adapter when it needs it: a process loads no database driver that it does not
// use.

import { join } from 'node:path';
import { type Config, journalModeOf } from '../config/options.ts';
import { reasonOf } from '../core/errors.ts';
import type { KnownTopic } from '../core/topic/topic.ts';
import { parseMysqlUrl } from '../core/url/mysql-url.ts';
import type { StoreAdmin } from '../ports/job-store.ts';
import type { Registry, TopicRecord } from '../ports/registry.ts';
import type { MasterChannel } from '../process/master-channel.ts';
import type { Init } from '../process/worker-life.ts';
import type { SecretCipher } from '../registry/sql/keys/encryption.ts';
import type { MysqlRegistry } from '../registry/sql/mysql/mysql-registry.ts';
import { fatalLine } from '../telemetry/fatal-line.ts';
import type { OpenLog } from '../telemetry/open-log.ts';
import { writerOf } from './journal.ts';
import type { RedisJobs } from './shards.ts';

/** Path of the key file that encrypts secrets and headers of topics. */
export function keyPathOf({ secretKeyFile, dataDir }: Config): string {
  return secretKeyFile === '' ? join(dataDir, 'secret.key') : secretKeyFile;
}

/** The registry in MySQL; null = the registry is embedded. Each process has its own connections, opened at
 *  the first call. */
export async function mysqlRegistryOf(
  { config, role, takesOver }: Init,
  log: OpenLog,
): Promise<MysqlRegistry | null> {
  const server = parseMysqlUrl(config['mysql.url']);
  if (!server.ok) return null;
  const { MysqlRegistry } = await import('../registry/sql/mysql/mysql-registry.ts');
  return new MysqlRegistry({
    server: server.value,
    keyPath: keyPathOf(config),
    snapshotPath: join(config.dataDir, 'registry-copy.json'),
    keepsSnapshot: role === 'upkeep',
    // In a reload, workers of the previous generation still use the schema as it is.
    migrates: (role === 'store' || role === 'upkeep') && !takesOver,
    warn: (sentence) => log.notice(`warning: ${sentence}`),
  });
}

export interface JobsOptions {
  readonly init: Init;
  readonly title: string;
  readonly log: OpenLog;
  readonly channel: MasterChannel;
  readonly registry: Registry;
  readonly mysql: MysqlRegistry | null;
  /** the client of dq-store, in the other processes */
  readonly embedded?: StoreAdmin;
}

/** The job store on Redis; null = jobs are in the embedded store. */
export async function redisJobsOf(options: JobsOptions): Promise<RedisJobs | null> {
  const { init, title, log, channel, registry, mysql, embedded } = options;
  const { config, role } = init;
  if (config.redis.length === 0) return null;
  const { openRedisJobs } = await import('./shards.ts');
  return openRedisJobs({
    registry,
    kept: mysql === null ? undefined : () => mysql.keptShards(),
    registryBackup: mysql === null ? (embedded ?? null) : null,
    urls: config.redis,
    takesLogins: role === 'store' && init.restarts === 0,
    upgrades: role === 'store' && init.restarts === 0 && !init.takesOver,
    registryId: () => registry.id(),
    title,
    log,
    keepHistory: config['history.retention'] > 0,
    writer: journalModeOf(config) !== 'off' ? writerOf(init) : undefined,
    // A server waits for jobs from its first puller on; the other roles do not.
    hints: role === 'timer' || role === 'notifier',
    onFatal: (error) => endProcess(channel, title, reasonOf(error)),
  });
}

/** Reports an error that this process cannot survive, and exits with 1. */
export function endProcess(channel: MasterChannel, title: string, reason: string): void {
  fatalLine(`${title}: ${reason}`);
  void channel.sent({ kind: 'crashed', message: reason }).finally(() => process.exit(1));
}

/** Decrypts topics of the embedded registry in the process that calls. The key file exists before any
 *  record. */
export async function topicReaderOf(config: Config): Promise<(record: TopicRecord) => KnownTopic> {
  const [{ readTopic }, { openKeyFile }] = await Promise.all([
    import('../registry/sql/tables/topic-row.ts'),
    import('../registry/sql/keys/registry-key.ts'),
  ]);
  let cipher: SecretCipher | null = null;
  return (record) =>
    readTopic(record, () => {
      cipher ??= openKeyFile(keyPathOf(config));
      return cipher;
    });
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
