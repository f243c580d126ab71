// Starts Redis servers, each on a free port with its own directory. Persistence is off unless the given
// configuration lines turn it on.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { tryPorts } from './free-port.ts';
import { ServerProcess } from './server-process.ts';
import { makeDirectory } from './temporary-root.ts';

export interface RedisOptions {
  /** lines of redis.conf: `maxmemory 10mb`, `appendonly yes`, `requirepass x` */
  readonly config?: readonly string[];
}

export class RedisServer {
  readonly process: ServerProcess;
  readonly #password: string | undefined;

  constructor(process: ServerProcess, password: string | undefined) {
    this.process = process;
    this.#password = password;
  }

  get port(): number {
    return this.process.port;
  }

  /** `redis://127.0.0.1:6380`, with its password */
  get url(): string {
    return `redis://${this.#password === undefined ? '' : `:${this.#password}@`}127.0.0.1:${this.port}`;
  }

  /** The reply to one command as redis-cli prints it: one item of an array a line. Rejects on an error
   *  reply. */
  ask(...command: string[]): Promise<string> {
    return askRedis(this.port, command, this.#password);
  }

  stop(): Promise<void> {
    return this.process.stop();
  }
}

export async function startRedis({ config = [] }: RedisOptions = {}): Promise<RedisServer> {
  return tryPorts(1, ([port = 0]) => startRedisOn(port, config));
}

/** `n` independent servers. */
export function startRedisServers(n: number, options: RedisOptions = {}): Promise<RedisServer[]> {
  return startAll(Array.from({ length: n }, () => () => startRedis(options)));
}

/** All or none: stops the started ones when one fails. */
export async function startAll<T extends { stop(): Promise<void> }>(
  starts: readonly (() => Promise<T>)[],
): Promise<T[]> {
  const started = await Promise.allSettled(starts.map((start) => start()));
  const servers = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const failed = started.find((one) => one.status === 'rejected');
  if (failed === undefined) return servers;
  await Promise.all(servers.map((server) => server.stop()));
  throw failed.reason;
}

/** On this port: members of a group must know each other's ports. `mode`: `--sentinel` */
export async function startRedisOn(
  port: number,
  config: readonly string[],
  mode: readonly string[] = [],
): Promise<RedisServer> {
  const directory = makeDirectory('redis');
  const password = config
    .map((line) => /^requirepass (\S+)$/.exec(line)?.[1])
    .find((found) => found !== undefined);
  const file = join(directory, 'redis.conf');
  const isSentinel = mode.includes('--sentinel');
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${directory}`,
    'daemonize no',
    // Otherwise a sentinel without a password refuses connections.
    'protected-mode no',
    ...(isSentinel ? [] : ['save ""', 'appendonly no', 'enable-debug-command local']),
    ...config,
  ];
  writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
  const server = await ServerProcess.start({
    command: 'redis-server',
    args: [file, ...mode],
    port,
    directory,
    isReady: async () => (await askRedis(port, ['PING'], password)) === 'PONG',
  });
  return new RedisServer(server, password);
}

/** Not through redis-cli: tests ask thousands of times, and a process costs ten times as much. */
async function askRedis(
  port: number,
  [name = '', ...args]: readonly string[],
  password?: string,
): Promise<string> {
  const client = new Redis({
    ...{ host: '127.0.0.1', port, protocol: 2, lazyConnect: true, disableClientInfo: true },
    ...{ enableReadyCheck: false, retryStrategy: null, commandTimeout: askMsMax, connectTimeout: askMsMax },
    ...(password === undefined ? {} : { password }),
  });
  // The call rejects with the reason.
  client.on('error', () => {});
  try {
    await client.connect();
    return linesOf(await client.call(name, ...args))
      .join('\n')
      .trimEnd();
  } finally {
    client.disconnect();
  }
}

const askMsMax = 20_000;

function linesOf(reply: unknown): readonly string[] {
  return Array.isArray(reply) ? reply.flatMap(linesOf) : [String(reply ?? '')];
}
