// undici's client for callbacks: one connection at a time, whose replies pass reply-heads.ts before undici
// reads them. Names the loss of a kept connection as plain-connections.ts does. undici reads a socket by
// read(), so that method is replaced. A stream between both would cost each TLS callback a copy and a turn.

import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { type buildConnector, Client, type Dispatcher } from 'undici';
import { EventRelay, type Events, KeptConnectionLost } from './connector.ts';
import { ReplyHeads } from './reply-heads.ts';

interface CallbackClientOptions extends Omit<Client.Options, 'connect'> {
  readonly connect: buildConnector.connector;
}

export class CallbackClient extends Client {
  readonly #line: Line;

  constructor(origin: string | URL, { connect, ...options }: CallbackClientOptions) {
    const line = new Line();
    super(origin, {
      ...options,
      connect: (target, done) =>
        connect(target, (...result) => {
          if (result[0] === null) line.open(result[1]);
          done(...result);
        }),
    });
    this.#line = line;
  }

  override dispatch(request: WatchedRequest, handler: Dispatcher.DispatchHandler): boolean {
    request.watched?.goesOver(this.#line);
    return super.dispatch(request, handler);
  }
}

/** A pool passes the request on to a client unchanged, and its handler in another form. */
interface WatchedRequest extends Dispatcher.DispatchOptions {
  readonly watched?: WatchedCaller;
}

/** `over`: a CallbackClient, or a pool of them. */
export function dispatchWatched(over: Dispatcher, request: Dispatcher.DispatchOptions, caller: Events): void {
  const watched = new WatchedCaller(caller);
  const options: WatchedRequest = { ...request, watched };
  over.dispatch(options, watched);
}

/** The connection of a client, and what has arrived on it. */
class Line {
  #heads = new ReplyHeads();
  #replies = 0;
  /** The first error of the connection. undici reports the close that follows. */
  failure: Error | null = null;

  open(socket: Readable): void {
    const heads = new ReplyHeads();
    this.#heads = heads;
    this.#replies = 0;
    this.failure = null;
    socket.on('error', (error) => {
      if (this.#heads === heads) this.failure ??= error;
    });
    const read = socket.read.bind(socket);
    socket.read = (size?: number) => {
      // Node itself calls it with 0.
      if (size !== undefined) return read(size);
      for (;;) {
        const chunk = read() as Buffer | null;
        if (chunk === null) return null;
        const passed = heads.pass(chunk);
        if (passed.length > 0) return passed;
      }
    };
  }

  /** A request is written now. Returns whether the connection has had one before. */
  begin(): boolean {
    this.#heads.expect();
    return this.#replies > 0;
  }

  ended(): void {
    this.#replies += 1;
  }

  /** A byte has arrived since the request. */
  get hasReply(): boolean {
    return this.#heads.hasBegun;
  }
}

class WatchedCaller extends EventRelay<Events> {
  #line: Line | null = null;
  /** The request was written to a kept connection. */
  #isKept = false;

  goesOver(line: Line): void {
    this.#line = line;
  }

  override onRequestStart(controller: Dispatcher.DispatchController, context: unknown): void {
    this.#isKept = this.#line?.begin() === true;
    super.onRequestStart(controller, context);
  }

  override onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    this.#line?.ended();
    super.onResponseEnd(controller, trailers);
  }

  override onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    const { failure = null } = this.#line ?? {};
    if (isClose(error) && failure !== null && isTlsError(failure)) {
      super.onResponseError(controller, failure);
      return;
    }
    const isLost = this.#isKept && this.#line?.hasReply !== true && isClose(error);
    super.onResponseError(controller, isLost ? new KeptConnectionLost(error, true) : error);
  }
}

/** The other side has closed the connection. */
function isClose(error: Error): boolean {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'UND_ERR_SOCKET') return error.message.endsWith('closed');
  return code === 'ECONNRESET' || code === 'EPIPE';
}

/** The failure is one of TLS. With TLS 1.3 a receiver rejects a missing client certificate after the
 *  handshake of the client. */
export function isTlsError(error: Error): boolean {
  return (error as NodeJS.ErrnoException).code?.startsWith('ERR_SSL_') === true;
}
