// Starts the processes of the benchmark and its load. The load generator has its own process, so that its
// work is not measured in the event loop of another process.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

const here = import.meta.dirname;

export interface Helper {
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

export async function startBareServer(kind: 'push' | 'sink' | 'hang'): Promise<Helper> {
  const child: ChildProcess = spawn(
    process.execPath,
    ['--import', 'tsx', join(here, 'bare-server.ts'), kind],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  if (child.stdout === null || child.pid === undefined) throw new Error('the bare server did not start');
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return {
    url: `http://127.0.0.1:${line.toString().trim()}`,
    pid: child.pid,
    async stop() {
      const exited = once(child, 'exit');
      child.stdin?.end();
      await exited;
    },
  };
}

export interface LoadResult {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly non2xx: number;
  readonly errors: number;
}

/** A job of about 120 bytes. */
export const jobBody = JSON.stringify({ order: 9007199254740, action: 'close', note: 'x'.repeat(70) });

/** A batch of `count` such jobs. */
export function batchOf(jobs: number): string {
  return `[${Array<string>(jobs).fill(`{"topic":"bench","body":${jobBody}}`).join(',')}]`;
}

/** Pushes at full speed over 64 (or `connections`) keep-alive connections: with wrk where it is installed,
 *  because autocannon takes as much processor time as the server that it loads. */
export async function pushLoad(
  url: string,
  seconds: number,
  connections = 64,
  body = jobBody,
): Promise<LoadResult> {
  return hasWrk ? wrkLoad(url, seconds, connections, body) : autocannonLoad(url, seconds, connections, body);
}

export const hasWrk = (process.env['PATH'] ?? '')
  .split(delimiter)
  .some((directory) => existsSync(join(directory, 'wrk')));

async function wrkLoad(url: string, seconds: number, connections: number, body: string): Promise<LoadResult> {
  const directory = mkdtempSync(join(tmpdir(), 'dq-bench-wrk-'));
  try {
    const script = join(directory, 'push.lua');
    const lines = [
      'wrk.method = "POST"',
      `wrk.body = [==[${body}]==]`,
      'wrk.headers["content-type"] = "application/json"',
      // One line of figures: the printed ones are rounded.
      'done = function(summary, latency)',
      '  local e = summary.errors',
      '  print(string.format("figures %d %d %d %d %d %d", summary.requests, summary.duration,',
      '    latency:percentile(50), latency:percentile(99), e.status, e.connect + e.read + e.write + e.timeout))',
      'end',
    ];
    writeFileSync(script, lines.join('\n'));
    const args = ['-t1', '-c', String(connections), '-d', String(seconds), '-s', script, url];
    const { stdout } = await promisify(execFile)('wrk', args);
    const [requests = 0, us = 1, p50 = 0, p99 = 0, non2xx = 0, errors = 0] =
      /^figures (.*)$/m.exec(stdout)?.[1]?.split(' ').map(Number) ?? [];
    return { perSecond: (requests * 1e6) / us, p50: p50 / 1e3, p99: p99 / 1e3, non2xx, errors };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function autocannonLoad(
  url: string,
  seconds: number,
  connections: number,
  body: string,
): Promise<LoadResult> {
  const cannon = join(here, '../../node_modules/autocannon/autocannon.js');
  const args = [
    cannon,
    '-c',
    String(connections),
    '-d',
    String(seconds),
    '-m',
    'POST',
    '-H',
    'content-type=application/json',
    '-b',
    body,
    '-j',
    '-n',
    url,
  ];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 16 * 1024 * 1024 });
  const result = JSON.parse(stdout) as {
    requests: { average: number };
    latency: { p50: number; p99: number };
    non2xx: number;
    errors: number;
  };
  return {
    perSecond: result.requests.average,
    p50: result.latency.p50,
    p99: result.latency.p99,
    non2xx: result.non2xx,
    errors: result.errors,
  };
}
