// compat-addresses.ts writes the addresses of the ports for clients of other queues, as commands show them.

import { isIPv6 } from 'node:net';
import type { CompatProtocol } from '../../config/options.ts';

/** `tcp://127.0.0.1:6789` by protocol. */
export type CompatAddresses = { readonly [P in CompatProtocol]?: string };

/** The queue whose clients use a protocol. */
const names: Readonly<Record<CompatProtocol, string>> = {
  php: 'php-delayqueue',
  ouqiang: 'ouqiang/delay-queue',
  sdmq: 'sdmq, mykit-delay',
  grpc: 'gRPC',
};
const schemes: Readonly<Record<CompatProtocol, string>> = {
  php: 'tcp',
  ouqiang: 'http',
  sdmq: 'http',
  grpc: 'http',
};
const wildcards: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/** `host`: as configured; a wildcard becomes an address that programs of this machine can call. */
export function compatAddresses(
  host: string,
  ports: readonly { readonly protocol: CompatProtocol; readonly port: number }[],
): CompatAddresses {
  const address = wildcards[host] ?? host;
  const shown = isIPv6(address) ? `[${address}]` : address;
  return Object.fromEntries(
    ports.map(({ protocol, port }) => [protocol, `${schemes[protocol]}://${shown}:${port}`]),
  );
}

/** `php-delayqueue tcp://127.0.0.1:6789`, one line for each protocol. */
export function compatLines(addresses: CompatAddresses): string[] {
  return Object.entries(addresses).map(
    ([protocol, address]) => `${names[protocol as CompatProtocol]} ${address}`,
  );
}
