// Owns one server process of a test or a benchmark: starts, kills, freezes and restarts it on the same port
// and directory. Invariant: the server dies with the process that started it (the kernel kills it), and
// only its own pid is signalled, while it is our child.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { removeDirectory } from './temporary-root.ts';

export interface ServerSpec {
  /** program and arguments: `redis-server`, … */
  readonly command: string;
  readonly args: readonly string[];
  /** added to the environment of this process */
  readonly env?: Readonly<Record<string, string>>;
  readonly port: number;
  /** its own directory, removed with it */
  readonly directory: string;
  /** true when it serves; repeated until then, an exception counts as false */
  readonly isReady: () => Promise<boolean>;
}

/** RabbitMQ takes 6 s on a quiet machine, and more than 100 s on a busy one. */
const readyMsMax = 240_000;
const endMsMax = 15_000;
/** kept characters of the output; the reason of a failed start is at the end */
const outputCharsMax = 8_000;

export class ServerProcess {
  readonly #spec: ServerSpec;
  #child: ChildProcess | null = null;
  #exited: Promise<unknown> = Promise.resolve();
  #output = '';
  #hasServed = false;
  #isRemoved = false;

  private constructor(spec: ServerSpec) {
    this.#spec = spec;
  }

  /** Resolves when it serves. Rejects with its output when it ended; the directory is then gone. */
  static async start(spec: ServerSpec): Promise<ServerProcess> {
    const server = new ServerProcess(spec);
    try {
      await server.start();
      return server;
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  get port(): number {
    return this.#spec.port;
  }

  get directory(): string {
    return this.#spec.directory;
  }

  get isRunning(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  get pid(): number {
    if (!this.isRunning) throw new Error(`${this.#spec.command} is not running`);
    return this.#child?.pid as number;
  }

  /** the end of its output */
  get output(): string {
    return this.#output;
  }

  /** After kill() or end(): the same port, the same files. Resolves when it serves, unless `awaitReady` is
   *  false. */
  async start(awaitReady = true): Promise<void> {
    if (this.isRunning) throw new Error(`${this.#spec.command} is running`);
    const { command, args, directory, env } = this.#spec;
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', command, ...args], {
      cwd: directory,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const collect = (chunk: Buffer) => {
      this.#output = (this.#output + chunk.toString()).slice(-outputCharsMax);
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    this.#child = child;
    this.#hasServed = false;
    this.#exited = new Promise<void>((resolve) => {
      child.once('error', (error) => {
        this.#output += String(error);
        resolve();
      });
      child.once('exit', () => resolve());
    });
    // After the last output. Otherwise a test only sees that connections are refused.
    child.once('close', (code, signal) => {
      if (this.#hasServed && !child.killed)
        process.stderr.write(`${command} ended by itself (${signal ?? code}): ${this.#output}\n`);
    });
    if (awaitReady) await this.awaitReady();
  }

  async awaitReady(): Promise<void> {
    const start = performance.now();
    for (;;) {
      if (await this.#spec.isReady().catch(() => false)) {
        this.#hasServed = true;
        return;
      }
      if (!this.isRunning || this.#child?.pid === undefined)
        throw new Error(`${this.#spec.command} ended: ${this.#output}`);
      const passedMs = performance.now() - start;
      if (passedMs > readyMsMax)
        throw new Error(`${this.#spec.command} does not serve after ${readyMsMax} ms: ${this.#output}`);
      // isReady can start a process.
      await sleep(Math.min(Math.max(passedMs / 10, 20), 200));
    }
  }

  /** kill -9; the files stay */
  async kill(): Promise<void> {
    this.#signal('SIGKILL');
    await this.#exited;
  }

  /** TERM; the files stay */
  async end(): Promise<void> {
    this.#signal('SIGTERM');
    this.#signal('SIGCONT');
    const late = setTimeout(() => this.#signal('SIGKILL'), endMsMax);
    await this.#exited;
    clearTimeout(late);
  }

  /** SIGSTOP: connections stay open without replies. Resolves when the process has stopped. */
  async freeze(): Promise<void> {
    const { pid } = this;
    process.kill(pid, 'SIGSTOP');
    await untilStopped(pid);
  }

  thaw(): void {
    process.kill(this.pid, 'SIGCONT');
  }

  /** Removes its files too. May be called again. */
  async stop(): Promise<void> {
    await this.kill();
    if (this.#isRemoved) return;
    this.#isRemoved = true;
    await removeDirectory(this.#spec.directory);
  }

  #signal(name: NodeJS.Signals): void {
    if (this.isRunning) this.#child?.kill(name);
  }
}

/** A server that tests and benchmarks start: the part that all kinds share. */
export class StartedServer {
  readonly process: ServerProcess;

  constructor(process: ServerProcess) {
    this.process = process;
  }

  get port(): number {
    return this.process.port;
  }

  stop(): Promise<void> {
    return this.process.stop();
  }
}

/** kill() returns before all threads of the process have stopped. */
async function untilStopped(pid: number): Promise<void> {
  while (!/^State:\s+T/m.test(await readFile(`/proc/${pid}/status`, 'utf8'))) await sleep(1);
}

/** Runs a tool of the servers to its end and returns its output. */
export async function runTool(
  command: string,
  args: readonly string[],
  options: { readonly env?: NodeJS.ProcessEnv; readonly input?: string; readonly timeoutMs?: number } = {},
): Promise<string> {
  const child = spawn(command, args, {
    env: { ...process.env, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: options.timeoutMs ?? 60_000,
    killSignal: 'SIGKILL',
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk));
  child.stdin.on('error', () => {
    // The tool ended without reading all of its input; the exit code decides.
  });
  child.stdin.end(options.input ?? '');
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${command} ${args.join(' ')}: ${code}: ${stderr}${stdout}`);
  return stdout;
}
