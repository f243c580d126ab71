// Builds a worker from its init message: connections, caches and the role that it runs, or the joined ones.
// Invariant: drain() closes everything that was opened here, also if the start failed. composeRole() changes
// nothing global: one real process can hold several composed ones.
// Only this folder names adapters. Imports are lazy: a process loads its own roles and no other.

import { withNewOptions } from '../config/options.ts';
import { messageOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { version } from '../core/version.ts';
import type { LeaderRow, StatDelta } from '../ports/registry.ts';
import type { Init, RoleName } from '../process/messages.ts';
import type { WorkerChannel } from '../process/own-process.ts';
import { type Counters, joined, joinedRoles, type Role, type RoleContext, titleOf } from '../process/role.ts';
import { MetricSender, StatSender } from '../process/senders.ts';
import { StoreClock } from '../process/store-clock.ts';
import type { Composed } from '../process/worker-life.ts';
import { TopicBook } from '../registry/topic-book.ts';
import { Resources } from '../runtime/service.ts';
import type { StoreConnection } from '../store/sqlite/client/client.ts';
import type { OpenLog } from '../telemetry/log.ts';
import type { MetricBuffer } from '../telemetry/metrics.ts';
import { logCrashes, openLog } from '../telemetry/open-log.ts';
import {
  endProcess,
  journalOf,
  leaseKeyOf,
  movingStoreOf,
  mysqlRegistryOf,
  type RedisSeams,
  redisJobsOf,
  storeConnectionOf,
  type Worker,
} from './adapters.ts';
import type { JournalSeams } from './journal.ts';
import { withLeftBehind } from './left-behind.ts';
import type { StoreSeams } from './store-role.ts';

/** What reaches out of a process. By default it is that of a daemon; a given part is closed, too. */
export interface Parts {
  /** to the master */
  readonly channel: WorkerChannel;
  /** aborted when a drain begins */
  readonly leaving?: AbortSignal;
  readonly log?: OpenLog;
  /** The channel gets its content at each beat. */
  readonly metrics?: MetricBuffer;
  readonly counters?: Pick<StatSender, 'add' | 'flush' | 'close'>;
  /** to dq-store */
  readonly connection?: StoreConnection;
  /** of dq-store itself */
  readonly store?: StoreSeams;
  readonly leaseKey?: () => Buffer;
  /** the role of `init`, with its own seams */
  readonly create?: (ctx: RoleContext) => Role;
  /** Ends this process, which cannot survive an error. */
  readonly end?: (reason: string) => void;
  readonly redisSeams?: RedisSeams;
  readonly journal?: JournalSeams;
  /** true: the registry is that of dq-store, although MySQL has a journal */
  readonly hasLocalRegistry?: boolean;
  /** with the option `standby`, where the registry is not in MySQL */
  readonly leader?: LeaderRow;
}

const roles: Readonly<Record<OtherRole, () => Promise<(ctx: RoleContext) => Role>>> = {
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
    import('../compat/compat-listeners.ts'),
    import('../store/sqlite/client/client.ts'),
    import('../store/redis/shard/redis-store.ts'),
    import('../store/moving-store.ts'),
    import('../registry/sql/mysql/mysql-registry.ts'),
  ]);
}

/** The composition of a daemon. */
export function compose(received: Init, channel: WorkerChannel, leaving: AbortSignal): Promise<Composed> {
  // In a reload after an upgrade the master runs the previous code and sends its options.
  const init = { ...received, config: withNewOptions(received.config) };
  logCrashes(() => placeOf(init));
  return composeRole(init, { channel, leaving });
}

export async function composeRole(init: Init, parts: Parts): Promise<Composed> {
  const place = placeOf(init);
  const { channel, log = openLog(place), leaving = new AbortController().signal } = parts;
  const { end = (reason: string) => endProcess(channel, place.title, reason) } = parts;
  const metrics = new MetricSender(channel, log, parts.metrics);
  const opened = new Resources();
  // They count the lines that the log drops while it closes.
  opened.add(metrics, () => metrics.flush());
  opened.add(log, () => log.close());
  const worker = {
    init,
    title: place.title,
    channel,
    log,
    leaving,
    end,
    opened,
    metrics: metrics.buffer,
    redisSeams: parts.redisSeams,
  };
  try {
    const own = await (init.role === 'store'
      ? composeStore(worker, parts)
      : composeOther(worker, parts, init.role));
    return {
      awaitUsers: async () => {},
      shortenDrain: () => {},
      shortenWaits: () => {},
      ...own,
      drain: (deadlineMs, isLast) => opened.close({ deadlineMs, isLast }),
      reopenLogs: () => log.reopen(),
      beat: () => metrics.beat(),
    };
  } catch (error) {
    await opened.close();
    throw error;
  }
}

const placeOf = ({ role, index, config }: Init) => ({
  role,
  index,
  config,
  title: titleOf(role, index, config),
});

type OwnPart = Pick<Composed, 'start' | 'takeOver' | 'inFlight'> & Partial<Composed>;

async function composeStore(worker: Worker, parts: Parts): Promise<OwnPart> {
  const { StoreRole } = await import('./store-role.ts');
  const role = new StoreRole(worker, await registryOf(worker, parts), parts.store);
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
  };
}

const registryOf = async (worker: Worker, { hasLocalRegistry = false }: Parts) =>
  hasLocalRegistry ? null : mysqlRegistryOf(worker);

type OtherRole = Exclude<RoleName, 'store'>;

async function composeOther(worker: Worker, parts: Parts, name: OtherRole): Promise<OwnPart> {
  const { init, opened } = worker;
  const create = parts.create ?? (await roleOf(name, init));
  const stores = await openStores(worker, parts, name);
  const counters = opened.add(
    parts.counters ?? new StatSender(init.config.timezone, stores.clock, worker.log, senderOf(worker)),
    (own) => own.close(),
  );
  const leaseKey = parts.leaseKey ?? (await leaseKeyOf(init.config));
  const role = opened.add(
    create(contextOf(worker, stores, counters, leaseKey, parts.leader)),
    (own, { deadlineMs, isLast }) => own.drain(deadlineMs, isLast),
  );
  // First for dq-upkeep, which records during its drain the counters it has received; at the end for the
  // other roles.
  opened.add(counters, () => counters.flush());
  return {
    async start() {
      await startStores(worker, stores, name);
      await role.start();
      return { url: role.url, note: role.note ?? null };
    },
    inFlight: () => role.inFlight(),
    async takeOver() {
      await role.takeOver?.();
      return { note: null, warnings: [] };
    },
    shortenDrain: (deadlineMs) => void role.drain(deadlineMs),
    shortenWaits: () => stores.connection.shortenWaits(),
  };
}

type Stores = Awaited<ReturnType<typeof openStores>>;

/** What a role reads and writes. */
async function openStores(worker: Worker, parts: Parts, name: OtherRole) {
  const { log, opened } = worker;
  const connection = parts.connection ?? (await storeConnectionOf(worker));
  opened.add(connection, () => connection.close());
  const mysql = await registryOf(worker, parts);
  const registry = mysql ?? connection.registry;
  const journal = await journalOf(worker, parts.journal);
  const redis = await redisJobsOf(worker, registry, mysql, connection.store.admin);
  if (redis !== null) opened.add(redis, () => redis.close());
  const inOrder = name === 'server' || name === 'console';
  const topics = opened.add(new TopicBook(registry, log, { inOrder }), (own) =>
    own.drain(limits.loopSleepMsMax),
  );
  const jobs = redis === null ? connection.store : withLeftBehind(redis.store, connection.store.admin);
  const inForce = journal?.over(jobs) ?? jobs;
  const moving = await movingStoreOf(inForce, connection);
  const store = moving?.store ?? inForce;
  const clock = new StoreClock(() => store.admin.clock());
  return { connection, mysql, registry, journal, redis, moving, topics, store, clock };
}

async function startStores(
  { init, leaving }: Worker,
  { connection, mysql, journal, redis, moving, topics, clock }: Stores,
  name: OtherRole,
): Promise<void> {
  // An unavailable dq-store is waited for, until a drain begins.
  await Promise.race([connection.start(), abortOf(leaving)]);
  await redis?.start();
  // Until it is known, calls on ids ask for it.
  await moving?.look().catch(() => undefined);
  await journal?.start();
  // Sends the first question, so that the clock is known when it is first needed.
  clock.now();
  // A timer needs no topics: with them it would hold a connection to MySQL.
  if (name === 'timer') return;
  await topics.start();
  // At a start MySQL may be unavailable: nothing is called or accepted until it answers.
  // In a reload the previous generation knows the topics, so the new one must know them too.
  if (!topics.isKnown && init.restarts === 0 && (mysql === null || init.isOnTrial))
    throw new Error(`cannot read the topics of the registry: ${messageOf(topics.failure)}`);
}

function senderOf({ init, channel }: Worker) {
  return async (deltas: readonly StatDelta[]): Promise<void> => {
    const message = { kind: 'counters', deltas } as const;
    // The master does not return dq-upkeep's own counters to it while it drains.
    if (init.role === 'upkeep') channel.deliver(message);
    else await channel.sent(message);
  };
}

function contextOf(
  { init, title, log, channel, metrics }: Worker,
  { mysql, registry, journal, redis, moving, topics, store, clock }: Stores,
  counters: Counters,
  leaseKey: () => Buffer,
  leader: LeaderRow | null = mysql,
): RoleContext {
  const { config, index, count, adminToken, port, door, restarts, takesOver } = init;
  return {
    config,
    index,
    count,
    adminToken,
    port,
    door,
    restarts,
    takesOver,
    title,
    log,
    metrics,
    registry,
    topics,
    store,
    clock,
    counters,
    leaseKey,
    version,
    owner: { instance: init.instance, incarnation: init.incarnation },
    shards: redis?.shards,
    leaving: moving ?? undefined,
    journal: journal?.parts,
    leader: config.standby ? (leader ?? undefined) : undefined,
    link: channel,
  };
}

async function roleOf(name: OtherRole, { config }: Init) {
  const others = Promise.all(joinedRoles(name, config).map((other) => roles[other]()));
  const [create, creates] = await Promise.all([roles[name](), others]);
  return (ctx: RoleContext) =>
    joined(
      create(ctx),
      creates.map((other) => other(ctx)),
    );
}

/** Rejects when the signal is aborted; never resolves. */
function abortOf(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}
