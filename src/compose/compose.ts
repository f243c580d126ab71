// Puts a worker together: the only file that names adapters. A process imports the one role it plays and nothing of the
// others. Invariant: whatever was opened here is closed by drain(), in the reverse order, whether the start succeeded or not.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { withNewOptions } from '../config/options.ts';
import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { KnownTopic } from '../core/topic/topic.ts';
import { parseMysqlUrl } from '../core/url/mysql-url.ts';
import { version } from '../core/version.ts';
import { StoreError } from '../ports/job-store.ts';
import type { Registry, TopicRecord } from '../ports/registry.ts';
import { checkExposure } from '../process/exposure.ts';
import type { MasterChannel } from '../process/master-channel.ts';
import type { RoleName } from '../process/messages.ts';
import { MetricSender } from '../process/metric-sender.ts';
import { titleOf } from '../process/process-title.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { StatSender } from '../process/stat-sender.ts';
import { StoreClock } from '../process/store-clock.ts';
import type { Composed, Init } from '../process/worker-life.ts';
import type { Sealer } from '../registry/sql/keys/encryption.ts';
import type { MysqlRegistry } from '../registry/sql/mysql/mysql-registry.ts';
import { TopicBook } from '../registry/topic-book.ts';
import type { DurabilityWatch } from '../store/redis/client/durability-watch.ts';
import type { StoreOwner } from '../store/sqlite/owner/owner.ts';
import { fatalLine } from '../telemetry/fatal-line.ts';
import { logCrashes } from '../telemetry/log-crashes.ts';
import { type OpenLog, openLog } from '../telemetry/open-log.ts';
import type { ShardedJobs } from './shards.ts';

const roles: Readonly<Record<Exclude<RoleName, 'store'>, () => Promise<(ctx: RoleContext) => Role>>> = {
  server: async () => (await import('../intake/intake.ts')).createIntake,
  timer: async () => (await import('../timer/timer.ts')).createTimer,
  notifier: async () => (await import('../notifier/notifier.ts')).createNotifier,
  upkeep: async () => (await import('../upkeep/upkeep.ts')).createUpkeep,
};

/** Imports what any worker may need; rejects where a part of the build or a library is missing or belongs to another Node. */
export async function importAll(): Promise<void> {
  await Promise.all([
    ...Object.values(roles).map((load) => load()),
    import('../store/sqlite/client/client.ts'),
    import('../store/sqlite/owner/owner.ts'),
    import('../store/redis/shard/redis-store.ts'),
    import('../registry/sql/registry-db.ts'),
    import('../registry/sql/mysql/mysql-registry.ts'),
  ]);
}

export function compose(received: Init, channel: MasterChannel, leaving: AbortSignal): Promise<Composed> {
  // In a reload after an upgrade the master is of the previous code.
  const init = { ...received, config: withNewOptions(received.config) };
  const title = titleOf(init.role, init.index);
  const where = { config: init.config, role: init.role, index: init.index, title };
  const log = openLog(where);
  logCrashes(() => where);
  return init.role === 'store'
    ? composeStore(init, log, channel, leaving)
    : composeRole({ ...init, role: init.role, title }, log, channel, leaving);
}

async function composeRole(
  init: Init & { readonly role: Exclude<RoleName, 'store'>; readonly title: string },
  log: OpenLog,
  channel: MasterChannel,
  leaving: AbortSignal,
): Promise<Composed> {
  const { config, title } = init;
  const [{ connectStore }, createRole] = await Promise.all([
    import('../store/sqlite/client/client.ts'),
    roles[init.role](),
  ]);
  const metrics = new MetricSender(channel, log);
  const readTopic = await topicReaderOf(config);
  const connection = connectStore({ socketPath: init.socketPath, title, log, readTopic });
  const mysql = await mysqlRegistryOf(init, log);
  const registry = mysql ?? connection.registry;
  const redis = await shardedJobsOf(init, title, log, channel, connection.registry, mysql);
  const topics = new TopicBook(registry, log, { inOrder: init.role === 'server' });
  const store = redis?.store ?? connection.store;
  const clock = new StoreClock(() => store.admin.clock());
  const counters = new StatSender(config.timezone, clock, log, async (deltas) => {
    const message = { kind: 'counters', deltas } as const;
    // Nobody would bring dq-upkeep's own back to it at its end.
    if (init.role === 'upkeep') channel.deliver(message);
    else await channel.sent(message);
  });
  const role = createRole({
    config,
    log,
    title,
    version,
    owner: { instance: init.instance, incarnation: init.incarnation },
    index: init.index,
    count: init.count,
    store,
    clock,
    shards: redis?.shards,
    registry,
    topics,
    counters,
    metrics: metrics.meter,
    link: channel,
    adminToken: init.adminToken,
    restarts: init.restarts,
    takesOver: init.takesOver,
  });
  return {
    async start() {
      // A store that is away is waited for, but not by who is told to leave.
      await Promise.race([connection.start(), abortOf(leaving)]);
      await redis?.start();
      // Asked for already when it is first needed.
      clock.now();
      // A timer asks nothing of the topics, and would have a connection to MySQL for it.
      if (init.role !== 'timer') {
        await topics.start();
        // At a start MySQL may be away: then nothing is called or taken until it answers. In a reload older workers know the topics.
        if (!topics.isKnown && init.restarts === 0 && (mysql === null || init.isOnTrial === true))
          throw new Error(`cannot read the topics of the registry: ${reasonOf(topics.failure)}`);
      }
      await role.start();
      return { url: role.url, note: null };
    },
    inFlight: () => role.inFlight(),
    async takeOver() {
      await role.takeOver?.();
      return null;
    },
    hurry: (deadlineMs) => void role.drain(deadlineMs),
    stopping: () => connection.hurry(),
    awaitUsers: async () => {},
    async drain(deadlineMs) {
      // First for dq-upkeep, which writes what it has been told while it drains; last for what the others still counted.
      await counters.flush();
      await role.drain(deadlineMs);
      await counters.close();
      await topics.drain(limits.loopSleepMsMax);
      await redis?.close();
      await mysql?.close();
      await connection.close();
      await log.close();
      await metrics.flush();
    },
    reopenLogs: () => log.reopen(),
    beat: () => metrics.beat(),
  };
}

/** null: the jobs are in the embedded store. */
async function shardedJobsOf(
  init: Init,
  title: string,
  log: OpenLog,
  channel: MasterChannel,
  embedded: Registry,
  mysql: MysqlRegistry | null,
): Promise<ShardedJobs | null> {
  const { config, role } = init;
  if (config.redis.length === 0) return null;
  const { openShardedJobs } = await import('./shards.ts');
  const registry = mysql ?? embedded;
  return openShardedJobs({
    registry,
    kept: mysql === null ? undefined : () => mysql.keptShards(),
    urls: config.redis,
    registryId: () => registry.id(),
    title,
    log,
    keepHistory: config['history.retention'] > 0,
    // The others ask for nothing that a hint could tell of.
    hints: role === 'timer' || role === 'notifier',
    onFatal: (error: Error) => {
      fatalLine(`${title}: ${reasonOf(error)}`);
      void channel.sent({ kind: 'crashed', message: reasonOf(error) }).finally(() => process.exit(1));
    },
  });
}

/** Rejects when it is aborted, and never resolves. */
function abortOf(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}

async function composeStore(
  init: Init,
  log: OpenLog,
  channel: MasterChannel,
  leaving: AbortSignal,
): Promise<Composed> {
  const { dataDir } = init.config;
  const metrics = new MetricSender(channel, log);
  const path = join(dataDir, 'jobs.db');
  const registryPath = join(dataDir, 'registry.db');
  const [store, { openRegistryDb }, { isOfThisSchema }, disk, { whyNotAfter }] = await Promise.all([
    import('../store/sqlite/owner/owner.ts'),
    import('../registry/sql/registry-db.ts'),
    import('../registry/sql/sqlite/registry-file.ts'),
    import('../store/sqlite/file/usable-disk.ts'),
    import('../store/sqlite/owner/handover-check.ts'),
  ]);
  const unusable = disk.whyUnusable(path, dataDir);
  if (init.restarts === 0 && unusable !== null) throw new Error(unusable);
  /** A first start ends with the reason. Another one would die again and again until the master gave up: it ends, for its
   *  successor to begin anew, when the disk can be used. So would one that takes over: nobody else has the store any more. */
  const onUsableDisk = async <T>(open: () => Promise<T>): Promise<T> => {
    try {
      return await open();
    } catch (error) {
      const why = disk.whyUnusable(path, dataDir);
      if ((init.restarts > 0 || init.takesOver) && why !== null) {
        log.error('the store cannot be opened; it waits for its disk', new Error(why, { cause: error }));
        await disk.untilUsable(path, dataDir, leaving);
      }
      throw error;
    }
  };
  let watch: DurabilityWatch | null = null;
  const mysql = await mysqlRegistryOf(init, log);
  if (mysql !== null && existsSync(registryPath) && init.restarts === 0)
    log.notice(
      `warning: the registry is in MySQL; the topics and tokens in ${registryPath} are not in force`,
    );
  const openRegistry = () =>
    openRegistryDb(registryPath, {
      keyPath: keyPathOf(init.config),
      warn: (sentence) => log.notice(`warning: ${sentence}`),
      refuseEmpty: existsSync(path),
    });
  const checkExposed = async (registry: Registry): Promise<void> => {
    try {
      await checkExposure(init.config, registry);
    } catch (error) {
      // MySQL is away and there is no copy: the servers refuse everybody until they know the tokens.
      if (mysql === null || !(error instanceof StoreError)) throw error;
    }
  };
  let opened: { readonly owner: StoreOwner; readonly registry: Registry } | null = null;
  const serve = async (): Promise<string> => {
    const registry = mysql ?? (await onUsableDisk(openRegistry));
    // Another key, another schema: who finds that out at the start ends. Later it is an error in the log.
    const isFirst = init.restarts === 0 && !init.takesOver;
    if (mysql !== null && isFirst) await mysql.prove();
    // Before anybody is served or called. Not again when it came back from a crash: where the last token was removed
    // meanwhile, the servers refuse everybody, and nothing need end for it.
    if (isFirst) await checkExposed(registry);
    const owner = new store.StoreOwner({
      path,
      socketPath: init.socketPath,
      log,
      ...(mysql === null ? { registry, registryPath } : {}),
      metrics: metrics.meter,
      keepHistory: init.config['history.retention'] > 0,
      shortestRetentionMs: shortestRetentionOf(init.config),
      onFatal: (error) => {
        const reason = `the store can no longer be trusted to this process: ${reasonOf(error)}`;
        fatalLine(`dq-store: ${reason}`);
        void channel.sent({ kind: 'crashed', message: reason }).finally(() => process.exit(1));
      },
    });
    opened = { owner, registry };
    await onUsableDisk(() => owner.start());
    if (init.config.redis.length === 0) return owner.durability;
    const { watchDurability } = await import('../store/redis/client/durability-watch.ts');
    const redis = await shardedJobsOf(init, 'dq-store', log, channel, registry, mysql);
    if (redis === null) return owner.durability;
    const noteOf = (durability: string) => {
      const difference = redis.difference();
      return difference === '' ? durability : `${durability}; ${difference}`;
    };
    watch = watchDurability(redis, log, (known) => channel.send({ kind: 'note', note: noteOf(known) }));
    const left = owner.jobs;
    if (left > 0) log.error(`${left} jobs in ${path} are not delivered while \`redis\` is set`);
    // Later it is an error in the log: whoever is at work by then goes on with what needs no Redis.
    const durability = await watch.start(isFirst);
    const difference = redis.difference();
    if (difference !== '') log.error(difference);
    return noteOf(durability);
  };
  /** Beside the one that serves: looks whether it could be followed, and opens nothing. */
  const prepare = async (): Promise<void> => {
    if (init.restarts > 0) return;
    if (mysql !== null) await mysql.prove();
    else if (!isOfThisSchema(registryPath))
      throw new Error(`${registryPath} has another schema than this version: needs \`dq restart\``);
    const { connectStore } = await import('../store/sqlite/client/client.ts');
    const { socketPath } = init;
    const served = connectStore({ socketPath, title: 'the next dq-store', log });
    const why = await whyNotAfter(served, path);
    if (why !== null) throw new Error(why);
    try {
      await checkExposed(mysql ?? served.registry);
    } finally {
      await served.close();
    }
  };
  return {
    async start() {
      if (init.takesOver) await prepare();
      return { url: null, note: init.takesOver ? null : await serve() };
    },
    takeOver: serve,
    inFlight: () => opened?.owner.inFlight() ?? 0,
    /** The others have lost their master too, and bring back what they hold. */
    async awaitUsers(deadlineMs) {
      const end = performance.now() + deadlineMs;
      while ((opened?.owner.clients ?? 0) > 0 && performance.now() < end) await sleep(20);
    },
    async drain(deadlineMs) {
      await watch?.close();
      await opened?.owner.drain(deadlineMs);
      await (opened?.registry ?? mysql)?.close();
      await log.close();
      await metrics.flush();
    },
    hurry: () => {},
    stopping: () => {},
    reopenLogs: () => log.reopen(),
    beat: () => metrics.beat(),
  };
}

/** The embedded registry's: its records are decrypted by the process that calls. The key file is there before any record. */
async function topicReaderOf(config: Init['config']): Promise<(record: TopicRecord) => KnownTopic> {
  const [{ readTopic }, { openKeyFile }] = await Promise.all([
    import('../registry/sql/tables/topic-row.ts'),
    import('../registry/sql/keys/registry-key.ts'),
  ]);
  let sealer: Sealer | null = null;
  return (record) =>
    readTopic(record, () => {
      sealer ??= openKeyFile(keyPathOf(config));
      return sealer;
    });
}

/** At least the smallest dead.retention: a shorter history is no reason for a long hold after each downtime. */
function shortestRetentionOf(config: Init['config']): number {
  const history = Math.max(config['history.retention'], 3_600_000);
  return Math.min(
    config['dead.retention'],
    config['history.retention'] > 0 ? history : Number.POSITIVE_INFINITY,
  );
}

function keyPathOf({ secretKeyFile, dataDir }: Init['config']): string {
  return secretKeyFile === '' ? join(dataDir, 'secret.key') : secretKeyFile;
}

/** null where the registry is embedded. Each process has its own connections; it connects when it is asked. */
async function mysqlRegistryOf(
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
    // In a reload the older workers are at work on the schema as it is.
    migrates: (role === 'store' || role === 'upkeep') && !takesOver,
    warn: (sentence) => log.notice(`warning: ${sentence}`),
  });
}
