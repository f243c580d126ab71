// Runs one attempt: one request, one deadline over look-up, connect, headers and body, and exactly one end.
// Does not judge the reply, and follows no redirect. Sends a request twice only where a kept connection
// closes before the first byte of the reply, then once more over a new connection: receivers close idle
// connections while a request is under way. The receiver has the webhook-id against a repetition (RFC 9110
// 9.2.2). Invariant: it reads every reply to its end, and keeps only limits.replyBytesMax of it. Many
// receivers (PHP, CGI) end their work when the connection closes, so only the end of the reply shows that the
// work is done. It is a plain handler for undici's dispatch, because request() makes 22,000 calls a second
// instead of 44,000.

import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import { TextDecoder } from 'node:util';
import type { Dispatcher } from 'undici';
import type { Clock } from '../core/calendar.ts';
import { callbackRequest } from '../core/callback-request.ts';
import { callbackHeaders } from '../core/delivery.ts';
import { optionsIn, withOptions } from '../core/extension.ts';
import type { ReservedJob } from '../core/job.ts';
import { limits } from '../core/limits.ts';
import type { Topic } from '../core/topic/topic.ts';
import type { CallOutcome, CallReply, TransportReason } from '../core/verdict.ts';
import { clearTimeout, monotonicNow, setImmediate, setTimeout, type Timer } from '../runtime/time.ts';
import { isTlsError } from './callback-client.ts';
import { type Caller, type Dial, DialError, KeptConnectionLost, NotStartedError } from './connector.ts';
import { notifierLimits } from './limits.ts';
import type { Check, Pools } from './pools.ts';

export interface CallRequest {
  readonly options: Dispatcher.DispatchOptions;
  readonly check: Check;
  readonly timeoutMs: number;
}

/** `not_started`: the look-up of the host name got no turn. No byte was sent, so it does not count as an
 *  attempt. */
export type CallEnd = CallOutcome | { readonly kind: 'not_started' };

/** Called once. `detail`: the failure, for the log; '' for a reply. Runs inside undici: it must not throw. */
export type OnEnd = (end: CallEnd, durationMs: number, detail: string) => void;

export class Call implements Caller {
  readonly #pools: Pick<Pools, 'dispatch'>;
  readonly #request: CallRequest;
  readonly #onEnd: OnEnd;
  readonly #startedAt = monotonicNow();
  readonly #timer: Timer;
  #dial: Dial | null = null;
  /** set immediately before the first byte is written */
  #controller: Dispatcher.DispatchController | null = null;
  #ended = false;
  #redispatched = false;
  /** It was sent over a kept connection, which was lost. */
  #isSentAgain = false;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  /** while the rest of a long reply waits for its turn */
  #pauseTimer: Timer | null = null;

  /** Starts at once. A request that cannot be sent ends within the constructor. */
  constructor(pools: Pick<Pools, 'dispatch'>, request: CallRequest, onEnd: OnEnd) {
    this.#pools = pools;
    this.#request = request;
    this.#onEnd = onEnd;
    this.#timer = setTimeout(() => this.#onDeadline(), request.timeoutMs);
    this.#dispatch();
  }

  /** Ends the call without an outcome: onEnd is not called. The receiver may have got the request. */
  interrupt(): void {
    if (this.#close()) this.#giveUp();
  }

  onDial(dial: Dial): void {
    this.#dial = dial;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Ended: the deadline passed before the connection. A controller is set: undici would send the request
    // again.
    if (this.#ended || this.#controller !== null) controller.abort(new Error('given up'));
    else this.#controller = controller;
  }

  /** Called for every 1xx before the reply, too; the last call counts. */
  onResponseStart(_: unknown, status: number, headers: IncomingHttpHeaders): void {
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#ended) return;
    const before = this.#bytes;
    const left = limits.replyBytesMax - before;
    this.#bytes += chunk.length;
    if (left > 0) this.#chunks.push(chunk.length <= left ? chunk : chunk.subarray(0, left));
    if (this.#bytes > limits.replyBytesMax) this.#dropSlowly(controller, before);
  }

  onResponseEnd(): void {
    // The connection may be kept. All other ends close it; undici forbids resume() within a parser.
    this.#endPause();
    const isCut = this.#bytes > limits.replyBytesMax;
    this.#end(new Reply(this.#status, this.#headers, this.#chunks, isCut), '');
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.#ended) return;
    if (error instanceof NotStartedError && !this.#isSentAgain) {
      this.#end({ kind: 'not_started' }, error.message);
      return;
    }
    // It proves nothing about the receiver. When a receiver restarts, all its kept connections are lost.
    if (error instanceof KeptConnectionLost) {
      if (error.isSent) {
        this.#isSentAgain = true;
        this.#controller = null;
      }
      this.#dispatch();
      return;
    }
    // The same from undici, which does not name it. Once only.
    if (this.#controller === null && !(error instanceof DialError) && !this.#redispatched) {
      this.#redispatched = true;
      this.#dispatch();
      return;
    }
    if (this.#isWhole(error)) this.#end(new Reply(this.#status, this.#headers, [], false), '');
    else {
      const reason = reasonFor(error, this.#status);
      this.#end({ kind: 'no_reply', reason }, detailOf(error, reason));
    }
  }

  #dispatch(): void {
    const { options, check } = this.#request;
    // A new connection is not a kept one, so this is the last time.
    this.#pools.dispatch(options, check, this, this.#isSentAgain);
  }

  /** An endless reply must not take the event loop from the calls of other topics. */
  #dropSlowly(controller: Dispatcher.DispatchController, before: number): void {
    const { dropBytes, dropPauseMs } = notifierLimits;
    const isDue = Math.floor(before / dropBytes) < Math.floor(this.#bytes / dropBytes);
    if (!isDue || this.#pauseTimer !== null) return;
    controller.pause();
    this.#pauseTimer = setTimeout(() => this.#endPause(), dropPauseMs);
  }

  #endPause(): void {
    if (this.#pauseTimer === null) return;
    clearTimeout(this.#pauseTimer);
    this.#pauseTimer = null;
    this.#controller?.resume();
  }

  /** 204 and 304 have no body, whatever length their head claims (a 304 may claim one); undici does not
   *  know that. */
  #isWhole(error: Error): boolean {
    return codeOf(error) === lengthMismatch && (this.#status === 204 || this.#status === 304);
  }

  /** Waits for one turn of the event loop: after a stall of this process the timer may fire while the reply
   *  is unread in the socket. */
  #onDeadline(): void {
    setImmediate(() => {
      if (this.#ended) return;
      const { timeoutMs } = this.#request;
      const isSent = this.#controller !== null || this.#isSentAgain;
      const late = isSent
        ? `no whole reply within ${timeoutMs} ms`
        : `no request was sent within ${timeoutMs} ms: waited for ${this.#dial?.waitsFor ?? 'a connection'}`;
      const isQueued = !isSent && this.#dial?.isQueued === true;
      this.#end(isQueued ? { kind: 'not_started' } : { kind: 'no_reply', reason: 'timeout' }, late);
      this.#giveUp();
    });
  }

  #end(end: CallEnd, detail: string): void {
    if (this.#close()) this.#onEnd(end, monotonicNow() - this.#startedAt, detail);
  }

  #close(): boolean {
    if (this.#ended) return false;
    this.#ended = true;
    clearTimeout(this.#timer);
    if (this.#pauseTimer !== null) clearTimeout(this.#pauseTimer);
    return true;
  }

  /** Closes the connection, or the attempt to open one: undici would keep dialling without a caller. */
  #giveUp(): void {
    if (this.#controller !== null) this.#controller.abort(new Error('given up'));
    else this.#dial?.destroy(new DialError('connect', 'given up'));
  }
}

const lengthMismatch = 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH';
/** Codes of undici for replies that are not HTTP, beside its parser's own errors, whose words stay. */
const protocolWords: Readonly<Record<string, string>> = {
  UND_ERR_HEADERS_OVERFLOW: `the head of the reply is longer than ${notifierLimits.replyHeadBytesMax / 1024} KiB`,
  // The head of the reply: of a body the same code is a broken connection.
  [lengthMismatch]: 'the reply has two lengths, a length and chunks, or a length beyond numbers',
  // Status 000 fails an assertion.
  ERR_ASSERTION: 'the status of the reply is below 100',
  UND_ERR_SOCKET: 'the reply switches to another protocol (101)',
};
const protocolCodes: ReadonlySet<unknown> = new Set([
  'UND_ERR_HEADERS_OVERFLOW',
  'UND_ERR_INVALID_ARG',
  'ERR_ASSERTION',
]);

/** `status`: 0 without a complete head of a reply. */
function reasonFor(error: Error, status: number): TransportReason {
  if (error instanceof DialError) return error.reason;
  if (status === 0 && isTlsError(error)) return 'tls';
  // A body that ends too early is a broken connection, whatever the parser calls it.
  if (error.name === 'HTTPParserError') return error.message.includes('EOF') ? 'reset' : 'protocol';
  const code = codeOf(error);
  if (protocolCodes.has(code)) return 'protocol';
  // undici uses this code also for a head with two lengths or with a huge one.
  if (code === lengthMismatch && status === 0) return 'protocol';
  if (code === 'UND_ERR_SOCKET' && error.message.startsWith('bad ')) return 'protocol';
  return 'reset';
}

function codeOf(error: Error): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

function detailOf(error: Error, reason: TransportReason): string {
  const code = codeOf(error);
  // Its message is a line of OpenSSL's source.
  if (code !== undefined && isTlsError(error)) return code;
  const words = reason === 'protocol' && code !== undefined ? protocolWords[code] : undefined;
  if (words !== undefined) return words;
  return code === undefined || error.message.includes(code) ? error.message : `${code}: ${error.message}`;
}

/** A callback's reply, for the verdict. It is untrusted text: never copied whole, never printed raw. */
export class Reply implements CallReply {
  readonly kind = 'replied';
  readonly status: number;
  /** the body was longer than limits.replyBytesMax; the rest was dropped */
  readonly cut: boolean;
  readonly #headers: IncomingHttpHeaders;
  readonly #chunks: readonly Buffer[];
  #text: string | null = null;

  constructor(status: number, headers: IncomingHttpHeaders, chunks: readonly Buffer[], cut: boolean) {
    this.status = status;
    this.cut = cut;
    this.#headers = headers;
    this.#chunks = chunks;
  }

  get bytes(): number {
    let total = 0;
    for (const chunk of this.#chunks) total += chunk.length;
    return total;
  }

  /** Decoded as UTF-8, or in one of `charsets` that the reply declares; invalid bytes become U+FFFD. Decoded
   *  only for rules and excerpts. */
  get text(): string {
    this.#text ??= this.#decode();
    return this.#text;
  }

  get raw(): Buffer {
    const [first] = this.#chunks;
    return first !== undefined && this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks);
  }

  #decode(): string {
    if (this.#chunks.length === 0) return '';
    const bytes = this.raw;
    return decoderFor(this.header('content-type'))?.decode(bytes) ?? bytes.toString();
  }

  headerNames(): readonly string[] {
    return Object.keys(this.#headers);
  }

  /** A repeated header is joined by commas, as in HTTP. Both clients decode headers as Latin 1. */
  header(name: string): string | null {
    if (!Object.hasOwn(this.#headers, name)) return null;
    const value = this.#headers[name];
    if (value === undefined) return null;
    return headerText(Array.isArray(value) ? value.join(', ') : value);
  }
}

/** Receivers write UTF-8, as people do who test a rule; HTTP once said Latin 1. */
function headerText(latin1: string): string {
  if (!/[\x80-\xff]/.test(latin1)) return latin1;
  const bytes = Buffer.from(latin1, 'latin1');
  return isUtf8(bytes) ? bytes.toString() : latin1;
}

/** Others, such as iso-8859-1, are often the default of a server whose scripts write UTF-8. Names as
 *  TextDecoder returns them: gb2312 is gbk. */
const charsets: ReadonlySet<string> = new Set(['gbk', 'gb18030', 'big5', 'shift_jis']);

function decoderFor(contentType: string | null): TextDecoder | null {
  const [, label] = /;[ \t]*charset="?([\w.:-]+)/i.exec(contentType ?? '') ?? [];
  if (label === undefined) return null;
  try {
    const decoder = new TextDecoder(label);
    return charsets.has(decoder.encoding) ? decoder : null;
  } catch {
    return null; // an unknown name, or a Node without that charset
  }
}

interface CallOptions {
  readonly topic: Topic;
  readonly origin: string;
  /** path and query of the callback URL */
  readonly path: string;
}

interface CallContext {
  /** of the signature, epoch ms by the storage clock */
  readonly nowMs: number;
  readonly clock: Clock;
  /** of dq */
  readonly version: string;
  readonly pools: Pick<Pools, 'checkFor'>;
  /** of this attempt; undefined: the push brought no trace */
  readonly traceparent?: string | undefined;
}

/** The bytes of the job, its headers, and how the call is made. */
export function callRequestOf(
  job: ReservedJob,
  { topic, origin, path: of }: CallOptions,
  { nowMs, clock, version, pools, traceparent: parent }: CallContext,
): CallRequest {
  const { path, body, contentType } = callbackRequest(job, topic, of, clock);
  const options = optionsIn(job.extension);
  const sent = contentType === job.contentType ? job : { ...job, contentType };
  const trace = parent === undefined ? undefined : { parent, state: options.trace?.state ?? '' };
  const headers = callbackHeaders(sent, withOptions(topic, options), {
    nowMs,
    body,
    version,
    trace,
    again: options.again,
  });
  return {
    options: { origin, path, method: topic.method, body, headers },
    check: pools.checkFor(topic, origin),
    timeoutMs: topic.timeoutMs,
  };
}
