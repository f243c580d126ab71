// What a worker needs of its own process, besides its role: the channel to its master, the title, the end.
// A simulation gives the life of a worker another one.

import cluster from 'node:cluster';
import { closeDebugger } from '../runtime/close-debugger.ts';
import { ticker } from '../runtime/second-ticker.ts';
import { fatalLine } from '../telemetry/fatal-line.ts';
import { MasterChannel, type WorkerChannel } from './master-channel.ts';

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
  process.on('disconnect', listener);
  const master = process.ppid;
  // The event is not always emitted for a broken channel.
  ticker().each(() => {
    if (process.ppid !== master || !process.connected) listener();
  });
}
