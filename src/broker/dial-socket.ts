// Opens the socket of a connection to a broker, for protocols whose library takes a socket. Checks the
// address that was dialled before a byte is written to it.

import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Broker } from '../core/broker.ts';
import { checkConnected, type Dialing } from './wire.ts';

/** `onConnect`: after the TLS handshake. Errors are events of the socket. Throws BrokerError for a literal
 *  address that may not be dialled. */
export function dialSocket(
  { host, port, secure, verifyTls }: Pick<Broker, 'host' | 'port' | 'secure' | 'verifyTls'>,
  dialing: Dialing,
  onConnect: () => void,
): Socket {
  dialing.check(host);
  const common = { host, port, lookup: dialing.lookup, autoSelectFamily: true, noDelay: true };
  const tls = { rejectUnauthorized: verifyTls, ...(isIP(host) === 0 ? { servername: host } : {}) };
  const socket = secure ? connectTls({ ...common, ...tls }, onConnect) : connectTcp(common, onConnect);
  socket.prependOnceListener('connect', () => {
    try {
      checkConnected(socket, dialing);
    } catch (error) {
      socket.destroy(error as Error);
    }
  });
  return socket;
}
