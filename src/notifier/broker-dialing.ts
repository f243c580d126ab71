// How connections to brokers look up and check addresses: with the look-ups and the egress policy of
// callbacks, so that an unresponsive resolver or a forbidden address has the same effect on both.

import { isIP } from 'node:net';
import type { Dialing } from '../broker/wire.ts';
import { BrokerError } from '../broker/wire.ts';
import type { EgressPolicy } from '../core/egress-policy.ts';
import { DialError, judgingLookup, NotStartedError } from './connector.ts';
import type { NameLookups } from './name-lookups.ts';

export function brokerDialing(
  egress: Pick<EgressPolicy, 'refuses'>,
  lookups: Pick<NameLookups, 'find'>,
  port: number,
): Dialing {
  const judging = judgingLookup(egress, port, (name, found) => lookups.find(name, found));
  return {
    lookup: (name, options, found) => {
      judging(name, options, (error, ...addresses) => found(error && brokerErrorOf(error), ...addresses));
    },
    check: (host) => {
      const reason = isIP(host) === 0 ? null : egress.refuses(host, port);
      if (reason !== null) throw new BrokerError('blocked_address', reason);
    },
  };
}

function brokerErrorOf(error: Error): Error {
  if (error instanceof DialError) return new BrokerError(error.reason, error.message, { cause: error });
  if (error instanceof NotStartedError)
    return new BrokerError('not_started', error.message, { cause: error });
  return error;
}
