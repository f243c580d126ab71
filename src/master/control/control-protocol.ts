// Defines the messages of the control socket: one JSON request on one line, answered by JSON lines, the last
// one `done`. An unknown request is an error; unknown members are ignored. Also the addresses in them, as
// commands show them.

import type { CompatProtocol } from '../../config/options.ts';
import type { ProcessInfo } from '../../process/messages.ts';
import { urlOfHost } from '../../runtime/listen.ts';

export type ControlRequest =
  | { readonly cmd: 'status' }
  /** timeoutMs replaces shutdownTimeout; answered when everything has ended and the data directory is free */
  | { readonly cmd: 'stop'; readonly timeoutMs?: number }
  /** answered with a message for each step, and at the end */
  | { readonly cmd: 'reload' }
  /** as `stop`, then the daemon starts again; or rejected, and nothing has ended */
  | { readonly cmd: 'restart' }
  /** copies registry.db to the MySQL of the configuration, then as `restart`; `moved` and no end where MySQL
   *  is in force already */
  | { readonly cmd: 'move' }
  | { readonly cmd: 'reopen_logs' }
  | { readonly cmd: 'where' };

interface MeasuredProcess extends ProcessInfo {
  /** RSS, of which pages in common with other processes count in part; null: not known */
  readonly pssBytes: number | null;
}

export interface DaemonStatus {
  readonly version: string;
  readonly state: ProcessInfo['state'];
  /** epoch ms */
  readonly startedAt: number;
  /** null before a server listens */
  readonly url: string | null;
  /** address of the console; null = none listens */
  readonly console: string | null;
  /** addresses for clients of other queues */
  readonly compat: CompatAddresses;
  readonly dataDir: string;
  /** null before dq-store is ready */
  readonly durability: string | null;
  /** with `standby`: what this instance does; null: without */
  readonly leadership: string | null;
  /** started with --no-deliveries */
  readonly noDeliveries: boolean;
  readonly processes: readonly MeasuredProcess[];
}

export type ControlAnswer =
  | { readonly status: DaemonStatus }
  | { readonly url: string | null }
  | { readonly message: string }
  /** of the next start, where a restart begins on another one */
  | { readonly dataDir: string }
  /** configuration file that a reload or restart reads; null: none */
  | { readonly file: string | null }
  | { readonly moved: true }
  /** why the reload has changed nothing, or the restart has ended nothing */
  | { readonly refused: string }
  | { readonly done: true; readonly exit: number };

/** The ports for clients of other queues, as commands show them: `tcp://127.0.0.1:6789` by protocol. */
export type CompatAddresses = { readonly [P in CompatProtocol]?: string };

const protocols: Readonly<Record<CompatProtocol, { readonly queue: string; readonly scheme: string }>> = {
  php: { queue: 'php-delayqueue', scheme: 'tcp' },
  ouqiang: { queue: 'ouqiang/delay-queue', scheme: 'http' },
  sdmq: { queue: 'sdmq, mykit-delay', scheme: 'http' },
  grpc: { queue: 'gRPC', scheme: 'http' },
};

/** `host`: as configured; a wildcard becomes an address that programs of this machine can call. */
export function compatAddresses(
  host: string,
  ports: readonly { readonly protocol: CompatProtocol; readonly port: number }[],
): CompatAddresses {
  return Object.fromEntries(
    ports.map(({ protocol, port }) => [protocol, urlOfHost(host, port, protocols[protocol].scheme)]),
  );
}

/** `php-delayqueue tcp://127.0.0.1:6789`, one line for each protocol. */
export function compatLines(addresses: CompatAddresses): string[] {
  return Object.entries(addresses).map(
    ([protocol, address]) => `${protocols[protocol as CompatProtocol].queue} ${address}`,
  );
}
