// Starts the workers, restarts dead ones, replaces all of them in a reload, and ends them.
// Invariant: only this class decides that the daemon gives up. It opens no file of the store.

import { type Config, consolePortOf } from '../../config/options.ts';
import { messageOf } from '../../core/errors.ts';
import { portOf } from '../../core/url/server-url.ts';
import { version } from '../../core/version.ts';
import type {
  ConfigState,
  ProcessInfo,
  RegistryMove,
  ReloadState,
  RoleName,
  ToMaster,
} from '../../process/messages.ts';
import { titleOf } from '../../process/role.ts';
import { urlOf } from '../../runtime/listen.ts';
import type { SecondTicker } from '../../runtime/second-ticker.ts';
import { monotonicNow, wallNow } from '../../runtime/time.ts';
import { within } from '../../runtime/timeout.ts';
import type { OpenLog } from '../../telemetry/log.ts';
import { type CompatAddresses, compatAddresses } from '../control/control-protocol.ts';
import type { ServiceManager } from '../control/service-manager.ts';
import { masterLimits } from '../limits.ts';
import { MetricsHub } from '../metrics-hub.ts';
import { type ReadConfig, Reload } from '../reload.ts';
import { ReloadHistory, type ReloadOutcome, ReloadQueue, type Report } from '../reload-queue.ts';
import { type ConsoleDoor, type OpenDoor, openConsoleDoor } from './console-door.ts';
import { Fleet } from './fleet.ts';
import type { Fork } from './fork.ts';
import { Generation } from './generation.ts';
import { type Ending, WorkerProcess } from './worker-process.ts';
import { WorkerRelay } from './worker-relay.ts';
import { CrashLoop, type SlotHost, type WorkerSlot } from './worker-slot.ts';

interface SupervisorOptions {
  readonly config: Config;
  readonly log: OpenLog;
  readonly instance: number;
  readonly storeSocket: string;
  readonly adminToken: string;
  readonly drawIncarnation: () => number;
  /** path of dist/worker.js, read at every fork: an upgrade may switch a symbolic link */
  readonly workerPath: () => string;
  /** default: by node:cluster */
  readonly fork?: Fork;
  /** default: a real port */
  readonly openDoor?: OpenDoor;
  readonly onFork: (pid: number, title: string) => void;
  readonly onExit: (pid: number) => void;
  readonly self: () => ProcessInfo;
  /** called once, when every worker is ready for the first time */
  readonly onReady: () => void;
  readonly readConfig: ReadConfig;
  readonly service: Pick<ServiceManager, 'ready' | 'reloading' | 'stopping'>;
  /** the master's */
  readonly ticker: SecondTicker;
  readonly onReloaded: (config: Config) => void;
  /** why the daemon needs `dq restart`; null = it does not */
  readonly whyRestart: () => string | null;
  /** the configuration in force, for the console */
  readonly describeConfig: () => ConfigState;
}

export interface Outcome {
  readonly exitCode: number;
  /** why it ended without a stop; null = it was stopped */
  readonly reason: string | null;
}

/** Exit codes after a crash loop, and for a wrong configuration (cli/exit.ts). */
export const exitCrashLoop = 70;
const exitConfiguration = 78;

/** They judge callback URLs by the ports of the daemon; the console, which starts late, pushes to one. */
const portReaders = ['notifier', 'server', 'console'] as const;

export class Supervisor implements SlotHost {
  readonly #options: SupervisorOptions;
  readonly #fleet: Fleet;
  readonly #relay: WorkerRelay;
  readonly #metrics: MetricsHub;
  readonly #crashLoop = new CrashLoop();
  readonly #reloads = new ReloadQueue((report) => this.#reload(report));
  readonly #history = new ReloadHistory();
  #reloading: Reload | null = null;
  #phase: 'starting' | 'running' | 'stopping' = 'starting';
  #outcome: Outcome = { exitCode: 0, reason: null };
  #othersStarted = false;
  /** null: console.enabled is false, or the daemon starts or stops */
  #door: ConsoleDoor | null = null;
  /** of a reload that is not in force yet; null: it keeps the one in force */
  #nextDoor: ConsoleDoor | null = null;
  /** the console that gets the connections */
  #consoleInUse: WorkerProcess | null = null;
  #moveCalls = 0;
  /** by call: an answer that comes too late is not that of the next question */
  readonly #onMoved = new Map<number, (answer: RegistryMove) => void>();
  #finish: (outcome: Outcome) => void = () => {};
  /** Resolves when every worker has exited. */
  readonly ended = new Promise<Outcome>((resolve) => {
    this.#finish = resolve;
  });

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#fleet = new Fleet(new Generation(options.config, this, options.drawIncarnation, null));
    this.#relay = new WorkerRelay(this.#fleet, () => this.processes(), options.log);
    this.#metrics = new MetricsHub({
      version,
      processes: () => this.processes(),
      log: options.log,
      dropped: () => options.log.dropped(),
      delivers: !options.config.noDeliveries,
    });
    options.ticker.each(() => {
      for (const worker of this.#fleet.workers()) worker.tick();
    });
  }

  start(): void {
    const { config } = this.#options;
    if (!config['console.enabled']) this.#fleet.current.startStore();
    else
      this.#openDoor(config).then(
        (door) => {
          if (this.#phase === 'stopping') door.close();
          else this.#door = door;
          this.#fleet.current.startStore();
        },
        (error: unknown) => this.#giveUp(exitConfiguration, messageOf(error)),
      );
  }

  /** Drains all workers; callbacks have callbacksMs. Calling it again changes nothing. */
  stop(callbacksMs: number = this.#fleet.current.config.shutdownTimeout): void {
    if (this.#phase === 'stopping') return;
    this.#phase = 'stopping';
    this.#options.log.notice('stopping');
    this.#options.service.stopping();
    this.#useConsole(null);
    this.#door?.close();
    this.#door = null;
    void this.#fleet.stop(callbacksMs).then(() => this.#finish(this.#outcome));
  }

  /** Kills all workers: the next start recovers their leases, and the store survives any kill. */
  stopAtOnce(): void {
    this.#options.log.notice('killing all workers');
    this.#fleet.killAll();
    this.stop();
  }

  /** Replaces the workers by new ones with the configuration and the code on disk. */
  reload(report: Report = () => {}): Promise<ReloadOutcome> {
    return this.#reloads.request(report);
  }

  async #reload(report: Report): Promise<ReloadOutcome> {
    const { log, readConfig, onReloaded, drawIncarnation, service } = this.#options;
    const fleet = this.#fleet;
    await fleet.until(() => this.#phase !== 'starting');
    service.reloading();
    this.#history.begin(wallNow());
    const tell = (line: string): void => {
      log.notice(`reload: ${line}`);
      this.#history.line(line);
      report(line);
    };
    const before = this.#addresses();
    this.#reloading = new Reload({
      fleet,
      readConfig,
      makeGeneration: (config) => new Generation(config, this, drawIncarnation, fleet.current),
      prepare: (config) => this.#prepareDoor(config),
      onChanged: (config) => {
        this.#changeDoor(config);
        onReloaded(config);
      },
      report: tell,
    });
    const outcome = await this.#reloading.run();
    this.#reloading = null;
    this.#nextDoor?.close();
    this.#nextDoor = null;
    if (outcome.kind === 'reloaded') for (const line of movedListeners(before, this.#addresses())) tell(line);
    this.#history.end(outcome, fleet.current.number, wallNow());
    this.#metrics.metrics.count('dq_reloads_total', 1, outcome.kind);
    if (outcome.kind === 'refused') log.error(`reload: rejected, nothing has changed: ${outcome.reason}`);
    else log.notice('reloaded', { generation: fleet.current.number });
    service.ready(
      outcome.kind === 'refused'
        ? `the last reload was rejected: ${outcome.reason}`
        : `ready, ${this.url ?? ''}`,
    );
    return outcome;
  }

  /** Asks the next dq-store that is ready; rejects when it ends, or gives no answer. */
  async moveRegistry(url: string, step: 'copy' | 'undo'): Promise<RegistryMove> {
    const ready = () =>
      this.#fleet.current.workers('store').find(({ state, isInPlace }) => state === 'ready' && isInPlace);
    await this.#fleet.until(() => this.#phase === 'stopping' || ready() !== undefined);
    const store = ready();
    if (store === undefined) throw new Error('the daemon is being stopped');
    this.#moveCalls += 1;
    const call = this.#moveCalls;
    const answered = new Promise<RegistryMove>((resolve) => this.#onMoved.set(call, resolve));
    store.send({ kind: 'move_registry', call, url, step });
    const ended = store.ended.then(() => {
      throw new Error('dq-store has ended meanwhile');
    });
    const late = () => new Error('dq-store did not answer in time');
    const inTime = within(masterLimits.registryMoveMs, Promise.race([answered, ended]), late);
    return inTime.finally(() => this.#onMoved.delete(call));
  }

  reloadState(): ReloadState {
    return {
      ...this.#history.state(),
      waiting: this.#reloads.isWaiting,
      generation: this.generation,
      restart: this.#options.whyRestart(),
    };
  }

  reopenLogs(): void {
    for (const worker of this.#fleet.workers()) worker.send({ kind: 'reopen_logs' });
  }

  processes(): readonly ProcessInfo[] {
    return [this.#options.self(), ...this.#fleet.workers().map((worker) => worker.info())];
  }

  get state(): 'starting' | 'ready' | 'draining' {
    if (this.#phase === 'running') return 'ready';
    return this.#phase === 'starting' ? 'starting' : 'draining';
  }

  get generation(): number {
    return this.#fleet.current.number;
  }

  /** base of the HTTP API; null before a server listens */
  get url(): string | null {
    const { boundPort } = this.#fleet.current;
    const urls = this.#fleet.current.workers('server').flatMap(({ url }) => url ?? []);
    return urls.find((url) => portOf(url) === boundPort) ?? null;
  }

  /** address of the console, with its remark, whether its process runs or not; null: it is off */
  get console(): { readonly url: string; readonly note: string | null } | null {
    if (this.#door === null) return null;
    return { url: urlOf(this.#door.endpoint), note: this.#noteOf('server') };
  }

  /** addresses for clients of other queues, by protocol */
  get compat(): CompatAddresses {
    const { compatPorts, config } = this.#fleet.current;
    return compatAddresses(config['compat.host'], compatPorts);
  }

  /** one sentence of dq-store; null before it is ready */
  get durability(): string | null {
    return this.#fleet.workers('store').find((worker) => worker.note !== null)?.note ?? null;
  }

  /** What the notifiers of this instance do with `standby`; null: it is not set. */
  get leadership(): string | null {
    return this.#noteOf('notifier');
  }

  #noteOf(role: 'server' | 'notifier'): string | null {
    return this.#fleet.current.workers(role).find(({ note }) => note !== null)?.note ?? null;
  }

  get noDeliveries(): boolean {
    return this.#options.config.noDeliveries;
  }

  /** by the name of the listener */
  #addresses(): Addresses {
    const { url, console, compat } = this;
    return {
      ...(url === null ? {} : { 'the HTTP API': url }),
      ...(console === null ? {} : { 'the console': console.url }),
      ...compat,
    };
  }

  // SlotHost

  fork(slot: WorkerSlot): WorkerProcess {
    const { role, index, count } = slot;
    const fleet = this.#fleet;
    const generation = fleet.of(slot) ?? fleet.current;
    const config = generation.workerConfig;
    const worker = new WorkerProcess({
      title: titleOf(role, index, config),
      path: this.#options.workerPath(),
      fork: this.#options.fork,
      restarts: slot.restarts,
      generation: generation.number,
      init: {
        kind: 'init',
        role,
        index,
        count,
        restarts: slot.restarts,
        instance: this.#options.instance,
        incarnation: slot.nextIncarnation,
        config: role === 'server' ? { ...config, 'server.port': generation.askedPort } : config,
        socketPath: this.#options.storeSocket,
        adminToken: this.#options.adminToken,
        port: role === 'server' ? (generation.boundPort ?? undefined) : undefined,
        door: role === 'console' ? this.#door?.endpoint : undefined,
        takesOver: fleet.takesOver(slot),
        isOnTrial: this.#isOnTrial(slot),
        isRunning: this.#phase !== 'starting',
      },
      onMessage: (from, message) => this.#receive(slot, from, message),
      onEnd: (from, ending) => this.#ended(slot, from, ending),
    });
    this.#options.onFork(worker.pid, worker.title);
    if (this.#isOnTrial(slot)) this.#reloading?.forked();
    return worker;
  }

  died(slot: WorkerSlot, worker: WorkerProcess, ending: Ending): boolean {
    const sentence = `${worker.title} (pid ${worker.pid}) ${ending.reason}`;
    if (this.#isOnTrial(slot)) {
      this.#reloading?.failed(`${worker.title}: ${ending.refusal?.message ?? ending.reason}`);
      return false;
    }
    if (ending.wasReady && ending.code === 0) {
      // The worker itself got a SIGTERM: no failure.
      this.#options.log.notice(`${worker.title} (pid ${worker.pid}) drained after a signal of its own`);
      return true;
    }
    // The daemon works without a console.
    if (slot.role !== 'console' && this.#phase === 'starting' && ending.refusal !== null) {
      this.#giveUp(ending.refusal.exitCode, ending.refusal.message);
      return false;
    }
    return this.#restartsAfter(slot.role, sentence, ending.hung);
  }

  spawnFailed(slot: WorkerSlot, error: unknown): boolean {
    const sentence = `${titleOf(slot.role, slot.index, this.#configOf(slot))} cannot start: ${messageOf(error)}`;
    if (!this.#isOnTrial(slot)) return this.#restartsAfter(slot.role, sentence);
    this.#reloading?.failed(sentence);
    return false;
  }

  #configOf(slot: WorkerSlot): Config {
    return (this.#fleet.of(slot) ?? this.#fleet.current).config;
  }

  /** Whether the slot belongs to a reload that has not succeeded yet. */
  #isOnTrial(slot: WorkerSlot): boolean {
    return this.#fleet.next !== null && this.#fleet.of(slot) === this.#fleet.next;
  }

  /** Counts a death, which `sentence` describes; false = the daemon gives up. */
  #restartsAfter(role: RoleName, sentence: string, hangs = false): boolean {
    this.#options.log.error(sentence);
    this.#metrics.workerDied(role);
    const isStarting = this.#phase === 'starting';
    // Later dq-store may wait for its disk, and dq-upkeep reports that the store does not answer.
    const hung = hangs && (isStarting || role !== 'store');
    const noneAlive = !this.#fleet.current.workers(role).some((other) => other.state === 'ready');
    // After the start a worker that hangs may wait for a server that will be available again. Without a
    // console the daemon works.
    const hopeless = role !== 'console' && (isStarting || (noneAlive && !hung));
    const verdict = this.#crashLoop.died(role, monotonicNow(), hopeless, hung);
    const how = this.#crashLoop.how(role);
    if (verdict === 'restart_and_report') this.#relay.crashLoop(role, how, sentence);
    if (verdict !== 'give_up') return true;
    this.#giveUp(exitCrashLoop, `dq-${role} ${how}; the last time: ${sentence}`);
    return false;
  }

  #receive(slot: WorkerSlot, from: WorkerProcess, message: ToMaster): void {
    this.#relay.receive(from, message);
    this.#metrics.receive(from, message);
    this.#answerConsole(from, message);
    if (message.kind === 'registry_moved') this.#onMoved.get(message.call)?.(message);
    if (message.kind === 'unused' || message.kind === 'terminated')
      this.#endConsole(slot, from, message.kind);
    if (message.kind === 'taken') this.#door?.taken(from);
    if (message.kind === 'ready' || message.kind === 'took_over') this.#fleet.changed();
    if (message.kind !== 'ready') return;
    this.#crashLoop.ready(from.role);
    this.#options.log.notice('ready', {
      title: from.title,
      pid: from.pid,
      ...(from.url === null ? {} : { url: from.url }),
    });
    const generation = this.#fleet.of(slot);
    if (generation !== undefined && from.role === 'server' && from.url !== null)
      this.#noteServerPort(generation, from, portOf(from.url));
    if (portReaders.some((role) => role === from.role)) this.#sendPorts();
    if (from.role === 'console' && from.state === 'ready' && generation === this.#fleet.current)
      this.#useConsole(from);
    if (this.#phase === 'starting' && from.role === 'store' && !this.#othersStarted) {
      this.#othersStarted = true;
      this.#fleet.current.startOthers();
      this.#startWantedConsole();
    }
    this.#checkStart();
  }

  /** Servers of one daemon have one port. With port 0 they get two, when the first one dies after it was
   *  ready and before another one listens: the other one is killed, and its successor asks for the port that
   *  clients know. */
  #noteServerPort(generation: Generation, from: WorkerProcess, port: number): void {
    generation.boundPort ??= port;
    if (port === generation.boundPort) return;
    this.#options.log.error(`${from.title} listens on another port than the servers before it; killing it`);
    from.kill();
  }

  #answerConsole(from: WorkerProcess, message: ToMaster): void {
    if (message.kind === 'config')
      from.send({ kind: 'config', call: message.call, config: this.#options.describeConfig() });
    if (message.kind !== 'reload') return;
    // Never rejects; its outcome is in the history.
    if (message.begins) void this.reload();
    from.send({ kind: 'reload', call: message.call, reload: this.reloadState() });
  }

  /** Called when a worker is ready, or has died: the start does not wait for a console that failed. */
  #checkStart(): void {
    if (this.#phase !== 'starting' || !this.#othersStarted || !this.#fleet.current.isReady()) return;
    this.#phase = 'running';
    this.#options.onReady();
    this.#fleet.changed();
  }

  // The port of the console

  async #openDoor(config: Config): Promise<ConsoleDoor> {
    const { openDoor = openConsoleDoor } = this.#options;
    const door = await openDoor(config, () => {
      if (door === this.#door) this.#startWantedConsole();
    });
    return door;
  }

  /** Opens the port that a reload needs, beside the one in force. Returns why it cannot. */
  async #prepareDoor(config: Config): Promise<string | null> {
    const before = this.#fleet.current.config;
    const keeps =
      this.#door !== null &&
      before['console.host'] === config['console.host'] &&
      consolePortOf(before) === consolePortOf(config);
    if (keeps || !config['console.enabled']) return null;
    try {
      this.#nextDoor = await this.#openDoor(config);
      return null;
    } catch (error) {
      return messageOf(error);
    }
  }

  /** A new generation is in force. Where a console runs, pages are open: another one takes its place. */
  #changeDoor(config: Config): void {
    const isInUse = this.#fleet.workers('console').length > 0;
    this.#useConsole(null);
    if (this.#nextDoor !== null || !config['console.enabled']) {
      this.#door?.close();
      this.#door = this.#nextDoor;
      this.#nextDoor = null;
    }
    if (isInUse && config['console.enabled']) this.#fleet.current.wantConsole();
    else this.#startWantedConsole();
    this.#sendPorts();
  }

  #useConsole(worker: WorkerProcess | null): void {
    this.#consoleInUse = worker;
    this.#door?.passTo(worker);
  }

  #startWantedConsole(): void {
    if (this.#door?.isWanted === true && this.#othersStarted && this.#phase !== 'stopping')
      this.#fleet.current.wantConsole();
  }

  /** Connections that arrive while it ends wait for the next one. */
  #endConsole(slot: WorkerSlot, worker: WorkerProcess, cause: 'unused' | 'terminated'): void {
    if (worker !== this.#consoleInUse || worker.state !== 'ready') return;
    const [why, deadlineMs] = {
      unused: ['no page uses it', masterLimits.consoleRestMs] as const,
      terminated: ['it got SIGTERM', masterLimits.serverDrainMs] as const,
    }[cause];
    this.#options.log.notice(`${worker.title} ends: ${why}; the next connection starts it again`);
    this.#useConsole(null);
    slot.rest();
    worker.drain(deadlineMs, cause);
  }

  /** Called when a reader is ready, or a port has changed. In a reload there may be two ports of each;
   *  callbacks may go to none of them. */
  #sendPorts(): void {
    const consolePort = this.#door?.endpoint.port ?? null;
    for (const { boundPort, compatPorts, config } of this.#fleet.all())
      for (const worker of this.#fleet.workers(...portReaders)) {
        if (boundPort !== null) worker.send({ kind: 'listening', port: boundPort });
        if (consolePort !== null)
          worker.send({ kind: 'listening', port: consolePort, host: config['console.host'] });
        for (const { port } of compatPorts)
          worker.send({ kind: 'listening', port, host: config['compat.host'] });
      }
  }

  #ended(slot: WorkerSlot, worker: WorkerProcess, ending: Ending): void {
    this.#options.onExit(worker.pid);
    if (slot.role === 'notifier') this.#relay.notifierDied(worker.incarnation);
    if (slot.role === 'console') this.#relay.consoleDied(worker);
    if (worker === this.#consoleInUse) this.#consoleInUse = null;
    this.#door?.ended(worker);
    const leaves = this.#fleet.leaving.some((generation) => generation.slots.includes(slot));
    if (leaves && this.#phase !== 'stopping' && ending.code !== 0)
      this.#options.log.error(
        `${worker.title} (pid ${worker.pid}) of a previous generation ${ending.reason}`,
      );
    slot.exited(worker, ending);
    this.#startWantedConsole();
    this.#fleet.handOver();
    this.#fleet.changed();
    this.#checkStart();
  }

  #giveUp(exitCode: number, reason: string): void {
    this.#options.log.error(`giving up: ${reason}`);
    if (this.#phase === 'stopping') {
      // A role that cannot run cannot drain.
      this.stopAtOnce();
      return;
    }
    this.#outcome = { exitCode, reason };
    if (exitCode === exitCrashLoop) this.#relay.gaveUp(reason);
    this.stop();
  }
}

type Addresses = Readonly<Record<string, string>>;

/** A line for each listener that a reload has moved, opened or closed: its clients need another address. */
function movedListeners(before: Addresses, after: Addresses): readonly string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((name) => before[name] !== after[name])
    .map((name) => {
      const [old, next] = [before[name], after[name]];
      const opened = next === undefined ? [] : [`now on ${next}`];
      return `${name}: ${[...opened, ...(old === undefined ? [] : [`${old} is closed`])].join('; ')}`;
    });
}
