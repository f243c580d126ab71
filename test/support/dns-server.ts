// A name server on a free UDP port, and a lookup that asks it. Every answer has a TTL of 0.
import { Resolver } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { onTestFinished } from 'vitest';
import { type DnsAnswer, startNameServer } from '../../scripts/services/name-server.ts';

export interface DnsServer {
  readonly lookup: LookupFunction;
  /** `address:port`, for Resolver#setServers */
  readonly server: string;
  /** questions for addresses of IPv4, by name */
  readonly asked: readonly string[];
}

/** `answer`: `n` counts the questions for this name from 1. `waitMs`: the lookup gives up after this time,
 *  even if the answer arrived while this process stood still. */
export async function startDnsServer(
  answer: (name: string, n: number) => DnsAnswer,
  waitMs = 1_500,
): Promise<DnsServer> {
  const names = await startNameServer(answer);
  onTestFinished(() => names.stop());
  const server = `${names.address}:${names.port}`;
  const resolvers: Resolver[] = [];
  onTestFinished(() => {
    for (const resolver of resolvers) resolver.cancel();
  });
  return {
    asked: names.asked,
    server,
    lookup(name, _options, found) {
      // One each: a malformed answer ends every question of its resolver.
      const resolver = new Resolver({ timeout: waitMs, tries: 1 });
      resolvers.push(resolver);
      resolver.setServers([server]);
      resolver.resolve4(name, (error, addresses) => {
        if (error) found(error, []);
        else
          found(
            null,
            addresses.map((address) => ({ address, family: 4 })),
          );
      });
    },
  };
}
