// undici's client for callbacks: one connection at a time, whose replies pass ReplyHeads before undici reads
// them. Names the loss of a kept connection as plain-connections.ts does. undici reads a socket by read(), so
// that method is replaced. A stream between both would cost each TLS callback a copy and a turn.

import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { type buildConnector, Client, type Dispatcher } from 'undici';
import { EventRelay, type Events, KeptConnectionLost } from './connector.ts';
import { notifierLimits } from './limits.ts';

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

const nothing = Buffer.alloc(0);
const headEnd = '\r\n\r\n';
const informational = /^HTTP\/1\.[01] 1[0-9][0-9][ \r]/;
const bareLineFeed = /[^\r]\n/;
const folded = /\r\n[ \t]+/g;

/** Prepares the heads of replies for undici, which rejects some that receivers send: drops `100 Continue`,
 *  which needs no request for it (RFC 9110 15.2), and unfolds header lines (RFC 9112 5.2). Invariant: every
 *  other byte passes unchanged and in order, and undici judges it. A head is held until it is whole, at most
 *  notifierLimits.replyHeadBytesMax of it. */
export class ReplyHeads {
  /** The next bytes belong to a head. */
  #isHead = false;
  /** the beginning of a head */
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** A byte has arrived since expect(). */
  hasBegun = false;

  /** A request is written; its reply begins with the next byte. */
  expect(): void {
    this.#isHead = true;
    this.#held = [];
    this.#heldBytes = 0;
    this.hasBegun = false;
  }

  /** Returns the bytes for undici; none while a head is incomplete. */
  pass(chunk: Buffer): Buffer {
    if (!this.#isHead) return chunk;
    this.hasBegun = true;
    if (this.#staysIncomplete(chunk)) {
      this.#hold(chunk);
      return nothing;
    }
    let left: Buffer = this.#held.length === 0 ? chunk : Buffer.concat([...this.#held, chunk]);
    this.#held = [];
    this.#heldBytes = 0;
    const parts: Buffer[] = [];
    while (this.#isHead && left.length > 0) {
      const end = left.indexOf(headEnd, 0, 'latin1');
      if (end < 0) {
        this.#isHead = mayBecomeHead(left);
        if (!this.#isHead) break;
        this.#hold(left);
        left = nothing;
        break;
      }
      const head = left.subarray(0, end + headEnd.length);
      const statusLine = head.toString('latin1', 0, 13);
      this.#isHead = informational.test(statusLine);
      if (!this.#isHead || statusLine.slice(9, 12) !== '100') parts.push(unfolded(head));
      left = left.subarray(head.length);
    }
    if (left.length > 0) parts.push(left);
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
  }

  #hold(chunk: Buffer): void {
    this.#held.push(chunk);
    this.#heldBytes += chunk.length;
  }

  /** Looks at the new bytes only: a head may come byte by byte. */
  #staysIncomplete(chunk: Buffer): boolean {
    const last = this.#held.slice(-3);
    if (last.length === 0 || this.#heldBytes + chunk.length > notifierLimits.replyHeadBytesMax) return false;
    const seam = Buffer.concat([Buffer.concat(last).subarray(-3), chunk]).toString('latin1');
    return this.#heldBytes >= start.length && !seam.includes(headEnd) && !bareLineFeed.test(seam);
  }
}

const start = 'HTTP/1.';

/** false: undici rejects it anyway, or it is too long. */
function mayBecomeHead(bytes: Buffer): boolean {
  if (bytes.length > notifierLimits.replyHeadBytesMax) return false;
  const text = bytes.toString('latin1');
  return text.startsWith(start.slice(0, text.length)) && !bareLineFeed.test(text);
}

/** A line that begins with a blank after the status line stays: undici rejects it. */
function unfolded(head: Buffer): Buffer {
  if (!head.includes('\r\n ') && !head.includes('\r\n\t')) return head;
  const text = head.toString('latin1');
  const lines = text.indexOf('\r\n') + 2;
  if (text[lines] === ' ' || text[lines] === '\t') return head;
  return Buffer.from(text.replace(folded, ' '), 'latin1');
}
