// The HTTP server in front of Fastify: deadlines against slow clients, who may pass, what is in flight, refusals of what is no
// HTTP, and the end of it all. Knows no route.
//
// Invariants: every request that was read gets one answer, in order, or a closed connection, never the answer of a neighbour;
// a refusal reaches a client that is still sending (the connection is read a little longer before it is closed); draining
// resets nobody who was told that the connection would be kept.

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
import { apiLimits } from '../limits.ts';
import type { Access } from './access.ts';
import { leaveRoom } from './body-budget.ts';
import { type Problem, problemOf } from './problem.ts';
import { setRights } from './route-access.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

export interface FrontObserver {
  /** told the status of every answer that was begun */
  onAnswer(status: number): void;
  /** told of every request that was read and may not pass */
  onRefused(request: IncomingMessage, error: DqError): void;
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
  /** answers that are owed, in order */
  readonly owed: ServerResponse[];
  /** an answer that closes it has been written: nothing that still arrives is read as a request */
  closing: boolean;
  /** what came after the owed requests was no HTTP: close after the last of them */
  broken: boolean;
}

const connectionKey = Symbol('connection');
type KnownSocket = Socket & { [connectionKey]?: Connection };

export class HttpFront {
  readonly #access: Access;
  readonly #observer: FrontObserver;
  readonly #times: FrontTimes;
  #server: Server | null = null;
  #handler: Handler = () => {
    throw new Error('there is no API yet');
  };
  readonly #pass: Handler = (request, response) => this.#handler(request, response);
  /** what arrived before begin(), in its order; null from then on */
  #held: (() => void)[] | null = [];
  #inFlight = 0;
  #draining = false;
  readonly #connections = new Set<Connection>();
  /** One listener for all responses; a closure for each would be made 10,000 times a second. */
  readonly #onClose: (this: ServerResponse) => void;

  constructor(access: Access, observer: FrontObserver, times: FrontTimes = { ...limits, ...apiLimits }) {
    this.#access = access;
    this.#observer = observer;
    this.#times = times;
    const front = this;
    this.#onClose = function () {
      if (this.headersSent) observer.onAnswer(this.statusCode);
      front.#answered(this);
    };
  }

  inFlight(): number {
    return this.#inFlight;
  }

  /** For the API, whose handler is given what may pass. */
  serverFor(handler: Handler): Server {
    this.#handler = handler;
    return this.server;
  }

  /** It may listen before there is an API: what arrives is held. */
  get server(): Server {
    this.#server ??= this.#createServer();
    return this.#server;
  }

  /** The API is ready: what was held goes first. */
  begin(): void {
    const held = this.#held ?? [];
    this.#held = null;
    for (const go of held) go();
  }

  #createServer(): Server {
    const times = this.#times;
    const server = createServer(
      {
        maxHeaderSize: apiLimits.headerBytesMax,
        headersTimeout: times.headersTimeoutMs,
        requestTimeout: times.requestTimeoutMs,
        keepAliveTimeout: times.keepAliveMs,
        connectionsCheckingInterval: times.connectionsCheckMs,
        // Node's own refusal has no body; Access gives it one.
        requireHostHeader: false,
      },
      (request, response) => this.#arrived(request, response, this.#pass),
    );
    server.setTimeout(times.connectionTimeoutMs);
    // Node drops the headers behind the 2000th in silence, a credential too; their size bounds them well enough.
    server.maxHeadersCount = 0;
    server.on('connection', (socket: Socket) => this.#onConnection(socket));
    server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
      this.#arrived(request, response, (...exchange) => {
        inviteBody(response);
        this.#handler(...exchange);
      }),
    );
    server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
      const error = new DqError('invalid', 'expect: only 100-continue is known');
      this.refuse(request, response, problemOf(error, { status: 417, title: 'Expectation Failed' }));
    });
    return server;
  }

  #arrived(request: IncomingMessage, response: ServerResponse, handler: Handler): void {
    if (this.#held === null) this.#onRequest(request, response, handler);
    else
      this.#held.push(() => {
        // Whoever has gone meanwhile is owed nothing.
        if (!request.socket.destroyed) this.#onRequest(request, response, handler);
      });
  }

  /** Answers and closes. What the client still sends is read for a while and thrown away. */
  refuse(request: IncomingMessage, response: ServerResponse, problem: Problem): void {
    const connection = connectionOf(request);
    if (connection !== undefined) connection.closing = true;
    response.shouldKeepAlive = false;
    const { status, headers, bytes } = problem;
    response.writeHead(status, { ...headers, 'content-length': bytes.length });
    response.write(bytes);
    // The reply is whole already; only the closing waits.
    const end = () => {
      clearTimeout(timer);
      response.end();
    };
    const timer = setTimeout(end, this.#times.lingerMs);
    request.on('end', end);
    request.on('close', end);
    request.resume();
  }

  /** Accepts nobody any more, closes connections as they become idle, and resolves when all are gone or at the deadline. */
  async drain(deadlineMs: number): Promise<void> {
    const server = this.#server;
    if (server === null || this.#draining) return;
    this.#draining = true;
    for (const { owed } of this.#connections) {
      // The last answer that is owed closes; an earlier one would take the others with it.
      const last = owed.at(-1);
      if (last !== undefined) last.shouldKeepAlive = false;
    }
    if (!server.listening) return;
    const closed = new Promise<void>((resolve) => server.once('close', resolve));
    // http.Server.close() would cut idle connections, and reset a client that is just writing on one.
    NetServer.prototype.close.call(server);
    // Idle connections end by their own timer, a little after the time that was advertised; this is for its stragglers.
    const idle = setTimeout(() => server.closeIdleConnections(), this.#times.keepAliveMs + 1_500);
    const last = setTimeout(() => server.closeAllConnections(), deadlineMs);
    await closed;
    clearTimeout(idle);
    clearTimeout(last);
    // Ends the timer that looks for slow requests; there is nothing else left to close.
    server.close();
  }

  #onConnection(socket: KnownSocket): void {
    const connection: Connection = { owed: [], closing: false, broken: false };
    socket[connectionKey] = connection;
    this.#connections.add(connection);
    socket.once('close', () => {
      // Answers that wait behind another one are told nothing when the connection goes.
      this.#inFlight -= connection.owed.length;
      for (const { req } of connection.owed) leaveRoom(req);
      connection.owed.length = 0;
      this.#connections.delete(connection);
    });
  }

  #onRequest(request: IncomingMessage, response: ServerResponse, handler: Handler): void {
    const connection = connectionOf(request);
    if (connection === undefined) throw new Error('a request came on no connection');
    const before = connection.owed.at(-1);
    if (this.#draining && before !== undefined) {
      if (before.headersSent) connection.closing = true;
      else before.shouldKeepAlive = true;
    }
    // Pipelined behind an answer that closes: its own answer could never be written, so it must not be acted on.
    if (connection.closing) {
      request.resume();
      return;
    }
    connection.owed.push(response);
    this.#inFlight += 1;
    response.on('close', this.#onClose);
    if (this.#draining) response.shouldKeepAlive = false;
    const admitted = this.#access.admit(request);
    if (admitted instanceof DqError) {
      this.#observer.onRefused(request, admitted);
      this.refuse(request, response, problemOf(admitted));
      return;
    }
    setRights(request, admitted);
    handler(request, response);
  }

  #answered(response: ServerResponse): void {
    const connection = connectionOf(response.req);
    const index = connection?.owed.indexOf(response) ?? -1;
    if (connection === undefined || index < 0) return;
    connection.owed.splice(index, 1);
    this.#inFlight -= 1;
    leaveRoom(response.req);
    if (connection.broken && !connection.owed.some(({ req }) => req.complete))
      response.req.socket.destroySoon();
  }

  /** What came is no HTTP, or came too slowly. */
  onClientError(error: NodeJS.ErrnoException, socket: KnownSocket): void {
    const connection = socket[connectionKey];
    if (connection === undefined || error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    if (connection.broken) return;
    connection.broken = true;
    const last = connection.owed.at(-1);
    const isWhole = last === undefined || last.req.complete;
    // An answer that is owed must not be overtaken: its client would take this refusal for it.
    if (connection.owed.length > (isWhole ? 0 : 1)) return;
    if (last?.headersSent === true) {
      socket.destroy();
      return;
    }
    socket.end(rawReply(problemOf(...clientProblem(error.code))));
    setTimeout(() => socket.destroy(), this.#times.lingerMs).unref();
  }
}

/** Not of an answer that waits behind others: Node would write its 100 between its header and its body, and the client would take
 *  one for the other. Whoever hears nothing sends the body after a while. */
function inviteBody(response: ServerResponse): void {
  if (response.socket !== null) response.writeContinue();
}

function connectionOf(request: IncomingMessage): Connection | undefined {
  return (request.socket as KnownSocket)[connectionKey];
}

function clientProblem(code: string | undefined): Parameters<typeof problemOf> {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [
        new DqError('invalid', 'the request did not arrive in time'),
        { status: 408, title: 'Request Timeout' },
      ];
    case 'HPE_HEADER_OVERFLOW':
      return [
        new DqError('invalid', `the header is larger than ${apiLimits.headerBytesMax} bytes`),
        { status: 431, title: 'Request Header Fields Too Large' },
      ];
    default:
      return [new DqError('invalid', 'this is no HTTP/1.1 request'), { status: 400, title: 'Bad Request' }];
  }
}

function rawReply({ status, headers, bytes }: Problem): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}connection: close\r\ncontent-length: ${bytes.length}\r\n\r\n${bytes}`;
}
