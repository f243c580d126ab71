// The egress policy of this process, made from its configuration and this machine: the one place that knows which
// endpoints are dq's own. Registration (intake) and dialling (notifier) must judge alike, so both take it from here.

import { networkInterfaces } from 'node:os';
import type { Config } from '../config/options.ts';
import { createEgressPolicy, type EgressPolicy } from '../core/egress-policy.ts';

export function egressPolicyOf(config: Config): EgressPolicy {
  return createEgressPolicy({
    policy: config['egress.policy'],
    allow: config['egress.allow'],
    deny: config['egress.deny'],
    own: [{ address: config['server.host'], port: config['server.port'] }],
    localAddresses,
  });
}

/** Read when asked: addresses come and go while a process lives. */
function localAddresses(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address));
}
