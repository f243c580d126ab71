// Runs a command of dq to its end, as a shell does.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { onTestFinished } from 'vitest';
import { runCommand } from '../../src/cli/program.ts';
import { environment, launcher, type RunningDaemon } from './daemon.ts';
import { hungMs, until } from './until.ts';

export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  /** unchanged stdout */
  readonly bytes: Buffer;
  readonly stderr: string;
}

export interface RunOptions {
  readonly input?: string | Buffer;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** makes it a process */
  readonly isProcess?: true;
  /** another bin/dq than this repository's */
  readonly launcher?: string;
  /** options of Node */
  readonly execArgv?: readonly string[];
}

/** These fork, end on a signal, or run beside further commands: each is a process. */
const processes: readonly (string | undefined)[] = ['start', 'restart', 'reload', 'move', 'service', 'sink'];

/** Runs a command as bin/dq does, but inside the test: a process would cost 200 ms of a quiet machine, and
 *  more of a busy one. One at a time, because a command has the streams, the directory and the environment of
 *  its process. */
export function runDq(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  const isProcess = options.launcher !== undefined || options.isProcess === true;
  if (isProcess || processes.includes(args[0])) return runDqProcess(args, options);
  return runDqHere(args, options);
}

/** Also a command that would be a process: for words that it rejects. */
export function runDqHere(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  const run = turn.then(() => runHere(args, options));
  turn = run.then(
    () => {},
    () => {},
  );
  return run;
}

let turn: Promise<void> = Promise.resolve();

async function runHere(args: readonly string[], { input = '', env, cwd }: RunOptions): Promise<Run> {
  const undo: (() => void)[] = [];
  const replace = (on: object, name: string, value: unknown) => {
    const old = Object.getOwnPropertyDescriptor(on, name);
    Object.defineProperty(on, name, { value, configurable: true, writable: true, enumerable: true });
    undo.push(() => {
      if (old === undefined) Reflect.deleteProperty(on, name);
      else Object.defineProperty(on, name, old);
    });
  };
  const written = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  for (const name of ['stdout', 'stderr'] as const)
    replace(process[name], 'write', (chunk: string | Uint8Array, ...rest: readonly unknown[]) => {
      written[name].push(Buffer.from(chunk as string));
      const done = rest.find((one) => typeof one === 'function');
      if (done !== undefined) queueMicrotask(done as () => void);
      return true;
    });
  replace(process, 'stdin', Readable.from(input.length === 0 ? [] : [Buffer.from(input)]));
  replace(process, 'argv', [process.execPath, launcher, ...args]);
  replace(process, 'env', environment(env));
  const here = process.cwd();
  if (cwd !== undefined) process.chdir(cwd);
  const codeBefore = process.exitCode;
  process.exitCode = undefined;
  try {
    await runCommand(args);
    const bytes = Buffer.concat(written.stdout);
    return {
      code: Number(process.exitCode ?? 0),
      stdout: bytes.toString('utf8'),
      bytes,
      stderr: Buffer.concat(written.stderr).toString('utf8'),
    };
  } finally {
    process.exitCode = codeBefore;
    process.chdir(here);
    for (const one of undo.reverse()) one();
  }
}

/** Never through npx, which hides exit codes and signals. */
export async function runDqProcess(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  const child = spawn(
    process.execPath,
    [...(options.execArgv ?? []), options.launcher ?? launcher, ...args],
    {
      ...{ cwd: options.cwd, env: environment(options.env), stdio: ['pipe', 'pipe', 'pipe'] },
      ...{ timeout: hungMs, killSignal: 'SIGKILL' },
    },
  );
  const chunks: Buffer[] = [];
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  // A command that fails early does not read its input.
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  const [code] = (await once(child, 'close')) as [number | null];
  const bytes = Buffer.concat(chunks);
  return { code, stdout: bytes.toString('utf8'), bytes, stderr };
}

/** Runs it on a terminal of script(1) of util-linux; stdout holds all output. It has its own process
 *  group, because a failing script sends TERM to its whole group. */
export async function runDqOnTerminal(args: readonly string[], input: string): Promise<Run> {
  const command = [process.execPath, launcher, ...args].join(' ');
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    ...{ env: environment(), stdio: ['pipe', 'pipe', 'pipe'], detached: true, timeout: hungMs },
  });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stdin.on('error', () => {});
  // Typed after the question: a change of the terminal's mode may discard earlier input.
  await until('its question, or its end', () => stdout.includes('?') || child.exitCode !== null);
  child.stdin.end(input);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout, bytes: Buffer.from(stdout), stderr: '' };
}

export interface DqSink {
  readonly url: string;
  /** the output so far */
  stdout(): string;
  stderr(): string;
  /** the lines of --json */
  reports(): readonly Record<string, unknown>[];
  /** TERM; resolves with the exit code */
  stop(): Promise<number | null>;
}

/** `dq sink` on a free port, ended with the test. */
export async function startDqSink(args: readonly string[] = []): Promise<DqSink> {
  const child = spawn(process.execPath, [launcher, 'sink', '--port', '0', ...args], {
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const url = await until('dq sink listens, or has ended', () =>
    child.exitCode === null ? /http:\/\/\S+/.exec(stderr)?.[0] : 'ended',
  );
  if (url === 'ended') throw new Error(`dq sink ended with ${child.exitCode}: ${stderr}`);
  const lines = () => stdout.split('\n').slice(0, -1);
  return {
    url,
    stdout: () => stdout,
    stderr: () => stderr,
    reports: () => lines().map((line) => JSON.parse(line) as Record<string, unknown>),
    async stop() {
      child.kill('SIGTERM');
      return (await exited)[0];
    },
  };
}

/** Commands for this daemon, which they find by its data directory. */
export function commandsOf({ dataDir }: Pick<RunningDaemon, 'dataDir'>) {
  return (args: readonly string[], options: RunOptions = {}): Promise<Run> =>
    runDq(args, { ...options, env: { DQ_DATA_DIR: dataDir, ...options.env } });
}
