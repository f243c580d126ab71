// Holds the port of the console for the whole life of the daemon, so that dq-console runs only while someone
// uses it: connections wait here until it is ready, and go to its process one by one. The port stays open
// while a console ends, dies or is replaced.
// Invariants: the master never reads a byte of a connection. Each goes to one console, or is closed: the
// number of those that wait, and how long, are bounded. No error of a connection reaches the master.

import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type Config, consolePortOf } from '../../config/options.ts';
import { listen, whyNotListening } from '../../runtime/listen.ts';
import { setTimeout } from '../../runtime/time.ts';
import { masterLimits } from '../limits.ts';

/** A console that is ready. */
interface ConsoleProcess {
  /** Sends the connection; it stays open here, too. */
  pass(connection: Socket): void;
}

export interface ConsoleDoor {
  readonly endpoint: AddressInfo;
  /** connections wait */
  readonly isWanted: boolean;
  /** Passes the waiting and all later connections to this process; null: they wait. */
  passTo(console: ConsoleProcess | null): void;
  /** The process has its next connection, in order. */
  taken(console: ConsoleProcess): void;
  /** The process has exited. Connections that it did not take wait for another one: node:child_process
   *  forgets those on their way, and their clients would wait for ever. */
  ended(console: ConsoleProcess): void;
  close(): void;
}

/** `onWanted`: called for each connection that has to wait. Rejects with an error whose message names the
 *  remedy. */
export type OpenDoor = (config: Config, onWanted: () => void) => Promise<ConsoleDoor>;

export const openConsoleDoor: OpenDoor = async (config, onWanted) => {
  const waiting = new Set<Socket>();
  /** on their way */
  const passed = new Map<ConsoleProcess, Socket[]>();
  let target: ConsoleProcess | null = null;
  const pass = (socket: Socket, to: ConsoleProcess): void => {
    waiting.delete(socket);
    const before = passed.get(to);
    if (before === undefined) passed.set(to, [socket]);
    else before.push(socket);
    to.pass(socket);
  };
  const wait = (socket: Socket): void => {
    waiting.add(socket);
    const close = () => {
      if (waiting.delete(socket)) socket.destroy();
    };
    setTimeout(close, masterLimits.consoleWaitMs).unref();
    onWanted();
  };
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    socket.on('error', () => {});
    if (target === null) wait(socket);
    else pass(socket, target);
  });
  server.maxConnections = masterLimits.consoleWaitingMax;
  const endpoint = await openPort(server, config);
  // No free descriptor, for example: the connection waits in the kernel.
  server.on('error', () => {});
  return {
    endpoint,
    get isWanted() {
      return waiting.size > 0;
    },
    passTo(console) {
      target = console;
      if (console !== null) for (const socket of [...waiting]) pass(socket, console);
    },
    taken(console) {
      // Closes the copy of this process.
      passed.get(console)?.shift()?.destroy();
    },
    ended(console) {
      if (target === console) target = null;
      const left = passed.get(console) ?? [];
      passed.delete(console);
      for (const socket of left) wait(socket);
    },
    close() {
      server.close();
      for (const socket of [...waiting, ...[...passed.values()].flat()]) socket.destroy();
      waiting.clear();
    },
  };
};

/** Where console.port is not set or 0, any port will do. */
async function openPort(server: ReturnType<typeof createServer>, config: Config): Promise<AddressInfo> {
  const host = config['console.host'];
  const port = consolePortOf(config);
  const mayMove = config['console.port'] === null || config['console.port'] === 0;
  try {
    return await listen(server, host, port).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE' && mayMove) return listen(server, host, 0);
      throw error;
    });
  } catch (error) {
    const flags = { hostFlag: '--console-host (console.host)', portFlag: '--console-port (console.port)' };
    const { message } = whyNotListening(error, { host, port, ...flags });
    throw new Error(`console: ${message}`, { cause: error });
  }
}
