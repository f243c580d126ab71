// What a worker needs of its own process, besides its role: the channel to its master, the title, the end.
// A simulation gives the life of a worker another one.

import cluster from 'node:cluster';
import type { Socket } from 'node:net';
import { ticker } from '../runtime/second-ticker.ts';
import { fatalLine } from '../telemetry/log.ts';
import type { ToMaster, ToWorker } from './messages.ts';
import type { MasterLink } from './role.ts';

export interface OwnProcess {
  readonly channel: WorkerChannel;
  /** as `ps` shows it */
  title: string;
  /** Nothing that the process does later has an effect. */
  exit(code: number): void;
  /** Called before an exception ends the process. */
  onCrash(listener: (error: Error) => void): void;
  /** May be called more than once. */
  onMasterGone(listener: () => void): void;
  /** Since the start of the process. */
  usage(): { readonly cpuMs: number; readonly rssBytes: number };
  closeDebugger(): Promise<void>;
  /** Writes a line to stderr. */
  warn(line: string): void;
}

/** The real one. A closed terminal does not end a daemon that was started from it. */
export function ownProcess(): OwnProcess {
  process.stdout.on('error', () => {});
  process.stderr.on('error', () => {});
  return {
    channel: new MasterChannel(),
    get title() {
      return process.title;
    },
    set title(title: string) {
      process.title = title;
    },
    exit: (code) => process.exit(code),
    onCrash: (listener) => void process.on('uncaughtExceptionMonitor', listener),
    onMasterGone,
    usage() {
      const { user, system } = process.cpuUsage();
      return { cpuMs: (user + system) / 1_000, rssBytes: process.memoryUsage.rss() };
    },
    closeDebugger,
    warn: fatalLine,
  };
}

/** node:cluster would exit a worker without its master at once; this one drains first. */
function onMasterGone(listener: () => void): void {
  if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true;
  // node:cluster tells the master of each port that closes. Until the channel is known to be broken, such a
  // message ends in this event, which without a listener ends the process.
  cluster.worker?.on('error', listener);
  process.on('disconnect', listener);
  const master = process.ppid;
  // The event is not always emitted for a broken channel.
  ticker().each(() => {
    if (process.ppid !== master || !process.connected) listener();
  });
}

/** The channel of a worker: to its master, or what stands for one. */
export type WorkerChannel = Pick<MasterChannel, keyof MasterChannel>;

/** Its loss costs messages only: a worker without a master drains. */
class MasterChannel implements MasterLink {
  readonly #listeners = new Set<Parameters<MasterLink['onMessage']>[0]>();

  constructor() {
    process.on('message', (message, handle) =>
      this.deliver(message as ToWorker, handle as Socket | undefined),
    );
  }

  send(message: ToMaster): void {
    // Without a callback, an error of a closing channel would be thrown as an event.
    if (process.connected) process.send?.(message, undefined, undefined, () => {});
  }

  /** As send; resolves when the message is sent, or the channel is closed. */
  sent(message: ToMaster): Promise<void> {
    return new Promise((resolve) => {
      if (process.connected && process.send !== undefined)
        process.send(message, undefined, undefined, () => resolve());
      else resolve();
    });
  }

  onMessage(listener: (message: ToWorker, connection?: Socket) => void): void {
    this.#listeners.add(listener);
  }

  /** Delivers a message as if the master had sent it. */
  deliver(message: ToWorker, connection?: Socket): void {
    for (const listener of this.#listeners) listener(message, connection);
  }
}

/** Closes the debugger that Node opens at a SIGUSR1 in the first 30 to 60 ms of a process, before dq can
 *  install a handler: every local user who reaches its port has the rights of dq. Called once after that.
 *  Keeps a debugger that --inspect requested. */
export async function closeDebugger(): Promise<void> {
  const asked = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].some((text) =>
    text.includes('--inspect'),
  );
  if (asked || !process.features.inspector) return;
  const { close, url } = await import('node:inspector');
  if (url() !== undefined) close();
}
