// Puts a worker together: the only file that names adapters. A process imports the one role it plays and nothing of the
// others. Invariant: whatever was opened here is closed by drain(), in the reverse order, whether the start succeeded or not.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { reasonOf } from './core/errors.ts';
import { limits } from './core/limits.ts';
import { version } from './core/version.ts';
import { checkExposure } from './process/exposure.ts';
import type { MasterChannel } from './process/master-channel.ts';
import type { RoleName } from './process/messages.ts';
import type { Role, RoleContext } from './process/role.ts';
import { StatSender } from './process/stat-sender.ts';
import { titleOf } from './process/title.ts';
import type { Composed, Init } from './process/worker-life.ts';
import { TopicBook } from './registry/topic-book.ts';
import { fatalLine } from './telemetry/fatal-line.ts';
import { type OpenLog, openLog } from './telemetry/open-log.ts';

const roles: Readonly<Record<Exclude<RoleName, 'store'>, () => Promise<(ctx: RoleContext) => Role>>> = {
  server: async () => (await import('./intake/intake.ts')).createIntake,
  timer: async () => (await import('./timer/timer.ts')).createTimer,
  notifier: async () => (await import('./notifier/notifier.ts')).createNotifier,
  upkeep: async () => (await import('./upkeep/upkeep.ts')).createUpkeep,
};

export function compose(init: Init, channel: MasterChannel): Promise<Composed> {
  const title = titleOf(init.role, init.index);
  const log = openLog({ config: init.config, role: init.role, index: init.index, title });
  return init.role === 'store'
    ? composeStore(init, log, channel)
    : composeRole({ ...init, role: init.role, title }, log, channel);
}

async function composeRole(
  init: Init & { readonly role: Exclude<RoleName, 'store'>; readonly title: string },
  log: OpenLog,
  channel: MasterChannel,
): Promise<Composed> {
  const { config, title } = init;
  const [{ connectStore }, createRole] = await Promise.all([
    import('./store/sqlite/client.ts'),
    roles[init.role](),
  ]);
  const connection = connectStore({ socketPath: init.socketPath, title, log });
  const topics = new TopicBook(connection.registry, log);
  const counters = new StatSender(config.timezone, async (deltas) => {
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
    store: connection.store,
    registry: connection.registry,
    topics,
    counters,
    link: channel,
    adminToken: init.adminToken,
  });
  return {
    async start() {
      await connection.start();
      await topics.start();
      await role.start();
      return { url: role.url, note: null };
    },
    inFlight: () => role.inFlight(),
    awaitUsers: async () => {},
    async drain(deadlineMs) {
      // First for dq-upkeep, which writes what it has been told while it drains; last for what the others still counted.
      await counters.flush();
      await role.drain(deadlineMs);
      await counters.close();
      await topics.drain(limits.loopSleepMsMax);
      await connection.close();
      await log.close();
    },
    reopenLogs: () => log.reopen(),
  };
}

async function composeStore(init: Init, log: OpenLog, channel: MasterChannel): Promise<Composed> {
  const { dataDir } = init.config;
  const path = join(dataDir, 'jobs.db');
  const [{ StoreOwner }, { openRegistryDb }, disk] = await Promise.all([
    import('./store/sqlite/owner.ts'),
    import('./sql/registry-db.ts'),
    import('./store/sqlite/usable-disk.ts'),
  ]);
  const unusable = disk.whyUnusable(path, dataDir);
  if (init.restarts === 0 && unusable !== null) throw new Error(unusable);
  /** A first start ends with the reason. Another one would die again and again until the master gave up: it ends, for its
   *  successor to begin anew, when the disk can be used. */
  const onUsableDisk = async <T>(open: () => Promise<T>): Promise<T> => {
    try {
      return await open();
    } catch (error) {
      const why = disk.whyUnusable(path, dataDir);
      if (init.restarts > 0 && why !== null) {
        log.error('the store cannot be opened; it waits for its disk', new Error(why, { cause: error }));
        await disk.untilUsable(path, dataDir);
      }
      throw error;
    }
  };
  const registry = await onUsableDisk(() =>
    openRegistryDb(join(dataDir, 'registry.db'), {
      warn: (sentence) => log.notice(`warning: ${sentence}`),
      refuseEmpty: existsSync(path),
    }),
  );
  const owner = new StoreOwner({
    path,
    socketPath: init.socketPath,
    log,
    registry,
    registryPath: join(dataDir, 'registry.db'),
    keepHistory: init.config['history.retention'] > 0,
    onFatal: (error) => {
      const reason = `the store can no longer be trusted to this process: ${reasonOf(error)}`;
      fatalLine(`dq-store: ${reason}`);
      void channel.sent({ kind: 'crashed', message: reason }).finally(() => process.exit(1));
    },
  });
  return {
    async start() {
      // Before anybody is served or called. Not again when it came back from a crash: where the last token was removed
      // meanwhile, the servers refuse everybody, and nothing need end for it.
      if (init.restarts === 0) await checkExposure(init.config, registry);
      await onUsableDisk(() => owner.start());
      return { url: null, note: owner.durability };
    },
    inFlight: () => owner.inFlight(),
    /** The others have lost their master too, and bring back what they hold. */
    async awaitUsers(deadlineMs) {
      const end = performance.now() + deadlineMs;
      while (owner.clients > 0 && performance.now() < end) await sleep(20);
    },
    async drain(deadlineMs) {
      await owner.drain(deadlineMs);
      await registry.close();
      await log.close();
    },
    reopenLogs: () => log.reopen(),
  };
}
