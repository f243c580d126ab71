// PlainConnection reads plain requests from a socket without node:http, whose objects, streams and events are
// half of what a push costs dq-server. A request is plain when one chunk holds it whole, its header is of a
// strict subset of HTTP/1.1, and the service takes it. The first bytes that are anything else go with the
// socket to node:http, for good. So node:http judges everything that is unusual or wrong, and this file
// rejects nothing.
// Invariants: node:http would read a plain request as this file does: the same target, headers and body. No
// byte is read by both. Replies leave in the order of the requests, and node:http gets the socket after the
// last of them. The bytes of a reply are those that node:http would send.

import { type IncomingHttpHeaders, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { DqError } from '../../core/errors.ts';
import type { Caller } from '../../core/token.ts';
import { wallNow } from '../../runtime/time.ts';
import { apiLimits } from '../limits.ts';
import type { RequestHead } from './access.ts';

export interface PlainRequest {
  /** of a POST, visible ASCII */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly caller: Caller;
  /** shared with the later requests of the connection, also with those that node:http reads */
  readonly socket: Socket;
  /** Takes the request. The service calls it at most once, and answers once. */
  readonly begin: () => Answer;
}

export interface Answer {
  send(status: number, headers: Readonly<Record<string, string>>, body: string): void;
}

/** False, and nothing has happened: node:http serves the request. */
export type PlainService = (request: PlainRequest) => boolean;

/** The server of the connections. */
export interface PlainHost {
  readonly times: {
    readonly headersTimeoutMs: number;
    readonly connectionTimeoutMs: number;
    readonly keepAliveMs: number;
  };
  readonly service: PlainService;
  admit(head: RequestHead): Caller | DqError;
  isDraining(): boolean;
  /** A request was taken. */
  began(socket: Socket): void;
  /** Its answer has left; null: the client had. */
  ended(status: number | null): void;
  /** Nothing has arrived in the first half of the time for a header. */
  onSlow(socket: Socket): void;
  /** No traffic for as long as a connection may be idle. */
  onIdle(socket: Socket): void;
  /** Gives the socket to node:http, with the bytes that were not read. `isBehind`: they arrived while earlier
   *  requests had no answer. `hasEnded`: and so did the end of the client's half. */
  giveToNode(socket: Socket, bytes: Buffer, isBehind: boolean, hasEnded: boolean): void;
}

interface Head {
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: string[];
  readonly bodyBytes: number;
}

const method = Buffer.from('POST /');
const headEnd = Buffer.from('\r\n\r\n');
const version = ' HTTP/1.1';
const urlPattern = /^[\x21\x22\x24-\x7e]+$/;
/** Name, colon, and a value of visible ASCII with spaces only inside. */
const linePattern = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*((?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?)$/;
/** They change how a body is framed, who may send it, or what is answered before it. */
const unusualNames: ReadonlySet<string> = new Set([
  ...['transfer-encoding', 'te', 'trailer', 'content-encoding', 'expect', 'upgrade', 'http2-settings'],
  ...['proxy-connection', 'keep-alive', 'origin'],
]);
const lengthPattern = /^(?:0|[1-9]\d{0,7})$/;
/** A subset of what Fastify accepts; it parses and rejects the others. */
const typePattern = /^[a-z]{1,20}\/[a-z.+-]{1,60}(?:; ?charset=utf-8)?$/i;
/** Node keeps a connection for so much longer than it advertises. */
const keepAliveSpareMs = 1_000;

/** `block`: the lines between the request line and the empty line. null: not plain. */
function readPlainHead(block: string): Head | null {
  const headers: Record<string, string> = {};
  const rawHeaders: string[] = [];
  for (const line of block.split('\r\n')) {
    const [, written = '', value = ''] = linePattern.exec(line) ?? [];
    const name = written.toLowerCase();
    // `in`: also names that every object has.
    if (name === '' || name in headers || unusualNames.has(name)) return null;
    headers[name] = value;
    rawHeaders.push(written, value);
  }
  const { 'content-length': length = '', 'content-type': type, connection, host } = headers;
  if (host === undefined || !lengthPattern.test(length)) return null;
  if (type !== undefined && !typePattern.test(type)) return null;
  if (connection !== undefined && connection.toLowerCase() !== 'keep-alive') return null;
  return { headers, rawHeaders, bodyBytes: Number(length) };
}

export class PlainConnection {
  readonly #socket: Socket;
  readonly #host: PlainHost;
  /** the header block of the last request: producers repeat it, so it is read once */
  #block = '';
  #head: Head | null = null;
  /** in the order of the requests */
  readonly #pending: PlainAnswer[] = [];
  /** bytes of answers that wait for an earlier one */
  #waitingBytes = 0;
  /** what node:http gets after the pending answers */
  #held: Buffer | null = null;
  /** after the held bytes the client has ended its half */
  #hasEnded = false;
  #isPaused = false;
  /** nothing more is read: the last answer said so, or the connection is being closed */
  #isClosing = false;
  #hasServed = false;
  /** the timer runs beyond its first limit */
  #isExtended = false;

  constructor(socket: Socket, host: PlainHost) {
    this.#socket = socket;
    this.#host = host;
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('drain', this.#onDrain);
    socket.on('error', this.#onError);
    socket.on('close', this.#onClose);
    socket.on('timeout', this.#onTimeout);
    const { headersTimeoutMs, connectionTimeoutMs } = host.times;
    socket.setTimeout(Math.min(Math.ceil(headersTimeoutMs / 2), connectionTimeoutMs));
  }

  /** The client has every answer that it waits for. */
  get isIdle(): boolean {
    return this.#hasServed && !this.#isBusy();
  }

  /** Reads nothing more. */
  close(): void {
    this.#isClosing = true;
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #isBusy(): boolean {
    return this.#pending.length > 0 || this.#socket.writableLength > 0;
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#held !== null) {
      this.#held = Buffer.concat([this.#held, chunk]);
      return;
    }
    for (let at = 0; at < chunk.length; ) {
      if (this.#isClosing) return;
      const end = this.#serve(chunk, at);
      if (end < 0) {
        this.#leave(chunk.subarray(at));
        return;
      }
      at = end;
    }
    if (this.#isFull()) this.#pause();
  };

  /** Returns where the request that begins at `at` ends; -1: it is not plain. */
  #serve(chunk: Buffer, at: number): number {
    const host = this.#host;
    if (chunk.compare(method, 0, method.length, at, Math.min(at + method.length, chunk.length)) !== 0)
      return -1;
    const blockEnd = chunk.indexOf(headEnd, at);
    if (blockEnd < 0 || blockEnd - at > apiLimits.plainHeadBytesMax) return -1;
    const text = chunk.toString('latin1', at, blockEnd);
    const lineEnd = text.indexOf('\r\n');
    // A block without headers has no length.
    if (lineEnd < 0 || !text.startsWith(version, lineEnd - version.length)) return -1;
    const url = text.slice(method.length - 1, lineEnd - version.length);
    const head = this.#readHead(text.slice(lineEnd + 2));
    if (head === null || !urlPattern.test(url)) return -1;
    const bodyAt = blockEnd + headEnd.length;
    const end = bodyAt + head.bodyBytes;
    if (end > chunk.length) return -1;
    const { headers, rawHeaders } = head;
    const caller = host.admit({ method: 'POST', url, headers, rawHeaders, httpVersion: '1.1' });
    if (caller instanceof DqError) return -1;
    // A copy: the chunk may be far larger.
    const body = Buffer.from(chunk.subarray(bodyAt, end));
    return host.service({ url, headers, body, caller, socket: this.#socket, begin: this.#begin }) ? end : -1;
  }

  #readHead(block: string): Head | null {
    if (block === this.#block) return this.#head;
    this.#head = readPlainHead(block);
    this.#block = block;
    return this.#head;
  }

  readonly #begin = (): Answer => {
    const answer = new PlainAnswer(this);
    this.#pending.push(answer);
    this.#host.began(this.#socket);
    if (!this.#hasServed || this.#isExtended) this.#startTimer();
    this.#hasServed = true;
    return answer;
  };

  #leave(bytes: Buffer): void {
    if (this.#pending.length === 0) {
      this.#giveToNode(bytes, false);
      return;
    }
    this.#held = bytes;
    this.#pause();
  }

  #giveToNode(bytes: Buffer, isBehind: boolean): void {
    const socket = this.#socket;
    this.#isClosing = true;
    socket.off('data', this.#onData);
    socket.off('end', this.#onEnd);
    socket.off('drain', this.#onDrain);
    socket.off('error', this.#onError);
    socket.off('close', this.#onClose);
    socket.off('timeout', this.#onTimeout);
    this.#host.giveToNode(socket, bytes, isBehind, this.#hasEnded);
    if (this.#isPaused) socket.resume();
  }

  /** Called for an answer that is complete: it leaves now, or after earlier ones. */
  completed(answer: PlainAnswer): void {
    const pending = this.#pending;
    // The client has left.
    if (this.#socket.destroyed) return;
    if (pending[0] === answer) {
      pending.shift();
      this.#write(answer);
    } else this.#waitingBytes += answer.bytes;
    for (let next = pending[0]; next?.isComplete === true; next = pending[0]) {
      pending.shift();
      this.#waitingBytes -= next.bytes;
      this.#write(next);
    }
    if (pending.length > 0 || this.#held === null) this.#onDrain();
    else this.#giveToNode(this.#held, true);
  }

  #write(answer: PlainAnswer): void {
    const socket = this.#socket;
    const host = this.#host;
    const isLast = host.isDraining() && this.#pending.length === 0 && this.#held === null;
    // A client that has closed its half gets no answer, as of node:http.
    if (socket.writable) answer.write(socket, isLast ? closing : keptFor(host.times.keepAliveMs));
    host.ended(answer.status);
    if (isLast) {
      this.#isClosing = true;
      socket.destroySoon();
    } else if (this.#isExtended) this.#startTimer();
  }

  /** The client does not read its answers, or sends far more than dq has answered. */
  #isFull(): boolean {
    const { writableNeedDrain, writableHighWaterMark } = this.#socket;
    return writableNeedDrain || this.#waitingBytes >= writableHighWaterMark;
  }

  #pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  readonly #onDrain = (): void => {
    if (!this.#isPaused || this.#held !== null || this.#isFull()) return;
    this.#isPaused = false;
    this.#socket.resume();
  };

  readonly #onEnd = (): void => {
    if (this.#held === null) this.#socket.end();
    else this.#hasEnded = true;
  };

  /** The socket closes itself; without a listener the process would end. */
  readonly #onError = (): void => {};

  readonly #onClose = (): void => {
    for (const _ of this.#pending) this.#host.ended(null);
    this.#pending.length = 0;
  };

  /** The shorter of the limits; traffic starts it again, so most requests do not set it. */
  #startTimer(): void {
    this.#isExtended = false;
    this.#socket.setTimeout(Math.min(this.#idleMs, this.#host.times.connectionTimeoutMs));
  }

  get #idleMs(): number {
    return this.#host.times.keepAliveMs + keepAliveSpareMs;
  }

  readonly #onTimeout = (): void => {
    const { connectionTimeoutMs } = this.#host.times;
    const limitMs = this.#isBusy() || !this.#hasServed ? connectionTimeoutMs : this.#idleMs;
    const moreMs = limitMs - (this.#socket.timeout ?? 0);
    if (this.#isExtended || moreMs <= 0) {
      this.#host.onIdle(this.#socket);
      return;
    }
    this.#isExtended = true;
    this.#socket.setTimeout(moreMs);
    if (!this.#hasServed) this.#host.onSlow(this.#socket);
  };
}

class PlainAnswer implements Answer {
  readonly #connection: PlainConnection;
  status = 0;
  #head = '';
  #body = '';
  #isAscii = true;
  bytes = 0;

  constructor(connection: PlainConnection) {
    this.#connection = connection;
  }

  get isComplete(): boolean {
    return this.status > 0;
  }

  send(status: number, headers: Readonly<Record<string, string>>, body: string): void {
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
    for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
    const bodyBytes = Buffer.byteLength(body);
    this.status = status;
    this.#head = `${head}content-length: ${bodyBytes}\r\nDate: ${dateText()}\r\n`;
    this.#body = body;
    this.#isAscii = bodyBytes === body.length;
    this.bytes = this.#head.length + bodyBytes;
    this.#connection.completed(this);
  }

  write(socket: Socket, connection: string): void {
    socket.write(this.#head + connection + this.#body, this.#isAscii ? 'latin1' : 'utf8');
  }
}

const closing = 'Connection: close\r\n\r\n';
let keptMs = -1;
let kept = '';

function keptFor(keepAliveMs: number): string {
  if (keepAliveMs !== keptMs) {
    keptMs = keepAliveMs;
    kept = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1_000)}\r\n\r\n`;
  }
  return kept;
}

let dateOf = 0;
let date = '';

/** As Node writes it: the current second. */
function dateText(): string {
  const second = Math.floor(wallNow() / 1_000);
  if (second !== dateOf) {
    dateOf = second;
    date = new Date(second * 1_000).toUTCString();
  }
  return date;
}
