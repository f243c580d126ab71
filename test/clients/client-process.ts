// A process that runs commands with one client: runner.ts or runner.php.
import { execFileSync, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import type { PushOptions } from '../../src/clients/typescript/index.ts';
import { environment } from '../support/daemon.ts';
import { runDirectory } from '../support/services-setup.ts';

interface At {
  readonly url: string;
  readonly token?: string;
  /** ms */
  readonly patience?: number;
}
export type Command = At &
  (
    | { do: 'push'; topic: string; body?: unknown; base64?: string; options?: PushOptions }
    | { do: 'pushMany'; topic: string; count: number; options?: PushOptions }
    | { do: 'cancel'; topic: string; id: string }
    | { do: 'verify'; headers: Record<string, string>; base64: string; secret: string }
    /** `concurrency`: PHP works on one job at a time */
    | { do: 'pull'; topic: string; concurrency?: number }
  );

/** In the body of a pulled job: how its work goes. */
export interface WorkOrder {
  /** a file that the test makes */
  readonly waitFor?: string;
  readonly fail?: string;
  /** It sends SIGTERM to itself. */
  readonly signal?: true;
  /** Its result, or the message of its failure, is invalid JSON. */
  readonly odd?: 'result' | 'reason';
  /** the result of its ack */
  readonly result?: unknown;
  readonly nack?: { readonly delay?: string; readonly dead?: true; readonly release?: true };
}

export interface Answer {
  // biome-ignore lint/suspicious/noExplicitAny: what a client returns is what the test asserts
  readonly result?: any;
  readonly code?: string;
  readonly status?: number;
}

export interface ClientEvent {
  /** `signal`: SIGTERM arrived */
  readonly event: 'job' | 'error' | 'signal';
  readonly id?: string;
  readonly attempt?: number;
  /** base64 */
  readonly body?: string;
  readonly message?: string;
}

export interface ClientProcess {
  readonly pid: number;
  /** since the last call of ask */
  readonly events: readonly ClientEvent[];
  stderr(): string;
  ask(command: Command): Promise<Answer>;
}

export interface Language {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  /** why it cannot run here, or null */
  readonly missing: () => Promise<string | null>;
}

const root = join(import.meta.dirname, '../..');

/** As the package of npm holds it. */
function compiledClient(): string {
  const directory = mkdtempSync(join(runDirectory(), 'client-'));
  const source = join(root, 'src/clients/typescript');
  const outDir = join(directory, 'dist');
  execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', source, '--outDir', outDir]);
  const { type, exports } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'));
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ type }));
  return join(directory, exports);
}

export const languages: readonly Language[] = [
  {
    name: 'TypeScript',
    command: [
      ...([process.execPath, '--import', 'tsx'] as const),
      join(import.meta.dirname, 'runner.ts'),
      compiledClient(),
    ],
    missing: async () => null,
  },
  {
    name: 'PHP',
    // Its input is a socket, from which PHP reads for 60 s otherwise: it would end while a test waits.
    command: ['php', '-d', 'default_socket_timeout=-1', join(import.meta.dirname, 'runner.php')],
    missing: () => whyNotInstalled('phpCurl'),
  },
];

/** Ends with the file. */
export function startClient({ command: [program, ...args], name }: Language): ClientProcess {
  const child = spawn(program, args, { cwd: root, env: environment(), stdio: ['pipe', 'pipe', 'pipe'] });
  const exited = once(child, 'exit');
  afterAll(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const events: ClientEvent[] = [];
  const answers = new EventEmitter<{ answer: [Answer | null] }>();
  createInterface(child.stdout).on('line', (line) => {
    const json = JSON.parse(line) as Answer | ClientEvent;
    if ('event' in json) events.push(json);
    else answers.emit('answer', json);
  });
  child.on('exit', () => answers.emit('answer', null));
  return {
    pid: child.pid as number,
    events,
    stderr: () => stderr,
    async ask(command) {
      events.length = 0;
      const answered = once(answers, 'answer') as Promise<[Answer | null]>;
      if (child.exitCode === null) child.stdin.write(`${JSON.stringify(command)}\n`);
      else answers.emit('answer', null);
      const [answer] = await answered;
      if (answer === null) throw new Error(`the ${name} client ended: ${stderr}`);
      return answer;
    },
  };
}
