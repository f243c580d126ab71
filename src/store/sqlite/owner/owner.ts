// Runs dq-store's embedded store: the only process that has jobs.db open serves all others through a Unix
// socket. Owns the engine, the socket, the connections and the order of work: requests of one turn of the
// event loop become one transaction and one fsync, without a timer; during a COMMIT the next ones gather.
// Invariants: no answer leaves before its COMMIT; after a failed COMMIT nothing is served; only the holder of
// the store's lock, or of a file that every start rejects, removes the socket file.
// A damaged file is a state: another start would find it damaged, too. The owner then serves the registry,
// and health with the reason; every other call is not stored. The file stays unchanged.

import { unlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { messageOf } from '../../../core/errors.ts';
import type { LeftBehind } from '../../../core/left-behind.ts';
import { limits } from '../../../core/limits.ts';
import type { StoreHealth } from '../../../ports/job-store.ts';
import type { Registry } from '../../../ports/registry.ts';
import { StoreError } from '../../../ports/store-error.ts';
import { storeVerbs } from '../../../ports/store-verbs.ts';
import { type Database, isDamage } from '../../../runtime/database.ts';
import type { Service } from '../../../runtime/service.ts';
import { clearTimeout, type Immediate, setImmediate, setTimeout, wallNow } from '../../../runtime/time.ts';
import type { Log } from '../../../telemetry/log.ts';
import { type Metrics, noMetrics } from '../../../telemetry/metrics.ts';
import { type Engine, type EngineOptions, type Hints, openEngine } from '../engine/engine.ts';
import { damagedText, StoreFileRefused, toStoreFileRefused } from '../file/store-file.ts';
import { sqliteLimits } from '../limits.ts';
import { failureCodec } from '../wire/messages.ts';
import { type Channel, type Frame, kinds, type Listener, type Writer } from '../wire/protocol.ts';

import { Connection } from './connection.ts';
import { DiskReserveKeeper, diskFull } from './disk-reserve-keeper.ts';
import { damaged, type Ending, failureOf, runGroup } from './group.ts';
import { readWork, type Work } from './operations.ts';
import { RegistryPages, serveRegistry } from './registry-service.ts';
import { StoreMaintenance } from './store-maintenance.ts';
import { type SurveyCall, SurveyService } from './survey-service.ts';

export interface StoreOwnerOptions extends EngineOptions {
  /** jobs.db */
  readonly path: string;
  /** at most limits.socketPathMax bytes */
  readonly socketPath: string;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** registry.db, for backups; without it a backup holds only jobs.db */
  readonly registryPath?: string;
  readonly frozenWalBytesMax?: number;
  /** what the configuration leaves behind, given the number of jobs in jobs.db */
  readonly leftBehind?: (jobs: number) => readonly LeftBehind[];
  /** served to the clients too; not closed by the owner */
  readonly registry?: Registry;
  /** Why the registry rejects every call, one sentence; null: it does not. */
  readonly registryDamage?: () => string | null;
  /** true: a file that every start rejects does not fail the start, but is a state of this owner */
  readonly servesRejected?: boolean;
  /** default: listens on socketPath */
  readonly listen?: (onChannel: (channel: Channel) => void) => Listener;
  /** default: openEngine(path) */
  readonly open?: (options: EngineOptions) => Engine;
  /** This process must end now, with a failure: its state is uncertain. The next owner repairs the store. */
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
  readonly #maintenance: StoreMaintenance;
  readonly #surveys = new SurveyService(() => this.#served());
  #diskReserve: DiskReserveKeeper | null = null;
  readonly #connections = new Set<Connection>();
  #engine: Engine | null = null;
  #server: Listener | null = null;
  #queue: Request[] = [];
  #nextTurn: Immediate | null = null;
  #state: 'closed' | 'serving' | 'handing_over' | 'broken' | 'damaged' = 'closed';
  /** one sentence with the remedy: why `damaged`, or what a read has met */
  #damage: string | null = null;
  readonly #pages = new RegistryPages();
  readonly #commits = new CommitTimes();
  #laterCalls = 0;
  #drained: Promise<void> | null = null;

  constructor(options: StoreOwnerOptions) {
    this.#options = options;
    const {
      path,
      registryPath = null,
      registryDamage = () => null,
      frozenWalBytesMax = sqliteLimits.frozenWalBytesMax,
      clock = wallNow,
    } = options;
    this.#maintenance = new StoreMaintenance(
      { path, registryPath, registryDamage, frozenWalBytesMax, clock },
      () => this.#opened(),
    );
  }

  /** One sentence for users: what survives which failure. */
  readonly durability = durability;

  /** Connected processes: while there are some, outcomes may still arrive. */
  get clients(): number {
    return this.#connections.size;
  }

  /** Waiting requests. */
  inFlight(): number {
    return this.#queue.length + this.#laterCalls;
  }

  /** Opens the file (throws StoreFileRefused), then listens. */
  async start(): Promise<void> {
    const { path, servesRejected = false } = this.#options;
    try {
      await this.#open();
      this.#state = 'serving';
    } catch (error) {
      const failure = toStoreFileRefused(path, error);
      if (!servesRejected || !(failure instanceof StoreFileRefused) || !failure.isPermanent) throw failure;
      await this.#listen();
      this.#becomeDamaged(failure.message);
    }
  }

  async #open(): Promise<void> {
    const { path, log, open = (options) => openEngine(path, options) } = this.#options;
    this.#engine = open({ onDamage: (what) => log.error(what), ...this.#options });
    try {
      const { wasUnclean, wasChecked } = this.#engine.found;
      if (wasUnclean) log.notice('store: jobs.db was not closed; its WAL was replayed', { wasChecked });
      const { clockHold } = this.#engine;
      if (clockHold !== null) log.notice(clockHold);
      this.#diskReserve = new DiskReserveKeeper(this.#engine, log, (error) => this.#break(error));
      this.#diskReserve.start();
      await this.#listen();
    } catch (error) {
      this.#diskReserve?.close();
      try {
        this.#engine.close();
      } catch (failure) {
        // Of a damaged file: its WAL stays. The first error names the cause.
        if (!isDamage(error)) log.error('store: cannot close jobs.db cleanly', failure);
      }
      this.#engine = null;
      throw error;
    }
  }

  /** Stops listening, finishes what has arrived, tells every client to reconnect to the next
   *  owner, rejects the rest as `handover`, closes the file. */
  drain(deadlineMs: number): Promise<void> {
    this.#drained ??= this.#handOver(Math.min(deadlineMs, sqliteLimits.storeHandoverMs));
    return this.#drained;
  }

  /** Reads the store outside the port (backup, tests). Synchronous, so it runs between transactions. */
  inspect<T>(read: (db: Database) => T): T {
    return read(this.#opened().db);
  }

  /** Number of jobs, live and dead; 0 for a damaged file. */
  get jobs(): number {
    if (this.#engine === null) return 0;
    const { topics } = this.#opened().jobCounts.counts();
    return Object.values(topics).reduce((sum, of) => sum + of.delayed + of.ready + of.reserved + of.dead, 0);
  }

  /** Its jobs move to Redis. */
  get isMoving(): boolean {
    return this.#state === 'serving' && this.#opened().leaving.state().move !== null;
  }

  #opened(): Engine {
    if (this.#engine === null) throw new Error('the store is not open');
    return this.#engine;
  }

  /** Throws StoreError between two owners. */
  #served(): Engine {
    if (this.#state !== 'serving') throw new StoreError({ kind: 'not_stored', code: 'handover' });
    return this.#opened();
  }

  async #listen(): Promise<void> {
    const { listen } = this.#options;
    if (listen === undefined) await this.#listenOnSocket();
    else this.#server = listen((channel) => this.#connected(channel));
  }

  #listenOnSocket(): Promise<void> {
    const { socketPath } = this.#options;
    if (Buffer.byteLength(socketPath) > limits.socketPathMax)
      throw new Error(`the socket path is longer than ${limits.socketPathMax} bytes: ${socketPath}`);
    // A dead owner left it: the holder of the store's lock is the only owner.
    try {
      unlinkSync(socketPath);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    const server = createServer({ allowHalfOpen: true }, (socket) => this.#connected(socket));
    this.#server = server;
    return new Promise((resolve, reject) => {
      // Later errors concern single connections (no file descriptor left); their clients reconnect.
      server.on('error', (error) => {
        reject(error);
        this.#options.log.error('store: cannot accept a connection', error);
      });
      const mask = process.umask(0o177);
      // exclusive: otherwise node:cluster would listen in the master and share the socket.
      server.listen({ path: socketPath, exclusive: true }, () => resolve());
      process.umask(mask);
    });
  }

  #connected(channel: Channel): void {
    this.#connections.add(
      new Connection(channel, {
        onFrame: (from, frame) => this.#receive(from, frame),
        onClose: (from, reason) => this.#disconnected(from, reason),
      }),
    );
  }

  /** Requests answered outside groups: from memory, or later. */
  readonly #unqueued: Readonly<Record<number, (args: readonly [string]) => unknown>> = {
    [storeVerbs['admin.health'].frame]: () => ({ ...this.#health(), now: this.#now() }),
    [storeVerbs['admin.startBackup'].frame]: ([directory]) => this.#maintenance.startBackup(directory),
    [storeVerbs['admin.backup'].frame]: () => this.#maintenance.backup,
    [storeVerbs['admin.startFsck'].frame]: () => this.#maintenance.startFsck(),
    [storeVerbs['admin.fsck'].frame]: () => this.#maintenance.fsck,
  };

  #disconnected(connection: Connection, reason: unknown): void {
    this.#connections.delete(connection);
    if (reason !== null)
      this.#options.log.error(
        `store: closed the connection of ${connection.title || 'an unknown client'}`,
        reason,
      );
  }

  // Requests

  #receive(from: Connection, frame: Frame): void {
    const { requestId: id, kind, payload } = frame;
    const isServed =
      this.#state === 'damaged' && (kind === storeVerbs['admin.health'].frame || kind === kinds.registry);
    if (this.#state !== 'serving' && !isServed) {
      const code = rejections[this.#state] ?? 'handover';
      from.answer(id, kinds.failed, (w) => failureCodec.write(w, { kind: 'not_stored', code }));
      from.flush();
      return;
    }
    if (kind === kinds.subscribe) from.wantsHints = payload.u8() === 1;
    else if (Object.hasOwn(this.#unqueued, kind)) {
      const answer = this.#unqueued[kind]?.(payload.json() as [string]);
      from.answer(id, kind, (w) => w.json(answer));
      from.flush();
    } else if (kind === kinds.registry) this.#answerLater(from, this.#callRegistry(from, id, payload.json()));
    else if (kind === kinds.survey)
      this.#answerLater(from, this.#runSurvey(from, id, payload.json() as SurveyCall));
    else {
      const work = readWork(kind, payload, from.capacities);
      this.#queue.push({ from, id, kind, bytes: payload.length, work });
      from.countWaiting(1);
      this.#nextTurn ??= setImmediate(() => this.#takeTurn());
    }
  }

  #takeTurn(): void {
    this.#nextTurn = null;
    if (this.#queue.length > 0) this.#serve(this.#nextGroup());
    if (this.#queue.length > 0) this.#nextTurn ??= setImmediate(() => this.#takeTurn());
  }

  /** The oldest requests that fit into one transaction, at least one. A bulk step is its own group. */
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
        rejectPushes: engine.isDiskFull,
        onFull: (error) => this.#diskReserve?.free(error),
        onFailure: (error) => this.#reportFailure('store: request failed', error),
      },
    );
    if (result.commitMs !== null) {
      const { metrics = noMetrics } = this.#options;
      metrics.observe('dq_store_group_commit_seconds', result.commitMs / 1_000);
      this.#commits.add(result.commitMs);
      metrics.observe(
        'dq_store_group_items',
        group.reduce((sum, { work }) => sum + work.items, 0),
      );
    }
    for (const [i, request] of group.entries()) answer(request, result.endings[i] as Ending);
    if (result.fatal === undefined) this.#hint(engine, result.hints);
    for (const connection of this.#connections) connection.flush();
    for (const { from } of group) from.countWaiting(-1);
    if (result.fatal !== undefined) this.#break(result.fatal);
  }

  #now(): number {
    return this.#engine?.readClock() ?? wallNow();
  }

  #reportFailure(what: string, error: unknown): void {
    this.#options.log.error(what, error);
    if (isDamage(error)) this.#damage ??= damagedText(this.#options.path, messageOf(error));
  }

  /** The state lasts until this process ends. */
  #becomeDamaged(why: string): void {
    this.#damage = why;
    this.#state = 'damaged';
    this.#options.log.error(`store: serves no jobs: ${why}`);
  }

  #break(error: unknown): void {
    // The check at the open of this process did not see it, and the next one would not see it either.
    const lasts = isDamage(error) && this.#engine?.found.wasChecked === true;
    this.#state = 'broken';
    this.#diskReserve?.close();
    try {
      this.#engine?.requireCheck();
    } catch (failure) {
      // The disk rejects even this: the next start fails before it could skip the check.
      this.#options.log.error('store: cannot mark jobs.db for a check', failure);
    }
    const code = lasts ? damaged.code : 'io_error';
    for (const { from, id } of this.#queue.splice(0))
      from.answer(id, kinds.failed, (w) => failureCodec.write(w, { kind: 'not_stored', code }));
    for (const connection of this.#connections) connection.flush();
    if (lasts) {
      this.#becomeDamaged(damagedText(this.#options.path, messageOf(error)));
      return;
    }
    // The kernel has the answers; let it send them.
    setImmediate(() => this.#options.onFatal(error));
  }

  #hint(engine: Engine, hints: Hints): void {
    if (!hints.ready && !hints.due) return;
    for (const connection of this.#connections) {
      if (!connection.wantsHints) continue;
      if (hints.ready) connection.send(kinds.hintReady);
      if (hints.due) connection.send(kinds.hintDue, (w) => w.f64(engine.waitMs() ?? 0));
    }
  }

  #health(): StoreHealth {
    const damage = [this.#damage, this.#options.registryDamage?.() ?? null].filter((why) => why !== null);
    const leftBehind = this.#options.leftBehind?.(this.isMoving ? 0 : this.jobs) ?? [];
    if (this.#state === 'damaged') return { ok: false, durability, warnings: damage, leftBehind };
    const ok = this.#engine?.isDiskFull === false;
    const clockWarning = this.#engine?.clockWarning ?? null;
    const warnings = [
      ...(ok ? [] : [diskFull]),
      ...damage,
      ...(clockWarning === null ? [] : [clockWarning]),
      ...leftBehind.map(({ text }) => text),
    ];
    const isClockHeld = (this.#engine?.clockHold ?? null) !== null;
    const p99 = this.#commits.p99();
    return {
      ok,
      durability,
      warnings,
      leftBehind,
      ...(isClockHeld ? { isClockHeld } : {}),
      ...(p99 === null ? {} : { commitP99Ms: p99 }),
    };
  }

  // Calls that are answered later

  /** `work` never rejects: an exception, also one of writing the answer, is a bug, and this process must
   *  end. */
  #answerLater(from: Connection, work: Promise<void>): void {
    this.#laterCalls += 1;
    from.countWaiting(1);
    work
      .then(() => {
        from.flush();
        this.#laterCalls -= 1;
        from.countWaiting(-1);
      })
      .catch((error) => this.#break(error));
  }

  #runSurvey(from: Connection, id: number, call: SurveyCall): Promise<void> {
    return this.#surveys.run(call).then(
      (result) => from.answer(id, kinds.survey, (w) => w.json(result)),
      (error: unknown) => {
        if (!(error instanceof StoreError)) this.#reportFailure('store: survey failed', error);
        from.answer(id, kinds.failed, (w) => failureCodec.write(w, failureOf(error)));
      },
    );
  }

  async #callRegistry(from: Connection, id: number, call: unknown): Promise<void> {
    const served = await serveRegistry(this.#options.registry, call, this.#pages);
    if ('failure' in served) {
      if (served.cause !== undefined) this.#options.log.error('store: registry call failed', served.cause);
      from.answer(id, kinds.failed, (w) => failureCodec.write(w, served.failure));
      return;
    }
    from.answer(id, kinds.registry, (w) => writeResult(w, served));
    if (!served.changed) return;
    for (const connection of this.#connections) connection.send(kinds.registryChanged);
    for (const connection of this.#connections) connection.flush();
  }

  // Handover

  async #handOver(deadlineMs: number): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    // A failing COMMIT empties the queue.
    while (this.#queue.length > 0) this.#serve(this.#nextGroup());
    if (this.#state === 'serving') this.#state = 'handing_over';
    for (const connection of this.#connections) connection.handOver();
    await this.#maintenance.close();
    const timer = setTimeout(() => {
      for (const connection of this.#connections) connection.end();
    }, deadlineMs);
    await closed;
    clearTimeout(timer);
    this.#diskReserve?.close();
    // A broken store stays as it is until its process ends: closing would write to the file.
    if (this.#state === 'broken' || this.#state === 'damaged') return;
    try {
      this.#engine?.close();
    } catch (error) {
      // Nothing is lost: the WAL stays, and the next owner replays it.
      this.#options.log.error('store: cannot close jobs.db cleanly', error);
    }
    this.#engine = null;
    this.#state = 'closed';
  }
}

/** The durations of the last commits. */
class CommitTimes {
  readonly #times = new Float64Array(sqliteLimits.commitTimesKept);
  #count = 0;

  add(ms: number): void {
    this.#times[this.#count % this.#times.length] = ms;
    this.#count += 1;
  }

  /** ms; null = no commit yet */
  p99(): number | null {
    const kept = Math.min(this.#count, this.#times.length);
    if (kept === 0) return null;
    return this.#times.slice(0, kept).sort()[Math.ceil(kept * 0.99) - 1] ?? null;
  }
}

/** Codes of calls by the state of the owner; `handover`: the client asks the next owner. */
const rejections: Readonly<Record<string, string>> = { broken: 'io_error', damaged: damaged.code };

/** Bytes have the same encoding in a frame as text. */
function writeResult(w: Writer, served: { readonly result: unknown } | { readonly text: Buffer }): void {
  if ('text' in served) w.bytes(served.text);
  else w.json(served.result);
}

function answer(request: Request, ending: Ending): void {
  if (typeof ending === 'function') request.from.answer(request.id, request.kind, ending);
  else request.from.answer(request.id, kinds.failed, (w) => failureCodec.write(w, ending));
}
