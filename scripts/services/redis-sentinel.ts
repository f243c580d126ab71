// Starts a Sentinel group: one master, its replicas, and sentinels that detect a dead master within a
// second.

import { setTimeout as sleep } from 'node:timers/promises';
import { tryPorts } from './free-port.ts';
import { type RedisServer, type ServerCertificate, startAll, startRedisOn, tlsLines } from './redis.ts';

export interface SentinelOptions {
  readonly replicas?: number;
  readonly sentinels?: number;
  /** lines of redis.conf for master and replicas */
  readonly config?: readonly string[];
  readonly downAfterMs?: number;
  /** of every server and sentinel, which then serve TLS only */
  readonly certificate?: ServerCertificate | undefined;
  /** lines of the sentinels' configuration: `requirepass x` */
  readonly sentinelConfig?: readonly string[];
}

export interface SentinelGroup {
  /** the first master: a failover makes one of the replicas the master */
  readonly master: RedisServer;
  readonly replicas: readonly RedisServer[];
  readonly sentinels: readonly RedisServer[];
  /** name of the group in the sentinels */
  readonly name: string;
  /** `redis+sentinel://127.0.0.1:a,127.0.0.1:b,127.0.0.1:c/dq` */
  readonly url: string;
  /** Of the server that the first running sentinel takes for the master. */
  masterPort(): Promise<number>;
  stop(): Promise<void>;
}

const name = 'dq';
const settledMsMax = 30_000;

/** One sentinel, by the lines of its configuration. */
export function startSentinel(config: readonly string[]): Promise<RedisServer> {
  return tryPorts(1, ([port = 0]) => startRedisOn(port, config, ['--sentinel']));
}

/** Resolves when every sentinel knows the others and every replica; before, they agree on no failover. */
export function startSentinelGroup(options: SentinelOptions = {}): Promise<SentinelGroup> {
  const { replicas = 1, sentinels = 3 } = options;
  return tryPorts(1 + replicas + sentinels, (ports) => start(ports, replicas, sentinels, options));
}

async function start(
  ports: readonly number[],
  replicas: number,
  sentinels: number,
  { config = [], downAfterMs = 1_000, certificate, sentinelConfig = [] }: SentinelOptions,
): Promise<SentinelGroup> {
  const [masterPort = 0, ...others] = ports;
  const servers = await startAll([
    () => startRedisOn(masterPort, [...tlsLines(masterPort, certificate), ...config]),
    ...others.slice(0, replicas).map(
      (port) => () =>
        // At once: by default the master waits 5 s for further replicas before it sends the data.
        startRedisOn(port, [
          ...['repl-diskless-sync-delay 0', `replicaof 127.0.0.1 ${masterPort}`],
          ...[...tlsLines(port, certificate), ...config],
        ]),
    ),
  ]);
  const [master, ...slaves] = servers as [RedisServer, ...RedisServer[]];
  const watch = [
    `sentinel monitor ${name} 127.0.0.1 ${masterPort} ${Math.floor(sentinels / 2) + 1}`,
    `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
    `sentinel failover-timeout ${name} ${3 * downAfterMs}`,
    `sentinel parallel-syncs ${name} 1`,
    ...passwordLines(config),
    ...sentinelConfig,
  ];
  let watchers: RedisServer[] = [];
  const stop = async () => {
    await Promise.all([...watchers, ...servers].map((server) => server.stop()));
  };
  try {
    watchers = await startAll(
      others
        .slice(replicas)
        .map((port) => () => startRedisOn(port, [...tlsLines(port, certificate), ...watch], ['--sentinel'])),
    );
    await untilSettled(watchers, replicas);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    master,
    replicas: slaves,
    sentinels: watchers,
    name,
    url: `redis+sentinel://${watchers.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${name}`,
    async masterPort() {
      const alive = watchers.find(({ process }) => process.isRunning);
      if (alive === undefined) throw new Error('no sentinel is running');
      return Number((await alive.ask('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)).split('\n')[1]);
    },
    stop,
  };
}

function passwordLines(config: readonly string[]): string[] {
  return config.flatMap((line) => {
    const password = /^requirepass (\S+)$/.exec(line)?.[1];
    return password === undefined ? [] : [`sentinel auth-pass ${name} ${password}`];
  });
}

async function untilSettled(sentinels: readonly RedisServer[], replicas: number): Promise<void> {
  const end = performance.now() + settledMsMax;
  for (;;) {
    const known = await Promise.all(
      sentinels.map(async (sentinel) => {
        const fields = (await sentinel.ask('SENTINEL', 'MASTER', name)).split('\n');
        const numberOf = (field: string) => Number(fields[fields.indexOf(field) + 1]);
        return (
          numberOf('num-other-sentinels') === sentinels.length - 1 && numberOf('num-slaves') === replicas
        );
      }),
    );
    if (known.every(Boolean)) return;
    if (performance.now() > end) throw new Error('the sentinels did not find each other');
    await sleep(50);
  }
}
