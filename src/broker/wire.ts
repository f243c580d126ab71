// Wire is one open connection to a broker, and OpenWire opens one. amqp091-wire.ts, amqp10-wire.ts
// and stomp-wire.ts implement them; broker-link.ts owns the connection.

import type { Broker } from '../core/broker.ts';
import type { TransportReason } from '../core/verdict.ts';
import type { DialOptions } from '../runtime/dial.ts';
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
