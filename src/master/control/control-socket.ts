// Serves the control socket, by which `dq stop`, `dq status` and others reach the master without the HTTP
// API. Invariant: only the owner can open it (0600 in a 0700 directory), because it can stop the daemon.
// Bounded: one request per connection, of one line.

import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { masterLimits } from '../limits.ts';
import type { ControlCommands } from './control-commands.ts';
import type { ControlAnswer, ControlRequest } from './control-protocol.ts';

export class ControlSocket {
  readonly #server: Server;
  readonly #commands: ControlCommands;
  readonly #waiting = new Set<Socket>();

  constructor(commands: ControlCommands) {
    this.#commands = commands;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  /** The caller holds the data directory's lock, so an existing socket file is a leftover. */
  async listen(path: string): Promise<void> {
    rmSync(path, { force: true });
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(path, resolve);
    });
    chmodSync(path, 0o600);
    this.#server.on('error', () => {
      // One accept failed (no free descriptor); the next one may succeed.
    });
  }

  /** Accepts no further request, and removes the socket file. */
  close(): void {
    this.#server.close();
  }

  /** Answers the commands that wait for the end. */
  async finish(exit: number): Promise<void> {
    await Promise.all(
      [...this.#waiting].map(
        (socket) => new Promise<void>((resolve) => socket.end(line({ done: true, exit }), () => resolve())),
      ),
    );
  }

  #serve(socket: Socket): void {
    let text = '';
    socket.setEncoding('utf8');
    socket.on('error', () => {
      // The command has ended and needs no answer.
    });
    socket.on('close', () => this.#waiting.delete(socket));
    socket.on('data', (chunk: string) => {
      text += chunk;
      const end = text.indexOf('\n');
      if (end < 0 && text.length <= masterLimits.controlLineBytesMax) return;
      socket.removeAllListeners('data').resume();
      this.#answer(socket, end < 0 ? '' : text.slice(0, end));
    });
  }

  #answer(socket: Socket, request: string): void {
    const end = (exit: number, ...answers: ControlAnswer[]): void => {
      socket.end([...answers, { done: true, exit } as const].map(line).join(''));
    };
    const tell = (answer: ControlAnswer): void => void socket.write(line(answer));
    const asked = parse(request);
    switch (asked?.cmd) {
      case 'status':
        this.#commands.status().then(
          (status) => end(0, { status }),
          // Without an answer, the command says that the daemon does not answer.
          () => socket.destroy(),
        );
        break;
      case 'where':
        end(0, { url: this.#commands.url() });
        break;
      case 'reopen_logs':
        this.#commands.reopenLogs();
        end(0);
        break;
      case 'stop':
        this.#waiting.add(socket);
        this.#commands.stop(asked.timeoutMs);
        break;
      case 'restart':
        void this.#commands.restart(tell).then((refused) => {
          if (refused === null) this.#waiting.add(socket);
          else end(1, { refused });
        });
        break;
      case 'move':
        void this.#commands.move().then((outcome) => {
          if ('refused' in outcome) end(1, outcome);
          else if (outcome.ends) this.#waiting.add(socket);
          else end(0, { moved: true });
        });
        break;
      case 'reload':
        void this.#commands.reload(tell).then((exit) => end(exit));
        break;
      default:
        end(2, {
          message:
            'unknown request: status, where, stop, reload, restart, move and reopen_logs are available',
        });
    }
  }
}

function line(answer: ControlAnswer): string {
  return `${JSON.stringify(answer)}\n`;
}

function parse(text: string): ControlRequest | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null || !('cmd' in value)) return null;
  const { timeoutMs } = value as { timeoutMs?: unknown };
  if (timeoutMs !== undefined && !(Number.isSafeInteger(timeoutMs) && Number(timeoutMs) >= 0)) return null;
  return value as ControlRequest;
}
