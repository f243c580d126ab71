// Composes the processes of a world as the daemon does; the parts keep real files and sockets out.
// Left out: the HTTP front of dq-server, and dq-console.

import type { RedisSeams } from '../../src/compose/adapters.ts';
import { composeRole, importAll, type Parts } from '../../src/compose/compose.ts';
import type { StoreSeams } from '../../src/compose/store-role.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import type { Store } from '../../src/ports/job-store.ts';
import type { Init } from '../../src/process/messages.ts';
import type { WorkerChannel } from '../../src/process/own-process.ts';
import { joined, joinedRoles, type Role, type RoleContext } from '../../src/process/role.ts';
import type { Composed } from '../../src/process/worker-life.ts';
import type { ConnectTcp } from '../../src/runtime/dial.ts';
import { monotonicNow, sleep, wallNow } from '../../src/runtime/time.ts';
import { storeLimits } from '../../src/store/limits.ts';
import { connectStore, type StoreConnection } from '../../src/store/sqlite/client/client.ts';
import { Engine } from '../../src/store/sqlite/engine/engine.ts';
import { sqliteLimits } from '../../src/store/sqlite/limits.ts';
import type { LogFields, OpenLog } from '../../src/telemetry/log.ts';
import { createTimer } from '../../src/timer/timer.ts';
import { createUpkeep } from '../../src/upkeep/upkeep.ts';
import { PushQueue } from '../../src/use-cases/push-queue.ts';
import type { Process } from './process.ts';
import { PullDesk } from './pull-desk.ts';
import type { Receivers } from './receivers.ts';
import type { RedisSide } from './redis/redis-side.ts';
import { SimSocket } from './redis/sim-socket.ts';
import { loadRegistry } from './registry.ts';
import type { Scene } from './scene.ts';

/** of the registry */
export const leaseKey = Buffer.alloc(32);

/** A started dq-server, as its clients see it. */
export interface Server {
  readonly process: Process;
  readonly ctx: RoleContext;
  readonly pushes: PushQueue;
  /** for pull clients */
  readonly desk: PullDesk;
  /** its clients; each may have pushes in line */
  readonly connections: readonly object[];
  /** pushes without an answer */
  open: number;
}

export interface WorkerOptions {
  readonly scene: Scene;
  readonly receivers: Receivers;
  readonly process: Process;
  /** to its master */
  readonly channel: WorkerChannel;
  readonly init: Init;
  readonly leaving: AbortSignal;
  /** that listen */
  readonly servers: Map<Process, Server>;
}

/** Shorter than those of a daemon: a world has no minutes to spare. */
const mailTimes = { mailBackoff: { min: 500, max: 4_000 }, alertClaimMs: 10_000 };

/** composeRole() imports the code of a role. Once loaded, an import takes no turn of the real event loop. */
export async function loadRoles(): Promise<void> {
  await importAll();
  await loadRegistry();
}

const jobsPath = '/nowhere/jobs.db';

/** A file in memory: its next owner has the same handle. */
class MemoryEngine extends Engine {
  override close(): void {}
  override requireCheck(): void {}
}

export function compose(options: WorkerOptions): Promise<Composed> {
  const { scene, process, channel, init, leaving } = options;
  const { judge, disk, loop } = scene;
  const log = logOf(scene, process);
  const parts: Parts = {
    ...{ channel, log, leaving },
    leaseKey: () => leaseKey,
    ...(scene.redis === null ? {} : { redisSeams: seamsOf(scene.redis, options) }),
    ...(scene.journal === null ? {} : { hasLocalRegistry: true, journal: scene.journal.seamsOf(process) }),
    ...(scene.lead === null ? {} : { leader: scene.lead.rowOf(process) }),
    end: (reason) => {
      if (init.role === 'store' && disk.hasFailed) loop.kill(process, 'its disk has failed');
      else judge.fail('1 no process distrusts its store', `${process.title}: ${reason}`);
    },
  };
  if (init.role === 'store') return composeRole(init, { ...parts, store: storeOf(options) });
  const joins = joinedRoles(init.role, init.config).length > 0;
  const create = (ctx: RoleContext) => joined(roleOf(options, ctx), joins ? [createTimer(ctx)] : []);
  return composeRole(init, { ...parts, create, connection: connectionOf(options, log) });
}

function seamsOf(redis: RedisSide, { scene, process }: WorkerOptions): RedisSeams {
  const connectTcp: ConnectTcp = (address) =>
    SimSocket.asSocket(redis.dial(address, process, scene.network), address);
  return { connectTcp, capacitiesMax: redis.capacitiesMax };
}

/** The registry of the world, and a file in memory. */
function storeOf({ scene, process }: WorkerOptions): StoreSeams {
  const { judge, db, registry, port, follower, ledger, single, disk } = scene;
  return {
    openRegistry: async () => ({ registry, damage: () => null }),
    whyUnusable: () => null,
    checkHandover: async () => {},
    owner: {
      listen: (onChannel) => port.listen(process, onChannel),
      open: ({ keepHistory = true, shortestRetentionMs = 0, isLeaving = false }) => {
        disk.opened();
        const engine = new MemoryEngine(
          jobsPath,
          { db, wasUnclean: false, wasChecked: false },
          {
            ...{ clock: wallNow, monotonic: monotonicNow, keepHistory, shortestRetentionMs, isLeaving },
            space: disk.space,
            recoverHoldMs: storeLimits.recoverHoldMs,
            clockHoldMs: sqliteLimits.clockHoldMs,
            onDamage: (what) => judge.fail('1 no row is damaged', what),
            diskReserveBytes: 1_048_576,
          },
        );
        single.begin('store', process);
        disk.follow(engine);
        if (scene.redis === null) follower.follow(engine);
        scene.left?.follow(engine);
        ledger.storeStarted(scene.redis === null);
        return engine;
      },
    },
  };
}

/** to dq-store */
function connectionOf({ scene, process, init }: WorkerOptions, log: OpenLog): StoreConnection {
  const { registry } = scene.topics;
  const connection = connectStore({
    socketPath: init.socketPath,
    title: process.name,
    log,
    dial: () => scene.port.dial(process, scene.network),
    readTopic: (record) => registry.read(record),
  });
  const store = withLossyHints(connection.store, scene);
  // Two instances share a registry in MySQL: neither announces its changes to the other one.
  const { pollMs: _announced, ...shared } = connection.registry;
  return { ...connection, store, registry: scene.prefix === '' ? connection.registry : shared };
}

function roleOf(options: WorkerOptions, ctx: RoleContext): Role {
  const { scene, receivers, process, init, servers } = options;
  const { role: name } = init;
  if (name === 'timer') return createTimer(ctx);
  if (name === 'notifier')
    return createNotifier(ctx, {
      dispatch: (request, caller) => {
        try {
          receivers.receive(process, request as never, caller);
        } catch (error) {
          // dq would take it for a failed call.
          scene.loop.thrown.push(error);
        }
      },
      lookup: () => scene.judge.fail('the world looks up no names', process.title),
    });
  if (name === 'upkeep') return upkeepOf(options, ctx);
  if (name === 'console') return { name, url: null, inFlight: () => 0, async start() {}, async drain() {} };
  const onFailure = (error: unknown) => scene.judge.fail('4 the store answers each push', String(error));
  const pushes = new PushQueue(ctx.store.jobs, onFailure);
  const desk = new PullDesk(ctx);
  const server = { process, ctx, pushes, desk, connections: [{}, {}, {}], open: 0 };
  const open = () => server.open + desk.open;
  return {
    ...{ name, url: null },
    inFlight: open,
    async start() {
      await desk.start();
      servers.set(process, server);
    },
    // As the HTTP front: it answers the requests that it has.
    async drain(deadlineMs) {
      servers.delete(process);
      const end = monotonicNow() + deadlineMs;
      await desk.endWaits(deadlineMs);
      while (open() > 0 && monotonicNow() < end) await sleep(10);
      await desk.close();
    },
  };
}

/** At most one process does what only one dq-upkeep may do. */
function upkeepOf({ scene, process, init }: WorkerOptions, ctx: RoleContext): Role {
  const { files, mails, single, operations } = scene;
  const store = operations.watched(process, ctx.store);
  const role = createUpkeep({ ...ctx, store }, { ...files, mails: mails.senderOf(process), ...mailTimes });
  return {
    ...{ name: role.name, url: null, inFlight: () => role.inFlight() },
    async start() {
      if (!init.takesOver) single.begin('upkeep', process);
      await role.start();
    },
    async takeOver() {
      single.begin('upkeep', process);
      await role.takeOver?.();
    },
    drain: (deadlineMs, isLast) => role.drain(deadlineMs, isLast),
  };
}

function withLossyHints(store: Store, { network }: Scene): Store {
  const { jobs } = store;
  const onHint: typeof jobs.onHint = (listener) =>
    jobs.onHint((hint) => {
      if (!network.losesHint()) listener(hint);
    });
  return { ...store, jobs: { ...jobs, onHint } };
}

/** of a healing that waits no longer */
const givenUp = 'restorer: goes on without the latest changes of instances that do not ship theirs';

export function logOf({ loop, journal }: Scene, { title }: Process): OpenLog {
  const tell = (message: string, more: string) => loop.tell(`${title} logs "${message}"${more}.`);
  return {
    notice: (message) => tell(message, ''),
    error: (message: string, error?: unknown, _fields?: LogFields) => {
      tell(message, error === undefined ? '' : ` (${String(error)})`);
      if (message === givenUp) journal?.laws.gaveUp();
    },
    debug() {},
    request() {},
    requestText() {},
    notify() {},
    audit() {},
    reopen() {},
    close: async () => {},
    dropped: () => 0,
  };
}
