// Keeps the connections of one origin for plain HTTP, and sends usual requests over them: with a short body,
// without TLS. A request is one write, and the head of a usual reply is read by plain-reply.ts. With undici
// alone a notifier takes 48 µs of processor time a job instead of 33. undici sends all other requests, and
// judges all other replies. An origin that gives such a reply has its further requests sent by undici.
// Invariants: a request is sent once. A kept connection takes a request only after a whole turn of the event
// loop in which nothing arrived on it: bytes that a receiver sent too many are not the reply to it. Bytes
// that arrive later are: HTTP/1.1 has nothing that tells them from the reply. They cannot harm twice: the
// origin's further requests ask for `connection: close` (pools.ts).

import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { type buildConnector, type Client, type Dispatcher, errors } from 'undici';
import { ticker } from '../runtime/second-ticker.ts';
import { monotonicNow, setImmediate } from '../runtime/time.ts';
import { CallbackClient, dispatchWatched } from './callback-client.ts';
import { type Caller, KeptConnectionLost } from './connector.ts';
import { notifierLimits } from './limits.ts';
import { HandedOver, readUsualHead } from './plain-reply.ts';

interface PlainOptions {
  /** http: */
  readonly origin: string;
  readonly connect: buildConnector.connector;
  /** of undici, for unusual replies */
  readonly client: Client.Options;
  /** called when the last connection has closed, while replies are usual */
  readonly onUnused: () => void;
  /** Bytes have arrived that belong to no request. */
  readonly onSurplus: () => void;
}

/** A request, and the text that it is on the wire. */
interface Sent {
  readonly request: Dispatcher.DispatchOptions;
  readonly text: string;
}

// What undici rejects or treats itself; registration rejects it, too, but a row of the registry may hold it.
const unusualPath = /^[^/]|[^\x21-\xff]/;
const usualName =
  /^(?!(?:host|connection|keep-alive|content-length|transfer-encoding|upgrade|expect)$)[!#$%&'*+\-.^_`|~0-9a-z]+$/i;
const invalidInValue = /[^\t\x20-\x7e\x80-\xff]/;
/** Names that were tested; without them a request takes 0.13 µs more. */
const knownNames = new Set<string>();
const knownNamesMax = 1_000;

function isUsualName(name: string): boolean {
  if (knownNames.has(name)) return true;
  if (!usualName.test(name)) return false;
  if (knownNames.size >= knownNamesMax) knownNames.clear();
  knownNames.add(name);
  return true;
}

export class PlainConnections {
  readonly options: PlainOptions;
  readonly #host: string;
  readonly #target: buildConnector.Options;
  /** Kept connections, the last used one last. */
  readonly #idle: PlainConnection[] = [];
  readonly #all = new Set<PlainConnection>();
  /** Connections that wait for their turn of the event loop. */
  #waiting: PlainConnection[] = [];
  /** runs while connections are kept */
  #stopSweep: (() => void) | null = null;
  #isUnusual = false;
  #isClosed = false;
  #onClosed: () => void = () => {};
  /** settles once #isClosed and without a connection */
  readonly #closed = new Promise<void>((resolve) => {
    this.#onClosed = resolve;
  });

  constructor(options: PlainOptions) {
    const { host, hostname, port } = new URL(options.origin);
    this.options = options;
    this.#host = host;
    // As undici gives it to a connector.
    this.#target = { host, hostname: hostname.replace(/^\[(.*)\]$/, '$1'), protocol: 'http:', port };
  }

  /** takes no request */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** open or opening */
  get size(): number {
    return this.#all.size;
  }

  /** Returns false where the request is not a usual one, or the replies of the origin are not: nothing was
   *  sent. Does not throw: every failure goes to the caller's onResponseError. */
  dispatch(request: Dispatcher.DispatchOptions, caller: Caller): boolean {
    const text = this.#isUnusual ? null : textOf(request, this.#host);
    if (text === null) return false;
    const sent = { request, text };
    const connection = this.#takeIdle();
    if (connection === null) {
      const opened = new PlainConnection(this, sent, caller);
      this.#all.add(opened);
      opened.open(this.#target);
      return true;
    }
    connection.take(sent, caller);
    if (this.#waiting.push(connection) === 1) setImmediate(() => this.#sendInOneTurn());
    return true;
  }

  /** Takes no request from now on. Resolves when the running ones have ended. */
  close(): Promise<void> {
    this.#isClosed = true;
    for (const connection of [...this.#idle]) connection.destroy();
    this.#endSweep();
    if (this.#all.size === 0) this.#onClosed();
    return this.#closed;
  }

  /** Running requests end with an error. */
  destroy(): Promise<void> {
    const closed = this.close();
    for (const connection of this.#all) connection.destroy();
    return closed;
  }

  /** undici sends all further requests. */
  leaveToUndici(): void {
    this.#isUnusual = true;
  }

  /** The connection has got a whole reply, and is free. */
  keep(connection: PlainConnection): void {
    if (this.#isClosed) {
      connection.destroy();
      return;
    }
    this.#idle.push(connection);
    this.#stopSweep ??= ticker().each(() => this.#closeOld());
  }

  closed(connection: PlainConnection): void {
    if (!this.#all.delete(connection)) return;
    const at = this.#idle.lastIndexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    if (this.#all.size > 0) return;
    if (this.#isClosed) this.#onClosed();
    // Otherwise a new pool would first find the replies unusual again, with a new connection for each
    // request.
    if (!this.#isUnusual) this.options.onUnused();
  }

  #takeIdle(): PlainConnection | null {
    const now = monotonicNow();
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined) return null;
      if (now < connection.keptUntil) return connection;
      connection.destroy();
    }
  }

  /** Connections that start to wait from now on wait for a later turn. The second setImmediate is needed: the
   *  first one may run before the next look at the sockets. undici takes one. */
  #sendInOneTurn(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    setImmediate(() => {
      for (const connection of waiting) connection.send();
    });
  }

  #closeOld(): void {
    const now = monotonicNow();
    for (const connection of [...this.#idle]) if (now >= connection.keptUntil) connection.destroy();
    if (this.#idle.length === 0) this.#endSweep();
  }

  #endSweep(): void {
    this.#stopSweep?.();
    this.#stopSweep = null;
  }
}

/** One connection with at most one request. The controller of its request. */
class PlainConnection implements Dispatcher.DispatchController {
  readonly #group: PlainConnections;
  /** null before it is connected */
  #socket: Socket | null = null;
  #sent: Sent | null;
  /** null: it has no request */
  #caller: Caller | null;
  /** The request was written. */
  #isSent = false;
  /** It has had a request before. */
  #isKept = false;
  /** bytes of the reply that are missing; null before its head */
  #missing: number | null = null;
  #keptMs: number | null = null;
  #isHandedOver = false;
  /** undici's, after an unusual reply */
  #successor: Dispatcher.DispatchController | null = null;
  /** monotonicNow() from which on a kept connection takes no request */
  keptUntil = 0;
  aborted = false;
  reason: Error | null = null;

  get paused(): boolean {
    return this.#socket?.isPaused() === true;
  }

  constructor(group: PlainConnections, sent: Sent, caller: Caller) {
    this.#group = group;
    this.#sent = sent;
    this.#caller = caller;
  }

  open(target: buildConnector.Options): void {
    this.#group.options.connect(target, (error, socket) => {
      if (error !== null) {
        const caller = this.#caller;
        this.#caller = null;
        this.#group.closed(this);
        caller?.onResponseError(this, error);
        return;
      }
      this.#socket = socket;
      if (this.aborted) socket.destroy();
      socket.on('data', this.#onData);
      socket.on('end', this.#onEnd);
      socket.on('error', this.#onError);
      socket.on('close', this.#onClose);
      this.send();
    });
  }

  /** A kept connection gets its next request, which send() sends. */
  take(sent: Sent, caller: Caller): void {
    this.#sent = sent;
    this.#caller = caller;
    this.#isSent = false;
    this.#isKept = true;
    this.#missing = null;
    this.aborted = false;
    this.reason = null;
  }

  send(): void {
    const [socket, caller, sent] = [this.#socket, this.#caller, this.#sent];
    // It was lost while it waited.
    if (caller === null || sent === null || socket === null || this.aborted) return;
    // Its receiver has sent surplus bytes meanwhile, or its time is over.
    if (this.#isKept && this.#group.isClosed) {
      this.#failed(new errors.SocketError('closed'));
      return;
    }
    caller.onRequestStart(this, null);
    if (this.aborted) return;
    this.#isSent = true;
    socket.write(sent.text, 'latin1');
  }

  abort(reason: Error): void {
    this.aborted = true;
    this.reason = reason;
    if (this.#successor !== null) this.#successor.abort(reason);
    else this.#socket?.destroy(reason);
  }

  /** A request of it ends with an error, sent or not. A socket that is dialled ends when it is connected. */
  destroy(): void {
    this.aborted = true;
    const error = new errors.ClientDestroyedError();
    if (this.#successor !== null) this.#successor.abort(error);
    else this.#failed(error);
  }

  pause(): void {
    if (this.#successor !== null) this.#successor.pause();
    else this.#socket?.pause();
  }

  resume(): void {
    if (this.#successor !== null) this.#successor.resume();
    else this.#socket?.resume();
  }

  readonly #onData = (chunk: Buffer): void => {
    const caller = this.#caller;
    if (caller === null || !this.#isSent) {
      this.#group.options.onSurplus();
      this.#failed(new errors.SocketError('bytes without a request'));
      return;
    }
    let body = chunk;
    if (this.#missing === null) {
      const head = readUsualHead(chunk);
      if (head === null) {
        this.#handOver(chunk, caller);
        return;
      }
      this.#missing = head.length;
      this.#keptMs = head.keptMs;
      caller.onResponseStart(this, head.status, head.headers as IncomingHttpHeaders);
      body = chunk.subarray(head.bytes);
    }
    const missing = this.#missing;
    if (body.length > 0 && missing > 0 && !this.aborted)
      caller.onResponseData(this, body.length > missing ? body.subarray(0, missing) : body);
    this.#missing = missing - body.length;
    if (this.#missing > 0 || this.aborted) return;
    this.#end(caller);
  };

  #end(caller: Caller): void {
    const { callbackKeepAliveMs, callbackKeepAliveMsMax, keepAliveReserveMs } = notifierLimits;
    const keptMs =
      this.#keptMs === null
        ? callbackKeepAliveMs
        : Math.min(this.#keptMs - keepAliveReserveMs, callbackKeepAliveMsMax);
    const socket = this.#socket as Socket;
    const isLast = this.#sent?.request.reset === true;
    this.#caller = null;
    this.#sent = null;
    const isSurplus = (this.#missing ?? 0) < 0;
    if (isSurplus) this.#group.options.onSurplus();
    caller.onResponseEnd(this, {});
    const isUnread = socket.writableLength > 0;
    if (isLast || isSurplus || isUnread || keptMs <= 0 || socket.destroyed) {
      socket.destroy();
      return;
    }
    this.keptUntil = monotonicNow() + keptMs;
    this.#group.keep(this);
  }

  #handOver(first: Buffer, caller: Caller): void {
    const [socket, sent] = [this.#socket as Socket, this.#sent as Sent];
    const { origin, client: options } = this.#group.options;
    this.#isHandedOver = true;
    this.#group.leaveToUndici();
    socket.off('data', this.#onData).off('end', this.#onEnd).off('error', this.#onError);
    socket.pause();
    const handed = new HandedOver(socket, first);
    const client = new CallbackClient(origin, {
      ...options,
      connect: (_, done) => queueMicrotask(() => done(null, handed as never)),
    });
    const ended = () => {
      this.#caller = null;
      void client.destroy();
    };
    dispatchWatched(client, sent.request, {
      onRequestStart: (controller) => {
        this.#successor = controller;
      },
      onResponseStart: (...reply) => caller.onResponseStart(...reply),
      onResponseData: (...data) => caller.onResponseData(...data),
      onResponseEnd: (...end) => {
        ended();
        caller.onResponseEnd(...end);
      },
      onResponseError: (...failure) => {
        ended();
        caller.onResponseError(...failure);
      },
    });
  }

  readonly #onEnd = (): void => this.#failed(new errors.SocketError('other side closed'));
  readonly #onError = (error: Error): void => this.#failed(error);
  readonly #onClose = (): void => {
    if (this.#isHandedOver) this.#group.closed(this);
    else this.#failed(new errors.SocketError('closed'));
  };

  #failed(error: Error): void {
    const caller = this.#caller;
    this.#caller = null;
    this.#group.closed(this);
    this.#socket?.destroy();
    const isUnanswered = this.#isKept && this.#missing === null;
    const isLost = this.#socket !== null && !this.aborted && (!this.#isSent || isUnanswered);
    caller?.onResponseError(this, isLost ? new KeptConnectionLost(error, this.#isSent) : error);
  }
}

/** What undici would write; null: it is not a usual request. */
function textOf(
  { method, path, headers, body, reset }: Dispatcher.DispatchOptions,
  host: string,
): string | null {
  const isShort = Buffer.isBuffer(body) && body.length <= notifierLimits.plainBodyBytesMax;
  if (!isShort || method === 'GET' || typeof headers !== 'object' || Array.isArray(headers)) return null;
  if (unusualPath.test(path)) return null;
  const connection = reset === true ? 'close' : 'keep-alive';
  let text = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: ${connection}\r\n`;
  const values = headers as Readonly<Record<string, string>>;
  for (const name in values) {
    const value = values[name] as string;
    if (!isUsualName(name) || invalidInValue.test(value)) return null;
    text += `${name}: ${value}\r\n`;
  }
  return `${text}content-length: ${body.length}\r\n\r\n${body.toString('latin1')}`;
}
