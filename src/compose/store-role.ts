// Runs dq-store: owns jobs.db and registry.db and serves them; with `redis` it also reports the durability of
// the shards. Invariant: beside an older dq-store, start() only checks that a handover is possible.
// takeOver() opens the files. The class is in compose, not in a folder of its own, because it names the
// adapters that it opens.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Config, journalModeOf, keyPathOf } from '../config/options.ts';
import { messageOf } from '../core/errors.ts';
import { type MysqlServer, parseMysqlUrl, placeOf } from '../core/url/server-url.ts';
import type { Registry } from '../ports/registry.ts';
import { StoreError } from '../ports/store-error.ts';
import { checkExposure } from '../process/exposure.ts';
import type { RegistryMove } from '../process/messages.ts';
import {
  copyRegistry,
  putAside,
  readMoveNote,
  removeCopy,
  writeMoveNote,
} from '../registry/sql/move-registry.ts';
import type { MysqlRegistry } from '../registry/sql/mysql/mysql-registry.ts';
import { openServedRegistry, type ServedRegistry } from '../registry/sql/registry-db.ts';
import { isOfThisSchema, whyDamaged } from '../registry/sql/sqlite/registry-file.ts';
import { StartImpossible } from '../runtime/service.ts';
import { monotonicNow, sleep } from '../runtime/time.ts';
import type { StoreConnection } from '../store/sqlite/client/client.ts';
import { untilUsable, whyUnusable } from '../store/sqlite/file/disk-reserve.ts';
import { layoutVersion } from '../store/sqlite/file/schema.ts';
import { layoutOnDisk, StoreFileRefused } from '../store/sqlite/file/store-file.ts';
import { StoreOwner, type StoreOwnerOptions } from '../store/sqlite/owner/owner.ts';
import { redisJobsOf, type Worker } from './adapters.ts';
import { LeftBehindFacts } from './left-behind.ts';

/** What dq-store reaches beside its channel. By default files in the data directory, and a Unix socket. */
export interface StoreSeams {
  readonly owner: Pick<StoreOwnerOptions, 'listen' | 'open'>;
  /** at the embedded registry */
  readonly openRegistry: () => Promise<ServedRegistry>;
  /** one sentence; null: the disk of the data directory can be written */
  readonly whyUnusable: () => string | null;
  /** Rejects where this process could not follow the dq-store that serves. */
  readonly checkHandover: () => Promise<void>;
}

export class StoreRole {
  readonly #worker: Worker;
  readonly #mysql: MysqlRegistry | null;
  readonly #seams: StoreSeams;
  readonly #jobsPath: string;
  readonly #registryPath: string;
  readonly #leftBehind: LeftBehindFacts;
  #note: string | null = null;
  /** registry.db, where it is the registry */
  #file: ServedRegistry | null = null;
  /** the last answer to `move_registry`; they come one after the other */
  #moving: Promise<unknown> = Promise.resolve();
  #warnings: readonly string[] = [];
  #owner: StoreOwner | null = null;

  /** `mysql`: null = the registry is registry.db */
  constructor(worker: Worker, mysql: MysqlRegistry | null, seams: Partial<StoreSeams> = {}) {
    const { dataDir } = worker.init.config;
    this.#worker = worker;
    this.#mysql = mysql;
    this.#jobsPath = join(dataDir, 'jobs.db');
    this.#registryPath = join(dataDir, 'registry.db');
    this.#leftBehind = new LeftBehindFacts(worker.init.config);
    this.#seams = {
      owner: {},
      openRegistry: () => this.#openRegistryFile(),
      whyUnusable: () => whyUnusable(this.#jobsPath, dataDir),
      checkHandover: () => this.#checkServing(),
      ...seams,
    };
  }

  /** one sentence on the durability of the store; null before it is open */
  get note(): string | null {
    return this.#note;
  }

  /** parts of the configuration that are not in force, one sentence each */
  get warnings(): readonly string[] {
    return this.#warnings;
  }

  async start(): Promise<void> {
    const { init } = this.#worker;
    if (init.restarts === 0) {
      const unusable = this.#seams.whyUnusable();
      if (unusable !== null) throw new Error(unusable);
    }
    if (!init.takesOver) await this.#open();
    else if (init.restarts === 0) await this.#seams.checkHandover();
  }

  async takeOver(): Promise<void> {
    await this.#open();
  }

  inFlight(): number {
    return this.#owner?.inFlight() ?? 0;
  }

  /** Waits at most deadlineMs until the other workers, which have lost their master too, have released their
   *  jobs. */
  async awaitUsers(deadlineMs: number): Promise<void> {
    const end = monotonicNow() + deadlineMs;
    while ((this.#owner?.clients ?? 0) > 0 && monotonicNow() < end) await sleep(20);
  }

  async #open(): Promise<void> {
    const { init, opened, channel } = this.#worker;
    const mysql = this.#mysql;
    // A wrong key or schema ends a first start. Later it is an error in the log.
    const isFirst = init.restarts === 0 && !init.takesOver;
    const file = mysql === null ? await this.#onUsableDisk(this.#seams.openRegistry) : null;
    if (file !== null) opened.add(file, () => file.registry.close());
    this.#file = file;
    await this.#settleMove();
    const registry = mysql ?? (file as ServedRegistry).registry;
    if (isFirst) {
      await mysql?.prove();
      // Not after a crash: if the last token was removed meanwhile, the servers reject all callers.
      await this.#checkExposure(registry);
    }
    await this.#leftBehind.start(registry);
    const owner = opened.add(
      this.#ownerOf(registry, () => file?.damage() ?? null),
      (own, { deadlineMs }) => own.drain(deadlineMs),
    );
    this.#owner = owner;
    await this.#onUsableDisk(() => owner.start().catch(asImpossible));
    this.#note = owner.durability;
    channel.onMessage((message) => {
      if (message.kind !== 'move_registry') return;
      const { call, url, step } = message;
      this.#moving = this.#moving.then(async () =>
        channel.send({ kind: 'registry_moved', call, ...(await this.#move(url, step)) }),
      );
    });
    if (init.config.redis.length > 0) await this.#watchRedis(registry, isFirst);
  }

  /** What a copy by `dq move` is, once it is known which registry is in force. */
  async #settleMove(): Promise<void> {
    const { config, isRunning } = this.#worker.init;
    const note = readMoveNote(config.dataDir);
    if (note?.state !== 'copied') return;
    const server = parseMysqlUrl(config['mysql.url']);
    if (server.ok && note.to === placeOf(server.value)) putAside(config.dataDir);
    // The daemon ends, to start with the copy.
    else if (isRunning && this.#file?.source !== undefined)
      await this.#file.source.gate.close(this.#file.source.db);
    else await writeMoveNote(config.dataDir, { ...note, state: 'copying' });
  }

  /** Never rejects. */
  async #move(url: string, step: 'copy' | 'undo'): Promise<RegistryMove> {
    const isInForce = this.#mysql !== null;
    const server = parseMysqlUrl(url);
    try {
      if (!server.ok) return { why: 'mysql.url is not set: there is no place to move to', isInForce };
      if (step === 'copy') await this.#copy(server.value);
      else await removeCopy(server.value, this.#worker.init.config.dataDir);
      return { why: null, isInForce };
    } catch (error) {
      return { why: messageOf(error), isInForce };
    } finally {
      if (step === 'undo') this.#file?.source?.gate.open();
    }
  }

  async #copy(server: MysqlServer): Promise<void> {
    const { config } = this.#worker.init;
    const inForce = parseMysqlUrl(config['mysql.url']);
    if (inForce.ok && placeOf(inForce.value) !== placeOf(server))
      throw new Error(`the registry is in MySQL ${placeOf(inForce.value)}: dq moves only a registry.db`);
    const file = this.#file ?? (await this.#openLeft());
    const { source } = file;
    if (source === undefined) throw new Error(file.damage() ?? 'registry.db is not open');
    const { db, gate } = source;
    const { dataDir } = config;
    try {
      const keyPath = keyPathOf(config);
      await copyRegistry(db, server, { dataDir, keyPath, close: () => gate.close(db) });
    } catch (error) {
      gate.open();
      throw error;
    } finally {
      if (file !== this.#file) await file.registry.close();
    }
    if (inForce.ok) putAside(dataDir);
  }

  /** registry.db that is not the registry. */
  #openLeft(): Promise<ServedRegistry> {
    if (!existsSync(this.#registryPath)) throw new Error('there is no registry.db: nothing is left to move');
    return openServedRegistry(this.#registryPath, {
      keyPath: keyPathOf(this.#worker.init.config),
      servesRejected: false,
      onDamage: () => {},
      onRepaired: () => {},
    });
  }

  #openRegistryFile(): Promise<ServedRegistry> {
    const { init, log, channel } = this.#worker;
    return openServedRegistry(this.#registryPath, {
      keyPath: keyPathOf(init.config),
      warn: (sentence) => log.notice(`warning: ${sentence}`),
      mustExist: existsSync(this.#jobsPath),
      servesRejected: init.isRunning,
      isDiskUsable: () => this.#seams.whyUnusable() === null,
      onDamage: (why) => log.error(`dq-store: serves no registry: ${why}`),
      onRepaired: () => {
        log.notice(`dq-store: ends, so that the next dq-store opens ${this.#registryPath}`);
        channel.deliver({ kind: 'drain', deadlineMs: init.config.shutdownTimeout, why: 'reload' });
      },
    });
  }

  #ownerOf(registry: Registry, registryDamage: () => string | null): StoreOwner {
    const { init, log, metrics, end } = this.#worker;
    return new StoreOwner({
      ...this.#seams.owner,
      path: this.#jobsPath,
      socketPath: init.socketPath,
      log,
      ...(this.#mysql === null ? { registry, registryPath: this.#registryPath, registryDamage } : {}),
      leftBehind: (jobs) => this.#leftBehind.now(jobs),
      isLeaving: init.config.redis.length > 0,
      metrics,
      // A start ends with the reason. A running daemon keeps it as a state: a restart would meet it again.
      servesRejected: init.isRunning,
      keepHistory: init.config['history.retention'] > 0,
      shortestRetentionMs: shortestRetentionOf(init.config),
      onFatal: (error) => end(`this process can no longer trust its store: ${messageOf(error)}`),
    });
  }

  async #watchRedis(registry: Registry, isFirst: boolean): Promise<void> {
    const { init, log, channel, opened } = this.#worker;
    const { watchDurability } = await import('../store/redis/client/durability-watch.ts');
    const redis = await redisJobsOf(this.#worker, registry, this.#mysql);
    if (redis === null) return;
    const noteOf = (durability: string) =>
      [durability, ...redis.warnings()].filter((part) => part !== '').join('; ');
    const watch = watchDurability(redis, journalModeOf(init.config), log, (durability) =>
      channel.send({ kind: 'note', note: noteOf(durability) }),
    );
    opened.add(watch, () => watch.close());
    // Later an unusable Redis is an error in the log: the other workers go on with calls that need no Redis.
    this.#note = noteOf(await watch.start(isFirst));
    this.#warnings = redis.warnings();
    for (const warning of this.#warnings) log.error(warning);
  }

  /** Checks beside a serving dq-store whether this process could follow it. Opens nothing. */
  async #checkServing(): Promise<void> {
    const { init, log } = this.#worker;
    const mysql = this.#mysql;
    if (mysql !== null) await mysql.prove();
    else {
      const damage = whyDamaged(this.#registryPath, true);
      if (damage !== null) throw new Error(damage);
      if (!isOfThisSchema(this.#registryPath))
        throw new Error(`${this.#registryPath} has another schema than this version: needs \`dq restart\``);
    }
    const { connectStore } = await import('../store/sqlite/client/client.ts');
    const serving = connectStore({ socketPath: init.socketPath, title: 'the next dq-store', log });
    const why = await whyNoHandover(serving, this.#jobsPath);
    if (why !== null) throw new Error(why);
    try {
      await this.#checkExposure(mysql ?? serving.registry);
    } finally {
      await serving.close();
    }
  }

  async #checkExposure(registry: Registry): Promise<void> {
    try {
      await checkExposure(this.#worker.init.config, registry);
    } catch (error) {
      // MySQL is unavailable and there is no copy: the servers reject all callers until they know the tokens.
      if (this.#mysql === null || !(error instanceof StoreError)) throw error;
    }
  }

  /** A first start ends with the reason. After a crash or in a handover this process waits for the disk and
   *  then ends, so that the next one starts: ending at once would repeat until the master gives up. */
  async #onUsableDisk<T>(open: () => Promise<T>): Promise<T> {
    const { init, log, leaving } = this.#worker;
    try {
      return await open();
    } catch (error) {
      const why = this.#seams.whyUnusable();
      if ((init.restarts > 0 || init.takesOver) && why !== null) {
        log.error('dq-store: cannot open the store; waiting for its disk', new Error(why, { cause: error }));
        await untilUsable(this.#jobsPath, init.config.dataDir, leaving);
      }
      throw error;
    }
  }
}

/** The configuration names another store than the one to which the jobs move. */
function asImpossible(error: unknown): never {
  if (error instanceof StoreFileRefused && error.why === 'moving')
    throw new StartImpossible('configuration', error.message, { cause: error });
  throw error;
}

/** ms. A history shorter than 1 h (the least `dead.retention`) counts as 1 h:
 *  removals must not be held after each downtime. */
function shortestRetentionOf(config: Config): number {
  const history = config['history.retention'];
  return Math.min(
    config['dead.retention'],
    history > 0 ? Math.max(history, 3_600_000) : Number.POSITIVE_INFINITY,
  );
}

/** Whether a new dq-store can follow the running one. Opens nothing for writing and takes no lock, because
 *  the old one still serves. Workers of both versions run side by side during a reload, so they need the same
 *  file layout and socket protocol. One sentence; null: the handover is possible, and `running` is
 *  connected. */
export async function whyNoHandover(
  running: Pick<StoreConnection, 'start'>,
  path: string,
): Promise<string | null> {
  const layout = layoutOnDisk(path);
  if (layout !== layoutVersion)
    return `${path} has layout ${layout ?? 'none'}, this version has ${layoutVersion}: needs \`dq restart\``;
  try {
    await running.start();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (error.failure.code === 'protocol')
      return 'the running dq-store has another protocol than this version: needs `dq restart`';
    return 'the running dq-store does not answer';
  }
  return null;
}
