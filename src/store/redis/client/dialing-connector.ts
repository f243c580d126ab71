// Connects the client library to Redis servers, sentinels and masters by runtime/dial.ts, and names the
// server of each failure.
// Invariant: connect() never rejects, because the library would end its client for good. It returns a
// destroyed socket instead, which the library takes for a failed connection, with firstError as its reason.

import { isIP, Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import {
  AbstractConnector,
  type Redis,
  type RedisOptions,
  type SentinelConnectionOptions,
  SentinelConnector,
} from 'ioredis';
import { type ConnectTcp, openSocket } from '../../../runtime/dial.ts';
import { clearTimeout, setTimeout } from '../../../runtime/time.ts';
import { redisLimits } from '../limits.ts';
import { type Hop, placeOf, type Route, shownPlaceOf, UnknownMaster } from './hops.ts';
import { requireSetUp } from './set-up.ts';

/** The options of the library, and those that it passes on to the connectors. */
export interface Dialing {
  /** in place of the network of this machine */
  readonly connectTcp?: ConnectTcp | undefined;
  /** receives the failures */
  readonly route?: Route | undefined;
  readonly hopRole?: Hop['role'];
}

type Options = Dialing &
  Pick<RedisOptions, 'tls' | 'connectTimeout' | 'disconnectTimeout'> & {
    readonly host?: string;
    readonly port?: number;
  };

interface Place {
  readonly host: string;
  readonly port: number;
}

export class DialingConnector extends AbstractConnector {
  readonly #options: Options;
  #dialing = new AbortController();

  constructor(options: unknown) {
    super(0);
    this.#options = options as Options;
  }

  override async connect(): Promise<Socket> {
    const { host = 'localhost', port = 6379, tls, route, hopRole: role = 'server' } = this.#options;
    this.connecting = true;
    delete this.firstError;
    this.#dialing = new AbortController();
    const { signal } = this.#dialing;
    try {
      this.stream = unlessAborted(await open({ host, port }, tls, this.#options, signal), signal);
    } catch (error) {
      this.stream = closedSocket();
      if (signal.aborted) return this.stream as Socket;
      this.firstError = route?.failed({ role, host, port }, error as Error, 'dial') ?? (error as Error);
    }
    return this.stream as Socket;
  }

  override disconnect(): void {
    this.connecting = false;
    this.#dialing.abort(new Error('Connection is closed.'));
    endSocket(this.stream, this.#options);
  }
}

type GroupOptions = Options & SentinelConnectionOptions & { readonly route: Route };

/** Connects to the master that a sentinel names. */
export class DialingSentinelConnector extends SentinelConnector {
  readonly #options: GroupOptions;
  /** by sentinel: why its connection failed */
  readonly #lost = new Map<string, Error>();
  #dialing = new AbortController();
  readonly #route: Route;
  readonly #own: Own;

  constructor(of: unknown) {
    const options = of as GroupOptions;
    super(options);
    this.#options = options;
    this.#route = options.route;
    this.#own = this as unknown as Own;
    const connectToSentinel = this.#own.connectToSentinel.bind(this);
    this.#own.connectToSentinel = (sentinel, more) => {
      const { connectTcp } = options;
      const { sentinelMs: connectTimeout } = redisLimits;
      const own = { Connector: DialingConnector, disableClientInfo: true, connectTcp, connectTimeout };
      const client = connectToSentinel(sentinel, { ...more, ...own });
      requireSetUp(client);
      client.on('error', (error: Error) => this.#lost.set(placeOf(sentinel), error));
      return client;
    };
  }

  /** Asks the sentinels in turn until one names a master. The library connects again after a failure, as to a
   *  server. */
  override async connect(): Promise<Socket> {
    this.connecting = true;
    delete this.firstError;
    this.#dialing = new AbortController();
    const { signal } = this.#dialing;
    this.#route.clear();
    let failure: Error | null = null;
    while (!signal.aborted) {
      const { done, value } = this.sentinelIterator.next();
      if (done) this.sentinelIterator.reset(false);
      if (done && failure !== null) break;
      if (value === undefined) continue;
      const sentinel = value as Place;
      let hop: Hop = { role: 'sentinel', ...sentinel };
      try {
        this.#route.hop = hop;
        hop = await this.#masterOf(sentinel);
        this.#route.hop = hop;
        const stream = unlessAborted(await open(hop, this.#options.tls, this.#options, signal), signal);
        this.stream = stream;
        void this.#own.initFailoverDetector();
        return stream;
      } catch (error) {
        if (signal.aborted) break;
        failure = this.#route.failed(hop, error as Error, 'dial');
        // The next attempt asks the next sentinel.
        if (hop.role === 'master') break;
      }
    }
    const stream = closedSocket();
    this.stream = stream;
    if (failure !== null) this.firstError = this.#route.failure ?? failure;
    return stream;
  }

  override disconnect(): void {
    this.connecting = false;
    this.#dialing.abort(new Error('Connection is closed.'));
    endSocket(this.stream, this.#options);
    this.#own.failoverDetector?.cleanup();
  }

  async #masterOf(sentinel: Place): Promise<Hop> {
    const place = placeOf(sentinel);
    this.#lost.delete(place);
    let master: Place | null = null;
    try {
      master = await this.#own.resolve(sentinel);
    } catch (error) {
      const cause = this.#lost.get(place) ?? (error as Error);
      if (!/No such master/.test(cause.message)) throw cause;
    }
    const { name } = this.#options;
    if (master === null)
      throw new UnknownMaster(
        `knows no master ${name}; end the address with the name that the sentinels use`,
      );
    return { role: 'master', ...master, namedBy: shownPlaceOf(sentinel) };
  }
}

/** Private by their types only, and the library has no option for them. The tests of groups notice a library
 *  without them. */
interface Own {
  connectToSentinel(place: Place, options?: object): Redis;
  resolve(sentinel: Place): Promise<Place | null>;
  initFailoverDetector(): Promise<void>;
  readonly failoverDetector: { cleanup(): void } | null;
}

/** The name of `servername` is for servers that are named by IP: other ones have their own. */
export function tlsFor(host: string, tls: ConnectionOptions): ConnectionOptions {
  const { servername, ...others } = tls;
  return isIP(host) === 0 || servername === undefined ? others : { ...others, servername };
}

function open(
  { host, port }: Place,
  tls: ConnectionOptions | undefined,
  { connectTimeout, connectTcp: connect }: Options,
  signal: AbortSignal,
): Promise<Socket> {
  const place = { host, port, connect, timeoutMs: connectTimeout ?? redisLimits.connectMs };
  return openSocket(place, tls === undefined ? null : tlsFor(host, tls), signal);
}

/** The abort of a dial that has just ended closes no socket: its client would stay connected. Throws its
 *  reason. */
function unlessAborted(socket: Socket, signal: AbortSignal): Socket {
  if (!signal.aborted) return socket;
  socket.destroy();
  throw signal.reason;
}

/** The library's own timer would outlive a socket that is closed already. */
function endSocket(socket: Socket | undefined, { disconnectTimeout = 2_000 }: Options): void {
  if (socket === undefined || socket.destroyed) return;
  const late = setTimeout(() => socket.destroy(), disconnectTimeout);
  socket.once('close', () => clearTimeout(late));
  socket.end();
}

function closedSocket(): Socket {
  const socket = new Socket();
  socket.destroy();
  return socket;
}
