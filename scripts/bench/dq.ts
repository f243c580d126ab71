// Starts a daemon for the benchmark: the bin/dq of a build on a free port and in its own directory, on the
// embedded store or on its own Redis.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RedisServer, startRedis } from '../services/redis.ts';
import type { Build } from './bench.ts';
import type { Measured } from './processes.ts';

export interface BenchDaemon {
  readonly url: string;
  readonly pid: number;
  /** run/dq.json */
  readonly runFile: string;
  /** spawn until every role is ready */
  readonly startMs: number;
  api(method: string, path: string, body?: unknown): Promise<unknown>;
  processes(): Promise<readonly { title: string; role: string; pid: number }[]>;
  /** its processes, and its Redis */
  measured(): Promise<readonly Measured[]>;
  /** null on the embedded store */
  readonly redis: RedisServer | null;
  /** dq-console starts when it is opened. */
  consoleUrl(): Promise<string>;
  stop(): Promise<void>;
}

/** The production default. */
export const redisConfig = ['appendonly yes', 'appendfsync everysec'];
let prefix: readonly string[] = [];

/** Later daemons are started by this command. */
export function usePrefix(words: readonly string[]): void {
  prefix = words;
}

export async function startDaemon({ launcher, store }: Build, ...args: string[]): Promise<BenchDaemon> {
  const redis = store === 'redis' ? await startRedis({ config: redisConfig }) : null;
  const directory = mkdtempSync(join(tmpdir(), 'dq-bench-'));
  const from = performance.now();
  const [command, ...first] = [...prefix, process.execPath];
  const child = spawn(
    command as string,
    [
      ...first,
      launcher,
      'start',
      '--port',
      '0',
      '--data-dir',
      join(directory, 'data'),
      '--log-dir',
      join(directory, 'logs'),
      ...(redis === null ? [] : ['--redis', redis.url]),
      ...args,
    ],
    { cwd: directory, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let output = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    output += chunk;
  });
  const runFile = join(directory, 'data/run/dq.json');
  while (!existsSync(runFile)) {
    if (child.exitCode !== null) throw new Error(`dq start ended with ${child.exitCode}: ${output}`);
    await sleep(2);
  }
  const startMs = performance.now() - from;
  const { url } = JSON.parse(readFileSync(runFile, 'utf8')) as { url: string };
  const api = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    const init: RequestInit = { method };
    if (body !== undefined)
      Object.assign(init, { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    const response = await fetch(url + path, init);
    const reply: unknown = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(reply)}`);
    return reply;
  };
  const processesOf = async () => {
    const { processes } = (await api('GET', '/v1/processes')) as {
      processes: { title: string; role: string; pid: number }[];
    };
    return processes;
  };
  return {
    url,
    pid: child.pid ?? 0,
    runFile,
    startMs,
    api,
    redis,
    processes: processesOf,
    async measured() {
      const redisServer = redis === null ? [] : [{ role: 'redis-server', pid: redis.process.pid }];
      return [...(await processesOf()).map(({ role, pid }) => ({ role, pid })), ...redisServer];
    },
    async consoleUrl() {
      for (const end = performance.now() + 20_000; performance.now() < end; await sleep(2)) {
        const { console: its } = JSON.parse(readFileSync(runFile, 'utf8')) as { console?: string };
        if (its !== undefined) return its;
      }
      throw new Error('dq-console is not ready after 20 s');
    },
    async stop() {
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
      await redis?.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
