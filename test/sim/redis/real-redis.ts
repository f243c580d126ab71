// A real redis-server that a world asks synchronously. One process starts the server, and a second one asks
// it, whose standard input is the connection: Node makes only inherited standard streams blocking, and a
// blocking one can be written and read within an event of a world.
// Invariant: everything that a command makes the server send has been read before ask() returns.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readSync, writeSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { startRedis } from '../../../scripts/services/redis.ts';
import { type Arg, commandBytes, type Reply, readReplies } from './resp.ts';

const socketName = 'redis.sock';
/** The order of a hash table differs in each run of a server, that of a list is the order of its writes. A
 *  world has fewer entries than one piece of a walk. */
const ordered = ['hash-max-listpack-entries 1000000', 'hash-max-listpack-value 1000000000'];
const asked = 'DQ_SIM_BESIDE_REDIS';
/** standard input */
const connection = 0;

/** Whether this process is the second one. */
export const isBesideRedis = (): boolean => process.env[asked] !== undefined;

/** Runs this program again, beside a redis-server. Resolves with its exit code. */
export async function runBesideRedis(): Promise<number> {
  const server = await startRedis({ config: [`unixsocket ${socketName}`, ...ordered] });
  try {
    const socket = connect(join(server.process.directory, socketName));
    await once(socket, 'connect');
    const program = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
      stdio: [socket, 'inherit', 'inherit'],
      env: { ...process.env, [asked]: '1' },
    });
    // Only this process's end: the program has its own.
    socket.destroy();
    const [code] = (await once(program, 'exit')) as [number | null];
    return code ?? 1;
  } finally {
    await server.stop();
  }
}

export interface Asked {
  readonly reply: Reply;
  /** texts that the command published */
  readonly published: readonly string[];
}

/** Its reply follows that of each command, and all that the command made the server send. */
const last = '@';
const lastCommand = commandBytes(['ECHO', last]);

export class RealRedis {
  #received = Buffer.alloc(1 << 16);
  /** that the server has, and that the next command concerns */
  #selected = 0;
  #database = 0;

  /** In a process beside a redis-server. */
  constructor() {
    this.ask(['HELLO', 3, 'SETNAME', 'dq-sim']);
  }

  subscribe(channel: string): void {
    this.ask(['SUBSCRIBE', channel]);
  }

  /** Returns the name under which EVALSHA runs it. */
  load(script: string): string {
    return String(this.ask(['SCRIPT', 'LOAD', script]).reply);
  }

  /** The next commands concern this database. */
  use(database: number): void {
    this.#database = database;
  }

  ask(command: readonly Arg[]): Asked {
    // In one write: to wait for its reply would cost as much as the command.
    const selects = this.#database !== this.#selected;
    const first = selects ? [commandBytes(['SELECT', this.#database])] : [];
    this.#selected = this.#database;
    this.#write(Buffer.concat([...first, commandBytes(command), lastCommand]));
    let length = 0;
    for (;;) {
      length += this.#read(length);
      const { pieces } = readReplies(this.#received.subarray(0, length));
      const end = pieces.at(-1);
      if (end === undefined || end.isPush || String(end.reply) !== last) continue;
      const own = pieces.slice(selects ? 1 : 0, -1);
      // The memory is used again.
      const reply = copyOf(own.find(({ isPush }) => !isPush)?.reply ?? null);
      const pushed = own.flatMap(({ isPush, reply: one }) => (isPush ? [one as readonly Reply[]] : []));
      const published = pushed.flatMap(([kind, , text]) =>
        String(kind) === 'message' ? [String(text)] : [],
      );
      return { reply, published };
    }
  }

  #write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) at += writeSync(connection, bytes, at);
  }

  #read(at: number): number {
    if (at === this.#received.length)
      this.#received = Buffer.concat([this.#received], 2 * this.#received.length);
    const count = readSync(connection, this.#received, at, this.#received.length - at, null);
    if (count === 0) throw new Error('redis-server has closed the connection');
    return count;
  }
}

function copyOf(reply: Reply): Reply {
  if (Buffer.isBuffer(reply)) return Buffer.from(reply);
  if (Array.isArray(reply)) return (reply as readonly Reply[]).map(copyOf);
  return reply;
}
