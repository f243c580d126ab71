// Starts a server role for a test: real sockets on a free port, the embedded store and registry behind
// their owner's socket as in the daemon, and a record of everything that the role sent. Ends with the test.
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { FrontTimes } from '../../src/api/http/http-front.ts';
import type { CompatTimes } from '../../src/compat/limits.ts';
import { loadConfig } from '../../src/config/load.ts';
import { makeToken, type Scope } from '../../src/core/token.ts';
import { createIntake } from '../../src/intake/intake.ts';
import { openConsoleDoor } from '../../src/master/workers/console-door.ts';
import type { JobStore, Store } from '../../src/ports/job-store.ts';
import type { Registry } from '../../src/ports/registry.ts';
import type { ToMaster, ToWorker } from '../../src/process/messages.ts';
import type { Role, RoleContext } from '../../src/process/role.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import type { TopicBook } from '../../src/registry/topic-book.ts';
import { type LogFields, silentLog } from '../../src/telemetry/log.ts';
import type { MetricReport } from '../../src/telemetry/metrics.ts';
import { startComposed } from './composed.ts';
import type { ApiReply } from './daemon.ts';
import { dereferenced, type OpenApi, undescribed } from './described.ts';
import { openSqliteStore, type SqliteStore, temporaryDirectory } from './sqlite-store.ts';
import { hungMs, until } from './until.ts';

export interface IntakeOptions {
  /** by option name */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly times?: FrontTimes;
  readonly compatTimes?: CompatTimes;
  readonly restarts?: number;
  /** of the store */
  readonly clock?: () => number;
  /** replaces the store or the registry, to make it fail */
  readonly store?: (store: Store) => Store;
  readonly registry?: (registry: Registry) => Registry;
  readonly journal?: RoleContext['journal'];
  readonly onSend?: (message: ToMaster, answer: (message: ToWorker) => void) => void;
}

export interface TestIntake {
  readonly url: string;
  readonly port: number;
  readonly dataDir: string;
  readonly role: Role;
  readonly sqlite: SqliteStore;
  readonly store: Store;
  readonly registry: Registry;
  readonly topics: TopicBook;
  /** lines of the request log */
  readonly requests: LogFields[];
  readonly errors: string[];
  /** `topic name` → count */
  readonly counted: Map<string, number>;
  /** hints since the last call */
  metrics(): MetricReport | null;
  /** /openapi.json, dereferenced */
  readonly description: OpenApi;
  call(method: string, path: string, init?: RequestInit): Promise<ApiReply & { readonly headers: Headers }>;
  /** JSON in, JSON out. Like `call` and `push`, fails for a reply that /openapi.json does not describe. */
  api(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<ApiReply & { readonly headers: Headers }>;
  push(topic: string, body: Buffer | string, query?: string, contentType?: string): Promise<ApiReply>;
  /** A raw connection. */
  open(): RawConnection;
}

export interface RawConnection {
  readonly socket: Socket;
  send(text: string | Buffer): void;
  /** all bytes received so far */
  received(): string;
  /** resolves with all bytes after the other side has closed */
  readonly closed: Promise<string>;
}

export const adminToken = 'dqk_of-this-start';
export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** A started role and what it uses. */
export type ApiRole = Omit<TestIntake, 'description' | 'call' | 'api' | 'push'>;

/** /openapi.json, dereferenced: the same for each server of this version, and slow to make. */
let description: OpenApi | null = null;

export async function startIntake(options: IntakeOptions = {}): Promise<TestIntake> {
  const started = await startApiRole('server', options, (context) =>
    createIntake(context, options.times, options.compatTimes),
  );
  description ??= await describe(started.url);
  const call = describedCall(started.url, description);
  return {
    ...started,
    description,
    call,
    api: (method, path, body, headers = {}) =>
      call(
        method,
        path,
        body === undefined
          ? { headers }
          : { headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) },
      ),
    push: (topic, body, query = '', contentType = 'application/json') =>
      call('POST', `/v1/topics/${topic}/jobs${query}`, {
        headers: contentType === '' ? {} : { 'content-type': contentType },
        body: Buffer.from(body),
      }),
  };
}

/** A store whose calls on jobs do something else. */
export const withJobs =
  (change: (jobs: JobStore) => Partial<JobStore>) =>
  (store: Store): Store => ({ ...store, jobs: { ...store.jobs, ...change(store.jobs) } });

/** A store whose pushes wait until the test releases them. */
export function heldPushes() {
  const waiting: (() => void)[] = [];
  const store = withJobs((jobs) => ({
    push: async (...args) => {
      await new Promise<void>((resolve) => waiting.push(resolve));
      return jobs.push(...args);
    },
  }));
  const release = () => {
    for (const go of waiting.splice(0)) go();
  };
  return { store, waiting: () => waiting.length, release };
}

async function describe(url: string): Promise<OpenApi> {
  const reply = await fetch(`${url}/openapi.json`, { headers: bearer(adminToken) });
  return dereferenced((await reply.json()) as OpenApi);
}

/** Waits until so many pulls of clients wait. */
export const pullsWait = (dq: TestIntake, count: number) =>
  until(`${count} pulls wait`, () =>
    dq.metrics()?.gauges.some(([name, series]) => name === 'dq_pull_waiting' && series[0]?.[1] === count),
  );

/** Ends every token, and waits until this server knows it. */
export async function removeTokens(dq: TestIntake, headers: Record<string, string>): Promise<void> {
  for (const { name } of (await dq.registry.tokens(-1)).tokens ?? []) await dq.registry.removeToken(name);
  await until(
    'the removal is known',
    async () => (await dq.call('GET', '/v1/me', { headers })).status === 401,
  );
}

/** A new token, and its headers. */
export async function tokenFor(
  dq: Pick<TestIntake, 'registry' | 'call'>,
  topics: readonly string[],
  scopes: readonly Scope[] = ['read'],
) {
  const { token, id, digest } = makeToken();
  const ends = { expiresAt: null, usedAt: null };
  const name = `t-${id}`;
  await dq.registry.createToken({ name, id, digest, scopes, topics, createdAt: 0, ...ends });
  await until(
    'the token is known',
    async () => (await dq.call('GET', '/v1/me', { headers: bearer(token) })).status === 200,
  );
  return { name, token, headers: bearer(token) };
}

/** A call that fails for a reply that the description does not have. */
export function describedCall(url: string, description: OpenApi): TestIntake['call'] {
  return async (method, path, init = {}) => {
    const response = await fetch(url + path, { ...init, method, signal: AbortSignal.timeout(hungMs) });
    const text = await response.text();
    const type = (response.headers.get('content-type') ?? '').replace(/;.*/, '');
    const json = () => (text === '' ? null : JSON.parse(text));
    const body = type === 'text/plain' ? text : json();
    const wrong = undescribed(description, method, path, { status: response.status, type, body });
    if (wrong !== null) throw new Error(`${method} ${path}: ${wrong}`);
    return { status: response.status, headers: response.headers, body };
  };
}

/** Starts the role that `create` makes, with a real store and registry. Ends with the test. */
export async function startApiRole(
  name: 'server' | 'console',
  options: IntakeOptions,
  create: (context: RoleContext) => Role,
): Promise<ApiRole> {
  const directory = temporaryDirectory();
  onTestFinished(directory.remove);
  const loaded = loadConfig({ flags: {}, env: {}, cwd: directory.path });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const config = { ...loaded.config, 'server.port': 0, timezone: 'UTC', ...options.config };
  const registryDb = await openRegistryDb(join(directory.path, 'registry.db'));
  onTestFinished(() => registryDb.close());
  const sqlite = await openSqliteStore({
    registry: registryDb,
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  });
  onTestFinished(sqlite.close);
  const { store, registry } = sqlite.client;
  const requests: LogFields[] = [];
  const errors: string[] = [];
  const { journal, onSend } = options;
  const door = name === 'console' ? await openConsoleDoor(config, () => {}) : null;
  onTestFinished(() => door?.close());
  const { ctx, role, counted, meter, tell, drain } = await startComposed(
    { role: name, config, adminToken, restarts: options.restarts ?? 0, door: door?.endpoint },
    {
      connection: {
        ...sqlite.client,
        store: options.store?.(store) ?? store,
        registry: options.registry?.(registry) ?? registry,
      },
      log: {
        ...silentLog,
        request: (fields) => requests.push(fields),
        requestText: (members) => requests.push(JSON.parse(`{${members}}`) as LogFields),
        error: (message, error) => errors.push(`${message}: ${String(error)}`),
      },
      onSend,
      create: (ctx) => create(journal === undefined ? ctx : { ...ctx, journal }),
    },
  );
  onTestFinished(() => drain(0, true));
  door?.passTo({
    pass(connection) {
      tell({ kind: 'connection' }, connection);
      // Another process would get one that is not paused.
      connection.resume();
    },
  });
  const url = role.url ?? '';
  const port = Number(new URL(url).port);
  return {
    url,
    port,
    dataDir: config.dataDir,
    role,
    sqlite,
    store,
    registry,
    topics: ctx.topics,
    requests,
    errors,
    counted,
    metrics: () => meter.take(),
    open: () => openConnection(port),
  };
}

function openConnection(port: number): RawConnection {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  const received = () => Buffer.concat(chunks).toString('latin1');
  const closed = new Promise<string>((resolve) => {
    socket.on('end', () => {
      socket.end();
      resolve(received());
    });
    // The missing bytes show a reset.
    socket.on('error', () => resolve(`${received()}(reset)`));
  });
  onTestFinished(() => {
    socket.destroy();
  });
  return { socket, send: (text) => void socket.write(text), received, closed };
}
