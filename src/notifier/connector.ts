// Opens the connections of callbacks. Checks the egress policy at the moment of dialling: the literal
// address, every looked-up address, and the address of the connected socket, before a byte is written to it.
// Names every failure by its phase, because error codes do not: ECONNRESET occurs in each.

import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { buildConnector, type Dispatcher } from 'undici';
import { BrokerError, type Dialing } from '../broker/wire.ts';
import type { EgressPolicy } from '../core/egress-policy.ts';
import { DialFailure, type DialOptions, dial } from '../runtime/dial.ts';
import { clearTimeout, monotonicNow, setTimeout, type Timer } from '../runtime/time.ts';
import { notifierLimits } from './limits.ts';
import { LookupNotStarted, type NameLookups, type PendingLookup } from './name-lookups.ts';

type DialReason = 'blocked_address' | 'dns' | 'connect' | 'tls';

/** No byte of a request was written. */
export class DialError extends Error {
  readonly reason: DialReason;
  constructor(reason: DialReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DialError';
    this.reason = reason;
  }
}

/** The look-up of the host name got no turn, so the call never started. Not a failure of the receiver. */
export class NotStartedError extends Error {
  constructor(options?: ErrorOptions) {
    super('the look-up of the host name got no turn', options);
    this.name = 'NotStartedError';
  }
}

/** `found`: the addresses of the name; `connected`: by TCP; `secured`: by TLS */
export type DialMoment = 'found' | 'connected' | 'secured';

/** The opening of one connection. */
export interface Dial {
  /** its look-up waits for a turn */
  readonly isQueued: boolean;
  /** what it waits for: the end of a sentence */
  readonly waitsFor: string;
  /** Ends it, or the connection where it has been opened meanwhile. */
  destroy(error: Error): void;
  onMoment(listener: (moment: DialMoment) => void): void;
}

interface ConnectorOptions {
  readonly egress: Pick<EgressPolicy, 'refuses'>;
  /** false for topics with dangerouslySkipTlsVerify */
  readonly verifyTls: boolean;
  readonly lookups: NameLookups;
  /** receives every dial when it starts, so that its call can end it */
  readonly onDial: (dial: Dial) => void;
}

export function createConnector({
  egress,
  verifyTls,
  lookups,
  onDial,
}: ConnectorOptions): buildConnector.connector {
  const secure = buildConnector({
    rejectUnauthorized: verifyTls,
    // Node's default, which a flag of Node could lower.
    minVersion: 'TLSv1.2',
    // Opening counts from the start of the dial.
    timeout: 0,
  });
  return (target, callback) => {
    const opening = new Opening(callback);
    opening.start(target, (port) => policyDialing(egress, lookups, port), secure);
    onDial(opening);
  };
}

interface PolicyDialing extends Required<Pick<DialOptions, 'find' | 'judge'>> {
  /** the look-up that its dial waits for; null before it, and for a literal address */
  readonly lookup: () => PendingLookup | null;
}

/** Dials only what the policy allows, by the shared look-ups. Its errors are DialError and NotStartedError.
 *  For one dial. A forbidden address of a name is left out and does not reject the others. A name that also
 *  resolves to the machine's link-local address keeps its good ones, and the owner of the name gains
 *  nothing: a forbidden address is never dialled. */
function policyDialing(
  egress: Pick<EgressPolicy, 'refuses'>,
  lookups: Pick<NameLookups, 'find'>,
  port: number,
): PolicyDialing {
  let pending: PendingLookup | null = null;
  return {
    lookup: () => pending,
    find: (name, found) => {
      pending = lookups.find(name, (error, addresses) => {
        if (error instanceof LookupNotStarted) found(new NotStartedError({ cause: error }), []);
        else if (error) found(new DialError('dns', error.code ?? error.message, { cause: error }), []);
        else if (addresses.length === 0) found(new DialError('dns', 'the name has no address'), []);
        else found(null, addresses);
      });
    },
    judge: (address) => {
      const reason = egress.refuses(address, port);
      return reason === null ? null : new DialError('blocked_address', reason);
    },
  };
}

class Opening implements Dial {
  #callback: buildConnector.Callback | null;
  readonly #listeners: ((moment: DialMoment) => void)[] = [];
  #lookup: () => PendingLookup | null = () => null;
  #destroy: (error: Error) => void = () => {};
  #last: DialMoment | null = null;
  #late: Timer | undefined;

  constructor(callback: buildConnector.Callback) {
    this.#callback = callback;
  }

  start(
    target: buildConnector.Options,
    dialingTo: (port: number) => PolicyDialing,
    secure: buildConnector.connector,
  ): void {
    const port = Number(target.port) || (target.protocol === 'https:' ? 443 : 80);
    const timeoutMs = notifierLimits.connectMsMax;
    const endAt = monotonicNow() + timeoutMs;
    const { lookup, find, judge } = dialingTo(port);
    this.#lookup = lookup;
    const onFound = () => this.#note('found');
    const place = { host: target.hostname, port, timeoutMs };
    const dialing = dial({ ...place, find, judge, onFound }, (error, socket) => {
      if (error !== null) {
        this.#end(asDialError(error, 'connect'), null);
        return;
      }
      this.#note('connected');
      this.#destroy = (reason) => void socket.destroy(reason);
      if (target.protocol === 'https:') this.#secure(socket, target, secure, endAt);
      else this.#end(null, socket);
    });
    this.#destroy = (error) => dialing.cancel(error);
  }

  get isQueued(): boolean {
    const pending = this.#lookup();
    return pending !== null && !pending.hasStarted;
  }

  get waitsFor(): string {
    if (this.#last === 'connected') return 'the TLS handshake';
    return this.#last === null && this.#lookup() !== null ? 'the look-up of the host name' : 'the connection';
  }

  destroy(error: Error): void {
    this.#destroy(error);
  }

  onMoment(listener: (moment: DialMoment) => void): void {
    this.#listeners.push(listener);
  }

  #secure(
    httpSocket: Socket,
    target: buildConnector.Options,
    secure: buildConnector.connector,
    endAt: number,
  ): void {
    // undici returns the socket, though its types do not say so.
    const secured = secure({ ...target, ...serverName(target), httpSocket }, (error, socket) => {
      if (error === null) this.#note('secured');
      if (error === null) this.#end(null, socket);
      else this.#end(asDialError(error, 'tls'), null);
    }) as unknown as Socket;
    this.#destroy = (reason) => void secured.destroy(reason);
    this.#late = setTimeout(
      () => secured.destroy(new DialError('tls', `no handshake within ${notifierLimits.connectMsMax} ms`)),
      Math.max(0, endAt - monotonicNow()),
    );
  }

  #end(...result: buildConnector.CallbackArgs): void {
    clearTimeout(this.#late);
    const callback = this.#callback;
    this.#callback = null;
    callback?.(...result);
  }

  #note(moment: DialMoment): void {
    this.#last = moment;
    for (const listener of this.#listeners) listener(moment);
  }
}

/** The name in the TLS handshake has no dot at its end (RFC 6066 3), unlike one that searches no domain. */
function serverName({ hostname }: buildConnector.Options): { readonly servername?: string } {
  return hostname.endsWith('.') ? { servername: hostname.slice(0, -1) } : {};
}

function asDialError(error: Error, phase: DialReason): DialError | NotStartedError {
  if (error instanceof DialError || error instanceof NotStartedError) return error;
  if (error instanceof DialFailure) return new DialError(phase, error.tries, { cause: error });
  const { code, message } = error as NodeJS.ErrnoException;
  return new DialError(phase, code ?? message, { cause: error });
}

/** The events of one request, as undici sends them. */
export type Events = Required<
  Pick<
    Dispatcher.DispatchHandler,
    'onRequestStart' | 'onResponseStart' | 'onResponseData' | 'onResponseEnd' | 'onResponseError'
  >
>;

/** A call, for the connections that make it (pools.ts, plain-connections.ts). */
export interface Caller extends Events {
  /** A socket is dialled for it. */
  onDial(dial: Dial): void;
}

/** Passes the events of one request on. */
export class EventRelay<To extends Events> implements Events {
  protected readonly to: To;

  constructor(to: To) {
    this.to = to;
  }

  onRequestStart(controller: Dispatcher.DispatchController, context: unknown): void {
    this.to.onRequestStart(controller, context);
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    text?: string,
  ): void {
    this.to.onResponseStart(controller, status, headers, text);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.to.onResponseData(controller, chunk);
  }

  onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    this.to.onResponseEnd(controller, trailers);
  }

  onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    this.to.onResponseError(controller, error);
  }
}

/** A kept connection closed before the first byte of the reply. Unsent: it is kept no more, so dispatching
 *  again ends. Sent: the receiver had probably closed it before the request arrived. */
export class KeptConnectionLost extends Error {
  /** The request was written to it. */
  readonly isSent: boolean;
  constructor(cause: Error, isSent: boolean) {
    super(`a kept connection was lost: ${cause.message}`, { cause });
    this.name = 'KeptConnectionLost';
    this.isSent = isSent;
  }
}

/** How connections to brokers look up and check addresses: with the look-ups of callbacks and an egress
 *  policy, so that an unresponsive resolver or a forbidden address has the same effect on both. */
export function brokerDialing(
  egress: Pick<EgressPolicy, 'refuses'>,
  lookups: Pick<NameLookups, 'find'>,
  port: number,
): Dialing {
  const { find, judge } = policyDialing(egress, lookups, port);
  return {
    find: (name, found) => find(name, (error, addresses) => found(error && brokerErrorOf(error), addresses)),
    judge: (address) => {
      const error = judge(address);
      return error && brokerErrorOf(error);
    },
  };
}

function brokerErrorOf(error: Error): Error {
  if (error instanceof DialError) return new BrokerError(error.reason, error.message, { cause: error });
  if (error instanceof NotStartedError)
    return new BrokerError('not_started', error.message, { cause: error });
  return error;
}
