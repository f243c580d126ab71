// Forks a worker process by node:cluster: its messages, its end, and the signal that kills it. Knows the
// meaning of no message. A simulation gives the master another Fork.

import cluster from 'node:cluster';
import type { Socket } from 'node:net';
import type { Init, RoleName, ToMaster, ToWorker } from '../../process/messages.ts';
import { setTimeout } from '../../runtime/time.ts';
import { masterLimits, smallYoungSpace } from '../limits.ts';

// With round robin a connection passed to a dying worker hangs for ever. Workers share listening sockets
// instead.
cluster.schedulingPolicy = cluster.SCHED_NONE;

export interface ForkOptions {
  readonly title: string;
  /** dist/worker.js */
  readonly path: string;
  /** what its first message will say */
  readonly init: Init;
  readonly onMessage: (message: ToMaster) => void;
  /** A message was not sent: the process exits. Or the fork failed, and its end follows. */
  readonly onError: (error: Error) => void;
  /** Called once, when the process has exited and its last message was read, or masterLimits.lastMessagesMs
   *  later; not at a mere disconnect. Both null: the fork failed. */
  readonly onExit: (code: number | null, signal: NodeJS.Signals | null) => void;
}

/** A forked process, as its master sees it. */
export interface Child {
  /** 0: the fork failed */
  readonly pid: number;
  /** Loses the message when the process is exiting. */
  send(message: ToWorker): void;
  /** As in ConsoleProcess; nothing was read of the connection. */
  pass(connection: Socket): void;
  /** SIGKILL */
  kill(): void;
}

/** Throws if no process can be made. Calls no listener before it returns. */
export type Fork = (options: ForkOptions) => Child;

export const clusterFork: Fork = ({ title, path, init, onMessage, onError, onExit }) => {
  cluster.setupPrimary({
    exec: path,
    // `ps` shows it until the worker sets its title; the length of this line limits the length of the
    // title.
    args: [title],
    execArgv: isSmall(init) ? [...smallYoungSpace] : [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const worker = cluster.fork(environment());
  const { process: child } = worker;
  worker.on('message', onMessage);
  // A send to an exiting process emits this event; the exit counts.
  worker.on('error', onError);
  let hasEnded = false;
  const end = (code: number | null, signal: NodeJS.Signals | null): void => {
    if (!hasEnded) onExit(code, signal);
    hasEnded = true;
  };
  // The fork failed: no memory or no free pid.
  if (child.pid === undefined) child.once('error', () => end(null, null));
  child.once('exit', (code, signal) => {
    if (!child.connected) {
      end(code, signal);
      return;
    }
    // The channel may still hold its last messages.
    child.once('disconnect', () => end(code, signal));
    setTimeout(() => end(code, signal), masterLimits.lastMessagesMs).unref();
  });
  return {
    pid: child.pid ?? 0,
    send(message) {
      if (worker.isConnected()) child.send?.(message, undefined, undefined, () => {});
    },
    pass(connection) {
      const message: ToWorker = { kind: 'connection' };
      if (worker.isConnected()) child.send(message, connection, { keepOpen: true }, () => {});
    },
    kill() {
      // worker.kill() waits for a disconnect, and a stuck process never disconnects.
      child.kill('SIGKILL');
    },
  };
};

/** Whether memory counts for more than throughput. */
const isSmall = ({ role, config }: Init): boolean => quietRoles.has(role) || config.profile === 'small';

/** They make too little garbage for a larger young space to save time. */
const quietRoles: ReadonlySet<RoleName> = new Set(['console', 'timer', 'upkeep']);

/** The environment of workers. Their configuration comes in the first message, so that /proc/PID/environ does
 *  not show it. */
function environment(): Record<string, string | undefined> {
  const ours = Object.keys(process.env).filter((name) => /^DQ_(?!FAIL$|TEST_)/.test(name));
  return {
    ...Object.fromEntries(ours.map((name) => [name, undefined])),
    // Options of the master's Node (a debugger, a loader) must not reach the workers.
    NODE_OPTIONS: undefined,
    // Half of them resolve host names (notifierLimits.lookupThreads); files need threads, too.
    UV_THREADPOOL_SIZE: '16',
  };
}
