// Names the failure of a connection that could not be opened. Both client libraries pass on the errors of
// Node's sockets, whose code tells the phase.

import { BrokerError } from './wire.ts';

/** Codes of Node and OpenSSL for a handshake or a certificate that failed. */
const tlsCode = /^(ERR_SSL|ERR_TLS|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|EPROTO)/;

/** null: the broker closed the connection */
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
