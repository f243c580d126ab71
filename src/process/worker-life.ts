// Runs one worker process: waits for its init message, composes and starts its role, and drains it at the
// end. Knows no role. A drain is asked for by the master, by SIGTERM, or by this process when its master is
// gone. Invariant: once a drain has begun the process exits: by itself, or by force after the deadline.

import { messageOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { version } from '../core/version.ts';
import { ticker } from '../runtime/second-ticker.ts';
import { StartImpossible } from '../runtime/service.ts';
import { monotonicNow, setTimeout } from '../runtime/time.ts';
import { afterRunning } from '../runtime/timeout.ts';
import { processLimits } from './limits.ts';
import type { DrainCause, Init, ToWorker } from './messages.ts';
import { type OwnProcess, ownProcess, type WorkerChannel } from './own-process.ts';
import { titleOf } from './role.ts';

/** A role with its connections, built by compose.ts from an init message. */
export interface Composed {
  /** Rejects if the role cannot start; the reason goes to the master. */
  start(): Promise<{ readonly url: string | null; readonly note: string | null }>;
  inFlight(): number;
  /** Called after start() if the init says takesOver, when the older process has exited. Rejects as
   *  start(). `warnings`: as in `took_over` */
  takeOver(): Promise<{ readonly note: string | null; readonly warnings: readonly string[] }>;
  /** Called before a drain without a master: waits at most deadlineMs for the workers that need this
   *  process. */
  awaitUsers(deadlineMs: number): Promise<void>;
  /** Finishes, releases, flushes, closes. Never rejects. `isLast`: as in Role */
  drain(deadlineMs: number, isLast: boolean): Promise<void>;
  /** Shortens the deadline of a running drain to deadlineMs from now. */
  shortenDrain(deadlineMs: number): void;
  /** The whole daemon ends: calls wait only briefly for an unavailable dq-store. */
  shortenWaits(): void;
  reopenLogs(): void;
  /** Called once a second. Must not throw. */
  beat(): void;
}

/** Signal handlers of the entry, installed before anything was imported. */
export interface SignalHooks {
  terminated: boolean;
  onTerm: () => void;
  onReopen: () => void;
}

/** `leaving`: aborted when a drain begins, so that a start that waits for something gives up. */
type Compose = (init: Init, channel: WorkerChannel, leaving: AbortSignal) => Promise<Composed>;

/** Resolves when the worker is ready; the process then lives until its drain ends. */
export async function runWorker(compose: Compose, hooks: SignalHooks, own = ownProcess()): Promise<void> {
  await new WorkerLife(compose, hooks, own).run();
}

class WorkerLife {
  readonly #compose: Compose;
  readonly #hooks: SignalHooks;
  readonly #own: OwnProcess;
  readonly #channel: WorkerChannel;
  /** aborted when the drain begins */
  readonly #leaving = new AbortController();
  #initialize: (init: Init) => void = () => {};
  readonly #initialized = new Promise<Init>((resolve) => {
    this.#initialize = resolve;
  });
  #allowTakeOver = (): void => {};
  readonly #takeOverAllowed = new Promise<void>((resolve) => {
    this.#allowTakeOver = resolve;
  });
  #title: string;
  /** null before the init message */
  #composed: Composed | null = null;
  /** the start or the takeover in progress: a drain waits for it */
  #beginning: Promise<void> = Promise.resolve();

  constructor(compose: Compose, hooks: SignalHooks, own: OwnProcess) {
    this.#compose = compose;
    this.#hooks = hooks;
    this.#own = own;
    this.#channel = own.channel;
    this.#title = own.title;
  }

  async run(): Promise<void> {
    const own = this.#own;
    own.onCrash((error) => this.#channel.send({ kind: 'crashed', message: messageOf(error) }));
    // Before `awake`: init and drain may arrive together.
    this.#channel.onMessage((message) => this.#receive(message));
    own.onMasterGone(() => this.#drain(processLimits.orphanDrainMs, 'orphaned'));
    this.#channel.send({ kind: 'awake' });

    const init = await this.#initialized;
    this.#title = titleOf(init.role, init.index, init.config);
    own.title = this.#title;
    if (this.#isDraining) return;
    await this.#begin(() => this.#start(init));
    if (init.takesOver) void this.#takeOver();
    this.#attachSignals(init);
    ticker().each(reporter(own, () => this.#composed?.inFlight() ?? 0));
    ticker().each(() => this.#composed?.beat());
    // Once more: on a busy machine Node opens its debugger some time after SIGUSR1.
    setTimeout(() => void own.closeDebugger(), processLimits.debuggerCloseMs).unref();
  }

  get #isDraining(): boolean {
    return this.#leaving.signal.aborted;
  }

  #receive(message: ToWorker): void {
    if (message.kind === 'init') this.#initialize(message);
    else if (message.kind === 'drain') this.#drain(message.deadlineMs, message.why);
    else if (message.kind === 'take_over') this.#allowTakeOver();
    else if (message.kind === 'reopen_logs') this.#composed?.reopenLogs();
  }

  async #start(init: Init): Promise<void> {
    this.#composed = await this.#compose(init, this.#channel, this.#leaving.signal);
    const { url, note } = await this.#composed.start();
    await this.#own.closeDebugger();
    if (!this.#isDraining) await this.#channel.sent({ kind: 'ready', version, url, note });
  }

  async #takeOver(): Promise<void> {
    await this.#takeOverAllowed;
    if (this.#isDraining) return;
    await this.#begin(async () => {
      const { note, warnings } = (await this.#composed?.takeOver()) ?? { note: null, warnings: [] };
      await this.#channel.sent({ kind: 'took_over', note, warnings });
    });
  }

  /** Runs a start or a takeover. A failure ends the process and its reason goes to the master. */
  #begin(work: () => Promise<void>): Promise<void> {
    this.#beginning = work().catch(async (error: unknown) => {
      // During a drain no process waits for it, and it holds no work.
      if (this.#isDraining) this.#own.exit(0);
      const exitCode = error instanceof StartImpossible ? error.exitCode : 1;
      await this.#channel.sent({ kind: 'failed', message: messageOf(error), exitCode });
      this.#own.exit(1);
    });
    return this.#beginning;
  }

  /** Called again it may shorten the deadline. */
  #drain(deadlineMs: number, cause: DrainCause | 'sigterm' | 'orphaned'): void {
    if (cause === 'stop' || cause === 'orphaned') this.#composed?.shortenWaits();
    if (this.#isDraining) {
      this.#composed?.shortenDrain(deadlineMs);
      return;
    }
    this.#leaving.abort();
    this.#own.title = `${this.#title} (draining)`;
    exitByForce(this.#own, this.#title, deadlineMs + limits.drainGraceMs);
    void this.#drainAndExit(deadlineMs, cause);
  }

  async #drainAndExit(deadlineMs: number, cause: DrainCause | 'sigterm' | 'orphaned'): Promise<void> {
    await this.#beginning;
    if (cause === 'orphaned') await this.#composed?.awaitUsers(deadlineMs);
    await this.#composed?.drain(deadlineMs, cause === 'stop');
    this.#own.exit(0);
  }

  #attachSignals({ role, config, door }: Init): void {
    this.#hooks.onReopen = () => this.#composed?.reopenLogs();
    // dq-store drains last, when the master says so: the other workers need it to finish.
    if (role === 'store') return;
    const drain = (): void => this.#drain(config.shutdownTimeout, 'sigterm');
    // The master passes connections until it knows. One of another build does not answer.
    this.#hooks.onTerm = () => {
      if (door === undefined || this.#isDraining) return drain();
      this.#channel.send({ kind: 'terminated' });
      afterRunning(processLimits.masterAnswerMs, () => {
        if (!this.#isDraining) drain();
      });
    };
    if (this.#hooks.terminated) this.#hooks.onTerm();
  }
}

function exitByForce(own: OwnProcess, title: string, afterMs: number): void {
  afterRunning(afterMs, () => {
    own.warn(`${title}: the drain did not end in time; ended by force`);
    own.exit(1);
  });
}

/** Reports the cost and the running work of a worker to the master. Returns the function for each tick. */
export function reporter(
  { channel, usage }: Pick<OwnProcess, 'channel' | 'usage'>,
  inFlight: () => number,
): () => void {
  let before = usage().cpuMs;
  let at = monotonicNow();
  return () => {
    const { cpuMs: used, rssBytes } = usage();
    const now = monotonicNow();
    const cpuMs = used - before;
    const cpuPercent = Math.round((cpuMs * 1_000) / (now - at)) / 10;
    before = used;
    at = now;
    channel.send({ kind: 'report', report: { inFlight: inFlight(), rssBytes, cpuPercent, cpuMs } });
  };
}
