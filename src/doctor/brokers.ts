// Checks the brokers of the configuration: connects to each, logs in and leaves. Publishes nothing.
// Judges the addresses by the egress policy, as the notifiers do.

import { lookup } from 'node:dns';
import { openWire } from '../broker/brokers.ts';
import { BrokerError, type Dialing } from '../broker/wire.ts';
import type { Config } from '../config/options.ts';
import { type Broker, brokersOf, placeOfBroker } from '../core/broker.ts';
import type { EgressPolicy } from '../core/egress-policy.ts';
import { egressPolicyOf } from '../process/egress.ts';
import { monotonicNow } from '../runtime/time.ts';
import { type Finding, of } from './finding.ts';

const finding = of('broker');

/** One finding for each broker, in their order. */
export function checkBrokers(config: Config): Promise<Finding[]> {
  const egress = egressPolicyOf(config, { isForBrokers: true });
  return Promise.all(Array.from(brokersOf(config.brokers).values(), (broker) => checkBroker(broker, egress)));
}

async function checkBroker(broker: Broker, egress: EgressPolicy): Promise<Finding> {
  const shown = `${broker.name} at ${placeOfBroker(broker)}`;
  const from = monotonicNow();
  try {
    const wire = await openWire(broker, dialingBy(egress, broker.port), 'dq-doctor', () => undefined);
    const ms = Math.ceil(monotonicNow() - from);
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
  return {
    judge: (address) => {
      const why = egress.refuses(address, port);
      return why === null ? null : new BrokerError('blocked_address', why);
    },
    find: (name, found) =>
      lookup(name, { all: true }, (error, addresses) => {
        if (error === null) found(null, addresses);
        else found(new BrokerError('dns', error.code ?? error.message), []);
      }),
  };
}
