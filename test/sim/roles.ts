// Builds the roles of a world from the real parts, as compose.ts builds those of a daemon.
// Left out: the HTTP front of dq-server, and of dq-upkeep all agents but recoverer and janitor. A loop stands
// in for the mailer, because a dead letter expires only after its alert is settled.

import { createNotifier } from '../../src/notifier/notifier.ts';
import type { Store } from '../../src/ports/job-store.ts';
import type { ToMaster, ToWorker } from '../../src/process/messages.ts';
import type { RoleContext } from '../../src/process/role.ts';
import { StoreClock } from '../../src/process/store-clock.ts';
import { TopicBook } from '../../src/registry/topic-book.ts';
import { Loop as AgentLoop } from '../../src/runtime/loop.ts';
import type { Service } from '../../src/runtime/service.ts';
import { connectStore } from '../../src/store/sqlite/client/client.ts';
import { Engine, type EngineOptions } from '../../src/store/sqlite/engine/engine.ts';
import { StoreOwner } from '../../src/store/sqlite/owner/owner.ts';
import type { Log, LogFields } from '../../src/telemetry/log.ts';
import { MetricBuffer } from '../../src/telemetry/metric-buffer.ts';
import { createTimer } from '../../src/timer/timer.ts';
import { Janitor } from '../../src/upkeep/janitor.ts';
import { Recoverer } from '../../src/upkeep/recoverer.ts';
import { PushQueue } from '../../src/use-cases/push-queue.ts';
import { PushTurns } from '../../src/use-cases/push-turns.ts';
import type { Process } from './process.ts';
import type { Receivers } from './receivers.ts';
import type { Scene } from './scene.ts';

export type RoleKind = 'store' | 'server' | 'timer' | 'notifier' | 'upkeep';
export const instance = 7;

/** A started worker, as its master sees it. */
export interface Running {
  drain(deadlineMs: number): Promise<void>;
  takeOver(): Promise<void>;
}

/** A started dq-server, as its clients see it. */
export interface Server {
  readonly process: Process;
  readonly ctx: RoleContext;
  readonly turns: PushTurns;
  /** its clients; each may have pushes in line */
  readonly connections: readonly object[];
}

export interface WorkerOptions {
  readonly scene: Scene;
  readonly receivers: Receivers;
  readonly process: Process;
  readonly role: RoleKind;
  readonly index: number;
  readonly count: number;
  readonly restarts: number;
  readonly takesOver: boolean;
  /** Its messages to the master. */
  readonly send: (message: ToMaster) => void;
  readonly onMessage: (listener: (message: ToWorker) => void) => void;
  readonly onServer: (server: Server) => void;
}

const jobsPath = '/nowhere/jobs.db';

/** A file in memory: it is never full, and its next owner has the same handle. */
class MemoryEngine extends Engine {
  override close(): void {}
  override requireCheck(): void {}
}
const space: EngineOptions['space'] = {
  wal: { allocate() {}, checkpoint() {}, freeze: () => () => {}, close() {} },
  reserve: { missing: 0, fits: () => true, add() {}, free() {} },
};

export async function startStore({ scene, process }: WorkerOptions): Promise<Running> {
  const { loop, judge, db, topics, port, follower } = scene;
  const owner = new StoreOwner({
    path: jobsPath,
    socketPath: 'store.sock',
    log: logOf(scene, process),
    registry: topics.registry(),
    listen: (onChannel) => port.listen(process, onChannel),
    open: () => {
      const engine = new MemoryEngine(
        jobsPath,
        { db, wasUnclean: false, wasChecked: false },
        {
          clock: () => loop.wall,
          monotonic: () => loop.at,
          keepHistory: true,
          recoverHoldMs: 5_000,
          clockHoldMs: 600_000,
          shortestRetentionMs: scene.config['dead.retention'],
          onDamage: (what) => judge.fail('1 no row is damaged', what),
          diskReserveBytes: 1_048_576,
          space,
        },
      );
      follower.follow(engine);
      scene.ledger.storeStarted();
      return engine;
    },
    onFatal: (error) => judge.fail('1 the store trusts its file', String(error)),
  });
  await owner.start();
  return { drain: (deadlineMs) => owner.drain(deadlineMs), takeOver: async () => {} };
}

export async function startRole(options: WorkerOptions): Promise<Running> {
  const { scene, process, role, restarts } = options;
  const log = logOf(scene, process);
  const registry = scene.topics.registry();
  const connection = connectStore({
    socketPath: 'store.sock',
    title: process.name,
    log,
    dial: () => scene.port.dial(process, scene.network),
    readTopic: (record) => registry.read(record),
  });
  await connection.start();
  const topics = new TopicBook(connection.registry, log, { inOrder: role === 'server' });
  if (role !== 'timer') {
    await topics.start();
    if (!topics.isKnown && restarts === 0) throw new Error('cannot read the topics');
  }
  const { store } = connection;
  const ctx: RoleContext = {
    config: scene.config,
    log,
    title: process.name,
    version: '0.0.0',
    owner: { instance, incarnation: process.incarnation },
    index: options.index,
    count: options.count,
    store: withLossyHints(store, scene),
    clock: new StoreClock(() => store.admin.clock()),
    registry: connection.registry,
    topics,
    counters: { add() {} },
    metrics: new MetricBuffer(),
    link: {
      send: options.send,
      sent: async (message) => options.send(message),
      onMessage: options.onMessage,
    },
    adminToken: 'admin',
    leaseKey: () => Buffer.alloc(32),
    restarts,
    takesOver: options.takesOver,
  };
  const own = roleOf(options, ctx);
  await own.start();
  return {
    takeOver: async () => own.takeOver?.(),
    async drain(deadlineMs) {
      await own.drain(deadlineMs);
      await topics.drain(1_000);
      await connection.close();
    },
  };
}

type Started = Service & { takeOver?(): Promise<void> };

function roleOf(options: WorkerOptions, ctx: RoleContext): Started {
  const { scene, receivers, process, role, onServer } = options;
  if (role === 'timer') return createTimer(ctx);
  if (role === 'notifier')
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
  if (role === 'upkeep') return all(upkeepOf(ctx, scene));
  const onFailure = (error: unknown) => scene.judge.fail('4 the store answers each push', String(error));
  const turns = new PushTurns(new PushQueue(ctx.store.jobs, onFailure));
  return {
    async start() {
      onServer({ process, ctx, turns, connections: [{}, {}, {}] });
    },
    async drain() {},
  };
}

function upkeepOf(ctx: RoleContext, { topics }: Scene): readonly Service[] {
  const recoverer = new Recoverer(ctx);
  ctx.link.onMessage((message) => {
    if (message.kind === 'owner_dead') recoverer.ownerDied(message.incarnation);
    else if (message.kind === 'living') recoverer.onlyTheseLive(message.incarnations);
  });
  const { alerts, admin } = ctx.store;
  // The removal of log files asks for the health first, and waits for ever.
  const never = { ...admin, health: () => new Promise<never>(() => {}) };
  const janitor = new Janitor({ ...ctx, store: { ...ctx.store, admin: never } });
  const mailer = new AgentLoop({
    step: async () => {
      for (const topic of topics.names) {
        const claimed = await alerts.claim(topic, 30_000, 50);
        const versions = claimed.map(({ version }) => version);
        if (versions.length > 0) await alerts.settle(versions, 'sent');
      }
      return 1_000;
    },
    // The store is unavailable; the next step follows.
    onFailure: () => {},
  });
  return [recoverer, janitor, mailer];
}

function all(services: readonly Service[]): Service {
  return {
    async start() {
      for (const service of services) await service.start();
    },
    async drain(deadlineMs) {
      // The janitor waits for its log files.
      await Promise.all(services.map((service) => service.drain(Math.min(deadlineMs, 200))));
    },
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

function logOf({ loop }: Scene, { title }: Process): Log {
  const tell = (message: string, more: string) => loop.tell(`${title} logs "${message}"${more}.`);
  return {
    notice: (message) => tell(message, ''),
    error: (message: string, error?: unknown, _fields?: LogFields) =>
      tell(message, error === undefined ? '' : ` (${String(error)})`),
    debug() {},
    request() {},
    notify() {},
    audit() {},
  };
}
