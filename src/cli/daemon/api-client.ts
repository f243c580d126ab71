// Makes one call of the HTTP API. Returns a 2xx reply unchanged; turns everything else into one message and
// an exit code. Bounds the time of a reply. Never repeats a call: the caller knows if that is safe.

import { userInfo } from 'node:os';
import type { ProblemJson } from '../../contract/api/schema.ts';
import { wordsOf } from '../../core/errors.ts';
import { userNamePattern } from '../../core/token.ts';
import { type Exchanged, exchange } from '../../runtime/exchange.ts';
import { timeoutSignal } from '../../runtime/time.ts';
import { Exit, joined } from '../exit.ts';
import { cliLimits } from '../limits.ts';
import type { Daemon } from './find-daemon.ts';

export interface ApiCall {
  /** default: GET */
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** segments, not yet percent-encoded */
  readonly path: readonly string[];
  /** without the undefined members */
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** sent as application/json */
  readonly json?: unknown;
  /** besides those that each call has */
  readonly headers?: Readonly<Record<string, string>>;
  /** sent unchanged; contentType null = no header */
  readonly body?: { readonly bytes: Buffer; readonly contentType: string | null };
  /** members that every such reply of dq has: another server may answer JSON too */
  readonly needs?: readonly string[];
  /** the command's flags by API field name, for error messages */
  readonly flags?: FlagNames;
  /** how long the daemon may wait before it answers; default 0 */
  readonly waitMs?: number;
  /** aborts the call */
  readonly signal?: AbortSignal;
}

/** `{ callbackUrl: '--callback' }` */
export type FlagNames = Readonly<Record<string, string>>;

export interface ApiReply<T = unknown> {
  readonly status: number;
  /** unchanged */
  readonly text: string;
  readonly json: T;
  /** the daemon's clock in whole seconds, as epoch ms; null = no Date header */
  readonly at: number | null;
}

/** The body of an error, application/problem+json (RFC 9457). */
export interface Problem extends ProblemJson {
  /** id of a push without one whose outcome is unknown */
  readonly id?: string;
  /** of a topic that still has jobs: their number, and how many this call purged */
  readonly jobs?: number;
  readonly purged?: number;
  /** of a job that has ended: how */
  readonly state?: string;
}

/** An error reply of the API. */
export class ApiRefusal extends Exit {
  readonly problem: Problem;
  constructor(problem: Problem, { flags, path }: Partial<ApiCall> = {}) {
    const sentence = sentenceOf(problem, flags);
    super(/_not_found$/.test(problem.code) ? 'notFound' : 'failed', withWay(sentence, problem, path));
    this.name = 'ApiRefusal';
    this.problem = problem;
  }
}

/** The commands that list the existing names. */
const lists: Readonly<Record<string, string>> = {
  topic_not_found: 'dq topic ls lists the topics',
  schedule_not_found: 'dq schedule ls lists the schedules',
  token_not_found: 'dq token ls lists the tokens',
  session_not_found: 'dq console sessions lists the sessions',
  operation_not_found: 'dq op ls lists the operations',
  shard_not_found: 'dq shard ls lists the shards',
};

/** Adds the command that finds the thing, or leads out of its state, where the API has named no other way. */
function withWay(sentence: string, { code, state }: Problem, path: ApiCall['path'] = []): string {
  const list = Object.hasOwn(lists, code) ? lists[code] : undefined;
  if (list !== undefined) return sentence.endsWith('?') ? sentence : `${sentence}; ${list}`;
  const [, , topic, kind, id, verb] = path;
  if (kind !== 'jobs') return sentence;
  if (code === 'topic_offline') return `${sentence}: dq topic resume ${topic}`;
  if (code === 'job_dead')
    return `${sentence}: ${verb === undefined ? `dq edit ${topic} ${id} --requeue` : `dq dead requeue ${topic} --id ${id}`}`;
  const isUnknown = code === 'job_not_found' && state === undefined;
  return isUnknown ? `${sentence}; dq ls --id ${id} looks in every topic` : sentence;
}

/** One line: the messages of the fields, because `detail` only counts them; else `detail`. */
export function sentenceOf(problem: Problem, flags: FlagNames = {}): string {
  const fields = problem.errors
    .map(({ field, message }) => (field === '' ? message : `${flagOf(field, flags)}: ${message}`))
    .reduce((text, part) => (text === '' ? part : joined(text, part)), '');
  const text = fields || problem.detail || problem.title;
  // The console's port rejects a request without a session by the same code, and no token helps there.
  return text.startsWith('authorization: ') && problem.code === 'unauthorized'
    ? `${text} (give --token or DQ_TOKEN)`
    : text;
}

/** `callbackUrl` → `--callback`, `backoff[1]` → `--backoff, value 2`, `headers.x-a` → `--header x-a`,
 *  `filter.since` → `--since`. */
function flagOf(field: string, flags: FlagNames): string {
  const member = field.replace(/^filter\./, '');
  const [name = ''] = /^[A-Za-z-]+/.exec(member) ?? [];
  if (!Object.hasOwn(flags, name)) return field;
  const rest = member.slice(name.length).replace(/^\./, ' ');
  return `${flags[name]}${rest.replace(/^\[(\d+)\]/, (_, index) => `, value ${Number(index) + 1}`)}`;
}

export class ApiClient {
  readonly #daemon: Daemon;

  constructor(daemon: Daemon) {
    this.#daemon = daemon;
  }

  /** Returns a 2xx reply. Throws ApiRefusal for every other reply of dq, and Exit without one. */
  async call<T = unknown>(call: ApiCall): Promise<ApiReply<T>> {
    const { status, text, at } = await this.#exchange(call);
    const json = parse(text);
    if (status >= 200 && status < 300 && hasAll(json, call.needs))
      return { status, text, json: json as T, at };
    if (isProblem(json)) throw new ApiRefusal({ ...json, errors: json.errors ?? [] }, call);
    throw new Exit(
      'unreachable',
      `${this.#daemon.url} answers ${status}, but not like dq; check that it is the address of a dq daemon`,
    );
  }

  async #exchange(call: ApiCall): Promise<Exchanged> {
    const url = urlOf(this.#daemon.url, call);
    const { bytes, contentType } = payloadOf(call);
    const headers: Record<string, string> = { accept: 'application/json', ...call.headers };
    if (bytes !== null) headers['content-length'] = String(bytes.length);
    if (contentType !== null) headers['content-type'] = contentType;
    if (this.#daemon.token !== null) headers['authorization'] = `Bearer ${this.#daemon.token}`;
    const user = this.#daemon.pid === null ? null : systemUser();
    if (user !== null) headers['dq-user'] = user;
    const { method = 'GET', waitMs = 0, signal: given } = call;
    const late = timeoutSignal(cliLimits.apiCallMs + waitMs);
    const signal = given === undefined ? late : AbortSignal.any([late, given]);
    try {
      return await exchange(url, { method, headers, body: bytes ?? undefined, signal });
    } catch (error) {
      throw this.#withoutReply(error);
    }
  }

  #withoutReply(error: unknown): Exit {
    const { pid, url } = this.#daemon;
    const refused = (error as NodeJS.ErrnoException).code === 'ECONNREFUSED';
    if (refused && pid !== null && !isAlive(pid))
      return new Exit(
        'notRunning',
        `no daemon is running: run/dq.json is left over from process ${pid}, which has ended`,
      );
    return new Exit(
      'unreachable',
      `${url} does not answer: ${reasonOfFailure(error)}${remedyOf(url, error)}`,
      {
        cause: error,
      },
    );
  }
}

function urlOf(base: string, call: ApiCall): URL {
  // URL resolves these: DELETE /topics/T/jobs/.. would delete the topic.
  const invalid = call.path.find((segment) => segment === '' || segment === '.' || segment === '..');
  if (invalid !== undefined) throw new Exit('usage', `invalid name "${invalid}"`);
  const url = new URL(`${base}/${call.path.map(encodeURIComponent).join('/')}`);
  for (const [name, value] of Object.entries(call.query ?? {}))
    if (value !== undefined) url.searchParams.set(name, String(value));
  return url;
}

function payloadOf(call: ApiCall): { bytes: Buffer | null; contentType: string | null } {
  if (call.json !== undefined)
    return { bytes: Buffer.from(JSON.stringify(call.json)), contentType: 'application/json' };
  return call.body ?? { bytes: null, contentType: null };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the reply of another server
  }
}

function isProblem(json: unknown): json is Omit<Problem, 'errors'> & { errors?: Problem['errors'] } {
  return typeof json === 'object' && json !== null && 'code' in json && 'status' in json && 'title' in json;
}

function hasAll(json: unknown, members: readonly string[] = []): boolean {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return false;
  return members.every((name) => Object.hasOwn(json, name));
}

/** What to do when the port speaks another protocol; empty when unknown. */
function remedyOf(url: string, error: unknown): string {
  const { code = '', message = '' } = error as NodeJS.ErrnoException;
  if (code === 'ECONNREFUSED') return '; nothing listens there: start dq, or name another address by --url';
  if (code === 'ENOTFOUND') return '; no machine has this name: check --url or DQ_URL';
  if (url.startsWith('https:')) {
    if (code === 'EPROTO' || /wrong version number|packet length/i.test(message))
      return '; the port does not speak TLS: try http://';
    if (/CERT|SELF_SIGNED|UNABLE_TO|ALTNAME/.test(code))
      return '; for an authority of your own set NODE_EXTRA_CA_CERTS=FILE';
  }
  // Redis replies with an error text, a TLS port with an alert or nothing.
  if (code.startsWith('HPE_') || message === 'socket hang up')
    return '; the port does not speak HTTP: check that it is the port of dq, and for TLS write https://';
  return '';
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Who runs this command, also by sudo; null: the user has no name, or one that no header can have. */
function systemUser(): string | null {
  try {
    const name = process.env['SUDO_USER'] ?? userInfo().username;
    return userNamePattern.test(name) ? name : null;
  } catch {
    return null; // the uid has no entry
  }
}

function reasonOfFailure(error: unknown): string {
  if (error instanceof Error && (error.name === 'TimeoutError' || error.name === 'AbortError'))
    return `no reply within ${cliLimits.apiCallMs / 1_000} s`;
  const [first = ''] = wordsOf(error).split('\n');
  // OpenSSL: `C0…:error:0A00010B:SSL routines:ssl3_get_record:wrong version number:../deps/…:355:`
  return /:SSL routines:[^:]*:([^:]+):/.exec(first)?.[1] ?? first;
}
