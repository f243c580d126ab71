// Starts bin/dq and speaks with the daemon. Knows no test: the files of a run can share one daemon.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { childrenOf, isAlive } from '../../scripts/services/live-processes.ts';
import { until } from './until.ts';

export const launcher = join(import.meta.dirname, '../../bin/dq');

export interface DaemonOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** written to dq.yaml and given with -c */
  readonly config?: Readonly<Record<string, unknown>>;
  /** reuse the directory of a daemon that ended or was killed */
  readonly directory?: string;
  /** somewhere outside the directory: on its own file system */
  readonly dataDir?: string;
  readonly logDir?: string;
  /** the configuration sets the port; otherwise --port sets a free one */
  readonly portInFile?: boolean;
  /** another bin/dq than this repository's */
  readonly launcher?: string;
  /** options of Node for its master */
  readonly execArgv?: readonly string[];
  /** instead of a free one: the port of a daemon that has ended */
  readonly port?: number;
  /** a command that executes the daemon: of its own name server (scripts/services/name-server.ts) */
  readonly prefix?: readonly string[];
  /** with the console, which is off by default: a process and a port less for each test */
  readonly console?: boolean;
  /** its own process group, so that a test can signal all of it by -pid */
  readonly group?: boolean;
}

export interface ApiReply {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: what a reply holds is what the test asserts
  readonly body: any;
}

/** What a daemon is for all who did not start it. */
export interface RunningDaemon {
  readonly url: string;
  /** Where the console starts when it is opened. */
  consoleUrl(): Promise<string>;
  readonly pid: number;
  readonly directory: string;
  readonly dataDir: string;
  readonly logDir: string;
  api(method: string, path: string, body?: unknown): Promise<ApiReply>;
  /** Pushes these bytes unchanged. */
  push(
    topic: string,
    body: Buffer | string,
    query?: Record<string, string | number>,
    contentType?: string,
  ): Promise<ApiReply>;
  /** Live workers of this master by title, from /proc. */
  workers(): readonly { readonly title: string; readonly pid: number }[];
  /** The one worker of this title; throws when there is none. */
  pidOf(title: string): number;
  /** The lines of one kind of log, of all processes, about 100 ms after their events
   *  (telemetryLimits.logFlushMs). */
  log(kind: 'request' | 'notify' | 'error' | 'notice'): readonly Record<string, unknown>[];
}

export interface Daemon extends RunningDaemon {
  readonly child: ChildProcess;
  /** the master's output so far */
  output(): string;
  /** TERM; resolves with the exit code. */
  stop(): Promise<number | null>;
}

export interface Launched extends Daemon {
  /** Kills its master first, then its workers by pid, and removes its directory. */
  remove(): Promise<void>;
}

/** Without DQ_…: those variables set the size of tests and would be options of the daemon. */
export function environment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('DQ_') && name !== 'FORCE_COLOR',
  );
  return { ...Object.fromEntries(own), ...more };
}

/** `onSpawned` gets the end before the daemon is ready: it may never be. */
export async function launchDaemon(
  options: DaemonOptions,
  onSpawned: (remove: () => Promise<void>) => void = () => {},
): Promise<Launched> {
  const directory = options.directory ?? mkdtempSync(join(tmpdir(), 'dq-test-'));
  const dataDir = options.dataDir ?? join(directory, 'data');
  const logDir = options.logDir ?? join(directory, 'logs');
  const port = options.portInFile === true ? [] : ['--port', String(options.port ?? 0)];
  const args = ['start', ...port, '--data-dir', dataDir, '--log-dir', logDir, ...(options.args ?? [])];
  const env = options.console === true ? options.env : { DQ_CONSOLE__ENABLED: 'false', ...options.env };
  if (options.config !== undefined) {
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'dq.yaml'), stringify(options.config));
    args.push('-c', join(directory, 'dq.yaml'));
  }
  rmSync(join(dataDir, 'run/dq.json'), { force: true });
  const bin = [...(options.execArgv ?? []), options.launcher ?? launcher];
  const command = [...(options.prefix ?? []), process.execPath, ...bin, ...args];
  const child = spawn(command[0] as string, command.slice(1), {
    ...{ cwd: directory, env: environment(env), stdio: ['ignore', 'pipe', 'pipe'] },
    detached: options.group ?? false,
  });
  let output = '';
  child.stdout?.on('data', (chunk: Buffer) => (output += chunk));
  child.stderr?.on('data', (chunk: Buffer) => (output += chunk));
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  const pid = child.pid as number;
  const remove = async () => {
    await endTree(child, exited, dataDir);
    rmSync(directory, { recursive: true, force: true });
  };
  onSpawned(remove);
  const began = () => existsSync(join(dataDir, 'run/dq.json'));
  const endedFirst = () => child.exitCode !== null || child.signalCode !== null;
  await until('dq start is ready, or has ended', () => began() || endedFirst()).catch((error: unknown) => {
    throw new Error(`dq start is not ready: ${output}`, { cause: error });
  });
  if (!began()) throw new Error(`dq start ended with ${child.exitCode ?? child.signalCode}: ${output}`);
  const { url } = JSON.parse(readFileSync(join(dataDir, 'run/dq.json'), 'utf8')) as { url: string };
  return {
    ...runningDaemon({ url, pid, directory, dataDir, logDir }),
    child,
    output: () => output,
    async stop() {
      child.kill('SIGTERM');
      return (await exited)[0];
    },
    remove,
  };
}

export type Place = Pick<RunningDaemon, 'url' | 'pid' | 'directory' | 'dataDir' | 'logDir'>;

export function runningDaemon(place: Place): RunningDaemon {
  const { url, pid, dataDir, logDir } = place;
  const send = async (method: string, path: string, init: RequestInit): Promise<ApiReply> => {
    // stop and reload would wait 5 s for an idle connection.
    const headers = { connection: 'close', ...init.headers };
    const signal = AbortSignal.timeout(120_000);
    const response = await fetch(url + path, { ...init, headers, method, signal }).catch((error: Error) => {
      // The message of fetch is "fetch failed": the reason is in its cause.
      const cause = error.cause instanceof Error ? `: ${causeOf(error.cause)}` : '';
      throw new Error(`${method} ${path}: ${error.message}${cause}`, { cause: error });
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? null : JSON.parse(text) };
  };
  const workers = () => childrenOf(pid);
  return {
    ...place,
    consoleUrl: () =>
      until('the console has an address', () => {
        const run = JSON.parse(readFileSync(join(dataDir, 'run/dq.json'), 'utf8')) as { console?: string };
        return run.console;
      }),
    api: (method, path, body) =>
      send(
        method,
        path,
        body === undefined
          ? {}
          : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
      ),
    push: (topic, body, query = {}, contentType = 'application/json') => {
      const search = new URLSearchParams();
      for (const [name, value] of Object.entries(query))
        search.set(name, name === 'delay' && typeof value === 'number' ? `${value}ms` : String(value));
      const headers: Record<string, string> = contentType === '' ? {} : { 'content-type': contentType };
      return send('POST', `/v1/topics/${topic}/jobs?${search}`, {
        headers,
        body: typeof body === 'string' ? Buffer.from(body) : body,
      });
    },
    workers,
    pidOf(title) {
      const worker = workers().find((one) => one.title === title);
      if (worker === undefined) throw new Error(`no process ${title} among ${JSON.stringify(workers())}`);
      return worker.pid;
    },
    log: (kind) => readLog(logDir, kind),
  };
}

const causeOf = ({ code = '', message }: NodeJS.ErrnoException): string => `${code} ${message}`.trim();

/** Paths of the files and sockets that a process has open; empty for an ended process. */
export function openFilesOf(pid: number): string[] {
  const names = (): string[] => {
    try {
      return readdirSync(`/proc/${pid}/fd`);
    } catch {
      return [];
    }
  };
  return names().flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
    } catch {
      // Closed between the listing and the reading.
      return [];
    }
  });
}

function readLog(logDir: string, kind: string): Record<string, unknown>[] {
  if (!existsSync(logDir)) return [];
  return (
    readdirSync(logDir)
      .filter((name) => name.startsWith(`${kind}-`))
      // After the last line feed: empty, or an unfinished line.
      .flatMap((name) => readFileSync(join(logDir, name), 'utf8').split('\n').slice(0, -1))
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  );
}

async function endTree(child: ChildProcess, exited: Promise<unknown>, dataDir: string): Promise<void> {
  const pid = child.pid as number;
  // Also workers of a dead master, which have another parent now.
  const workers = [...childrenOf(pid).map((worker) => worker.pid), ...recordedWorkers(dataDir)];
  if (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGKILL');
    await exited;
  }
  // Also one that the master has started meanwhile.
  workers.push(...recordedWorkers(dataDir));
  for (const worker of workers) {
    try {
      process.kill(worker, 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
  await until('the workers are gone', () => !workers.some(isAlive));
}

/** Processes in the master's run files that still run, identified by their start time. */
function recordedWorkers(dataDir: string): number[] {
  const path = join(dataDir, 'run/workers.json');
  if (!existsSync(path)) return [];
  const recorded = JSON.parse(readFileSync(path, 'utf8')) as { pid: number; startTicks: number }[];
  return recorded.filter(({ pid, startTicks }) => startTicksOf(pid) === startTicks).map(({ pid }) => pid);
}

function startTicksOf(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]);
  } catch {
    return null;
  }
}
