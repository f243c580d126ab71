// Starts a console role for a test: real sockets on a free port, a real store and registry, a page of a few
// files, and clients that hold the two halves of a session. Ends with the test.
import { mkdirSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createConsole } from '../../src/console/console.ts';
import type { Daemon } from './daemon.ts';
import { dereferenced, type OpenApi } from './described.ts';
import { testDirectory } from './directory.ts';
import { type ApiRole, describedCall, type IntakeOptions, startApiRole, type TestIntake } from './intake.ts';

export interface ConsoleOptions extends Omit<IntakeOptions, 'times'> {
  /** epoch ms, for the ends of sessions and links */
  readonly now?: () => number;
  /** no page in the build */
  readonly withoutPage?: boolean;
}

/** Both halves, as a browser holds them. */
export interface Halves {
  readonly cookie: string;
  readonly key: string;
}

export interface RawReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  // biome-ignore lint/suspicious/noExplicitAny: what a reply holds is what the test asserts
  readonly json: any;
}

export interface TestConsole extends ApiRole {
  /** Sends these headers and no other: fetch sets some itself. */
  send(
    method: string,
    path: string,
    headers?: Readonly<Record<string, string>>,
    body?: string,
  ): Promise<RawReply>;
  signIn(body: unknown, headers?: Readonly<Record<string, string>>): ReturnType<typeof signInAt>;
  /** GET with these halves → status */
  status(path: string, halves: Partial<Halves>, headers?: Readonly<Record<string, string>>): Promise<number>;
  /** /openapi.json, read with a session */
  description(halves: Halves): Promise<OpenApi>;
  /** Fails for a reply that the description does not have. */
  described(description: OpenApi): TestIntake['call'];
}

export const halvesIn = ({ cookie, key }: Partial<Halves>): Record<string, string> => ({
  ...(cookie === undefined ? {} : { cookie }),
  ...(key === undefined ? {} : { 'x-dq-key': key }),
});

export async function startConsole(options: ConsoleOptions = {}): Promise<TestConsole> {
  const assets = options.withoutPage === true ? join(tmpdir(), 'no-such-console') : makePage();
  const config = { 'console.port': 0, ...options.config };
  const started = await startApiRole('console', { ...options, config }, (context) =>
    createConsole(context, {
      assets,
      ...(options.now === undefined ? {} : { now: options.now, monotonic: options.now }),
    }),
  );
  const send: TestConsole['send'] = (method, path, headers = {}, body) =>
    sendTo(started.port, method, path, headers, body);
  return {
    ...started,
    send,
    signIn: (body, headers) => signInAt(started.port, body, headers),
    status: async (path, halves, headers = {}) =>
      (await send('GET', path, { ...halvesIn(halves), ...headers })).status,
    description: async (halves) =>
      dereferenced((await send('GET', '/openapi.json', halvesIn(halves))).json as OpenApi),
    described: (description) => describedCall(started.url, description),
  };
}

export const consolePort = async (daemon: Pick<Daemon, 'consoleUrl'>): Promise<number> =>
  Number(new URL(await daemon.consoleUrl()).port);

/** `halves` null: rejected */
async function signInAt(port: number, by: unknown, more: Readonly<Record<string, string>> = {}) {
  const headers = { 'content-type': 'application/json', ...more };
  const reply = await sendTo(port, 'POST', '/v1/session', headers, JSON.stringify(by));
  const [cookie = ''] = String(reply.headers['set-cookie'] ?? '').split(';');
  const halves: Halves | null = reply.status === 200 ? { cookie, key: reply.json.key } : null;
  return { ...reply, halves };
}

/** A session of the console on this port, by a link, by a token or as this machine. */
export async function sessionAt(port: number, by: unknown = {}): Promise<Halves> {
  const { status, halves } = await signInAt(port, by);
  if (halves === null) throw new Error(`the sign-in is rejected: ${status}`);
  return halves;
}

export function sendTo(
  port: number,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body?: string,
): Promise<RawReply> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { host: '127.0.0.1', port, method, path, agent: false, headers: { connection: 'close', ...headers } },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => {
          const bytes = Buffer.concat(chunks);
          const isJson = /json/.test(response.headers['content-type'] ?? '');
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: bytes,
            json: isJson && bytes.length > 0 ? JSON.parse(bytes.toString()) : null,
          });
        });
      },
    );
    request.on('error', reject);
    request.end(body);
  });
}

/** A page of one script, as the build lays it out. */
function makePage(): string {
  const directory = testDirectory();
  writePage(directory);
  return directory;
}

export function writePage(directory: string): void {
  mkdirSync(directory, { recursive: true });
  const write = (name: string, text: string) => writeFileSync(join(directory, name), text);
  write('index.html', page);
  write('index.html.br', 'brotli of the page');
  write('a-1.js', 'script');
  write('a-1.js.gz', 'gzip of the script');
  write('a-1.js.br', 'brotli of the script');
  write(
    'manifest.json',
    JSON.stringify({
      '/': { type: 'text/html; charset=utf-8', file: 'index.html', br: 'index.html.br' },
      '/assets/a-1.js': { type: 'text/javascript', file: 'a-1.js', gzip: 'a-1.js.gz', br: 'a-1.js.br' },
    }),
  );
}

export const page = '<meta name="dq-base" content=""><script src="/assets/a-1.js"></script>';
