// The owner of the embedded store: the one process that has jobs.db open, serving all others through a Unix socket. Owns the
// engine, the socket, the connections and the order of work: what arrives in one turn of the event loop becomes one
// transaction and one fsync, without any timer; while a COMMIT blocks, the next group gathers in the kernel.
// Invariants: no answer leaves before its COMMIT; after a failed COMMIT nothing is served any more; the socket file is
// removed only by who holds the store's lock.

import { unlinkSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { limits } from '../../../core/limits.ts';
import type { StoreHealth } from '../../../ports/job-store.ts';
import type { Registry } from '../../../ports/registry.ts';
import type { Database } from '../../../runtime/database.ts';
import type { Service } from '../../../runtime/service.ts';
import type { Log } from '../../../telemetry/log.ts';
import { type Metrics, noMetrics } from '../../../telemetry/metrics.ts';
import { type Engine, type EngineOptions, type Hints, openEngine } from '../engine/engine.ts';
import { sqliteLimits } from '../limits.ts';
import { writeFailure } from '../wire/messages.ts';
import { type Frame, kinds, type Writer } from '../wire/protocol.ts';
import { serveRegistry } from '../wire/registry-calls.ts';
import { Connection } from './connection.ts';
import { diskFull, ReserveKeeper } from './disk-reserve-keeper.ts';
import { type Ending, runGroup } from './group.ts';
import { readWork, type Work } from './operations.ts';
import { RegistryPages } from './registry-pages.ts';
import { StoreMaintenance } from './store-maintenance.ts';

export interface StoreOwnerOptions extends EngineOptions {
  /** jobs.db */
  readonly path: string;
  /** at most limits.socketPathMax bytes */
  readonly socketPath: string;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** registry.db, for backups; without it they hold jobs.db alone */
  readonly registryPath?: string;
  readonly heldLogBytesMax?: number;
  /** served to the clients too; not closed by the owner */
  readonly registry?: Registry;
  /** The store can no longer be trusted to this process: it must end now, with a failure. Its successor repairs. */
  readonly onFatal: (error: unknown) => void;
}

interface Request {
  readonly from: Connection;
  readonly id: number;
  readonly kind: number;
  readonly bytes: number;
  readonly work: Work;
}

const durability =
  'an acknowledged push survives the death of any process and a power cut (SQLite, WAL, synchronous=FULL)';

export class StoreOwner implements Service {
  readonly #options: StoreOwnerOptions;
  readonly #sideWork: StoreMaintenance;
  #reserve: ReserveKeeper | null = null;
  readonly #connections = new Set<Connection>();
  #engine: Engine | null = null;
  #server: Server | null = null;
  #queue: Request[] = [];
  #turn: NodeJS.Immediate | null = null;
  #state: 'closed' | 'serving' | 'handing_over' | 'broken' = 'closed';
  readonly #pages = new RegistryPages();
  #registryCalls = 0;
  #drained: Promise<void> | null = null;

  constructor(options: StoreOwnerOptions) {
    this.#options = options;
    const {
      path,
      registryPath = null,
      heldLogBytesMax = sqliteLimits.heldLogBytesMax,
      clock = Date.now,
    } = options;
    this.#sideWork = new StoreMaintenance({ path, registryPath, heldLogBytesMax, clock }, () =>
      this.#opened(),
    );
  }

  /** What survives what, in one sentence. */
  get durability(): string {
    return durability;
  }

  /** Processes that are connected: while there are some, somebody may still have something to bring back. */
  get clients(): number {
    return this.#connections.size;
  }

  /** Requests that wait for their turn. */
  inFlight(): number {
    return this.#queue.length + this.#registryCalls;
  }

  /** Opens the file (StoreFileRefused when it must not), then listens. */
  async start(): Promise<void> {
    const { path, log } = this.#options;
    this.#engine = openEngine(path, { onDamage: (what) => this.#options.log.error(what), ...this.#options });
    try {
      const { wasUnclean, wasChecked } = this.#engine.found;
      if (wasUnclean) log.notice('the store was not closed; its log was replayed', { wasChecked });
      const { clockHold } = this.#engine;
      if (clockHold !== null) log.notice(clockHold);
      this.#reserve = new ReserveKeeper(this.#engine, log, (error) => this.#break(error));
      this.#reserve.start();
      await this.#listen();
    } catch (error) {
      this.#reserve?.close();
      this.#engine.close();
      this.#engine = null;
      throw error;
    }
    this.#state = 'serving';
  }

  /** Hands over: listens no more, finishes what has arrived, tells every client to come back to whoever owns the store next,
   *  refuses the rest as `handover`, closes the file. */
  drain(deadlineMs: number): Promise<void> {
    this.#drained ??= this.#handOver(Math.min(deadlineMs, sqliteLimits.storeHandoverMs));
    return this.#drained;
  }

  /** Reads the store beside the port (a backup, a test). Synchronous, hence between transactions. */
  inspect<T>(read: (db: Database) => T): T {
    return read(this.#opened().db);
  }

  /** How many it holds, live and dead. */
  get jobs(): number {
    const { topics } = this.#opened().census.counts();
    return Object.values(topics).reduce((sum, of) => sum + of.delayed + of.ready + of.reserved + of.dead, 0);
  }

  #opened(): Engine {
    if (this.#engine === null) throw new Error('the store is not open');
    return this.#engine;
  }

  #listen(): Promise<void> {
    const { socketPath } = this.#options;
    if (Buffer.byteLength(socketPath) > limits.socketPathMax)
      throw new Error(
        `the path of the store's socket is longer than ${limits.socketPathMax} bytes: ${socketPath}`,
      );
    // Left by a dead owner: whoever has the lock of the store is the only one.
    try {
      unlinkSync(socketPath);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      this.#connections.add(
        new Connection(socket, {
          onFrame: (from, frame) => this.#arrived(from, frame),
          onClose: (from, reason) => this.#left(from, reason),
        }),
      );
    });
    this.#server = server;
    return new Promise((resolve, reject) => {
      // Later ones are of single connections (no file descriptor left); their clients come again.
      server.on('error', (error) => {
        reject(error);
        this.#options.log.error('a connection to the store could not be taken', error);
      });
      const mask = process.umask(0o177);
      // exclusive: else node:cluster would listen in the master and share it out.
      server.listen({ path: socketPath, exclusive: true }, () => resolve());
      process.umask(mask);
    });
  }

  /** What is answered beside the groups: from memory, or later. */
  readonly #aside: Readonly<Record<number, (args: readonly [string]) => unknown>> = {
    [kinds.health]: () => ({ ...this.#health(), now: this.#opened().look() }),
    [kinds.startBackup]: ([directory]) => this.#sideWork.startBackup(directory),
    [kinds.backup]: () => this.#sideWork.backup,
    [kinds.startFsck]: () => this.#sideWork.startFsck(),
    [kinds.fsck]: () => this.#sideWork.fsck,
  };

  #left(connection: Connection, reason: unknown): void {
    this.#connections.delete(connection);
    if (reason !== null) this.#options.log.error(`client ${connection.title || '?'} was cut off`, reason);
  }

  // ── requests

  #arrived(from: Connection, frame: Frame): void {
    const { requestId: id, kind, payload } = frame;
    if (this.#state !== 'serving') {
      const code = this.#state === 'broken' ? 'io_error' : 'handover';
      from.answer(id, kinds.failed, (w) => writeFailure(w, { kind: 'not_stored', code }));
      from.flush();
      return;
    }
    if (kind === kinds.subscribe) from.wantsHints = payload.u8() === 1;
    else if (Object.hasOwn(this.#aside, kind)) {
      const answer = this.#aside[kind]?.(payload.json() as [string]);
      from.answer(id, kind, (w) => w.json(answer));
      from.flush();
    } else if (kind === kinds.registry) this.#callRegistry(from, id, payload.json());
    else {
      const work = readWork(kind, payload, from.rooms);
      this.#queue.push({ from, id, kind, bytes: payload.length, work });
      from.waits(1);
      this.#turn ??= setImmediate(() => this.#takeTurn());
    }
  }

  #takeTurn(): void {
    this.#turn = null;
    if (this.#queue.length > 0) this.#serve(this.#nextGroup());
    if (this.#queue.length > 0) this.#turn ??= setImmediate(() => this.#takeTurn());
  }

  /** The oldest requests, as many as one transaction takes; one always. A step of bulk work is a group by itself. */
  #nextGroup(): Request[] {
    let [items, bytes] = [0, 0];
    const isBulkNext = this.#queue[0]?.work.isBulk === true;
    const end = this.#queue.findIndex((request, at) => {
      items += request.work.items;
      bytes += request.bytes;
      if (request.work.isBulk || (isBulkNext && at > 0)) return true;
      return items > sqliteLimits.groupItemsMax || bytes > sqliteLimits.groupBytesMax;
    });
    return this.#queue.splice(0, end < 0 ? this.#queue.length : Math.max(end, 1));
  }

  #serve(group: readonly Request[]): void {
    const engine = this.#engine as Engine;
    const result = runGroup(
      engine,
      group.map((request) => request.work),
      {
        refusePushes: engine.isTight,
        onFull: (error) => this.#reserve?.free(error),
        onFailure: (error) => this.#options.log.error('the store failed at a request', error),
      },
    );
    if (result.commitMs !== null) {
      const { metrics = noMetrics } = this.#options;
      metrics.observe('dq_store_group_commit_seconds', result.commitMs / 1_000);
      metrics.observe(
        'dq_store_group_items',
        group.reduce((sum, { work }) => sum + work.items, 0),
      );
    }
    for (const [i, request] of group.entries()) answer(request, result.endings[i] as Ending);
    if (result.fatal === undefined) this.#hint(engine, result.hints);
    for (const connection of this.#connections) connection.flush();
    for (const { from } of group) from.waits(-1);
    if (result.fatal !== undefined) this.#break(result.fatal);
  }

  #break(error: unknown): void {
    this.#state = 'broken';
    this.#reserve?.close();
    try {
      this.#engine?.doubt();
    } catch (failure) {
      // Not even that can be written: then the next start fails before it could leave a check out.
      this.#options.log.error('the doubt about the store could not be noted', failure);
    }
    for (const { from, id } of this.#queue.splice(0))
      from.answer(id, kinds.failed, (w) => writeFailure(w, { kind: 'not_stored', code: 'io_error' }));
    for (const connection of this.#connections) connection.flush();
    // The answers have been handed to the kernel; give it the turn.
    setImmediate(() => this.#options.onFatal(error));
  }

  #hint(engine: Engine, hints: Hints): void {
    if (!hints.ready && !hints.due) return;
    for (const connection of this.#connections) {
      if (!connection.wantsHints) continue;
      if (hints.ready) connection.tell(kinds.hintReady);
      if (hints.due) connection.tell(kinds.hintDue, (w) => w.f64(engine.waitMs() ?? 0));
    }
  }

  #health(): StoreHealth {
    const ok = this.#engine?.isTight === false;
    const clockWarning = this.#engine?.clockWarning ?? null;
    const warnings = [...(ok ? [] : [diskFull]), ...(clockWarning === null ? [] : [clockWarning])];
    const isClockHeld = (this.#engine?.clockHold ?? null) !== null;
    return { ok, durability, warnings, ...(isClockHeld ? { isClockHeld } : {}) };
  }

  // ── registry

  #callRegistry(from: Connection, id: number, call: unknown): void {
    this.#registryCalls += 1;
    from.waits(1);
    const done = serveRegistry(this.#options.registry, call, this.#pages).then((served) => {
      if ('failure' in served) {
        if (served.cause !== undefined)
          this.#options.log.error('the registry failed at a call', served.cause);
        from.answer(id, kinds.failed, (w) => writeFailure(w, served.failure));
      } else from.answer(id, kinds.registry, (w) => writeResult(w, served));
      const changed = 'changed' in served && served.changed;
      for (const connection of changed ? this.#connections : []) connection.tell(kinds.registryChanged);
      for (const connection of changed ? this.#connections : [from]) connection.flush();
      this.#registryCalls -= 1;
      from.waits(-1);
    });
    // serveRegistry never rejects: what is thrown here is a mistake of ours, and this process must not go on with it.
    done.catch((error) => this.#break(error));
  }

  // ── end

  async #handOver(deadlineMs: number): Promise<void> {
    if (this.#engine === null) return;
    const closed = new Promise<void>((resolve) => this.#server?.close(() => resolve()) ?? resolve());
    // A COMMIT that fails on the way empties the queue.
    while (this.#queue.length > 0) this.#serve(this.#nextGroup());
    if (this.#state === 'serving') this.#state = 'handing_over';
    for (const connection of this.#connections) connection.handOver();
    await this.#sideWork.close();
    const timer = setTimeout(() => {
      for (const connection of this.#connections) connection.end();
    }, deadlineMs);
    await closed;
    clearTimeout(timer);
    this.#reserve?.close();
    // A broken store stays as it is until its process ends: closing would write to the file.
    if (this.#state === 'broken') return;
    try {
      this.#engine.close();
    } catch (error) {
      // Nothing is lost: the log stays beside the file and is replayed by the next owner.
      this.#options.log.error('the store could not be closed cleanly', error);
    }
    this.#engine = null;
    this.#state = 'closed';
  }
}

/** Bytes lie in a frame as a text does. */
function writeResult(w: Writer, served: { readonly result: unknown } | { readonly text: Buffer }): void {
  if ('text' in served) w.bytes(served.text);
  else w.json(served.result);
}

function answer(request: Request, ending: Ending): void {
  if (typeof ending === 'function') request.from.answer(request.id, request.kind, ending);
  else request.from.answer(request.id, kinds.failed, (w) => writeFailure(w, ending));
}
