// Opens the connections that callbacks travel on. Owns the egress check at the moment of dialling: the literal address,
// every looked-up address, and the address the socket is really connected to, before a byte is written to it.
// Names every failure by the phase it happened in, because error codes do not: ECONNRESET may be any of them.

import { isIP, type LookupFunction, type Socket } from 'node:net';
import { buildConnector } from 'undici';
import type { EgressPolicy } from '../core/egress-policy.ts';
import { notifierLimits } from './limits.ts';
import { type Found, LookupNotBegun, type NameLookups, type PendingLookup } from './name-lookups.ts';

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

/** The look-up of the host name had no turn, so the call never started. Not a failure of the receiver. */
export class NotStartedError extends Error {
  constructor(options?: ErrorOptions) {
    super('the look-up of the host name had no turn', options);
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
  readonly egress: EgressPolicy;
  /** false for topics that say dangerouslySkipTlsVerify */
  readonly verifyTls: boolean;
  readonly lookups: NameLookups;
  /** given every socket in the moment it starts to dial, so that its call can give it up */
  readonly onDial: (dial: Dial) => void;
}

export function createConnector(options: ConnectorOptions): buildConnector.connector {
  const { egress, lookups, onDial } = options;
  /** Node asks for a name inside of connect, so a look-up that appears meanwhile belongs to the socket that it returns. */
  let lookup = null as PendingLookup | null;
  // By port, because a lookup is told a name alone and own endpoints are judged by address and port; and not by
  // connection, because each of these keeps the TLS sessions that spare later handshakes.
  const dialers = new Map<number, buildConnector.connector>();

  function dialerFor(port: number): buildConnector.connector {
    const known = dialers.get(port);
    if (known !== undefined) return known;
    const dialer = buildConnector({
      lookup: judgingLookup(egress, port, (name, found) => {
        lookup = lookups.find(name, found);
      }),
      // Tries the addresses of a name one after the other, and is what makes Node ask lookup for all of them.
      autoSelectFamily: true,
      rejectUnauthorized: options.verifyTls,
      // Node's own default today; a flag of Node lowers it.
      minVersion: 'TLSv1.2',
      timeout: notifierLimits.connectMsMax,
    });
    dialers.set(port, dialer);
    return dialer;
  }

  return (target, callback) => {
    const port = Number(target.port) || (target.protocol === 'https:' ? 443 : 80);
    // Node looks no literal up.
    const blocked = isIP(target.hostname) === 0 ? null : egress.refuses(target.hostname, port);
    if (blocked !== null) {
      queueMicrotask(() => callback(new DialError('blocked_address', blocked), null));
      return;
    }
    let refusal: DialError | null = null;
    let phase: DialReason = 'connect';
    lookup = null as PendingLookup | null;
    // undici returns the socket, though its types do not say so.
    const socket = dialerFor(port)(target, (error, connected) => {
      if (error === null && refusal === null) callback(null, connected);
      else callback(refusal ?? asDialError(error, phase), null);
    }) as unknown as Socket;
    // Before the listeners that write: TLS sends its first bytes on this event, too.
    socket.prependOnceListener('connect', () => {
      phase = 'tls';
      refusal = judgeSocket(socket, egress, port);
      if (refusal !== null) socket.destroy(refusal);
    });
    const asked = lookup;
    onDial({
      socket,
      get isQueued() {
        return asked !== null && !asked.hasBegun;
      },
    });
  };
}

function judgeSocket(socket: Socket, egress: EgressPolicy, port: number): DialError | null {
  if (socket.remoteAddress === undefined) return new DialError('connect', 'the peer closed at once');
  const reason = egress.refuses(socket.remoteAddress, port);
  return reason === null ? null : new DialError('blocked_address', reason);
}

/** Hands on only what was judged, so no second answer of the resolver is ever dialled. One forbidden address refuses the
 *  name: which of them is dialled would be chance. */
function judgingLookup(
  egress: EgressPolicy,
  port: number,
  find: (name: string, found: Found) => void,
): LookupFunction {
  return (name, _options, found) => {
    find(name, (error, addresses) => {
      if (error instanceof LookupNotBegun) return found(new NotStartedError({ cause: error }), []);
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
  const { code, message } = error as NodeJS.ErrnoException;
  return new DialError(phase, code ?? message, { cause: error });
}
