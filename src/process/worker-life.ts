// The life of a worker: told who it is, composed, started, ready, and one day drained: by the master, by SIGTERM, or by
// itself when its master is gone. Knows no role. Invariant: once a drain has begun the process ends, by a hard deadline if
// not by itself.

import cluster from 'node:cluster';
import { writeSync } from 'node:fs';
import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { version } from '../core/version.ts';
import { closeDebugger } from '../runtime/close-debugger.ts';
import { SecondTicker } from '../runtime/second-ticker.ts';
import { StartImpossible } from '../runtime/start-impossible.ts';
import { processLimits } from './limits.ts';
import { MasterChannel } from './master-channel.ts';
import type { RoleName, ToWorker } from './messages.ts';
import { titleOf } from './process-title.ts';
import { reporter } from './report.ts';
import { startWatchdog, watchdogTicksOf } from './watchdog.ts';

export type Init = Extract<ToWorker, { kind: 'init' }>;

/** What compose.ts makes of an init message. */
export interface Composed {
  /** Rejects when the role cannot start; the reason goes to the master. */
  start(): Promise<{ readonly url: string | null; readonly note: string | null }>;
  inFlight(): number;
  /** After start() of an init that takesOver, when the older process has exited. Answers the note; rejects as start(). */
  takeOver(): Promise<string | null>;
  /** of a drain whose master is gone: waits for those who need this process, at most deadlineMs */
  awaitUsers(deadlineMs: number): Promise<void>;
  /** Finishes, hands back, flushes, closes. Never rejects. */
  drain(deadlineMs: number): Promise<void>;
  /** A drain that runs has this much time now, if it had more. */
  hurry(deadlineMs: number): void;
  /** The whole daemon ends: what is away now is not waited for. */
  stopping(): void;
  reopenLogs(): void;
  /** Once a second. Must not throw. */
  beat(): void;
}

/** Filled in by the entry before anything was imported. */
export interface SignalHooks {
  terminated: boolean;
  onTerm: () => void;
  onReopen: () => void;
}

/** `leaving`: aborted when a drain begins; a start that waits for something gives up. */
export type Compose = (init: Init, channel: MasterChannel, leaving: AbortSignal) => Promise<Composed>;

export async function runWorker(compose: Compose, hooks: SignalHooks): Promise<void> {
  const channel = new MasterChannel();
  surviveClosedOutput();
  process.on('uncaughtExceptionMonitor', (error) =>
    channel.send({ kind: 'crashed', message: reasonOf(error) }),
  );

  let title = process.title;
  let composed: Composed | null = null;
  let ending = false;
  const leaving = new AbortController();
  /** a start or a taking over: a drain lets it finish, unless it waits for something */
  let beginning: Promise<void> = Promise.resolve();
  const end = (deadlineMs: number, why: 'stop' | 'reload' | 'alone' | 'orphaned'): void => {
    if (why === 'stop' || why === 'orphaned') composed?.stopping();
    if (ending) {
      composed?.hurry(deadlineMs);
      return;
    }
    ending = true;
    leaving.abort();
    process.title = `${title} (draining)`;
    endByForce(title, deadlineMs + limits.drainGraceMs);
    void (async () => {
      await beginning;
      if (why === 'orphaned') await composed?.awaitUsers(deadlineMs);
      await composed?.drain(deadlineMs);
      process.exit(0);
    })();
  };
  let takeOver = (): void => {};
  const mayTakeOver = new Promise<void>((resolve) => {
    takeOver = resolve;
  });
  // One listener from the start: init and drain may arrive in one piece.
  const told = new Promise<Init>((resolve) => {
    channel.onMessage((message) => {
      if (message.kind === 'init') resolve(message);
      else if (message.kind === 'drain') end(message.deadlineMs, message.why);
      else if (message.kind === 'take_over') takeOver();
      else if (message.kind === 'reopen_logs') composed?.reopenLogs();
    });
  });
  const pulse = new SecondTicker();
  onMasterGone(pulse, () => end(processLimits.orphanDrainMs, 'orphaned'));

  channel.send({ kind: 'awake' });
  const init = await told;
  title = titleOf(init.role, init.index);
  process.title = title;
  // Told to leave before it had begun.
  if (ending) return;
  const orFail = (begin: () => Promise<void>) => beginOrFail(channel, leaving.signal, begin);
  beginning = orFail(async () => {
    composed = await compose(init, channel, leaving.signal);
    const { url, note } = await composed.start();
    await closeDebugger();
    if (!ending) await channel.sent({ kind: 'ready', version, url, note });
  });
  await beginning;
  if (init.takesOver)
    void mayTakeOver.then(async () => {
      if (ending) return;
      beginning = orFail(async () => {
        const note = (await composed?.takeOver()) ?? null;
        await channel.sent({ kind: 'took_over', note });
      });
      await beginning;
      watchSoon(title, init.role, pulse);
    });
  else watchSoon(title, init.role, pulse);

  hooks.onReopen = () => composed?.reopenLogs();
  // dq-store is the last to leave, whoever asks: the others could not finish without it. The master tells it when.
  if (init.role !== 'store') {
    hooks.onTerm = () => end(init.config.shutdownTimeout, 'alone');
    if (hooks.terminated) hooks.onTerm();
  }
  pulse.each(reporter(channel, () => composed?.inFlight() ?? 0));
  pulse.each(() => composed?.beat());
  // Once more: on a busy machine Node opens it some time after the signal.
  setTimeout(() => void closeDebugger(), processLimits.watchdogStartMs).unref();
}

/** Until then the master watches: it ends a worker that reports nothing, or that takes too long to take over. */
function watchSoon(title: string, role: RoleName, pulse: SecondTicker): void {
  setTimeout(() => {
    const lost = (error: unknown) => process.stderr.write(`${title}: no watchdog: ${reasonOf(error)}\n`);
    try {
      pulse.each(startWatchdog(title, watchdogTicksOf(role), lost));
    } catch (error) {
      // No memory for a thread: the process is worth more than its watchdog.
      lost(error);
    }
  }, processLimits.watchdogStartMs).unref();
}

/** What cannot begin ends the process, with its reason. */
async function beginOrFail(
  channel: MasterChannel,
  leaving: AbortSignal,
  begin: () => Promise<void>,
): Promise<void> {
  try {
    await begin();
  } catch (error) {
    // Nobody waits for it any more, and it has nothing in hand.
    if (leaving.aborted) process.exit(0);
    const exitCode = error instanceof StartImpossible ? error.exitCode : 1;
    await channel.sent({ kind: 'failed', message: reasonOf(error), exitCode });
    process.exit(1);
  }
}

/** node:cluster would end a worker without its master at once; this one finishes first. */
function onMasterGone(pulse: SecondTicker, listener: () => void): void {
  if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true;
  process.on('disconnect', listener);
  const master = process.ppid;
  // A broken channel alone is not always noticed.
  pulse.each(() => {
    if (process.ppid !== master || !process.connected) listener();
  });
}

function endByForce(title: string, afterMs: number): void {
  setTimeout(() => {
    try {
      writeSync(2, `${title}: the drain did not end in time; ended by force\n`);
    } catch {
      // Nobody reads; the exit code says it too.
    }
    process.exit(1);
  }, afterMs).unref();
}

/** A daemon does not live by the terminal it was started from. */
function surviveClosedOutput(): void {
  process.stdout.on('error', () => {});
  process.stderr.on('error', () => {});
}
