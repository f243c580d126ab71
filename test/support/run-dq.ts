// Runs a command of bin/dq to its end, as a shell would: never through npx, which hides exit codes and signals.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';
import { launcher } from './daemon.ts';
import { until } from './until.ts';

export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly input?: string | Buffer;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** What commands read of the environment must be the test's own. */
function environment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('DQ_') && name !== 'FORCE_COLOR',
  );
  return { ...Object.fromEntries(own), ...more };
}

export async function runDq(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  const child = spawn(process.execPath, [launcher, ...args], {
    cwd: options.cwd,
    env: environment(options.env),
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: 30_000,
    killSignal: 'SIGKILL',
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  // A command that fails early does not read its input.
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout, stderr };
}

export interface DqSink {
  readonly url: string;
  /** what it has printed */
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
  const url = await until(`dq sink listens`, () => /http:\/\/\S+/.exec(stderr)?.[0]);
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
