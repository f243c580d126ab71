// Starts the servers that hold the jobs of a run, and the MariaDB of its journal.
import { type MariadbServer, startMariadb } from '../services/mariadb.ts';
import { type RedisServer, startRedisServers } from '../services/redis.ts';
import { startRedisCluster } from '../services/redis-cluster.ts';
import { startSentinelGroup } from '../services/redis-sentinel.ts';
import type { ServerProcess } from '../services/server-process.ts';
import type { Fsync } from './history.ts';
import type { Storage } from './promise.ts';

export interface FaultyServer {
  /** `redis-0`, `mysql` */
  readonly name: string;
  readonly process: ServerProcess;
  /** Where the journal puts back what it loses. */
  readonly losing?: RedisServer;
}

export interface StoreServers {
  /** options of `dq start` */
  readonly args: readonly string[];
  readonly servers: readonly FaultyServer[];
  /** The servers are copies of each other, of which one may fail at a time. */
  readonly isGroup: boolean;
  /** true when every server has its copy */
  isWhole(): Promise<boolean>;
  stop(): Promise<void>;
}

const persistence: Readonly<Record<Fsync, readonly string[]>> = {
  always: ['appendonly yes', 'appendfsync always'],
  everysec: ['appendonly yes', 'appendfsync everysec'],
  no: [],
};
const shards = 3;

export async function startStore(storage: Storage): Promise<StoreServers> {
  const jobs = await startJobServers(storage);
  if (!storage.journal) return jobs;
  let mysql: MariadbServer | null = null;
  const stop = async () => void (await Promise.all([jobs.stop(), mysql?.stop()]));
  try {
    mysql = await startMariadb();
    return {
      ...jobs,
      args: [...jobs.args, '--mysql', await mysql.createDatabase('dq')],
      servers: [...jobs.servers, { name: 'mysql', process: mysql.process }],
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startJobServers(storage: Storage): Promise<StoreServers> {
  const { store, fsync } = storage;
  const config = persistence[fsync];
  switch (store) {
    case 'sqlite':
      return { args: [], servers: [], isGroup: false, isWhole: async () => true, stop: async () => {} };
    case 'redis':
    case 'shards': {
      const servers = await startRedisServers(store === 'redis' ? 1 : shards, { config });
      return {
        args: servers.flatMap(({ url }) => ['--redis', url]),
        servers: named(servers, storage.journal && fsync === 'no'),
        isGroup: false,
        isWhole: async () => true,
        stop: async () => void (await Promise.all(servers.map((server) => server.stop()))),
      };
    }
    case 'sentinel': {
      const group = await startSentinelGroup({ config });
      return grouped(group.url, [group.master, ...group.replicas], () => group.stop());
    }
    case 'cluster': {
      const lines = [...config, 'cluster-require-full-coverage no'];
      const cluster = await startRedisCluster({ replicas: 1, config: lines });
      return grouped(cluster.url, [...cluster.masters, ...cluster.replicas], () => cluster.stop());
    }
  }
}

function grouped(url: string, servers: readonly RedisServer[], stop: () => Promise<void>): StoreServers {
  const isSynced = async (server: RedisServer) =>
    /^role:master|^master_link_status:up/m.test(await server.ask('INFO', 'replication'));
  const masters = async () => {
    const texts = await Promise.all(servers.map((server) => server.ask('INFO', 'replication')));
    return texts.filter((text) => /^role:master/m.test(text)).length;
  };
  return {
    args: ['--redis', url],
    servers: named(servers, false),
    isGroup: true,
    isWhole: async () =>
      // A failed master that returns serves its old data until it has become a replica.
      (await masters()) === servers.length / 2 && (await Promise.all(servers.map(isSynced))).every(Boolean),
    stop,
  };
}

const named = (servers: readonly RedisServer[], areLosing: boolean): readonly FaultyServer[] =>
  servers.map((server, n) => ({
    ...{ name: `redis-${n}`, process: server.process },
    ...(areLosing ? { losing: server } : {}),
  }));
