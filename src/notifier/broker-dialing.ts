// How connections to brokers look up and check addresses: with the look-ups and the egress policy of
// callbacks, so that an unresponsive resolver or a forbidden address has the same effect on both.

import { BrokerError, type Dialing } from '../broker/wire.ts';
import type { EgressPolicy } from '../core/egress-policy.ts';
import { DialError, NotStartedError, policyDialing } from './connector.ts';
import type { NameLookups } from './name-lookups.ts';

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
