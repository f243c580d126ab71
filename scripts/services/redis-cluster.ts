// Starts a Redis Cluster: masters that share the slots, each with a replica if wanted. It does not use
// redis-cli --cluster create, which waits whole seconds between its steps.

import { setTimeout as sleep } from 'node:timers/promises';
import { tryPorts } from './free-port.ts';
import { type RedisServer, type ServerCertificate, startAll, startRedisOn, tlsLines } from './redis.ts';

export interface ClusterOptions {
  readonly masters?: number;
  /** of each master */
  readonly replicas?: number;
  /** lines of redis.conf for every node */
  readonly config?: readonly string[];
  readonly nodeTimeoutMs?: number;
  /** of every node, which then serves TLS only */
  readonly certificate?: ServerCertificate | undefined;
}

export interface RedisCluster {
  readonly masters: readonly RedisServer[];
  /** the replica of masters[i] at i, i + masters.length … */
  readonly replicas: readonly RedisServer[];
  /** `redis+cluster://127.0.0.1:a,127.0.0.1:b,127.0.0.1:c` */
  readonly url: string;
  stop(): Promise<void>;
}

const slots = 16_384;
const settledMsMax = 30_000;

/** Resolves when every node sees every slot served, and every replica its master. */
export function startRedisCluster(options: ClusterOptions = {}): Promise<RedisCluster> {
  const { masters = 3, replicas = 0 } = options;
  const nodes = masters * (1 + replicas);
  // A second port each, for the messages between the nodes.
  return tryPorts(2 * nodes, (ports) => start(ports.slice(0, nodes), ports.slice(nodes), masters, options));
}

async function start(
  ports: readonly number[],
  busPorts: readonly number[],
  masters: number,
  { config = [], nodeTimeoutMs = 2_000, certificate }: ClusterOptions,
): Promise<RedisCluster> {
  const nodes = await startAll(
    ports.map(
      (port, i) => () =>
        startRedisOn(port, [
          'cluster-enabled yes',
          `cluster-port ${busPorts[i]}`,
          // Without it a node that knows only itself sends its clients an empty address.
          'cluster-announce-ip 127.0.0.1',
          `cluster-node-timeout ${nodeTimeoutMs}`,
          'repl-diskless-sync-delay 0',
          ...(certificate === undefined ? [] : [...tlsLines(port, certificate), 'tls-cluster yes']),
          ...config,
        ]),
    ),
  );
  const stop = async () => {
    await Promise.all(nodes.map((node) => node.stop()));
  };
  try {
    await join(nodes, ports, busPorts, masters);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    masters: nodes.slice(0, masters),
    replicas: nodes.slice(masters),
    url: `redis+cluster://${ports
      .slice(0, masters)
      .map((port) => `127.0.0.1:${port}`)
      .join(',')}`,
    stop,
  };
}

async function join(
  nodes: readonly RedisServer[],
  ports: readonly number[],
  busPorts: readonly number[],
  masters: number,
): Promise<void> {
  const [first, ...others] = nodes as [RedisServer, ...RedisServer[]];
  await Promise.all(
    nodes.map(async (node, i) => {
      // Different from the start: nodes with equal epochs change them one collision at a time, slowly.
      await node.ask('CLUSTER', 'SET-CONFIG-EPOCH', String(i + 1));
      if (i >= masters) return;
      const [from, to] = [i, i + 1].map((n) => Math.floor((n * slots) / masters)) as [number, number];
      await node.ask('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to - 1));
    }),
  );
  for (const [i] of others.entries())
    await first.ask('CLUSTER', 'MEET', '127.0.0.1', String(ports[i + 1]), String(busPorts[i + 1]));
  await untilAll(nodes, async (node) => (await info(node, 'cluster_known_nodes')) === String(nodes.length));
  await Promise.all(
    nodes.slice(masters).map(async (node, i) => {
      const master = nodes[i % masters] as RedisServer;
      await node.ask('CLUSTER', 'REPLICATE', await master.ask('CLUSTER', 'MYID'));
    }),
  );
  await untilAll(nodes, async (node) => (await info(node, 'cluster_state')) === 'ok');
  await untilAll(nodes.slice(masters), async (node) =>
    (await node.ask('INFO', 'replication')).includes('master_link_status:up'),
  );
}

async function info(node: RedisServer, field: string): Promise<string | undefined> {
  return new RegExp(`^${field}:(\\w+)`, 'm').exec(await node.ask('CLUSTER', 'INFO'))?.[1];
}

async function untilAll(
  nodes: readonly RedisServer[],
  condition: (node: RedisServer) => Promise<boolean>,
): Promise<void> {
  const end = performance.now() + settledMsMax;
  while (!(await Promise.all(nodes.map(condition))).every(Boolean)) {
    if (performance.now() > end) throw new Error('the cluster did not come together');
    await sleep(50);
  }
}
