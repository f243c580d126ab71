// Starts the helper servers of the benchmark, each in its own process, so that its work is not measured in
// the event loop of another one.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface Helper {
  readonly url: string;
  readonly pid: number;
  /** Later lines of its output. */
  onLine(listener: (line: string) => void): void;
  stop(): Promise<void>;
}

/** `push`: bare node:http without storage; `push-file` answers after a group fdatasync of a file;
 *  `push-redis` after a pipelined HSET and ZADD; `hang` never answers. */
export type BareKind = 'push' | 'push-file' | 'push-redis' | 'hang';

export const startBareServer = (kind: BareKind, argument = ''): Promise<Helper> =>
  startHelper('bare-server.ts', kind, argument);

export interface Sink extends Helper {
  /** Forgets everything, then counts: `skipped` and `done` resolve at the arrival number `skip` and `count`
   *  with its time in ms. */
  expect(skip: number, count: number): Promise<{ skipped: Promise<number>; done: Promise<number> }>;
  /** Arrivals on this path since the last call or expect(). */
  arrivals(path?: string): Promise<Arrivals>;
}

export interface Arrivals {
  /** epoch ms, by the dq-due-at header */
  readonly dueAt: readonly number[];
  /** ms */
  readonly lateness: readonly number[];
  /** all paths */
  readonly received: number;
}

export async function startSink(): Promise<Sink> {
  const helper = await startHelper('sink.ts');
  let marks: Record<string, (at: number) => void> = {};
  helper.onLine((line) => {
    const [name = '', at] = line.split(' ');
    marks[name]?.(Number(at));
  });
  return {
    ...helper,
    async expect(skip, count) {
      const mark = (name: string) => new Promise<number>((resolve) => (marks[name] = resolve));
      marks = {};
      const both = { skipped: mark('skipped'), done: mark('done') };
      await fetch(`${helper.url}/?skip=${skip}&count=${count}`, { method: 'PUT' });
      return both;
    },
    async arrivals(path = '/') {
      return (await (await fetch(helper.url + path)).json()) as Arrivals;
    },
  };
}

/** Starts a script of this folder; its first line of output is its port. It ends with its standard input. */
export async function startHelper(script: string, ...args: string[]): Promise<Helper> {
  const child: ChildProcess = spawn(
    process.execPath,
    ['--import', 'tsx', join(import.meta.dirname, script), ...args],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  if (child.stdout === null || child.pid === undefined) throw new Error(`${script} did not start`);
  const lines = createInterface({ input: child.stdout });
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`${script} ended with ${code}`);
  });
  const [port] = (await Promise.race([once(lines, 'line'), ended])) as [string];
  ended.catch(() => {});
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid,
    onLine: (listener) => void lines.on('line', listener),
    async stop() {
      child.stdin?.end();
      await ended.catch(() => {});
    },
  };
}
