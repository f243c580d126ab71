// Starts the workers, keeps them alive, ends them. The only one who decides that it is no use. Does no business of dq's own
// and opens no file of the store.

import type { Config } from '../config/options.ts';
import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { ProcessInfo, RoleName, ToMaster } from '../process/messages.ts';
import { titleOf } from '../process/title.ts';
import type { Log } from '../telemetry/log.ts';
import { CrashLoop } from './crash-loop.ts';
import { Generation } from './generation.ts';
import { Switchboard } from './switchboard.ts';
import type { Ending } from './worker-process.ts';
import { WorkerProcess } from './worker-process.ts';
import type { SlotHost, WorkerSlot } from './worker-slot.ts';

export interface SupervisorOptions {
  readonly config: Config;
  readonly log: Log;
  readonly instance: number;
  readonly storeSocket: string;
  readonly adminToken: string;
  readonly drawIncarnation: () => number;
  /** of dist/worker.js, asked at every fork: an upgrade switches a symbolic link under us */
  readonly workerPath: () => string;
  readonly onFork: (pid: number, title: string) => void;
  readonly onExit: (pid: number) => void;
  /** the master's own line of the process table */
  readonly self: () => ProcessInfo;
  /** every role is ready for the first time */
  readonly onReady: () => void;
}

export interface Outcome {
  readonly exitCode: number;
  /** why it ended, when nobody asked it to */
  readonly reason: string | null;
}

const exitCrashLoop = 70;

export class Supervisor implements SlotHost {
  readonly #options: SupervisorOptions;
  readonly #generation: Generation;
  readonly #switchboard: Switchboard;
  readonly #crashLoop = new CrashLoop();
  #phase: 'starting' | 'running' | 'stopping' = 'starting';
  #outcome: Outcome = { exitCode: 0, reason: null };
  /** the port that was bound for the first time; keeps a picked one over restarts */
  #boundPort: number | null = null;
  #othersStarted = false;
  #finish: (outcome: Outcome) => void = () => {};
  /** Resolves when no worker is left. */
  readonly ended = new Promise<Outcome>((resolve) => {
    this.#finish = resolve;
  });

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#generation = new Generation(options.config, this, options.drawIncarnation);
    this.#switchboard = new Switchboard(
      () => this.#generation,
      () => this.processes(),
      options.log,
    );
  }

  start(): void {
    this.#generation.startStore();
  }

  /** Everybody finishes, callbacks for up to callbacksMs. Calling it again changes nothing. */
  stop(callbacksMs: number = this.#options.config.shutdownTimeout): void {
    if (this.#phase === 'stopping') return;
    this.#phase = 'stopping';
    this.#options.log.notice('stopping');
    void this.#generation.drain(callbacksMs, 'stop').then(() => this.#finish(this.#outcome));
  }

  /** Nobody finishes: leases come back when the next start asks who lives, and the store is whole after any kill. */
  stopAtOnce(): void {
    this.#options.log.notice('ending everything at once');
    this.#generation.killAll();
    this.stop();
  }

  reopenLogs(): void {
    for (const worker of this.#generation.workers()) worker.send({ kind: 'reopen_logs' });
  }

  processes(): readonly ProcessInfo[] {
    return [this.#options.self(), ...this.#generation.workers().map((worker) => worker.info())];
  }

  get state(): 'starting' | 'ready' | 'draining' {
    if (this.#phase === 'running') return 'ready';
    return this.#phase === 'starting' ? 'starting' : 'draining';
  }

  /** base of the HTTP API; null before a server listens */
  get url(): string | null {
    return this.#generation.workers('server').find((worker) => worker.url !== null)?.url ?? null;
  }

  /** what the store says about its durability */
  get durability(): string | null {
    return this.#generation.workers('store')[0]?.note ?? null;
  }

  // SlotHost

  fork(slot: WorkerSlot): WorkerProcess {
    const { role, index, count } = slot;
    const { config } = this.#generation;
    const worker = new WorkerProcess({
      title: titleOf(role, index),
      path: this.#options.workerPath(),
      restarts: slot.restarts,
      init: {
        kind: 'init',
        role,
        index,
        count,
        restarts: slot.restarts,
        instance: this.#options.instance,
        incarnation: slot.nextIncarnation,
        config: role === 'server' ? { ...config, 'server.port': this.#portForServer() } : config,
        socketPath: this.#options.storeSocket,
        adminToken: this.#options.adminToken,
      },
      onMessage: (from, message) => this.#heard(from, message),
      onEnd: (from, ending) => this.#ended(slot, from, ending),
    });
    this.#options.onFork(worker.pid, worker.title);
    return worker;
  }

  died(slot: WorkerSlot, worker: WorkerProcess, ending: Ending): boolean {
    const sentence = `${worker.title} (pid ${worker.pid}) ${ending.reason}`;
    if (this.#phase === 'starting' && ending.refusal !== null) {
      this.#giveUp(ending.refusal.exitCode, ending.refusal.message);
      return false;
    }
    return this.#goesOnAfter(slot.role, sentence);
  }

  unborn(slot: WorkerSlot, error: unknown): boolean {
    return this.#goesOnAfter(
      slot.role,
      `${titleOf(slot.role, slot.index)} could not be started: ${reasonOf(error)}`,
    );
  }

  /** A death, told by `sentence`; false = it was one too many. */
  #goesOnAfter(role: RoleName, sentence: string): boolean {
    this.#options.log.error(sentence);
    const noneAlive = !this.#generation.workers(role).some((other) => other.state === 'ready');
    const hopeless = this.#phase === 'starting' || noneAlive;
    const verdict = this.#crashLoop.died(role, performance.now(), hopeless);
    if (verdict === 'restart_and_tell') this.#switchboard.crashLoop(role, sentence);
    if (verdict !== 'give_up') return true;
    this.#giveUp(
      exitCrashLoop,
      `dq-${role} died ${limits.crashLoopFailures} times within ${limits.crashLoopWindowMs / 1000} s; the last time: ${sentence}`,
    );
    return false;
  }

  #heard(from: WorkerProcess, message: ToMaster): void {
    this.#switchboard.heard(from, message);
    if (message.kind !== 'ready') return;
    this.#options.log.notice('ready', {
      title: from.title,
      pid: from.pid,
      ...(from.url === null ? {} : { url: from.url }),
    });
    if (from.role === 'server' && from.url !== null) this.#boundPort = Number(new URL(from.url).port);
    this.#tellPort(from);
    if (this.#phase !== 'starting') return;
    if (from.role === 'store' && !this.#othersStarted) {
      this.#othersStarted = true;
      this.#generation.startOthers();
    }
    if (this.#othersStarted && roles.every((role) => this.#generation.isReady(role))) {
      this.#phase = 'running';
      this.#options.onReady();
    }
  }

  /** Whoever of them is ready later, the server or the notifier: before that nobody in it listens. */
  #tellPort({ role }: WorkerProcess): void {
    if (this.#boundPort === null || (role !== 'server' && role !== 'notifier')) return;
    for (const worker of this.#generation.workers('notifier'))
      worker.send({ kind: 'listening', port: this.#boundPort });
  }

  #ended(slot: WorkerSlot, worker: WorkerProcess, ending: Ending): void {
    this.#options.onExit(worker.pid);
    if (slot.role === 'notifier') this.#switchboard.notifierDied(worker.incarnation);
    slot.emptied(worker, ending);
  }

  #giveUp(exitCode: number, reason: string): void {
    this.#options.log.error(`giving up: ${reason}`);
    if (this.#phase === 'stopping') {
      // What cannot be kept alive cannot be waited for.
      this.stopAtOnce();
      return;
    }
    this.#outcome = { exitCode, reason };
    this.stop();
  }

  /** Servers share one listening socket only while they ask for the same port, 0 included: a server that joins living ones
   *  asks as they did; the first after all were gone asks for the port that was bound. */
  #portForServer(): number {
    const alive = this.#generation.workers('server')[0];
    return (
      alive?.birth.init.config['server.port'] ?? this.#boundPort ?? this.#generation.config['server.port']
    );
  }
}

const roles: readonly RoleName[] = ['store', 'upkeep', 'timer', 'notifier', 'server'];
