// Starts Redis servers, each on a free port with its own directory. Persistence is off unless the given
// configuration lines turn it on.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { tryPorts } from './free-port.ts';
import { ServerProcess, StartedServer } from './server-process.ts';
import { makeDirectory } from './temporary-root.ts';

/** Paths of PEM files. The servers of a group trust the authority in each other. */
export interface ServerCertificate {
  readonly cert: string;
  readonly key: string;
  readonly authority: string;
}

export interface RedisOptions {
  /** lines of redis.conf: `maxmemory 10mb`, `appendonly yes`, `requirepass x` */
  readonly config?: readonly string[];
  /** it serves TLS only */
  readonly certificate?: ServerCertificate | undefined;
}

export class RedisServer extends StartedServer {
  readonly #access: Access;

  constructor(process: ServerProcess, access: Access) {
    super(process);
    this.#access = access;
  }

  /** `redis://127.0.0.1:6380`, with its password; `rediss://` with TLS */
  get url(): string {
    const { password, hasTls } = this.#access;
    const login = password === undefined ? '' : `:${password}@`;
    return `${hasTls ? 'rediss' : 'redis'}://${login}127.0.0.1:${this.port}`;
  }

  /** The reply to one command as redis-cli prints it: one item of an array a line. Rejects on an error
   *  reply. */
  ask(...command: string[]): Promise<string> {
    return askRedis(this.port, command, this.#access);
  }
}

export async function startRedis({ config = [], certificate }: RedisOptions = {}): Promise<RedisServer> {
  return tryPorts(1, ([port = 0]) => startRedisOn(port, [...tlsLines(port, certificate), ...config]));
}

/** Of redis.conf, for TLS in place of the plain port; empty without a certificate. */
export function tlsLines(port: number, certificate: ServerCertificate | undefined): readonly string[] {
  if (certificate === undefined) return [];
  const { cert, key, authority } = certificate;
  return [
    ...['port 0', `tls-port ${port}`, `tls-cert-file ${cert}`, `tls-key-file ${key}`],
    ...[`tls-ca-cert-file ${authority}`, 'tls-auth-clients no', 'tls-replication yes'],
  ];
}

interface Access {
  readonly password: string | undefined;
  readonly hasTls: boolean;
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
  const access = { password, hasTls: config.some((line) => line.startsWith('tls-port ')) };
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
    isReady: async () => (await askRedis(port, ['PING'], access)) === 'PONG',
  });
  return new RedisServer(server, access);
}

/** Not through redis-cli: tests ask thousands of times, and a process costs ten times as much. */
async function askRedis(
  port: number,
  [name = '', ...args]: readonly string[],
  { password, hasTls }: Access,
): Promise<string> {
  const client = new Redis({
    ...{ host: '127.0.0.1', port, protocol: 2, lazyConnect: true, disableClientInfo: true },
    ...{ enableReadyCheck: false, retryStrategy: null, commandTimeout: askMsMax, connectTimeout: askMsMax },
    ...(password === undefined ? {} : { password }),
    // Also a server whose certificate a test makes wrong.
    ...(hasTls ? { tls: { rejectUnauthorized: false } } : {}),
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
