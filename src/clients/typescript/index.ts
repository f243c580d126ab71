// The client of dq for Node, Bun and Deno: pushes and cancels jobs, verifies callbacks, pulls jobs.
// Invariant: a push has its id before its first try, and mode=keep, so that every try can be repeated.
// One file without dependencies; ../README.md is the contract that it shares with the other clients.

import { setTimeout } from 'node:timers/promises';

// Node 18 has no global crypto.
const crypto = globalThis.crypto ?? (await import('node:crypto')).webcrypto;

type Texts<Name extends string> = Readonly<Record<Name, string>>;
type Trace = Partial<Texts<'traceparent' | 'tracestate'>>;

/** The query parameters of a push, such as `delay: '30m'`, and its headers. */
export interface PushOptions extends Trace, Partial<Texts<'delay' | 'deadline' | 'lease' | 'idempotency'>> {
  /** default: a UUIDv7 */
  readonly id?: string;
  readonly at?: string | number | Date;
  /** what happens when the topic has a job of this id; default `keep`. `reject` is not safe to repeat. */
  readonly mode?: 'keep' | 'replace' | 'reject';
  readonly maxAttempts?: number;
  /** such as `2n+1` or `15s,3m,1h` */
  readonly backoff?: string;
  /** The body is meant as it is, although it looks like an item of a batch. */
  readonly literal?: true;
  /** of a body that is text or bytes; without it dq stores none. Any other body is JSON. */
  readonly contentType?: string;
}

export interface Pushed extends Texts<'topic' | 'id' | 'version' | 'dueAt'> {
  readonly state: 'delayed' | 'ready' | 'reserved' | 'dead' | 'done' | 'cancelled' | 'purged' | 'expired';
  readonly replaced: boolean;
  /** a job of this id was stored, and stays as it is, or had ended at endedAt, within the window */
  readonly duplicate: boolean;
  readonly endedAt?: string;
  readonly inFlight: boolean;
}

type JobTexts = Texts<'topic' | 'id' | 'version' | 'dueAt' | 'createdAt' | 'lease' | 'leaseUntil'>;
export interface Job extends JobTexts, Trace {
  /** the same on all attempts of the job: the key against duplicates */
  readonly webhookId: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly contentType: string | null;
  readonly body: Uint8Array;
  json(): unknown;
  /** `work` sets it for the job of `onDone`: any JSON, at most 64 KiB */
  result?: unknown;
}

export interface PullOptions {
  /** jobs at the same time; default 1 */
  readonly concurrency?: number;
  readonly lease?: string;
  /** Its abort ends the loop: jobs that run finish, others are released. */
  readonly signal?: AbortSignal;
  /** gets what `work` throws, and failed calls of dq; default console.error */
  readonly onError?: (error: unknown, job?: Job) => void;
}

/** `code` is that of dq; `unreachable` without an answer, with the status 0; `bad_signature` of verify(). */
export class DqError extends Error {
  readonly code: string;
  readonly status: number;
  /** ms after which a repeat can succeed; null: it would fail again */
  readonly repeatAfter: number | null;

  constructor(code: string, message: string, status = 0, repeatAfter: number | null = null) {
    super(message);
    this.name = 'DqError';
    this.code = code;
    this.status = status;
    this.repeatAfter = repeatAfter;
  }
}

/** `work` throws it to choose the answer. `dead` allows no further attempt, `release` counts none. */
export class Nack extends Error {
  readonly answer: { readonly delay?: string; readonly dead?: true; readonly release?: true };

  constructor(reason: string, answer: Nack['answer'] = {}) {
    super(reason);
    this.answer = answer;
  }
}

type Work = (job: Job) => unknown;
type OnError = NonNullable<PullOptions['onError']>;
interface Call {
  readonly method?: 'DELETE' | 'POST';
  readonly body?: string | Uint8Array | null;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly patience?: number;
  /** ms that dq may wait with its answer */
  readonly wait?: number;
  readonly stop?: AbortSignal;
  readonly onRepeat?: (error: DqError) => void;
}

// biome-ignore lint/suspicious/noExplicitAny: its reader knows the route
type Reply = { readonly json: any; readonly at: number };

export class Dq {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #patience: number;

  /** `patience`: ms in which a failed call is repeated */
  constructor(options: { readonly url: string; readonly token?: string; readonly patience?: number }) {
    this.#url = new URL(options.url).href.replace(/\/+$/, '');
    this.#token = options.token;
    this.#patience = options.patience ?? 30_000;
  }

  /** Resolves when the job is stored. Text and bytes are sent as they are, any other body as JSON. */
  async push(topic: string, body: unknown, options: PushOptions = {}): Promise<Pushed> {
    const { contentType, traceparent, tracestate, at, ...settings } = options;
    const query = new URLSearchParams({ id: uuid7(), mode: 'keep' });
    const time = at instanceof Date ? at.toISOString() : at;
    for (const [name, value] of Object.entries({ ...settings, at: time }))
      if (value !== undefined) query.set(name, String(value));
    const isRaw = typeof body === 'string' || body instanceof Uint8Array;
    const headers = { traceparent, tracestate, ...(isRaw ? { 'content-type': contentType } : jsonType) };
    const path = `/v1/topics/${encodeURIComponent(topic)}/jobs?${query}`;
    return (await this.#call(path, { headers, body: isRaw ? body : JSON.stringify(body) })).json;
  }

  /** Removes a job in any state. inFlight: an attempt runs, and may still arrive. */
  async cancel(topic: string, id: string): Promise<{ cancelled: boolean; inFlight: boolean }> {
    const path = `/v1/topics/${encodeURIComponent(topic)}/jobs/${encodeURIComponent(id)}`;
    try {
      return (await this.#call(path, { method: 'DELETE' })).json;
    } catch (error) {
      // Also the repeat of a cancel whose answer was lost.
      if ((error as DqError).code === 'job_not_found') return { cancelled: false, inFlight: false };
      throw error;
    }
  }

  /** Calls `work` for each due job, and extends its lease meanwhile: acks it, or nacks it when `work` throws.
   *  Waits for a dq that does not answer. Resolves after the signal; rejects when dq rejects a pull. */
  async pull(topics: string | readonly string[], work: Work, options: PullOptions = {}) {
    const { concurrency = 1, lease, signal, onError = console.error } = options;
    // One for each loop: Node warns of a signal with more than ten listeners.
    const stops = Array.from({ length: concurrency }, () => new AbortController());
    const end = () => stops.map((stop) => stop.abort());
    signal?.addEventListener('abort', end);
    if (signal?.aborted) end();
    const waiting = { wait: 30_000, patience: Number.POSITIVE_INFINITY, onRepeat: onError };
    const take = { ...jsonCall({ topics: [topics].flat(), wait: '30s', lease }), ...waiting };
    const loop = async (stop: AbortSignal) => {
      while (!stop.aborted) {
        const { json, at } = await this.#call('/v1/pull', { ...take, stop });
        for (const { body = '', bodyBase64, ...item } of json.items) {
          const bytes = bodyBase64 === undefined ? encode(body) : fromBase64(bodyBase64);
          const job: Job = { ...item, body: bytes, json: () => JSON.parse(new TextDecoder().decode(bytes)) };
          // The clock of the reply has whole seconds, so the lease has, too.
          const leaseMs = Math.floor((Date.parse(job.leaseUntil) - at) / 1_000) * 1_000;
          const nack = stop.aborted ? { release: true } : await this.#work(job, leaseMs, work, onError);
          const end = (verb: string, members: object) =>
            this.#call(`/v1/leases/${verb}`, jsonCall({ leases: [job.lease], ...members }));
          await (nack ? end('nack', nack) : end('ack', { result: job.result })).catch(async (error) => {
            onError(error, job);
            // A result that is too large is a failure of the work.
            if (nack === null && error.status === 413)
              await end('nack', { reason: reasonOf(error) }).catch((again) => onError(again, job));
          });
        }
      }
    };
    const ends = await Promise.allSettled(stops.map((stop) => loop(stop.signal).finally(end)));
    signal?.removeEventListener('abort', end);
    for (const one of ends) if (one.status === 'rejected' && one.reason.code !== 'stopped') throw one.reason;
  }

  /** What to nack with, or null. */
  async #work(job: Job, leaseMs: number, work: Work, onError: OnError): Promise<object | null> {
    const ended = new AbortController();
    const extending = this.#extend(job, leaseMs, ended.signal).catch((error) => onError(error, job));
    try {
      await work(job);
      jsonCall({ result: job.result }); // An invalid one is a failure of the work.
      return null;
    } catch (error) {
      const reason = reasonOf(error);
      if (error instanceof Nack) return error.answer.release ? error.answer : { reason, ...error.answer };
      onError(error, job);
      return { reason };
    } finally {
      ended.abort();
      await extending;
    }
  }

  /** At half of the lease, until `ended`. Rejects when the job is lost. */
  async #extend({ lease }: Job, leaseMs: number, ended: AbortSignal): Promise<void> {
    const call = jsonCall({ leases: [lease], for: `${leaseMs}ms` });
    while (!ended.aborted) {
      await sleep(Math.max(leaseMs / 2, 500), ended);
      if (ended.aborted) return;
      await this.#call('/v1/leases/extend', { ...call, stop: ended, patience: leaseMs }).catch((error) => {
        if (error.repeatAfter === null && !ended.aborted) throw error;
      });
    }
  }

  /** Repeats what may succeed later, as long as `patience`. */
  async #call(path: string, call: Call): Promise<Reply> {
    const end = Date.now() + (call.patience ?? this.#patience);
    for (let pause = 50; ; pause = Math.min(pause * 2, 5_000)) {
      try {
        return await this.#try(path, call);
      } catch (error) {
        const { repeatAfter } = error as DqError;
        const wait = Math.max(repeatAfter ?? 0, pause * (0.5 + Math.random() / 2));
        if (repeatAfter === null || Date.now() + wait > end) throw error;
        if (pause === 50) call.onRepeat?.(error as DqError);
        await sleep(wait, call.stop);
      }
    }
  }

  async #try(
    path: string,
    { method = 'POST', body = null, headers = {}, wait = 0, stop }: Call,
  ): Promise<Reply> {
    const abort = new AbortController();
    const end = () => abort.abort();
    stop?.addEventListener('abort', end, { signal: abort.signal });
    if (stop?.aborted) end();
    sleep(10_000 + wait, abort.signal).then(end);
    try {
      const sent = new Headers(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` });
      for (const [name, value] of Object.entries(headers)) if (value !== undefined) sent.set(name, value);
      // fetch adds a content type to text, and none to bytes.
      const bytes = typeof body === 'string' ? encode(body) : body;
      const reply = await fetch(this.#url + path, {
        method,
        headers: sent,
        body: bytes,
        signal: abort.signal,
      });
      // An answer that has begun is read to its end: it can hold a job.
      stop?.removeEventListener('abort', end);
      // A proxy can answer without JSON.
      const json: Reply['json'] = await (reply.ok ? reply.json() : reply.json().catch(() => ({})));
      const lease = json.results?.[0] ?? { status: 200 };
      const { status, code, detail } = lease.status < 300 ? { ...json, status: reply.status } : lease;
      if (status < 300) return { json, at: Date.parse(reply.headers.get('date') ?? '') || Date.now() };
      const after = reply.headers.get('retry-after') ?? '0';
      const ms = /^\d+$/.test(after) ? Number(after) * 1_000 : Date.parse(after) - Date.now() || 0;
      const repeatAfter = [502, 503, 504].includes(status) ? ms : null;
      throw new DqError(code ?? `status_${status}`, detail ?? code ?? 'no problem', status, repeatAfter);
    } catch (error) {
      if (error instanceof DqError) throw error;
      if (stop?.aborted) throw new DqError('stopped', 'the call was stopped');
      throw new DqError('unreachable', `no answer of dq: ${(error as Error).cause ?? error}`, 0, 0);
    } finally {
      end();
    }
  }
}

/** The signature covers the body and webhookId, the key against duplicates. The others are plain headers. */
export type Callback = Texts<'webhookId' | 'topic' | 'id'> & { readonly attempt: number };

/** Rejects with `bad_signature` when the callback is not from dq. `body`: the raw bytes; `secret`: whsec_… */
export async function verify(
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>,
  body: Uint8Array | string,
  secret: string,
): Promise<Callback> {
  const header = (name: string) =>
    String((headers instanceof Headers ? headers.get(name) : headers[name]) ?? '');
  const [webhookId, time] = [header('webhook-id'), header('webhook-timestamp')];
  if (!/^\d{1,12}$/.test(time) || Math.abs(Date.now() / 1_000 - Number(time)) > 300)
    throw new DqError('bad_signature', 'webhook-timestamp is not within 5 minutes from now');
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const secretBytes = fromBase64(secret.replace(/^whsec_/, ''));
  const key = await crypto.subtle.importKey('raw', secretBytes, algorithm, false, ['verify']);
  const signed = await new Blob([`${webhookId}.${time}.`, body as string]).arrayBuffer();
  // crypto.subtle.verify compares in constant time.
  const checks = header('webhook-signature')
    .split(' ')
    .filter((given) => /^v1,[A-Za-z0-9+/]{43}=$/.test(given))
    .map((given) => crypto.subtle.verify('HMAC', key, fromBase64(given.slice(3)), signed));
  if (!(await Promise.all(checks)).includes(true))
    throw new DqError('bad_signature', 'no signature matches the secret');
  const id = decodeURIComponent(header('dq-job-id'));
  return { webhookId, topic: header('dq-topic'), id, attempt: Number(header('dq-attempt')) };
}

const reasonOf = (error: unknown) => (error instanceof Error ? error.message : String(error)).slice(0, 200);
const encode = (text: string) => new TextEncoder().encode(text);
const fromBase64 = (text: string) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
const jsonType = { 'content-type': 'application/json' };
const jsonCall = (body: object): Call => ({ headers: jsonType, body: JSON.stringify(body) });

/** The time in ms, and the random part of a UUIDv4. */
function uuid7(): string {
  const at = Date.now().toString(16).padStart(12, '0');
  return `${at.slice(0, 8)}-${at.slice(8)}-7${crypto.randomUUID().slice(15)}`;
}

/** Ends early when the signal aborts. */
const sleep = (ms: number, signal?: AbortSignal) =>
  setTimeout(ms, null, signal && { signal }).catch(() => {});
