// Runs a command of bin/dq to its end, as a shell does; never through npx, which hides exit codes and
// signals.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';
import { environment, launcher } from './daemon.ts';
import { until } from './until.ts';

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
  /** default 90 s */
  readonly timeoutMs?: number;
  /** another bin/dq than this repository's */
  readonly launcher?: string;
}

export async function runDq(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  const child = spawn(process.execPath, [options.launcher ?? launcher, ...args], {
    cwd: options.cwd,
    env: environment(options.env),
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: options.timeoutMs ?? 90_000,
    killSignal: 'SIGKILL',
  });
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
    env: environment(),
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
    timeout: 90_000,
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
