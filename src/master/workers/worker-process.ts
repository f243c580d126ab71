// Controls one worker process from fork to exit: sends and receives its messages, kills it when a deadline
// passes. It restarts nothing: the supervisor decides that, and what the messages mean.

import { statSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import type { Config } from '../../config/options.ts';
import { limits } from '../../core/limits.ts';
import type {
  DrainCause,
  Init,
  ProcessInfo,
  RoleName,
  ToMaster,
  ToWorker,
  WorkerReport,
} from '../../process/messages.ts';
import { joinedRoles } from '../../process/role.ts';
import { monotonicNow, wallNow } from '../../runtime/time.ts';
import { afterRunning, type RunningTimer } from '../../runtime/timeout.ts';
import { masterLimits } from '../limits.ts';
import { type Child, clusterFork, type Fork } from './fork.ts';

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly wasReady: boolean;
  /** how long it had been ready, ms; 0 = never */
  readonly readyMs: number;
  /** it was killed because it was not ready in time */
  readonly hung: boolean;
  /** one sentence: its own report, or its exit code or signal */
  readonly reason: string;
  /** its report that it cannot start, and the exit code of the daemon for that; null = none */
  readonly refusal: { readonly message: string; readonly exitCode: number } | null;
}

interface SpawnOptions {
  readonly title: string;
  readonly init: Init;
  /** dist/worker.js */
  readonly path: string;
  readonly restarts: number;
  /** Generation.number */
  readonly generation: number;
  readonly onMessage: (worker: WorkerProcess, message: ToMaster) => void;
  /** called when the process has exited, not at a mere disconnect */
  readonly onEnd: (worker: WorkerProcess, ending: Ending) => void;
  /** default: by node:cluster */
  readonly fork?: Fork | undefined;
}

export class WorkerProcess {
  readonly #options: SpawnOptions;
  readonly startedAt = wallNow();
  readonly pid: number;
  state: ProcessInfo['state'] = 'starting';
  url: string | null = null;
  /** one sentence about itself: dq-store reports its durability; a later one replaces that of the start */
  note: string | null = null;
  /** of its takeover in a reload: parts of the configuration that are not in force */
  warnings: readonly string[] = [];
  #resolveEnded = (): void => {};
  /** resolves after onEnd */
  readonly ended = new Promise<void>((resolve) => {
    this.#resolveEnded = resolve;
  });
  readonly #child: Child;
  #version = '';
  #report: WorkerReport = { inFlight: 0, rssBytes: 0, cpuPercent: 0, cpuMs: 0 };
  #readySince: number | null = null;
  #hung = false;
  #refusal: Ending['refusal'] = null;
  #lastReport: string | null = null;
  #killTimer: RunningTimer | null = null;
  readonly #silence: WorkerSilence;
  #hasTakenOver: 'no' | 'asked' | 'yes';
  /** messages that wait until it is awake; null afterwards */
  #outbox: ToWorker[] | null;

  constructor(options: SpawnOptions) {
    this.#options = options;
    this.#silence = new WorkerSilence(options.init.role);
    const { title, path, init, fork = clusterFork } = options;
    this.#child = fork({
      title,
      path,
      init,
      onMessage: (message) => this.#receive(message),
      onError: (error) => {
        this.#lastReport ??= error.message;
      },
      onExit: (code, signal) => this.#exited(code, signal),
    });
    this.pid = this.#child.pid;
    this.#outbox = [options.init];
    this.#hasTakenOver = options.init.takesOver ? 'no' : 'yes';
    this.#killLate('was not ready');
  }

  get role(): RoleName {
    return this.#options.init.role;
  }

  get title(): string {
    return this.#options.title;
  }

  get incarnation(): number {
    return this.#options.init.incarnation;
  }

  /** Whether it does all work of its role: no older process is left, or it has taken over. */
  get isInPlace(): boolean {
    return this.#hasTakenOver === 'yes';
  }

  /** Of a console that is ready. */
  pass(connection: Socket): void {
    this.#child.pass(connection);
  }

  /** The older process has exited. Calling it again changes nothing. */
  takeOver(): void {
    if (this.#hasTakenOver !== 'no') return;
    this.#hasTakenOver = 'asked';
    this.send({ kind: 'take_over' });
    if (this.state === 'ready') this.#killLate('did not take over');
  }

  send(message: ToWorker): void {
    if (this.#outbox !== null) this.#outbox.push(message);
    else this.#child.send(message);
  }

  /** Sends `drain`, and kills the worker 2 × limits.drainGraceMs after the deadline. Called again it may
   *  shorten the time. */
  drain(deadlineMs: number, why: DrainCause): void {
    this.state = 'draining';
    this.send({ kind: 'drain', deadlineMs, why });
    this.#killAfter(deadlineMs + 2 * limits.drainGraceMs, 'did not end in time');
  }

  kill(): void {
    this.#child.kill();
  }

  info(): ProcessInfo {
    const { inFlight, rssBytes, cpuPercent } = this.#report;
    const alsoRuns = joinedRoles(this.role, this.#options.init.config);
    return {
      title: this.title,
      role: this.role,
      ...(alsoRuns.length === 0 ? {} : { alsoRuns }),
      pid: this.pid,
      version: this.#version,
      generation: this.#options.generation,
      state: this.state,
      startedAt: this.startedAt,
      restarts: this.#options.restarts,
      inFlight,
      rssBytes,
      cpuPercent,
    };
  }

  /** Called once a second: kills a silent worker. Before it is ready and in place a deadline applies instead:
   *  a dq-store that takes over may read its whole file without sending a message. */
  tick(): void {
    if (this.state === 'starting' || !this.isInPlace) this.#silence.end();
    else if (this.#silence.tick()) {
      this.#lastReport = `has sent nothing for ${silentTicksOf(this.role)} s`;
      this.kill();
    }
  }

  #receive(message: ToMaster): void {
    this.#silence.end();
    switch (message.kind) {
      case 'awake': {
        const waiting = this.#outbox ?? [];
        this.#outbox = null;
        for (const held of waiting) this.send(held);
        return;
      }
      case 'ready':
        if (this.state === 'starting') {
          this.state = 'ready';
          this.#killTimer?.clear();
          if (this.#hasTakenOver === 'asked') this.#killLate('did not take over');
        }
        this.#readySince = monotonicNow();
        this.#version = message.version;
        this.url = message.url;
        this.note ??= message.note;
        break;
      case 'took_over':
        this.#hasTakenOver = 'yes';
        if (this.state === 'ready') this.#killTimer?.clear();
        this.note ??= message.note;
        this.warnings = message.warnings ?? [];
        break;
      case 'note':
        this.note = message.note;
        break;
      case 'report':
        this.#report = message.report;
        break;
      case 'failed':
        this.#refusal = { message: message.message, exitCode: message.exitCode };
        break;
      case 'crashed':
        this.#lastReport = message.message;
        break;
      default:
    }
    this.#options.onMessage(this, message);
  }

  #exited(code: number | null, signal: NodeJS.Signals | null): void {
    this.#killTimer?.clear();
    const how = signal === null ? `exited with code ${code}` : `was ended by ${signal}`;
    const report = this.#refusal?.message ?? this.#lastReport;
    this.#options.onEnd(this, {
      code,
      signal,
      wasReady: this.#readySince !== null,
      readyMs: since(this.#readySince),
      hung: this.#hung,
      reason: report === null ? how : `${how}: ${report}`,
      refusal: this.#refusal,
    });
    this.#resolveEnded();
  }

  #killLate(what: string): void {
    const { role, config } = this.#options.init;
    const readyMs = readyMsOf(role, config);
    this.#killAfter(readyMs, `${what} within ${Math.round(readyMs / 1000)} s`);
  }

  #killAfter(ms: number, reason: string): void {
    this.#killTimer?.clear();
    this.#killTimer = afterRunning(ms, () => {
      this.#hung = this.state === 'starting';
      this.#lastReport = reason;
      this.kill();
    });
  }
}

/** ms; 0 = never */
function since(at: number | null): number {
  return at === null ? 0 : monotonicNow() - at;
}

/** Longer for dq-store: one wait for a slow disk blocks it. */
export function silentTicksOf(role: RoleName): number {
  return role === 'store' ? masterLimits.silentStoreTicks : masterLimits.silentTicks;
}

/** Detects a worker that sends nothing for `silentTicks` ticks: its main loop or process is blocked. Counts
 *  ticks of the master, not the clock: while the master does not run (SIGSTOP, a suspended machine, a paused
 *  VM) no tick passes, and messages that arrived meanwhile are read before the second tick. Invariant: a
 *  worker that sends its report each second is never silent. */
export class WorkerSilence {
  readonly #maxTicks: number;
  #ticks = 0;

  constructor(role: RoleName) {
    this.#maxTicks = silentTicksOf(role);
  }

  /** The worker has sent something, or is not expected to send yet. */
  end(): void {
    this.#ticks = 0;
  }

  /** Once a second. true = the worker has been silent for too long; once per silence. */
  tick(): boolean {
    this.#ticks += 1;
    return this.#ticks === this.#maxTicks;
  }
}

/** What decides how long a worker may take until it is ready; then the master kills it. */
type Paths = Pick<Config, 'dataDir' | 'mysql.url'>;

/** ms. Reads file sizes only. The time of dq-store grows with jobs.db: after an unclean end it reads the
 *  whole file without sending a message, and with a fixed time a large store could never be opened again. The
 *  other roles read all topics first. */
export function readyMsOf(role: RoleName, config: Paths): number {
  const { dataDir } = config;
  if (role === 'console') return masterLimits.consoleReadyMs;
  if (role !== 'store')
    return (
      masterLimits.workerReadyMs + Math.ceil(registryBytes(config) / masterLimits.registryReadBytesPerMs)
    );
  const bytes = sizeOf(join(dataDir, 'jobs.db')) + sizeOf(join(dataDir, 'jobs.db-wal'));
  return masterLimits.storeReadyMs + Math.ceil(bytes / masterLimits.storeCheckBytesPerMs);
}

/** The copy shows the size of a registry in MySQL; at a first start there is none, and an old one may be much
 *  smaller. */
function registryBytes({ dataDir, 'mysql.url': mysql }: Paths): number {
  const copy = sizeOf(join(dataDir, 'registry-copy.json'));
  const inMysql = mysql === '' ? copy : Math.max(copy, masterLimits.registryInMysqlBytes);
  return sizeOf(join(dataDir, 'registry.db')) + inMysql;
}

function sizeOf(path: string): number {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    // dq-store reports an unreadable directory.
    return 0;
  }
}
