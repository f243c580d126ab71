// One life of one worker process, from fork to exit, as the master sees it. Knows the channel and the process, and decides
// nothing: who restarts, and what its messages mean, is the supervisor's.

import type { Worker } from 'node:cluster';
import cluster from 'node:cluster';
import { limits } from '../../core/limits.ts';
import type { ProcessInfo, RoleName, ToMaster, ToWorker, WorkerReport } from '../../process/messages.ts';
import { readyMsOf } from './ready-time.ts';
import { silentTicksOf, WorkerSilence } from './worker-silence.ts';

// A connection that was handed by the master to a worker that dies hangs for ever; shared listening sockets have no hand-over.
cluster.schedulingPolicy = cluster.SCHED_NONE;

export type Init = Extract<ToWorker, { kind: 'init' }>;

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly wasReady: boolean;
  /** how long it had been ready; 0 = never was */
  readonly readyMs: number;
  /** it was ended because it was not ready in time */
  readonly hung: boolean;
  /** one sentence: what it said itself, or how it ended */
  readonly reason: string;
  /** it said that it cannot start, and what the daemon should exit with for that */
  readonly refusal: { readonly message: string; readonly exitCode: number } | null;
}

export interface SpawnOptions {
  readonly title: string;
  readonly init: Init;
  /** dist/worker.js */
  readonly path: string;
  readonly restarts: number;
  /** Generation.number */
  readonly generation: number;
  readonly onMessage: (worker: WorkerProcess, message: ToMaster) => void;
  /** the process has exited: never called for a mere disconnect */
  readonly onEnd: (worker: WorkerProcess, ending: Ending) => void;
}

export class WorkerProcess {
  readonly birth: SpawnOptions;
  readonly startedAt = Date.now();
  readonly pid: number;
  state: ProcessInfo['state'] = 'starting';
  url: string | null = null;
  /** what it has to say about itself: dq-store its durability; a later word of its own counts more than that of its start */
  note: string | null = null;
  /** resolves after onEnd */
  readonly ended: Promise<void>;
  readonly #worker: Worker;
  #version = '';
  #report: WorkerReport = { inFlight: 0, rssBytes: 0, cpuPercent: 0, cpuMs: 0 };
  #readySince: number | null = null;
  #hung = false;
  #refusal: Ending['refusal'] = null;
  #lastWords: string | null = null;
  #killTimer: NodeJS.Timeout | undefined;
  readonly #silence: WorkerSilence;
  #hasTakenOver: 'no' | 'asked' | 'yes';
  /** what waits for it to be awake; null once it is */
  #outbox: ToWorker[] | null;

  constructor(birth: SpawnOptions) {
    this.birth = birth;
    this.#silence = new WorkerSilence(birth.init.role);
    cluster.setupPrimary({
      exec: birth.path,
      // Seen in `ps` until the worker has given itself its title, and room for it: a title is cut to the length of this line.
      args: [birth.title],
      execArgv: [],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#worker = cluster.fork(environment());
    this.pid = this.#worker.process.pid ?? 0;
    this.#worker.on('message', (message: ToMaster) => this.#heard(message));
    // Sending to a process that is going fails with an event; its exit is what counts.
    this.#worker.on('error', (error) => {
      this.#lastWords ??= error.message;
    });
    this.#outbox = [birth.init];
    this.#hasTakenOver = birth.init.takesOver ? 'no' : 'yes';
    this.ended = this.#watch();
    this.#killLate('was not ready');
  }

  get role(): RoleName {
    return this.birth.init.role;
  }

  get title(): string {
    return this.birth.title;
  }

  get incarnation(): number {
    return this.birth.init.incarnation;
  }

  /** No older process of its role is left in front of it, and it does all that its role does. */
  get isInPlace(): boolean {
    return this.#hasTakenOver === 'yes';
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
    else if (this.#worker.isConnected()) this.#worker.process.send?.(message, undefined, undefined, () => {});
  }

  /** Asks it to end, and ends it by force some time after the deadline. Called again it may shorten the time. */
  drain(deadlineMs: number, why: 'stop' | 'reload'): void {
    this.state = 'draining';
    this.send({ kind: 'drain', deadlineMs, why });
    this.#killAfter(deadlineMs + 2 * limits.drainGraceMs, 'did not end in time');
  }

  kill(): void {
    // Not worker.kill(): it waits for a disconnect, which a stuck process never does.
    this.#worker.process.kill('SIGKILL');
  }

  info(): ProcessInfo {
    const { inFlight, rssBytes, cpuPercent } = this.#report;
    return {
      title: this.title,
      role: this.role,
      pid: this.pid,
      version: this.#version,
      generation: this.birth.generation,
      state: this.state,
      startedAt: this.startedAt,
      restarts: this.birth.restarts,
      inFlight,
      rssBytes,
      cpuPercent,
    };
  }

  /** Once a second. Ends a worker that sends nothing any more. Until it is ready and in place a deadline watches over it: dq-store
   *  that takes over may have to read its whole file in one piece. */
  tick(): void {
    if (this.state === 'starting' || !this.isInPlace) this.#silence.end();
    else if (this.#silence.tick()) {
      this.#lastWords = `has sent nothing for ${silentTicksOf(this.role)} s`;
      this.kill();
    }
  }

  #heard(message: ToMaster): void {
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
          clearTimeout(this.#killTimer);
          if (this.#hasTakenOver === 'asked') this.#killLate('did not take over');
        }
        this.#readySince = performance.now();
        this.#version = message.version;
        this.url = message.url;
        this.note ??= message.note;
        break;
      case 'took_over':
        this.#hasTakenOver = 'yes';
        if (this.state === 'ready') clearTimeout(this.#killTimer);
        this.note ??= message.note;
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
        this.#lastWords = message.message;
        break;
      default:
    }
    this.birth.onMessage(this, message);
  }

  async #watch(): Promise<void> {
    const { process: child } = this.#worker;
    const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
      child.once('exit', (...ending) => resolve(ending));
      // The fork itself failed: no process, no memory.
      child.once('error', (error) => {
        this.#lastWords = error.message;
        if (child.pid === undefined) resolve([null, null]);
      });
    });
    // Its last messages may still be in the channel.
    if (child.connected) {
      await new Promise<void>((resolve) => {
        child.once('disconnect', resolve);
        setTimeout(resolve, 500).unref();
      });
    }
    clearTimeout(this.#killTimer);
    const how = signal === null ? `exited with code ${code}` : `was ended by ${signal}`;
    const said = this.#refusal?.message ?? this.#lastWords;
    this.birth.onEnd(this, {
      code,
      signal,
      wasReady: this.#readySince !== null,
      readyMs: since(this.#readySince),
      hung: this.#hung,
      reason: said === null ? how : `${how}: ${said}`,
      refusal: this.#refusal,
    });
  }

  #killLate(what: string): void {
    const { role, config } = this.birth.init;
    const readyMs = readyMsOf(role, config);
    this.#killAfter(readyMs, `${what} within ${Math.round(readyMs / 1000)} s`);
  }

  #killAfter(ms: number, reason: string): void {
    clearTimeout(this.#killTimer);
    this.#killTimer = setTimeout(() => {
      this.#hung = this.state === 'starting';
      this.#lastWords = reason;
      this.kill();
    }, ms);
  }
}

/** ms; 0 = not yet */
function since(at: number | null): number {
  return at === null ? 0 : performance.now() - at;
}

/** What workers inherit. Configuration reaches them with their first message and not by /proc/PID/environ. */
function environment(): Record<string, string | undefined> {
  const ours = Object.keys(process.env).filter((name) => /^DQ_(?!FAIL$|TEST_)/.test(name));
  return {
    ...Object.fromEntries(ours.map((name) => [name, undefined])),
    // Options meant for the master's Node (a debugger, a loader) are not meant for seven processes.
    NODE_OPTIONS: undefined,
    // Half of them run look-ups of host names (notifierLimits.lookupThreads); files need threads, too.
    UV_THREADPOOL_SIZE: '16',
  };
}
