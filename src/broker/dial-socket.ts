// Opens the socket of a connection to a broker, for protocols whose library takes a socket.

import type { Socket } from 'node:net';
import type { Broker } from '../core/broker.ts';
import { openSocket } from '../runtime/dial.ts';
import { brokerLimits } from './limits.ts';
import { openFailure } from './open-failure.ts';
import type { Dialing } from './wire.ts';

/** Connected, with TLS where the broker has it. Rejects with BrokerError. */
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
