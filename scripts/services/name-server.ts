// A DNS server (UDP) for tests and benchmarks, and the command prefix that makes it the only name server of
// a process. Answers IPv4 questions with a TTL of 0; a name without IPv6 addresses gets an empty IPv6
// answer.

import { execFileSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** IPv4 addresses; a response code; or no answer */
export type DnsAnswer = readonly string[] | 'NXDOMAIN' | 'SERVFAIL' | 'REFUSED' | 'silence' | 'garbage';

export interface NameServer {
  readonly address: string;
  readonly port: number;
  /** questions for IPv4 addresses, by name, in their order */
  readonly asked: readonly string[];
  stop(): Promise<void>;
}

export interface NameServerOptions {
  /** an address of this machine; default 127.0.0.1 */
  readonly address?: string;
  /** 0 (default): a free port */
  readonly port?: number;
}

const codes = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const;
const ipv4Question = 1;

/** `answer`: `n` counts the IPv4 questions for this name from 1. */
export async function startNameServer(
  answer: (name: string, n: number) => DnsAnswer,
  options: NameServerOptions = {},
): Promise<NameServer> {
  const asked: string[] = [];
  const times = new Map<string, number>();
  const server = createSocket('udp4');
  server.on('message', (question, from) => {
    const { name, type, end } = readQuestion(question);
    const n = (times.get(name) ?? 0) + (type === ipv4Question ? 1 : 0);
    times.set(name, n);
    if (type === ipv4Question) asked.push(name);
    const given = answer(name, Math.max(n, 1));
    if (given === 'silence') return;
    if (given === 'garbage') {
      const text = Buffer.concat([question.subarray(0, 2), Buffer.from('\x81\x80not a reply')]);
      server.send(text, from.port, from.address);
      return;
    }
    const addresses = typeof given === 'string' || type !== ipv4Question ? [] : given;
    const head = Buffer.from(question.subarray(0, 12));
    head.writeUInt16BE(0x8180 | (typeof given === 'string' ? codes[given] : 0), 2);
    head.writeUInt16BE(addresses.length, 6);
    head.writeUInt32BE(0, 8);
    const records = addresses.map((address) =>
      Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]),
    );
    server.send(Buffer.concat([head, question.subarray(12, end), ...records]), from.port, from.address);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.bind(options.port ?? 0, options.address ?? '127.0.0.1', resolve);
  });
  const { address, port } = server.address() as AddressInfo;
  return {
    address,
    port,
    asked,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
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

export interface SystemNameServer extends NameServer {
  /** Command prefix: its process sees only this server in /etc/resolv.conf, and keeps its process id. */
  readonly prefix: readonly string[];
}

/** A name server for whole processes: port 53 of its own loopback address, entered in a private
 *  /etc/resolv.conf. Needs root and mount namespaces (`cannotReplaceResolver`). */
export async function startSystemNameServer(
  answer: (name: string, n: number) => DnsAnswer,
): Promise<SystemNameServer> {
  const part = () => 1 + Math.floor(Math.random() * 254);
  const server = await startNameServer(answer, { address: `127.53.${part()}.${part()}`, port: 53 });
  const directory = mkdtempSync(join(tmpdir(), 'dq-names-'));
  const resolvConf = join(directory, 'resolv.conf');
  writeFileSync(resolvConf, `nameserver ${server.address}\n`);
  return {
    ...server,
    prefix: prefixFor(resolvConf),
    async stop() {
      await server.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The reason why a process here cannot have its own resolver configuration, or null. */
export function cannotReplaceResolver(): string | null {
  try {
    const [command = '', ...args] = [...prefixFor('/etc/resolv.conf'), 'true'];
    execFileSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    return null;
  } catch (error) {
    return `no mount namespace (${String((error as Error).message).split('\n')[0]})`;
  }
}

function prefixFor(resolvConf: string): readonly string[] {
  const script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"';
  return ['unshare', '--mount', 'sh', '-c', script, resolvConf];
}
