// Opens the connections of callbacks. Checks the egress policy at the moment of dialling: the literal
// address, every looked-up address, and the address of the connected socket, before a byte is written to it.
// Names every failure by its phase, because error codes do not: ECONNRESET occurs in each.

import { isIP, type LookupFunction, type Socket } from 'node:net';
import { buildConnector } from 'undici';
import type { EgressPolicy } from '../core/egress-policy.ts';
import { notifierLimits } from './limits.ts';
import { type Found, LookupNotStarted, type NameLookups, type PendingLookup } from './name-lookups.ts';

export type DialReason = 'blocked_address' | 'dns' | 'connect' | 'tls';

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

/** The opening of one connection. */
export interface Dial {
  readonly socket: Socket;
  /** its look-up waits for a turn */
  readonly isQueued: boolean;
}

export interface ConnectorOptions {
  readonly egress: Pick<EgressPolicy, 'refuses'>;
  /** false for topics with dangerouslySkipTlsVerify */
  readonly verifyTls: boolean;
  readonly lookups: NameLookups;
  /** receives every socket when it starts to dial, so that its call can destroy it */
  readonly onDial: (dial: Dial) => void;
}

export function createConnector(options: ConnectorOptions): buildConnector.connector {
  const { egress, lookups, onDial } = options;
  /** Node looks a name up inside connect, so a look-up that appears in it belongs to the returned socket. */
  let lookup = null as PendingLookup | null;
  // By port: a look-up receives the name only, and own endpoints are judged by address and port. Not by
  // connection:
  // each dialer keeps the TLS sessions that shorten later handshakes.
  const dialers = new Map<number, buildConnector.connector>();

  function dialerFor(port: number): buildConnector.connector {
    const known = dialers.get(port);
    if (known !== undefined) return known;
    const dialer = buildConnector({
      lookup: judgingLookup(egress, port, (name, found) => {
        lookup = lookups.find(name, found);
      }),
      // Tries the addresses of a name in turn, and makes Node ask the look-up for all of them.
      autoSelectFamily: true,
      rejectUnauthorized: options.verifyTls,
      // Node's default, which a flag of Node could lower.
      minVersion: 'TLSv1.2',
      timeout: notifierLimits.connectMsMax,
    });
    dialers.set(port, dialer);
    return dialer;
  }

  return (target, callback) => {
    const port = Number(target.port) || (target.protocol === 'https:' ? 443 : 80);
    // Node does not look up literal addresses.
    const blocked = isIP(target.hostname) === 0 ? null : egress.refuses(target.hostname, port);
    if (blocked !== null) {
      queueMicrotask(() => callback(new DialError('blocked_address', blocked), null));
      return;
    }
    let rejection: DialError | null = null;
    let phase: DialReason = 'connect';
    lookup = null as PendingLookup | null;
    // undici returns the socket, though its types do not say so.
    const socket = dialerFor(port)(target, (error, connected) => {
      if (error === null && rejection === null) callback(null, connected);
      else callback(rejection ?? asDialError(error, phase), null);
    }) as unknown as Socket;
    // Before the listeners that write: TLS sends its first bytes on this event.
    socket.prependOnceListener('connect', () => {
      phase = 'tls';
      rejection = judgeSocket(socket, egress, port);
      if (rejection !== null) socket.destroy(rejection);
    });
    const pending = lookup;
    onDial({
      socket,
      get isQueued() {
        return pending !== null && !pending.hasStarted;
      },
    });
  };
}

function judgeSocket(socket: Socket, egress: ConnectorOptions['egress'], port: number): DialError | null {
  if (socket.remoteAddress === undefined)
    return new DialError('connect', 'the peer closed the connection at once');
  const reason = egress.refuses(socket.remoteAddress, port);
  return reason === null ? null : new DialError('blocked_address', reason);
}

/** For sockets. Returns only judged addresses, so no second answer of the resolver is ever dialled. One
 *  forbidden address rejects the name: which address is dialled would be chance. */
export function judgingLookup(
  egress: ConnectorOptions['egress'],
  port: number,
  find: (name: string, found: Found) => void,
): LookupFunction {
  return (name, _options, found) => {
    find(name, (error, addresses) => {
      if (error instanceof LookupNotStarted) return found(new NotStartedError({ cause: error }), []);
      if (error) return found(new DialError('dns', error.code ?? error.message, { cause: error }), []);
      if (addresses.length === 0) return found(new DialError('dns', 'the name has no address'), []);
      for (const { address } of addresses) {
        const reason = egress.refuses(address, port);
        if (reason !== null) return found(new DialError('blocked_address', reason), []);
      }
      found(null, [...addresses]);
    });
  };
}

function asDialError(error: unknown, phase: DialReason): DialError | NotStartedError {
  if (error instanceof DialError || error instanceof NotStartedError) return error;
  const { code, message, address, port } = error as NodeJS.ErrnoException & {
    address?: string;
    port?: number;
  };
  return new DialError(phase, `${code ?? message}${placeOf(address, port)}`, { cause: error });
}

/** The dialled address, because a name may have several; '' = unknown. */
function placeOf(address: string | undefined, port: number | undefined): string {
  if (address === undefined || port === undefined) return '';
  return isIP(address) === 6 ? ` [${address}]:${port}` : ` ${address}:${port}`;
}
