// A name server on a free UDP port of this machine, and the look-up that asks it. Every question is answered with a TTL of 0.
import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns';
import type { AddressInfo, LookupFunction } from 'node:net';
import { onTestFinished } from 'vitest';

/** IPv4 addresses; a response code; or no answer at all. */
export type DnsAnswer = readonly string[] | 'NXDOMAIN' | 'SERVFAIL' | 'REFUSED' | 'silence' | 'garbage';

export interface DnsServer {
  readonly lookup: LookupFunction;
  /** questions for addresses of IPv4, by name */
  readonly asked: readonly string[];
}

const codes = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const;

/** `answer`: `n` counts the questions for this name from 1. */
export async function startDnsServer(answer: (name: string, n: number) => DnsAnswer): Promise<DnsServer> {
  const asked: string[] = [];
  const server = createSocket('udp4');
  server.on('message', (question, from) => {
    const { name, type, end } = readQuestion(question);
    // A record type that nobody has here: IPv6 addresses.
    const given =
      type === 1 ? answer(name, asked.push(name) && asked.filter((one) => one === name).length) : [];
    if (given === 'silence') return;
    if (given === 'garbage') {
      server.send(
        Buffer.concat([question.subarray(0, 2), Buffer.from('\x81\x80not a reply')]),
        from.port,
        from.address,
      );
      return;
    }
    const addresses = typeof given === 'string' ? [] : given;
    const head = Buffer.from(question.subarray(0, 12));
    head.writeUInt16BE(0x8180 | (typeof given === 'string' ? codes[given] : 0), 2);
    head.writeUInt16BE(addresses.length, 6);
    head.writeUInt32BE(0, 8);
    const records = addresses.map((address) =>
      Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]),
    );
    server.send(Buffer.concat([head, question.subarray(12, end), ...records]), from.port, from.address);
  });
  await new Promise<void>((resolve) => server.bind(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const resolvers: Resolver[] = [];
  onTestFinished(() => {
    for (const resolver of resolvers) resolver.cancel();
  });
  return {
    asked,
    lookup(name, _options, found) {
      // One each: a malformed answer ends every question of its resolver.
      const resolver = new Resolver({ timeout: 1_500, tries: 1 });
      resolvers.push(resolver);
      resolver.setServers([`127.0.0.1:${port}`]);
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

function readQuestion(message: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: message.readUInt16BE(at + 1), end: at + 5 };
}
