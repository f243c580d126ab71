// The clients: how dq speaks to a Redis server, a Sentinel group or a Cluster, and which of the client library's habits it does
// without. Owns the settings; knows no script and no job.
// Invariants: a command that cannot be written at once is refused, never queued; no command is sent a second time behind the
// caller's back; a connection that was lost is made again for ever.

import { Redis, type RedisOptions } from 'ioredis';
import { type RedisAddress, redisAddress } from '../../../core/url/redis-url.ts';
import { redisLimits } from '../limits.ts';
import { keysOf } from '../scripts/keys.ts';
import { ClusterClient, type OfCluster } from './cluster-client.ts';

export type Client = Redis | ClusterClient;
type Settings = Omit<RedisOptions, 'replyMapping'>;

/** Anything but a number would end the client for good. */
function reconnectMs(times: number): number {
  const waitMs = Math.min(
    redisLimits.redisReconnectMsMin * 2 ** Math.min(times - 1, 6),
    redisLimits.redisReconnectMsMax,
  );
  return Math.ceil(waitMs * (1 + Math.random() * redisLimits.redisReconnectJitter));
}

const settings: Settings = {
  // The library maps the newer protocol's replies only as well as it can.
  protocol: 2,
  lazyConnect: true,
  // A command that waited in the library's queue would run long after its caller gave up.
  enableOfflineQueue: false,
  // A script that was sent before the connection broke may have run.
  autoResendUnfulfilledCommands: false,
  // What was under way when a connection broke fails at once. With any other number it is left hanging for some reconnections,
  // or for ever (seen: until our own deadline).
  maxRetriesPerRequest: 0,
  // Whoever subscribes does it again, and then says that hints were lost.
  autoResubscribe: false,
  // Under it the library sends commands of different buckets in one piece, and answers for all with the failure of one.
  enableAutoPipelining: false,
  connectTimeout: redisLimits.redisConnectMs,
  // A server that stands still says nothing at all: only this ends the connection.
  socketTimeout: redisLimits.redisSilentMs,
  keepAlive: redisLimits.redisKeepAliveMs,
  retryStrategy: reconnectMs,
};

/** A former master: its address may lead to the new one by now, so connect anew. Not 2, which would send the command again. And not
 *  at each refusal: one that stays read-only would be connected to 30 times a second (seen). */
function reconnectOnReadOnly(): (error: Error) => 1 | false {
  let nextAt = 0;
  return ({ message }) => {
    if (!message.startsWith('READONLY') || performance.now() < nextAt) return false;
    nextAt = performance.now() + redisLimits.redisReconnectMsMax;
    return 1;
  };
}

export interface ConnectionEvents {
  /** Connected, and the server has loaded its data: also after every loss. */
  onReady(): void;
  onLost(): void;
  onError(error: Error): void;
  /** The client is closed; or it has given up for ever, which it never may. */
  onEnd(): void;
}

/** Nothing happens before connect(). Without a listener the library would swallow its errors. */
export function createClient(
  url: string,
  title: string,
  events: ConnectionEvents,
  scripts: Readonly<Record<string, string>> = {},
): Client {
  const address = redisAddress(url);
  const named = {
    connectionName: title,
    reconnectOnError: reconnectOnReadOnly(),
    scripts: Object.fromEntries(
      Object.entries(scripts).map(([name, lua]) => [name, { lua, numberOfKeys: keysOf('').length }]),
    ),
    ...loginOf(address),
  };
  const client = address.kind === 'cluster' ? clusterOf(address, named) : serverOf(address, named);
  client.on('ready', () => events.onReady());
  client.on('close', () => events.onLost());
  client.on('error', (error: Error) => events.onError(error));
  client.on('end', () => {
    if (address.kind !== 'sentinel' || closing.has(client)) events.onEnd();
    else setTimeout(() => connectAgain(client), redisLimits.redisReconnectMsMin).unref();
  });
  return client;
}

const closing = new WeakSet<Client>();

/** The library ends its client when one sentinel tells it of a failover while it asks another where the master is: it takes the one for
 *  the wish to disconnect, and the other for the first connection. */
function connectAgain(client: Client): void {
  if (closing.has(client)) return;
  client.connect().catch(() => {
    // What failed is told by the events; if it has ended once more, it is connected once more.
  });
}

function serverOf({ kind, hosts, master, tls, database }: RedisAddress, named: Settings): Redis {
  const [first] = hosts;
  const options: Settings = { ...settings, ...named, db: database, ...(tls ? { tls: {} } : {}) };
  if (kind === 'server') return new Redis({ ...options, host: first?.host, port: first?.port } as Settings);
  return new Redis({
    ...options,
    sentinels: hosts.map((host) => ({ ...host })),
    name: master ?? '',
    sentinelRetryStrategy: reconnectMs,
    sentinelReconnectStrategy: reconnectMs,
    sentinelCommandTimeout: redisLimits.redisConnectMs,
    // A former master keeps its connections in a failover by hand, and in a partition.
    failoverDetector: true,
  } as Settings);
}

function clusterOf({ hosts }: RedisAddress, named: Settings): ClusterClient {
  const { lazyConnect, retryStrategy, enableOfflineQueue, ...ofNodes } = settings;
  const { scripts, ...ofConnection } = named;
  const options: OfCluster = {
    lazyConnect: true,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    scaleReads: 'master',
    clusterRetryStrategy: reconnectMs,
    // Without one a node that was lost is not connected to again before the slots change.
    clusterNodeRetryStrategy: reconnectMs,
    maxRedirections: redisLimits.redisRedirectionsMax,
    // With a delay the library sends again what a broken connection may have carried out.
    retryDelayOnFailover: 0,
    slotsRefreshTimeout: redisLimits.redisConnectMs,
    slotsRefreshInterval: redisLimits.redisSlotsMs,
    redisOptions: { ...ofNodes, ...ofConnection } as NonNullable<OfCluster['redisOptions']>,
    scripts: (scripts ?? {}) as NonNullable<OfCluster['scripts']>,
  };
  return new ClusterClient(
    hosts.map((host) => ({ ...host })),
    options,
  );
}

function loginOf({ user, password }: RedisAddress): Pick<Settings, 'username' | 'password'> {
  if (password === null) return {};
  return user === null ? { password } : { username: user, password };
}

/** Part of INFO, of every server that takes writes and answers: of a Cluster a question without a key goes to any node. */
export async function infosOf(client: Client, section: string): Promise<readonly string[]> {
  const servers = isCluster(client) ? client.nodes('master') : [client];
  const replies = await Promise.allSettled(servers.map((server) => server.info(section)));
  return replies.flatMap((reply) => (reply.status === 'fulfilled' ? [reply.value] : []));
}

/** Begins to connect, which goes on for ever. Resolves when it is connected for the first time; rejects when the first attempt fails, or
 *  has not ended in redisLimits.redisConnectMs: sentinels that are away are gone through again and again as one attempt, and so is a server
 *  that loads its data waited for. */
export async function beginToConnect(client: Client): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const error = new Error(`not connected in ${redisLimits.redisConnectMs} ms`);
    timer = setTimeout(() => reject(error), redisLimits.redisConnectMs).unref();
  });
  try {
    await Promise.race([client.connect(), late]);
  } finally {
    clearTimeout(timer);
  }
}

export const isCluster = (client: Client): client is ClusterClient => client instanceof ClusterClient;

/** Which server has the key; a command without one goes to any. */
export const nodeOf = (client: Client, key: string): string =>
  isCluster(client) && key.startsWith('{') ? client.nodeOf(key) : '';

export const mastersOf = (client: Client): number =>
  isCluster(client) ? Math.max(client.nodes('master').length, 1) : 1;

/** A server does not answer: in a group another may have taken its place. A Sentinel group says so by itself. */
export function lookAgain(client: Client): void {
  if (isCluster(client)) client.lookAgain();
}

/** Ends it within the deadline, whatever state it is in: a client that is reconnecting never says that it has ended. */
export async function closeClient(client: Client, deadlineMs: number): Promise<void> {
  closing.add(client);
  const timer = setTimeout(() => client.disconnect(), deadlineMs);
  try {
    if (client.status === 'ready') await client.quit();
  } catch {
    // It was lost meanwhile: there is nothing left to end in good order.
  } finally {
    clearTimeout(timer);
    client.disconnect();
  }
}
