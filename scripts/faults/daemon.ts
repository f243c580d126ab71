// Starts the real daemon of a run: bin/dq of this build on a fixed port, so that it returns there after a
// kill, and its receivers.
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { stringify } from 'yaml';
import { tryPorts } from '../services/free-port.ts';
import { childrenOf, isAlive, type LiveProcess } from '../services/live-processes.ts';
import { ServerProcess } from '../services/server-process.ts';
import { makeDirectory } from '../services/temporary-root.ts';
import type { Run } from './history.ts';
import { isPortClosed, waitFor } from './waiting.ts';

const launcher = resolve(import.meta.dirname, '../../bin/dq');
/** dq-master's workers end by themselves this long after its death: shutdownTimeout, and a busy machine. */
export const workersEndMsMax = 60_000;

export const settings = {
  /** Of the topics. The lease of an attempt is longer by the margin. */
  timeout: '5s',
  timeoutMs: 5_000,
  margin: '5s',
  backoff: ['300ms', '600ms', '1s', '2s'],
  backoffMs: [300, 600, 1_000, 2_000],
  /** A receiver that is down must not use up the attempts. */
  maxAttempts: 100,
} as const;

export class Daemon {
  readonly process: ServerProcess;
  readonly url: string;

  constructor(process: ServerProcess) {
    this.process = process;
    this.url = `http://127.0.0.1:${process.port}`;
  }

  async api(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await fetch(this.url + path, {
      method,
      // A stop would wait 5 s for an idle connection.
      headers: { connection: 'close', ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      signal: AbortSignal.timeout(20_000),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Answer['body'] };
  }

  workers(): readonly LiveProcess[] {
    return this.process.isRunning
      ? childrenOf(this.process.pid).filter(({ title }) => title.startsWith('dq-'))
      : [];
  }

  pidOf(title: string): number | null {
    return this.workers().find((worker) => worker.title === title)?.pid ?? null;
  }

  async isReady(): Promise<boolean> {
    return (await this.api('GET', '/readyz')).status === 200;
  }

  /** Ends the master, and each worker by its pid. */
  async stop(): Promise<void> {
    const workers = this.workers();
    await this.process.end();
    for (const { pid } of workers) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
    await this.process.stop();
  }
}

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: its shape depends on the route
  readonly body: any;
}

/** `args`: of the store */
export function startDaemon(args: readonly string[]): Promise<Daemon> {
  return tryPorts(1, async ([port = 0]) => {
    const directory = makeDirectory('dq');
    const config = {
      console: { enabled: false },
      lease: { margin: settings.margin },
    };
    writeFileSync(join(directory, 'dq.yaml'), stringify(config));
    const where = ['--data-dir', join(directory, 'data'), '--log-dir', join(directory, 'logs')];
    const isReady = async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
    return new Daemon(
      await ServerProcess.start({
        command: process.execPath,
        args: [launcher, 'start', '-c', 'dq.yaml', '--port', String(port), ...where, ...args],
        ...{ port, directory, isReady },
      }),
    );
  });
}

export interface Receiver {
  /** `receiver-a` */
  readonly name: string;
  readonly topic: string;
  readonly process: ServerProcess;
}

export function startReceiver(topic: string, history: string): Promise<Receiver> {
  const name = `receiver-${topic}`;
  return tryPorts(1, async ([port = 0]) => ({
    ...{ name, topic },
    process: await ServerProcess.start({
      command: process.execPath,
      args: [...asTypeScript('receiver.ts'), history, String(port), topic],
      ...{ port, directory: makeDirectory('receiver'), isReady: async () => !(await isPortClosed(port)) },
    }),
  }));
}

/** Arguments of node that run a file of this folder. */
export const asTypeScript = (file: string): readonly string[] => [
  '--import',
  import.meta.resolve('tsx'),
  join(import.meta.dirname, file),
];

/** `outcomes`: as of the run. A topic is added after the one that it names. */
export async function addTopics(
  daemon: Daemon,
  receivers: readonly Receiver[],
  outcomes: Run['outcomes'],
): Promise<void> {
  for (const { topic, process: server } of [...receivers].reverse()) {
    const { timeout, backoff, maxAttempts } = settings;
    const callbackUrl = `http://127.0.0.1:${server.port}/`;
    const next = outcomes[topic] ?? '';
    const wanted = { topic, callbackUrl, timeout, backoff, maxAttempts, onDone: next, onDead: next };
    const isThere = await waitFor(async () => {
      const { status } = await daemon.api('POST', '/v1/topics', wanted);
      return status === 201 || status === 409;
    }, 60_000);
    if (isThere === null) throw new Error(`cannot add the topic ${topic}`);
  }
}
