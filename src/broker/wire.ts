// Wire is one open connection to a broker, and OpenWire opens one. amqp091-wire.ts, amqp10-wire.ts
// and stomp-wire.ts implement them; broker-link.ts owns the connection.

import type { LookupFunction } from 'node:net';
import type { Broker } from '../core/broker.ts';
import type { TransportReason } from '../core/verdict.ts';
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

/** How addresses are looked up and checked. */
export interface Dialing {
  /** Judges each address; errors have a `reason`. */
  readonly lookup: LookupFunction;
  /** Throws an error with a `reason` for a literal address, or that of a socket, that may not be dialled. */
  readonly check: (address: string) => void;
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

/** The address of a connected socket, checked. Throws. */
export function checkConnected(
  { remoteAddress }: { readonly remoteAddress?: string | undefined },
  { check }: Dialing,
): void {
  if (remoteAddress === undefined)
    throw new BrokerError('connect', 'the broker closed the connection at once');
  check(remoteAddress);
}
