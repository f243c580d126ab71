// Checks the brokers of the configuration: connects to each, logs in and leaves. Publishes nothing.
// Judges the addresses by the egress policy, as the notifiers do.

import { lookup } from 'node:dns';
import { openWire } from '../broker/brokers.ts';
import { BrokerError, type Dialing } from '../broker/wire.ts';
import type { Config } from '../config/options.ts';
import { type Broker, brokersOf, placeOfBroker } from '../core/broker.ts';
import type { EgressPolicy } from '../core/egress-policy.ts';
import { type Finding, findingsOf } from '../core/finding.ts';
import { egressPolicyOf } from '../process/egress.ts';
import { monotonicNow } from '../runtime/time.ts';

const finding = findingsOf('broker');

/** One finding for each broker, in their order. */
export function checkBrokers(config: Config): Promise<Finding[]> {
  const egress = egressPolicyOf(config, { isForBrokers: true });
  return Promise.all(Array.from(brokersOf(config.brokers).values(), (broker) => checkBroker(broker, egress)));
}

async function checkBroker(broker: Broker, egress: EgressPolicy): Promise<Finding> {
  const { name, host, type } = broker;
  const place = placeOfBroker(broker);
  const from = monotonicNow();
  try {
    const wire = await openWire(broker, dialingBy(egress, broker.port), 'dq-doctor', () => undefined);
    const ms = Math.ceil(monotonicNow() - from);
    await wire.close();
    return finding('ok', 'broker_ok', { name, place, ms });
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    const values = { name, place, reason: error.reason, why: error.message, host, type };
    return finding('failed', codeOf(broker, error), values);
  }
}

function codeOf({ secure }: Broker, { reason }: BrokerError) {
  switch (reason) {
    case 'dns':
      return 'broker_dns';
    case 'blocked_address':
      return 'broker_blocked';
    case 'tls':
      return 'broker_tls';
    case 'mq_refused':
      return 'broker_refused';
    default:
      return secure ? 'broker_failed_tls' : 'broker_failed';
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
