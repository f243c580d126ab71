// Builds a worker from its init message: connections, caches and the role that it runs, or the joined ones.
// Invariant: drain() closes everything that was opened here, in reverse order, even if the start failed.
// Only this folder names adapters. Imports are lazy: a process loads its own roles and no other.

import { journalModeOf, withNewOptions } from '../config/options.ts';
import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { version } from '../core/version.ts';
import { joined, joinedRoles } from '../process/joined-roles.ts';
import type { MasterChannel } from '../process/master-channel.ts';
import type { RoleName } from '../process/messages.ts';
import { MetricSender } from '../process/metric-sender.ts';
import { titleOf } from '../process/process-title.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { StatSender } from '../process/stat-sender.ts';
import { StoreClock } from '../process/store-clock.ts';
import type { Composed, Init } from '../process/worker-life.ts';
import { TopicBook } from '../registry/topic-book.ts';
import { logCrashes } from '../telemetry/log-crashes.ts';
import { type OpenLog, openLog } from '../telemetry/open-log.ts';
import { leaseKeyOf, mysqlRegistryOf, redisJobsOf, topicReaderOf } from './adapters.ts';

const roles: Readonly<Record<Exclude<RoleName, 'store'>, () => Promise<(ctx: RoleContext) => Role>>> = {
  server: async () => (await import('../intake/intake.ts')).createIntake,
  console: async () => (await import('../console/console.ts')).createConsole,
  timer: async () => (await import('../timer/timer.ts')).createTimer,
  notifier: async () => (await import('../notifier/notifier.ts')).createNotifier,
  upkeep: async () => (await import('../upkeep/upkeep.ts')).createUpkeep,
};

/** Imports everything that a worker may need. Rejects if a part of the build is missing or a library needs
 *  another Node. */
export async function importAll(): Promise<void> {
  await Promise.all([
    ...Object.values(roles).map((load) => load()),
    import('./store-role.ts'),
    import('../store/sqlite/client/client.ts'),
    import('../store/redis/shard/redis-store.ts'),
    import('../registry/sql/mysql/mysql-registry.ts'),
  ]);
}

export function compose(received: Init, channel: MasterChannel, leaving: AbortSignal): Promise<Composed> {
  // In a reload after an upgrade the master runs the previous code and sends its options.
  const init = { ...received, config: withNewOptions(received.config) };
  const title = titleOf(init.role, init.index, init.config);
  const where = { config: init.config, role: init.role, index: init.index, title };
  const log = openLog(where);
  logCrashes(() => where);
  return init.role === 'store'
    ? composeStore(init, log, channel, leaving)
    : composeRole({ ...init, role: init.role, title }, log, channel, leaving);
}

async function composeStore(
  init: Init,
  log: OpenLog,
  channel: MasterChannel,
  leaving: AbortSignal,
): Promise<Composed> {
  const metrics = new MetricSender(channel, log);
  const { StoreRole } = await import('./store-role.ts');
  const mysql = await mysqlRegistryOf(init, log);
  const role = new StoreRole({ init, log, channel, metrics: metrics.buffer, mysql, leaving });
  return {
    async start() {
      await role.start();
      return { url: null, note: role.note };
    },
    async takeOver() {
      await role.takeOver();
      return { note: role.note, warnings: role.warnings };
    },
    inFlight: () => role.inFlight(),
    awaitUsers: (deadlineMs) => role.awaitUsers(deadlineMs),
    async drain(deadlineMs) {
      await role.drain(deadlineMs);
      await log.close();
      await metrics.flush();
    },
    hurry: () => {},
    stopping: () => {},
    reopenLogs: () => log.reopen(),
    beat: () => metrics.beat(),
  };
}

async function composeRole(
  init: Init & { readonly role: Exclude<RoleName, 'store'>; readonly title: string },
  log: OpenLog,
  channel: MasterChannel,
  leaving: AbortSignal,
): Promise<Composed> {
  const { config, title } = init;
  const [{ connectStore }, createRole, ...createOthers] = await Promise.all([
    import('../store/sqlite/client/client.ts'),
    roles[init.role](),
    ...joinedRoles(init.role, config).map((name) => roles[name]()),
  ]);
  const metrics = new MetricSender(channel, log);
  const readTopic = await topicReaderOf(config);
  const connection = connectStore({ socketPath: init.socketPath, title, log, readTopic });
  const mysql = await mysqlRegistryOf(init, log);
  const registry = mysql ?? connection.registry;
  const embedded = connection.store.admin;
  const redis = await redisJobsOf({ init, title, log, channel, registry, mysql, embedded });
  const topics = new TopicBook(registry, log, { inOrder: init.role === 'server' || init.role === 'console' });
  const journal =
    redis === null || journalModeOf(config) === 'off'
      ? null
      : await (await import('./journal.ts')).openJournal(init, log, metrics.buffer, redis.store);
  const withoutJournal =
    redis === null || journal !== null || init.role !== 'upkeep' || config['mysql.url'] === ''
      ? null
      : await (await import('./journal.ts')).openWithoutJournal(config, log);
  const store = journal?.store ?? redis?.store ?? connection.store;
  const clock = new StoreClock(() => store.admin.clock());
  const counters = new StatSender(config.timezone, clock, log, async (deltas) => {
    const message = { kind: 'counters', deltas } as const;
    // The master does not return dq-upkeep's own counters to it while it drains.
    if (init.role === 'upkeep') channel.deliver(message);
    else await channel.sent(message);
  });
  const ctx: RoleContext = {
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
    journal: journal?.parts,
    registry,
    leader: config.standby ? (mysql ?? undefined) : undefined,
    topics,
    counters,
    metrics: metrics.buffer,
    link: channel,
    adminToken: init.adminToken,
    leaseKey: await leaseKeyOf(config),
    port: init.port,
    restarts: init.restarts,
    takesOver: init.takesOver,
  };
  const role = joined(
    createRole(ctx),
    createOthers.map((create) => create(ctx)),
  );
  return {
    async start() {
      // An unavailable dq-store is waited for, until a drain begins.
      await Promise.race([connection.start(), abortOf(leaving)]);
      await redis?.start();
      await journal?.start();
      await withoutJournal?.start();
      // Sends the first question, so that the clock is known when it is first needed.
      clock.now();
      // A timer needs no topics: with them it would hold a connection to MySQL.
      if (init.role !== 'timer') {
        await topics.start();
        // At a start MySQL may be unavailable: nothing is called or accepted until it answers.
        // In a reload the previous generation knows the topics, so the new one must know them too.
        if (!topics.isKnown && init.restarts === 0 && (mysql === null || init.isOnTrial === true))
          throw new Error(`cannot read the topics of the registry: ${reasonOf(topics.failure)}`);
      }
      await role.start();
      return { url: role.url, note: role.note ?? null };
    },
    inFlight: () => role.inFlight(),
    async takeOver() {
      await role.takeOver?.();
      return { note: null, warnings: [] };
    },
    hurry: (deadlineMs) => void role.drain(deadlineMs),
    stopping: () => connection.hurry(),
    awaitUsers: async () => {},
    async drain(deadlineMs, isLast) {
      // First for dq-upkeep, which records during its drain the counters it has received; at the end for the
      // other roles.
      await counters.flush();
      await role.drain(deadlineMs, isLast);
      await counters.close();
      await topics.drain(limits.loopSleepMsMax);
      await redis?.close();
      await journal?.close();
      await withoutJournal?.drain(limits.loopSleepMsMax);
      await withoutJournal?.close();
      await mysql?.close();
      await connection.close();
      await log.close();
      await metrics.flush();
    },
    reopenLogs: () => log.reopen(),
    beat: () => metrics.beat(),
  };
}

/** Rejects when the signal is aborted; never resolves. */
function abortOf(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}
