// Connects the client library to Redis servers and sentinels by runtime/dial.ts.

import { Socket } from 'node:net';
import {
  AbstractConnector,
  type RedisOptions,
  type SentinelConnectionOptions,
  SentinelConnector,
} from 'ioredis';
import { answeringAddress, type ConnectTcp, openSocket } from '../../../runtime/dial.ts';
import { clearTimeout, setTimeout } from '../../../runtime/time.ts';
import { redisLimits } from '../limits.ts';

type Options = Pick<RedisOptions, 'tls' | 'connectTimeout' | 'disconnectTimeout'> & {
  readonly host?: string;
  readonly port?: number;
  /** in place of the network of this machine */
  readonly connectTcp?: ConnectTcp | undefined;
};

export class DialingConnector extends AbstractConnector {
  readonly #options: Options;
  #dialing = new AbortController();

  constructor(options: unknown) {
    // Its own timer would outlive a socket that is closed already: see disconnect.
    super(0);
    this.#options = options as Options;
  }

  /** Never rejects: the library would end its client for good. It takes a destroyed socket for a failed
   *  connection, and firstError for the reason. */
  override async connect(): Promise<Socket> {
    const { host = 'localhost', port = 6379, tls, connectTimeout, connectTcp: connect } = this.#options;
    this.connecting = true;
    this.#dialing = new AbortController();
    const { signal } = this.#dialing;
    let socket: Socket;
    try {
      const place = { host, port, connect, timeoutMs: connectTimeout ?? redisLimits.connectMs };
      socket = await openSocket(place, tls === undefined ? null : { ...tls }, signal);
      if (signal.aborted) socket.destroy();
    } catch (error) {
      socket = new Socket();
      socket.destroy();
      this.firstError = error as Error;
    }
    this.stream = socket;
    return socket;
  }

  override disconnect(): void {
    this.connecting = false;
    this.#dialing.abort(new Error('Connection is closed.'));
    const stream: Socket | undefined = this.stream;
    if (stream === undefined || stream.destroyed) return;
    const late = setTimeout(() => stream.destroy(), this.#options.disconnectTimeout ?? 2_000);
    stream.once('close', () => clearTimeout(late));
    stream.end();
  }
}

interface Place {
  readonly host: string;
  readonly port: number;
}

/** The library's own connector of a group, with dials of dq: to the sentinels, and to the master that they
 *  name. It connects to the master itself, so it gets the address that answers. */
export class DialingSentinelConnector extends SentinelConnector {
  constructor(of: unknown) {
    const options = of as SentinelConnectionOptions;
    super(options);
    // Both are private by their types only, and the library has no option for either. The tests of groups
    // notice a library without them.
    const own = this as unknown as {
      connectToSentinel(place: Place, options?: object): unknown;
      resolve(sentinel: Place): Promise<Place | null>;
    };
    const [connectToSentinel, resolve] = [own.connectToSentinel.bind(this), own.resolve.bind(this)];
    own.connectToSentinel = (place, more) =>
      connectToSentinel(place, { ...more, Connector: DialingConnector });
    own.resolve = async (sentinel) => {
      const master = await resolve(sentinel);
      if (master === null) return null;
      const timeoutMs = options.connectTimeout ?? redisLimits.connectMs;
      return { ...master, host: await answeringAddress({ ...master, timeoutMs }) };
    };
  }
}
