// Creates the egress policy of this process from its configuration and this machine. Only this file knows
// which endpoints are dq's own. Registration (intake) and dialling (notifier) use it, so that both judge
// alike.

import { lookup } from 'node:dns';
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { type Config, compatPortsOf } from '../config/options.ts';
import { brokersOf } from '../core/broker.ts';
import { createEgressPolicy, type EgressPolicy, type Endpoint } from '../core/egress-policy.ts';
import { redisAddress } from '../core/url/redis-url.ts';
import { parseMysqlUrl, parseSmtpUrl } from '../core/url/server-url.ts';
import type { MasterLink, RoleContext } from './role.ts';

interface EgressSources {
  /** receives the ports that are not known yet */
  readonly link?: Pick<MasterLink, 'onMessage'>;
  /** of this process */
  readonly listening?: Endpoint;
  readonly shards?: RoleContext['shards'];
  /** dq itself dials the brokers of the configuration, and callbacks must not */
  readonly isForBrokers?: boolean;
}

export function egressPolicyOf(
  config: Config,
  { link, listening, shards, isForBrokers = false }: EgressSources = {},
): EgressPolicy {
  const address = config['server.host'];
  const own: Endpoint[] = [{ address, port: config['server.port'] }];
  if (listening !== undefined) own.push(listening);
  // The default port may be another program's, and the console elsewhere: its port arrives by the link.
  const consolePort = config['console.port'];
  if (config['console.enabled'] && consolePort !== null)
    own.push({ address: config['console.host'], port: consolePort });
  for (const { port } of compatPortsOf(config)) own.push({ address: config['compat.host'], port });
  link?.onMessage((message) => {
    if (message.kind !== 'listening') return;
    const listening = { address: message.host ?? address, port: message.port };
    // Every server that starts repeats it.
    if (!own.some((known) => known.port === listening.port && known.address === listening.address))
      own.push(listening);
  });
  // A callback to one of them could write mails, or guess passwords.
  const [smtp, mysql] = [parseSmtpUrl(config['smtp.url']), parseMysqlUrl(config['mysql.url'])];
  for (const server of [smtp, mysql]) if (server.ok) addServer(own, server.value);
  if (!isForBrokers) for (const broker of brokersOf(config.brokers).values()) addServer(own, broker);
  // Of a group only the named members: the others are known to its connection alone.
  const known = new Set<string>();
  const addRedis = (url: string) => {
    if (known.has(url)) return;
    known.add(url);
    for (const server of redisAddress(url).hosts) addServer(own, server);
  };
  for (const url of config.redis) addRedis(url);
  // A removed shard stays blocked until the next reload: it may be a Redis of this registry still.
  shards?.servers.onList((list) => {
    for (const { url } of list.shards) addRedis(url);
  });
  return createEgressPolicy({
    policy: config['egress.policy'],
    allow: config['egress.allow'],
    deny: config['egress.deny'],
    own,
    localAddresses,
  });
}

/** Adds the addresses of a name when the resolver has answered. An unknown name counts as an address of
 *  this machine. */
function addServer(own: Endpoint[], { host, port }: { readonly host: string; readonly port: number }): void {
  if (isIP(host) !== 0) own.push({ address: host, port });
  else
    lookup(host, { all: true }, (error, found) => {
      const addresses = error === null ? found.map(({ address }) => address) : [host];
      for (const address of addresses) own.push({ address, port });
    });
}

/** Reads them each time: addresses come and go. */
function localAddresses(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address));
}
