// Calls the HTTP API with the session's two halves: the browser sends the cookie, this file sends the key.
// A reply 401 ends the session of the page; the shell then shows the sign-in.

import { signal } from '@preact/signals';
import { recalled, remember } from '../remembered.ts';

/** The path under which a proxy serves the console: '' or '/dq'. The server writes it into the page. */
export const base = document.querySelector<HTMLMetaElement>('meta[name="dq-base"]')?.content ?? '';

export interface FieldError {
  readonly field: string;
  readonly message: string;
  readonly position?: number;
}

/** A reply with a problem, or no reply (status 0, code `no_reply`). */
export class CallError extends Error {
  readonly status: number;
  readonly code: string;
  readonly errors: readonly FieldError[];
  /** all members of the problem */
  readonly problem: Readonly<Record<string, unknown>>;

  constructor(status: number, code: string, detail: string, problem: Readonly<Record<string, unknown>> = {}) {
    super(detail);
    this.problem = problem;
    this.status = status;
    this.code = code;
    this.errors = (problem['errors'] as FieldError[] | undefined) ?? [];
  }
}

/** Daemons behind one proxy share its origin, and differ in the base path. */
const keyName = `dq-key${base}`;

let key = recalled(keyName);

export const hasKey = (): boolean => key !== null;

/** null ends the page's half of the session. */
export function setKey(next: string | null): void {
  key = next;
  remember(keyName, next);
}

// A sign-in in another tab ends the session of this one, which goes on with the new one.
addEventListener('storage', ({ key: name, newValue }) => {
  if (name === keyName && newValue !== null) key = newValue;
});

/** Whether a reply said that there is no session. */
export const signedOut = signal(false);

/** Acts that replace the session and still run. */
let replacing = 0;

/** `act` ends the session of the page and begins the next one: until it ends, a reply 401 is ignored. */
export async function replaceSession(act: () => Promise<void>): Promise<void> {
  replacing += 1;
  try {
    await act();
  } finally {
    replacing -= 1;
  }
}

/** x-dq-build of the newest reply; null before the first */
export const build = signal<string | null>(null);

/** The last reply of a call that is repeated: dq answers 304 while it is the same. */
export class LastReply {
  etag: string | null = null;
  json: unknown = null;
}

interface CallOptions {
  /** sent along, and renewed by the reply */
  readonly last?: LastReply | undefined;
  readonly query?: Query | undefined;
  /** sent as JSON */
  readonly json?: unknown;
  /** sent as it is; needs contentType */
  readonly text?: string;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** a reply 401 does not end the session of the page */
  readonly mayBeEarly?: boolean;
}

/** Absent and empty values are left out. */
export type Query = Readonly<Record<string, string | undefined>>;

/** Resolves to the reply's JSON. Rejects with CallError. */
export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const headers: Record<string, string> = { ...options.headers };
  const sent = key;
  if (sent !== null) headers['x-dq-key'] = sent;
  const { last } = options;
  if (last !== undefined && last.etag !== null) headers['if-none-match'] = last.etag;
  let body: string | Blob | null = null;
  if (options.json !== undefined) {
    body = JSON.stringify(options.json);
    headers['content-type'] = 'application/json';
  } else if (options.text !== undefined) {
    // Of a string the browser would send text/plain; of this, nothing that was not given.
    body = new Blob([options.text]);
    if (options.contentType !== undefined && options.contentType !== '')
      headers['content-type'] = options.contentType;
  }
  let reply: Response;
  try {
    const { signal = null } = options;
    const url = base + path + queryText(options.query);
    reply = await fetch(url, { method, headers, body, signal, credentials: 'same-origin' });
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    throw new CallError(0, 'no_reply', 'dq does not answer');
  }
  const newBuild = reply.headers.get('x-dq-build');
  if (newBuild !== null) build.value = newBuild;
  // Also of a 304: the browser reports a reply that is not read as an aborted request.
  const text = await reply.text();
  if (reply.status === 304 && last !== undefined) return last.json as T;
  const json = readJson(text);
  if (reply.ok) {
    if (last !== undefined) Object.assign(last, { etag: reply.headers.get('etag'), json });
    return json as T;
  }
  const problem = (json ?? {}) as { code?: string; detail?: string };
  // A late reply to the previous key does not end the session of the current one.
  const isOfSession = sent === key && replacing === 0 && path !== '/v1/session';
  if (reply.status === 401 && isOfSession && options.mayBeEarly !== true) signedOut.value = true;
  throw new CallError(
    reply.status,
    problem.code ?? `http_${reply.status}`,
    problem.detail ?? `HTTP ${reply.status}`,
    problem,
  );
}

export const get = <T>(path: string, query: Query = {}, last?: LastReply) =>
  call<T>('GET', path, { query, last });

/** Path of a topic's call: topicPath('a b', 'pause') = /v1/topics/a%20b/pause */
export const topicPath = (...parts: readonly string[]): string =>
  ['/v1/topics', ...parts.map(encodeURIComponent)].join('/');

/** With its question mark; '' without a value. */
export function queryText(query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  return given.length === 0 ? '' : `?${new URLSearchParams(given as [string, string][])}`;
}

/** The wait after so many failures of a call that is repeated: 1, 2, 4 … 15 s. */
export const retryMs = (failures: number): number => Math.min(1_000 * 2 ** failures, 15_000);

export const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
