// The life of a worker: told who it is, composed, started, ready, and one day drained: by the master, by SIGTERM, or by
// itself when its master is gone. Knows no role. Invariant: once a drain has begun the process ends, by a hard deadline if
// not by itself.

import cluster from 'node:cluster';
import { writeSync } from 'node:fs';
import { reasonOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { version } from '../core/version.ts';
import { MasterChannel } from './master-channel.ts';
import type { ToWorker } from './messages.ts';
import { Pulse } from './pulse.ts';
import { reporter } from './report.ts';
import { StartImpossible } from './start-impossible.ts';
import { titleOf } from './title.ts';
import { startWatchdog } from './watchdog.ts';

export type Init = Extract<ToWorker, { kind: 'init' }>;

/** What compose.ts makes of an init message. */
export interface Composed {
  /** Rejects when the role cannot start; the reason goes to the master. */
  start(): Promise<{ readonly url: string | null; readonly note: string | null }>;
  inFlight(): number;
  /** of a drain whose master is gone: waits for those who need this process, at most deadlineMs */
  awaitUsers(deadlineMs: number): Promise<void>;
  /** Finishes, hands back, flushes, closes. Never rejects. */
  drain(deadlineMs: number): Promise<void>;
  reopenLogs(): void;
}

/** Filled in by the entry before anything was imported. */
export interface SignalHooks {
  terminated: boolean;
  onTerm: () => void;
  onReopen: () => void;
}

export async function runWorker(
  compose: (init: Init, channel: MasterChannel) => Promise<Composed>,
  hooks: SignalHooks,
): Promise<void> {
  const channel = new MasterChannel();
  surviveClosedOutput();
  process.on('uncaughtExceptionMonitor', (error) =>
    channel.send({ kind: 'crashed', message: reasonOf(error) }),
  );

  let title = process.title;
  let composed: Composed | null = null;
  let ending = false;
  let started: Promise<void> = Promise.resolve();
  const end = (deadlineMs: number, orphaned: boolean): void => {
    if (ending) return;
    ending = true;
    process.title = `${title} (draining)`;
    endByForce(title, deadlineMs + limits.drainGraceMs);
    void (async () => {
      await started;
      if (orphaned) await composed?.awaitUsers(deadlineMs);
      await composed?.drain(deadlineMs);
      process.exit(0);
    })();
  };
  // One listener from the start: init and drain may arrive in one piece.
  const told = new Promise<Init>((resolve) => {
    channel.onMessage((message) => {
      if (message.kind === 'init') resolve(message);
      else if (message.kind === 'drain') end(message.deadlineMs, false);
      else if (message.kind === 'reopen_logs') composed?.reopenLogs();
    });
  });
  const pulse = new Pulse();
  onMasterGone(pulse, () => end(limits.orphanDrainMs, true));

  channel.send({ kind: 'awake' });
  const init = await told;
  title = titleOf(init.role, init.index);
  process.title = title;
  // Told to leave before it had begun.
  if (ending) return;
  started = (async () => {
    try {
      composed = await compose(init, channel);
      const { url, note } = await composed.start();
      if (!ending) await channel.sent({ kind: 'ready', version, url, note });
    } catch (error) {
      const exitCode = error instanceof StartImpossible ? error.exitCode : 1;
      await channel.sent({ kind: 'failed', message: reasonOf(error), exitCode });
      process.exit(1);
    }
  })();
  await started;

  hooks.onReopen = () => composed?.reopenLogs();
  // dq-store is the last to leave, whoever asks: the others could not finish without it. The master tells it when.
  if (init.role !== 'store') {
    hooks.onTerm = () => end(init.config.shutdownTimeout, false);
    if (hooks.terminated) hooks.onTerm();
  }
  pulse.each(reporter(channel, () => composed?.inFlight() ?? 0));
  const ticks = init.role === 'store' ? limits.watchdogStoreTicks : limits.watchdogTicks;
  setTimeout(() => {
    const lost = (error: unknown) => process.stderr.write(`${title}: no watchdog: ${reasonOf(error)}\n`);
    pulse.each(startWatchdog(title, ticks, lost));
  }, limits.watchdogStartMs).unref();
}

/** node:cluster would end a worker without its master at once; this one finishes first. */
function onMasterGone(pulse: Pulse, listener: () => void): void {
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
