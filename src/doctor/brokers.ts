// Checks the brokers of the configuration: connects to each, logs in and leaves. Publishes nothing.
// Judges the addresses by the egress policy, as the notifiers do.

import { type LookupAddress, lookup } from 'node:dns';
import { isIP } from 'node:net';
import { openWire } from '../broker/broker-link.ts';
import { BrokerError, type Dialing } from '../broker/wire.ts';
import type { Config } from '../config/options.ts';
import { type Broker, brokersOf, placeOfBroker } from '../core/broker.ts';
import type { EgressPolicy } from '../core/egress-policy.ts';
import { egressPolicyOf } from '../process/egress.ts';
import { type Finding, of } from './finding.ts';

const finding = of('broker');

/** One finding for each broker, in their order. */
export function checkBrokers(config: Config): Promise<Finding[]> {
  const egress = egressPolicyOf(config, { isForBrokers: true });
  return Promise.all(Array.from(brokersOf(config.brokers).values(), (broker) => checkBroker(broker, egress)));
}

async function checkBroker(broker: Broker, egress: EgressPolicy): Promise<Finding> {
  const shown = `${broker.name} at ${placeOfBroker(broker)}`;
  const from = performance.now();
  try {
    const wire = await openWire(broker, dialingBy(egress, broker.port), 'dq-doctor', () => undefined);
    const ms = Math.ceil(performance.now() - from);
    await wire.close();
    return finding('ok', `${shown} accepts the connection and the login, in ${ms} ms`);
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    return finding('failed', `${shown}: ${error.reason} (${error.message}); ${remedyFor(broker, error)}`);
  }
}

function remedyFor({ host, type, secure }: Broker, { reason }: BrokerError): string {
  switch (reason) {
    case 'dns':
      return `check the name ${host} in brokers`;
    case 'blocked_address':
      return 'add the address to egress.allow, or remove it from egress.deny';
    case 'tls':
      return 'check that the port serves TLS, and set NODE_EXTRA_CA_CERTS for a private authority';
    case 'mq_refused':
      return 'check user, password and virtual host in brokers, and the rights of the user';
    default:
      return `check that the broker runs and that its port serves ${type}${secure ? ' with TLS' : ' without TLS'}`;
  }
}

function dialingBy(egress: EgressPolicy, port: number): Dialing {
  const check = (address: string) => {
    const why = isIP(address) === 0 ? null : egress.refuses(address, port);
    if (why !== null) throw new BrokerError('blocked_address', why);
  };
  return {
    check,
    lookup: (name, _options, found) => {
      lookup(name, { all: true }, (error, addresses) => {
        const failure =
          error === null ? firstRefusal(addresses, check) : new BrokerError('dns', error.code ?? '');
        if (failure === null) found(null, addresses);
        else found(failure, []);
      });
    },
  };
}

function firstRefusal(addresses: readonly LookupAddress[], check: Dialing['check']): Error | null {
  try {
    for (const { address } of addresses) check(address);
    return null;
  } catch (error) {
    return error as Error;
  }
}
