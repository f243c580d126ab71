// Creates the clients of a Redis server, a Sentinel group or a Cluster. Owns the settings of the client
// library; knows no script and no job.
// Invariants: a command that cannot be written at once is rejected, never queued. No command is sent twice
// without the caller. A lost connection is tried again for ever.

import type { ConnectionOptions } from 'node:tls';
import { Cluster, type ClusterNode, Command, Redis, type RedisOptions } from 'ioredis';
import { type RedisAddress, redisAddress } from '../../../core/url/redis-url.ts';
import type { ConnectTcp } from '../../../runtime/dial.ts';
import { clearTimeout, monotonicNow, random, setTimeout } from '../../../runtime/time.ts';
import { within } from '../../../runtime/timeout.ts';
import { redisLimits } from '../limits.ts';
import { keysOf } from '../scripts/keys.ts';
import { type Dialing, DialingConnector, DialingSentinelConnector, tlsFor } from './dialing-connector.ts';
import { isRejection, UnsentError, wantsNewConnection } from './failures.ts';
import { placeOf, Route } from './hops.ts';
import { requireSetUp } from './set-up.ts';

export type Client = Redis | ClusterClient;
type Settings = Omit<RedisOptions, 'replyMapping'> & Dialing;

/** Always a number: anything else ends the client for good. */
function reconnectMs(times: number): number {
  const waitMs = Math.min(
    redisLimits.reconnectMsMin * 2 ** Math.min(times - 1, 6),
    redisLimits.reconnectMsMax,
  );
  return Math.ceil(waitMs * (1 + random() * redisLimits.reconnectJitter));
}

const settings: Settings = {
  // With RESP3 the library converts some replies only approximately.
  protocol: 2,
  lazyConnect: true,
  // A queued command would run long after its caller gave up.
  enableOfflineQueue: false,
  // A script that was sent before the connection broke may have run.
  autoResendUnfulfilledCommands: false,
  // Pending commands fail at once when a connection breaks. With any other number they stay pending for some
  // reconnections, or for ever (seen: until our own deadline).
  maxRetriesPerRequest: 0,
  // Hints subscribes again itself, and then reports that hints may be lost.
  autoResubscribe: false,
  // It sends commands of different buckets in one piece, and fails all of them when one fails.
  enableAutoPipelining: false,
  connectTimeout: redisLimits.connectMs,
  keepAlive: redisLimits.keepAliveMs,
  retryStrategy: reconnectMs,
  // Redis before 7.2 rejects it, and nothing reads it.
  disableClientInfo: true,
};

/** Returns 1, not 2, which would send the command again. Rate-limited: a server that stays read-only got 30
 *  connections per second (seen). */
function reconnectOnReply(): (error: Error) => 1 | false {
  let nextAt = 0;
  return (error) => {
    if (monotonicNow() < nextAt || !wantsNewConnection(error)) return false;
    nextAt = monotonicNow() + redisLimits.reconnectMsMax;
    return 1;
  };
}

export interface ConnectionEvents {
  /** Connected, and the server has loaded its data; again after every loss. */
  onReady(): void;
  onLost(): void;
  onError(error: Error): void;
  /** The client is closed, or has given up for ever, which is a defect. */
  onEnd(): void;
}

interface ClientOptions {
  /** Each becomes a method of its name. */
  readonly scripts?: Readonly<Record<string, string>>;
  /** redisLimits.silentMs, unless a test has more time */
  readonly silentMs?: number | undefined;
  /** in place of the network of this machine */
  readonly connectTcp?: ConnectTcp | undefined;
}

/** Connects only at connect(). All events need a listener: without one the library swallows errors. */
export function createClient(
  url: string,
  title: string,
  events: ConnectionEvents,
  { scripts = {}, silentMs = redisLimits.silentMs, connectTcp }: ClientOptions = {},
): Client {
  const address = redisAddress(url);
  const route = new Route(address);
  const named: Settings = {
    // Redis rejects names with spaces.
    connectionName: title.replace(/[^!-~]+/g, '-'),
    // A frozen server closes nothing: only this ends the connection.
    socketTimeout: silentMs,
    connectTcp,
    route,
    reconnectOnError: reconnectOnReply(),
    scripts: Object.fromEntries(
      Object.entries(scripts).map(([name, lua]) => [name, { lua, numberOfKeys: keysOf('').length }]),
    ),
    ...loginOf(address),
    ...(address.tls ? { tls: tlsOf(address) } : {}),
  };
  const client = address.kind === 'cluster' ? clusterOf(address, named, route) : serverOf(address, named);
  routes.set(client, route);
  client.on('ready', () => {
    if (address.kind !== 'cluster') route.clear();
    events.onReady();
  });
  client.on('close', () => {
    // The library reports no error when it finds the Cluster, but cannot use the node that it asks first.
    if (address.kind === 'cluster' && route.failure !== null) events.onError(route.failure);
    events.onLost();
  });
  client.on('error', (error: Error) =>
    events.onError(route.located(error, client.status === 'ready' ? 'ready' : 'set-up')),
  );
  client.on('end', () => events.onEnd());
  return client;
}

const routes = new WeakMap<Client, Route>();

function serverOf({ kind, hosts, master, database, ...address }: RedisAddress, named: Settings): Redis {
  const [first] = hosts;
  const { sentinelUser, sentinelPassword, sentinelTls } = address;
  const options: Settings = { ...settings, ...named, db: database };
  const ofGroup: Settings = {
    sentinels: hosts.map((host) => ({ ...host })),
    name: master ?? '',
    Connector: DialingSentinelConnector,
    ...(sentinelUser === null ? {} : { sentinelUsername: sentinelUser }),
    ...(sentinelPassword === null ? {} : { sentinelPassword }),
    ...(sentinelTls ? { sentinelTLS: tlsOf(address) } : {}),
    sentinelReconnectStrategy: reconnectMs,
    // The time of a command begins before the dial.
    sentinelCommandTimeout: redisLimits.sentinelMs + redisLimits.firstConnectMs - redisLimits.connectMs,
    // A former master keeps its connections in a manual failover and in a network partition.
    failoverDetector: true,
  };
  const ofServer = { ...first, Connector: DialingConnector } as Settings;
  const client = new Redis({ ...options, ...(kind === 'server' ? ofServer : ofGroup) });
  requireSetUp(client);
  return client;
}

function clusterOf({ hosts }: RedisAddress, named: Settings, route: Route): ClusterClient {
  const { lazyConnect, retryStrategy, enableOfflineQueue, ...ofNodes } = settings;
  const { scripts, ...ofConnection } = named;
  const options: OfCluster = {
    lazyConnect: true,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    scaleReads: 'master',
    clusterRetryStrategy: reconnectMs,
    // Without it a lost node is only reconnected when the slots change.
    clusterNodeRetryStrategy: reconnectMs,
    maxRedirections: redisLimits.redirectionsMax,
    // With a delay the library resends commands that a broken connection may have run.
    retryDelayOnFailover: 0,
    slotsRefreshTimeout: redisLimits.connectMs,
    slotsRefreshInterval: redisLimits.slotsMs,
    // The connector dials names. By an IP of the library a certificate would not be for the server.
    dnsLookup: (host, done) => done(null, host),
    redisOptions: {
      ...ofNodes,
      ...ofConnection,
      ...{ Connector: DialingConnector, hopRole: 'node' },
    } as NonNullable<OfCluster['redisOptions']>,
    scripts: (scripts ?? {}) as NonNullable<OfCluster['scripts']>,
  };
  return new ClusterClient(
    hosts.map((host) => ({ ...host })),
    options,
    route,
  );
}

/** As the client library takes it; without a name, the host itself must be in the certificate. */
export function tlsOf({
  servername,
  verifyTls,
}: Pick<RedisAddress, 'servername' | 'verifyTls'>): ConnectionOptions {
  return {
    ...(servername === null ? {} : { servername }),
    ...(verifyTls ? {} : { rejectUnauthorized: false }),
  };
}

function loginOf({ user, password }: RedisAddress): Pick<Settings, 'username' | 'password'> {
  if (password === null) return {};
  return user === null ? { password } : { username: user, password };
}

/** A section of INFO, of every master that answers. Asks each node: a command without a key goes to any one
 *  of them. */
export async function infosOf(client: Client, section: string): Promise<readonly string[]> {
  const servers = isCluster(client) ? client.nodes('master') : [client];
  const replies = await Promise.allSettled(servers.map((server) => server.info(section)));
  return replies.flatMap((reply) => (reply.status === 'fulfilled' ? [reply.value] : []));
}

/** Starts to connect, with attempts for ever. Resolves at the first connection. Rejects when the first
 *  attempt fails or exceeds redisLimits.firstConnectMs: the library counts all rounds over unavailable
 *  sentinels, and the wait for a server that loads its data, as one attempt. */
export async function beginToConnect(client: Client): Promise<void> {
  const ms = redisLimits.firstConnectMs;
  try {
    await within(ms, client.connect(), () => new Error(`not connected in ${ms} ms`));
  } catch (error) {
    const route = routes.get(client);
    throw route?.failure ?? route?.located(error as Error, 'dial') ?? error;
  }
}

/** Why the masters of a Cluster that do not answer cannot be used; empty for a single server. */
export async function unreachedMasters(client: Client, callMs: number): Promise<readonly Error[]> {
  const masters = isCluster(client) ? client.nodes('master') : [];
  const answers = await Promise.all(
    masters.map(async (node) => {
      try {
        await within(callMs, node.ping(), () => new Error('no answer'));
        return [];
      } catch (error) {
        const { host = '', port = 0 } = node.options;
        const hop = { role: 'node', host, port } as const;
        const route = routes.get(client);
        return [
          route?.failureAt(placeOf(hop)) ?? route?.failed(hop, error as Error, 'ready') ?? (error as Error),
        ];
      }
    }),
  );
  return answers.flat();
}

export const isCluster = (client: Client): client is ClusterClient => client instanceof ClusterClient;

/** The node of a key, '' outside a Cluster and for a command without a key. */
export const nodeOf = (client: Client, key: string): string =>
  isCluster(client) && key.startsWith('{') ? client.nodeOf(key) : '';

export const mastersOf = (client: Client): number =>
  isCluster(client) ? Math.max(client.nodes('master').length, 1) : 1;

/** Reads the slots of a Cluster again after a node did not answer: a replica may have replaced it. Sentinels
 *  report that themselves. */
export function rereadSlots(client: Client): void {
  if (isCluster(client)) client.rereadSlots();
}

/** Ends the client within the deadline in any state: a reconnecting client never emits `end`. */
export async function closeClient(client: Client, deadlineMs: number): Promise<void> {
  const timer = setTimeout(() => client.disconnect(), deadlineMs);
  try {
    if (client.status === 'ready') await client.quit();
  } catch {
    // The connection was lost meanwhile: disconnect() is all that is left.
  } finally {
    clearTimeout(timer);
    client.disconnect();
  }
}

/** of the library, for a connection that is lost or was never there */
const closedText = 'Connection is closed.';

const placeOfNode = ({ options: { host = '', port = 0 } }: Redis): string => placeOf({ host, port });

type OfCluster = NonNullable<ConstructorParameters<typeof Cluster<'legacy'>>[1]>;

/** The library's Cluster client that also tells whether a failed command may have run, reads the slots again
 *  when a node is lost, and knows the node of a key. Invariant: a command that fails with UnsentError has not
 *  run, and never will. */
class ClusterClient extends Cluster {
  readonly #route: Route;
  readonly #slots = new Map<string, number>();
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(nodes: ClusterNode[], options: OfCluster, route: Route) {
    super(nodes, options);
    this.#route = route;
    this.on('+node', (node: Redis) => {
      requireSetUp(node);
      const { host = '', tls } = node.options;
      // The library connects its subscriber itself, with the options of a node.
      if (tls !== undefined) node.options.tls = tlsFor(host, tls);
      node.on('ready', () => route.reached(placeOfNode(node)));
      this.#watchReader(node);
    });
    this.on('-node', (node: Redis) => route.reached(placeOfNode(node)));
    // Emitted at each attempt to reconnect too, so while the node is unavailable.
    this.on('node error', (error: Error, place: string) => {
      this.#noteFailure(error, place);
      this.rereadSlots();
    });
  }

  override sendCommand(...sending: Parameters<Cluster['sendCommand']>): unknown {
    const [command] = sending;
    markUnsent(command, (error) => {
      this.rereadSlots();
      const slot = command.getSlot();
      const place = slot === null ? undefined : this.slots[slot]?.[0];
      return (place === undefined ? undefined : this.#route.failureAt(place)) ?? error;
    });
    return super.sendCommand(...sending);
  }

  /** The library reads the slots by a copy of the connection to a node, and drops why the copy ended. */
  #watchReader(node: Redis): void {
    const duplicate = node.duplicate.bind(node);
    node.duplicate = (override) => {
      const reader = duplicate(override);
      return reader.on('error', (error: Error) => this.#noteFailure(error, placeOfNode(node)));
    };
  }

  /** The connector has noted the failures of dials. The library adds failures without a cause. */
  #noteFailure(error: Error, place: string): void {
    const at = place.lastIndexOf(':');
    const hop = { role: 'node', host: place.slice(0, at), port: Number(place.slice(at + 1)) } as const;
    if (this.#route.failureAt(place) === undefined || error.message !== closedText)
      this.#route.failed(hop, error, 'set-up');
  }

  /** Reads which node has which slots, at most once per slotsOnFailureMs. Called whenever a node does
   *  not answer: a replica may have taken its slots, and only commands that reach another node are
   *  redirected. */
  rereadSlots(): void {
    if (this.status !== 'ready' || monotonicNow() - this.#readAt < redisLimits.slotsOnFailureMs) return;
    this.#readAt = monotonicNow();
    this.refreshSlotsCache();
  }

  /** The master of the key's slot in the last read slot table; '' = unknown. */
  nodeOf(key: string): string {
    let slot = this.#slots.get(key);
    if (slot === undefined) {
      slot = new Command('exists', [key]).getSlot() ?? 0;
      this.#slots.set(key, slot);
    }
    return this.slots[slot]?.[0] ?? '';
  }
}

/** Turns the failure of a command that was never written to a socket into UnsentError. The library uses the
 *  same texts, sometimes the same error, for commands it could not send and commands it has sent. A node that
 *  redirects or rejects has not run the command, which then counts as unsent until it is written again.
 *  `onUnsent` returns the error that says most about the node. */
function markUnsent(command: Command, onUnsent: (error: Error) => Error): void {
  let isOut = false;
  const { reject, toWritable } = command;
  command.reject = (error) => {
    if (isOut || isRejection(error)) return reject(error);
    reject(new UnsentError(onUnsent(error)));
  };
  command.toWritable = (socket) => {
    isOut = true;
    const next = command.reject;
    command.reject = (error) => {
      if (isRejection(error)) isOut = false;
      next(error);
    };
    return toWritable.call(command, socket);
  };
}
