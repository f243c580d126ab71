// Wire is one open connection to a broker, and OpenWire opens one. amqp091-wire.ts, amqp10-wire.ts
// and stomp-wire.ts implement them, with the socket and the errors of this file; brokers.ts owns the
// connection.

import type { Socket } from 'node:net';
import type { Broker } from '../core/broker.ts';
import type { TransportReason } from '../core/verdict.ts';
import { type DialOptions, openSocket } from '../runtime/dial.ts';
import { brokerLimits } from './limits.ts';
import type { Publication } from './publication.ts';

export interface Wire {
  /** no publication waits or is unconfirmed */
  readonly isIdle: boolean;
  /** Sends it, now or when the broker allows it, and ends it. Does not throw. */
  publish(publication: Publication): void;
  /** Ends no publication. Resolves when the connection is closed, at the latest after
   *  brokerLimits.closeMsMax. */
  close(): Promise<void>;
}

/** How a TCP connection to the broker is opened: with which look-ups, to which addresses. An error of it has
 *  a `reason`, or is one of runtime/dial.ts. */
export type Dialing = Pick<DialOptions, 'find' | 'judge'>;

/** What a connection reports of itself. */
export interface WireEvents {
  readonly onOpen: () => void;
  /** also where it was never open */
  readonly onLost: (error: BrokerError) => void;
}

/** Resolves when the connection that `connect` begins is open. `onLost`: as of OpenWire */
export function whenOpen(connect: (events: WireEvents) => Wire, onLost: () => void): Promise<Wire> {
  return new Promise((resolve, reject) => {
    const wire = connect({
      onOpen: () => resolve(wire),
      onLost: (error) => {
        reject(error);
        onLost();
      },
    });
  });
}

/** Rejects with BrokerError. `name`: of the connection, for the broker's administrator. `onLost`: called once
 *  after the connection has ended by itself, when its publications have ended. */
export type OpenWire = (broker: Broker, dialing: Dialing, name: string, onLost: () => void) => Promise<Wire>;

/** Why a broker does not take messages. */
export class BrokerError extends Error {
  /** `not_started`: the look-up of the host name got no turn */
  readonly reason: TransportReason | 'not_started';
  constructor(reason: TransportReason | 'not_started', message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'BrokerError';
    this.reason = reason;
  }
}

/** Ends a publication with the reason of the error. */
export function fail(publication: Publication, { reason, message }: BrokerError): void {
  publication.end(reason === 'not_started' ? { kind: 'not_started' } : { kind: 'no_reply', reason }, message);
}

/** For protocols whose library takes a socket: connected, with TLS where the broker has it. Rejects with
 *  BrokerError. */
export async function dialSocket(
  { host, port, secure, verifyTls }: Pick<Broker, 'host' | 'port' | 'secure' | 'verifyTls'>,
  dialing: Dialing,
): Promise<Socket> {
  const options = { ...dialing, host, port, timeoutMs: brokerLimits.openMsMax };
  try {
    return await openSocket(options, secure ? { rejectUnauthorized: verifyTls } : null);
  } catch (error) {
    throw openFailure(error);
  }
}

/** Codes of Node and OpenSSL for a handshake or a certificate that failed. */
const tlsCode = /^(ERR_SSL|ERR_TLS|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|EPROTO)/;

/** Names the failure of a connection that could not be opened; null: the broker closed it. The client
 *  libraries pass on the errors of Node's sockets, whose code tells the phase. */
export function openFailure(error: unknown): BrokerError {
  if (error instanceof BrokerError) return error;
  if (error === null) return new BrokerError('connect', 'the broker closed the connection');
  const {
    code = '',
    message = '',
    address,
    port,
  } = Object(error) as NodeJS.ErrnoException & {
    readonly address?: string;
    readonly port?: number;
  };
  // Of several addresses, the error of the whole has a code alone.
  const text = message === '' ? code : message;
  const place = message === '' && address !== undefined ? ` ${address}:${port}` : '';
  return new BrokerError(tlsCode.test(code) ? 'tls' : 'connect', text + place, { cause: error });
}
