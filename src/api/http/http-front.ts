// HttpFront is the HTTP server in front of Fastify: deadlines against slow clients, admission, requests in
// flight, answers to invalid HTTP, and draining. Knows no route.
//
// Invariants: every request that was read gets one answer, in order, or a closed connection, and never the
// answer of another request. A rejection reaches a client that is still sending: dq reads on for a while
// before it closes. Draining resets no connection that dq promised to keep.

import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { DqError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import type { Caller } from '../../core/token.ts';
import { clearTimeout, setImmediate, setTimeout } from '../../runtime/time.ts';
import { afterRunning } from '../../runtime/timeout.ts';
import { apiLimits } from '../limits.ts';
import type { RequestHead } from './access.ts';
import { releaseBody } from './body-budget.ts';
import { PlainConnection, type PlainHost, type PlainService } from './plain-connection.ts';
import { type Problem, problemOf } from './problem.ts';
import { setRights } from './route-access.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

export interface FrontObserver {
  /** called for every answer whose header was sent */
  onAnswer(status: number): void;
  /** called for every request that was not admitted */
  onRejected(request: IncomingMessage, error: DqError): void;
}

/** Decides about a request by its headers: the caller's rights, or the reason to reject it. */
export type Admit = (request: RequestHead) => Caller | DqError;

export interface FrontOptions {
  readonly admit: Admit;
  readonly observer: FrontObserver;
  /** called before `admit`: may set headers of the answer; true = it has answered. With it no request is
   *  plain */
  readonly first?: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** for tests, instead of the limits */
  readonly times?: FrontTimes | undefined;
}

export interface FrontTimes {
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly connectionsCheckMs: number;
  readonly connectionTimeoutMs: number;
  readonly keepAliveMs: number;
  readonly lingerMs: number;
}

interface Connection {
  /** requests whose header has arrived */
  arrived: number;
  /** responses not yet complete, in order */
  readonly pending: ServerResponse[];
  /** a response that closes the connection was written: later bytes are not requests */
  closing: boolean;
  /** invalid HTTP followed the pending requests: close after the last response */
  broken: boolean;
  /** reads the socket until node:http does */
  plain: PlainConnection | null;
  /** node:http reads bytes that arrived while plain requests were pending */
  isBehind: boolean;
}

const connectionKey = Symbol('connection');
type KnownSocket = Socket & { [connectionKey]?: Connection };

export class HttpFront {
  readonly #options: FrontOptions;
  readonly #times: FrontTimes;
  #server: Server | null = null;
  #handler: Handler = () => {
    throw new Error('HttpFront has no API yet');
  };
  readonly #callHandler: Handler = (request, response) => this.#handler(request, response);
  #plainHost: PlainHost | null = null;
  /** of node:http: reads the connection */
  #read: (socket: Socket) => void = () => {};
  /** requests that arrived before begin(), in order; null afterwards */
  #queued: (() => void)[] | null = [];
  #inFlight = 0;
  #draining = false;
  readonly #connections = new Set<Connection>();
  #onEmpty = (): void => {};
  /** one listener for all responses; a closure per response would be made 10,000 times per second */
  readonly #onClose: (this: ServerResponse) => void;

  constructor(options: FrontOptions) {
    this.#options = options;
    this.#times = options.times ?? { ...limits, ...apiLimits };
    const front = this;
    const { observer } = options;
    this.#onClose = function () {
      if (this.headersSent) observer.onAnswer(this.statusCode);
      front.#completed(this);
    };
  }

  inFlight(): number {
    return this.#inFlight;
  }

  /** The server for Fastify, whose handler receives every admitted request. */
  serverFor(handler: Handler): Server {
    this.#handler = handler;
    return this.server;
  }

  /** The service of plain requests; without it node:http reads all. */
  servePlain(service: PlainService): void {
    const { admit, observer, first } = this.#options;
    if (first !== undefined) return;
    this.#plainHost = {
      times: this.#times,
      service,
      admit,
      isDraining: () => this.#draining,
      began: (socket: KnownSocket) => {
        const connection = socket[connectionKey];
        if (connection !== undefined) connection.arrived += 1;
        this.#inFlight += 1;
      },
      ended: (status) => {
        this.#inFlight -= 1;
        if (status !== null) observer.onAnswer(status);
      },
      onSlow: (socket: KnownSocket) => {
        const connection = socket[connectionKey];
        if (connection !== undefined) this.#onSlow(connection, socket);
      },
      onIdle,
      giveToNode: (...given) => this.#giveToNode(...given),
    };
  }

  #giveToNode(socket: KnownSocket, bytes: Buffer, isBehind: boolean, hasEnded: boolean): void {
    const connection = socket[connectionKey];
    if (connection === undefined) return;
    connection.plain = null;
    this.#read(socket);
    connection.isBehind = isBehind;
    socket.emit('data', bytes);
    if (hasEnded) socket.emit('end');
    connection.isBehind = false;
  }

  /** May listen before the API exists: requests are queued until begin(). */
  get server(): Server {
    this.#server ??= this.#createServer();
    return this.#server;
  }

  /** Serves the queued requests, then every new one. */
  begin(): void {
    const queued = this.#queued ?? [];
    this.#queued = null;
    for (const serve of queued) serve();
  }

  #createServer(): Server {
    const times = this.#times;
    const server = createServer(
      {
        maxHeaderSize: apiLimits.headerBytesMax,
        // The first half of each limit; #onSlow waits for the second.
        headersTimeout: Math.ceil(times.headersTimeoutMs / 2),
        requestTimeout: Math.ceil(times.requestTimeoutMs / 2),
        keepAliveTimeout: times.keepAliveMs,
        connectionsCheckingInterval: times.connectionsCheckMs,
        // Node's own error reply has no body; Access gives it one.
        requireHostHeader: false,
      },
      (request, response) => this.#onArrival(request, response, this.#callHandler),
    );
    server.setTimeout(times.connectionTimeoutMs, onIdle);
    // By default Node drops all headers after the 2000th, credentials too, without an error. headerBytesMax
    // bounds them.
    server.maxHeadersCount = 0;
    // The listener of node:http; it gets no connection before the first bytes that are not plain.
    const [read] = server.listeners('connection') as ((this: Server, socket: Socket) => void)[];
    if (read === undefined) throw new Error('node:http listens to no connection');
    this.#read = read.bind(server);
    server.off('connection', read);
    server.on('connection', (socket: Socket) => this.#onConnection(socket));
    // Not left to Fastify: a server that starts accepts connections before Fastify exists, and Node's own
    // reply to a slow request resets the connection.
    server.on('clientError', (error, socket) => this.#onClientError(error, socket as KnownSocket));
    server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
      this.#onArrival(request, response, (...exchange) => {
        inviteBody(response);
        this.#handler(...exchange);
      }),
    );
    server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
      const error = new DqError('invalid', 'expect: unknown value; only 100-continue is supported');
      this.reject(request, response, problemOf(error, { status: 417, title: 'Expectation Failed' }));
    });
    return server;
  }

  #onArrival(request: IncomingMessage, response: ServerResponse, handler: Handler): void {
    const connection = connectionOf(request);
    if (connection !== undefined) connection.arrived += 1;
    if (this.#queued === null) this.#onRequest(request, response, handler);
    else
      this.#queued.push(() => {
        // A client that has left gets no answer.
        if (!request.socket.destroyed) this.#onRequest(request, response, handler);
      });
  }

  /** Answers and closes the connection. For lingerMs, dq reads and discards what the client still sends. */
  reject(request: IncomingMessage, response: ServerResponse, problem: Problem): void {
    const connection = connectionOf(request);
    if (connection !== undefined) connection.closing = true;
    response.shouldKeepAlive = false;
    const { status, headers, bytes } = problem;
    response.writeHead(status, { ...headers, 'content-length': bytes.length });
    response.write(bytes);
    // The reply is complete; only closing waits.
    const end = () => {
      clearTimeout(timer);
      response.end();
    };
    const timer = setTimeout(end, this.#times.lingerMs);
    request.on('end', end);
    request.on('close', end);
    request.resume();
  }

  /** Accepts no connection any more and closes idle ones. Resolves when all are closed, at the latest at
   *  the deadline. */
  async drain(deadlineMs: number): Promise<void> {
    const server = this.#server;
    if (server === null || this.#draining) return;
    this.#draining = true;
    for (const { pending } of this.#connections) {
      // The last response closes the connection; an earlier one would cut off the others.
      const last = pending.at(-1);
      if (last !== undefined) last.shouldKeepAlive = false;
    }
    // A server that gets its connections from another process does not listen.
    const unbound = server.listening
      ? new Promise<unknown>((resolve) => server.once('close', resolve))
      : null;
    // http.Server.close() would cut idle connections, and reset a client that is writing on one at this
    // moment.
    NetServer.prototype.close.call(server);
    const closed = Promise.all([unbound, this.#whenEmpty()]);
    // Idle connections end by their own timer, shortly after the advertised time; this closes the rest.
    const closeIdle = () =>
      setImmediate(() => {
        server.closeIdleConnections();
        this.#destroyPlain((plain) => plain.isIdle);
      });
    const idle = setTimeout(closeIdle, this.#times.keepAliveMs + 1_500);
    const deadline = afterRunning(deadlineMs, () => {
      server.closeAllConnections();
      this.#destroyPlain(() => true);
    });
    await closed;
    clearTimeout(idle);
    deadline.clear();
    // Ends the timer that checks for slow requests; no connection is left.
    server.close();
  }

  #destroyPlain(isChosen: (plain: PlainConnection) => boolean): void {
    for (const { plain } of this.#connections) if (plain !== null && isChosen(plain)) plain.destroy();
  }

  #whenEmpty(): Promise<void> {
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
      if (this.#connections.size === 0) resolve();
    });
  }

  #onConnection(socket: KnownSocket): void {
    const connection: Connection = {
      arrived: 0,
      pending: [],
      closing: false,
      broken: false,
      plain: null,
      isBehind: false,
    };
    socket[connectionKey] = connection;
    this.#connections.add(connection);
    if (this.#plainHost === null || this.#queued !== null) this.#read(socket);
    else connection.plain = new PlainConnection(socket, this.#plainHost);
    socket.once('close', () => {
      // Responses that wait behind another one get no close event when the connection closes.
      this.#inFlight -= connection.pending.length;
      for (const { req } of connection.pending) releaseBody(req);
      connection.pending.length = 0;
      this.#connections.delete(connection);
      if (this.#connections.size === 0) this.#onEmpty();
    });
  }

  #onRequest(request: IncomingMessage, response: ServerResponse, handler: Handler): void {
    const connection = connectionOf(request);
    if (connection === undefined) throw new Error('request without a connection');
    const previous = connection.pending.at(-1);
    if (this.#draining && previous !== undefined) {
      if (previous.headersSent) connection.closing = true;
      else previous.shouldKeepAlive = true;
    }
    // Pipelined after a response that closes the connection: its answer could not be written, so it must have
    // no effect.
    if (connection.closing) {
      request.resume();
      return;
    }
    connection.pending.push(response);
    this.#inFlight += 1;
    response.on('close', this.#onClose);
    if (this.#draining) response.shouldKeepAlive = false;
    const { admit, observer, first } = this.#options;
    if (first?.(request, response)) return;
    const caller = admit(request);
    if (caller instanceof DqError) {
      observer.onRejected(request, caller);
      this.reject(request, response, problemOf(caller));
      return;
    }
    setRights(request, caller);
    handler(request, response);
  }

  #completed(response: ServerResponse): void {
    const connection = connectionOf(response.req);
    const index = connection?.pending.indexOf(response) ?? -1;
    if (connection === undefined || index < 0) return;
    connection.pending.splice(index, 1);
    this.#inFlight -= 1;
    releaseBody(response.req);
    if (connection.broken && !connection.pending.some(({ req }) => req.complete))
      response.req.socket.destroySoon();
  }

  /** Answers invalid HTTP, and requests that arrive too slowly. */
  #onClientError(error: NodeJS.ErrnoException, socket: KnownSocket): void {
    const connection = socket[connectionKey];
    if (connection === undefined || error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    if (connection.broken) return;
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') this.#onSlow(connection, socket);
    else this.#close(connection, socket, error.code);
  }

  /** The second half of a limit: Node's check, which names a request once, has seen the first. Pauses of this
   *  process or of the machine end the first half at most: only time in which dq reads counts for the
   *  second. Then the client has time to send the rest, and it is read before the decision. */
  #onSlow(connection: Connection, socket: KnownSocket): void {
    const { headersTimeoutMs, requestTimeoutMs } = this.#times;
    const body = connection.pending.at(-1)?.req;
    const isBody = body?.complete === false;
    const { arrived } = connection;
    const check = () => {
      if (connection.broken || !this.#connections.has(connection)) return;
      if (isBody ? !body.complete : connection.arrived === arrived)
        this.#close(connection, socket, 'ERR_HTTP_REQUEST_TIMEOUT');
      else if (connection.arrived === arrived + 1 && connection.pending.at(-1)?.req.complete === false)
        this.#onSlow(connection, socket);
    };
    const halfMs = (isBody ? requestTimeoutMs : headersTimeoutMs) / 2;
    // A turn of the event loop runs timers first, and then reads.
    afterRunning(halfMs, () => setImmediate(check)).unref();
  }

  /** Answers when no answer is pending, and ends the connection. */
  #close(connection: Connection, socket: KnownSocket, code: string | undefined): void {
    connection.broken = true;
    if (connection.isBehind) {
      // As where node:http reads them while the answers are pending.
      if (!connection.pending.some(({ req }) => req.complete)) socket.destroySoon();
      return;
    }
    connection.plain?.close();
    const last = connection.pending.at(-1);
    const isComplete = last === undefined || last.req.complete;
    // This error reply must not overtake a pending answer: the client would take it for that answer.
    if (connection.pending.length > (isComplete ? 0 : 1)) return;
    if (last?.headersSent === true) {
      socket.destroy();
      return;
    }
    socket.end(rawReply(problemOf(...clientProblem(code, socket.bytesRead))));
    setTimeout(() => socket.destroy(), this.#times.lingerMs).unref();
  }
}

/** Closes a connection without traffic, also a kept one after its advertised time. After a pause the timer
 *  runs before the bytes that have arrived are read: they count. */
function onIdle(socket: Socket): void {
  const { bytesRead } = socket;
  setImmediate(() => {
    if (socket.bytesRead === bytesRead) socket.destroy();
  });
}

/** Sends 100 Continue, but not for a response that waits behind others: Node would write the 100 between
 *  header and body of another response. A client without a 100 sends its body after a while. */
function inviteBody(response: ServerResponse): void {
  if (response.socket !== null) response.writeContinue();
}

function connectionOf(request: IncomingMessage): Connection | undefined {
  return (request.socket as KnownSocket)[connectionKey];
}

/** @param bytesRead - of the connection, all its requests */
function clientProblem(code: string | undefined, bytesRead: number): Parameters<typeof problemOf> {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [
        new DqError(
          'invalid',
          `the request arrived too slowly, ${bytesRead} bytes of this connection were read; send it again`,
        ),
        { status: 408, title: 'Request Timeout' },
      ];
    case 'HPE_HEADER_OVERFLOW':
      return [
        new DqError('invalid', `header: larger than ${apiLimits.headerBytesMax} bytes`),
        { status: 431, title: 'Request Header Fields Too Large' },
      ];
    default:
      return [new DqError('invalid', 'not an HTTP/1.1 request'), { status: 400, title: 'Bad Request' }];
  }
}

function rawReply({ status, headers, bytes }: Problem): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}connection: close\r\ncontent-length: ${bytes.length}\r\n\r\n${bytes}`;
}
