// Opens TCP connections, for everything that dq connects to by name: callbacks, hooks, brokers, Redis, MySQL
// and mail servers. Tries the addresses of a name staggered (RFC 8305): an address that does not answer soon
// gets company, and stays in the race until one is connected or the time is over.
// Invariants: no address is dialled that its caller's judge() rejects. The address of the connected socket is
// judged again, before a byte is written to it. A dial ends once, within its time.
//
// Rejected: autoSelectFamily of Node, which gives each address but the last 250 ms and closes it then. With
// two addresses a receiver with a longer round trip is never reached, and one lost SYN costs the attempt.
// Rejected: ADDRCONFIG alone, which Node sets for its own look-ups. It hides 127.0.0.1 on machines that have
// IPv6 addresses only, and ::1 on the others. An address without a route fails at once and costs no time.

import { ADDRCONFIG, type LookupAddress, lookup as lookupBySystem } from 'node:dns';
import { connect as connectTcp, isIP, isIPv6, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { runtimeLimits } from './limits.ts';
import { clearTimeout, monotonicNow, setTimeout, type Timer } from './time.ts';

/** Calls `found` once, never within this call. */
type FindAddresses = (
  name: string,
  found: (error: Error | null, addresses: readonly LookupAddress[]) => void,
) => void;

/** That of node:dns. */
type Lookup = (
  name: string,
  options: { readonly all: true; readonly hints?: number },
  found: (error: Error | null, addresses: LookupAddress[]) => void,
) => void;

/** Begins a TCP connection, and returns its socket. */
export type ConnectTcp = (address: string, port: number) => Socket;

export interface DialOptions {
  /** a name, or an address without brackets */
  readonly host: string;
  readonly port: number;
  /** for the look-up and the connection */
  readonly timeoutMs: number;
  /** instead of the system's resolver; its error ends the dial */
  readonly find?: FindAddresses;
  /** why this address must not be dialled; the first such error ends a dial without an allowed address */
  readonly judge?: (address: string) => Error | null;
  /** the addresses of a name are there */
  readonly onFound?: () => void;
  /** for tests, and simulated networks */
  readonly connect?: ConnectTcp | undefined;
}

/** Called once, never within dial(). The socket has no listeners. */
type OnDialed = (...result: [error: Error, socket: null] | [error: null, socket: Socket]) => void;

interface OpenDial {
  /** Ends the dial with this error; nothing after its end. */
  cancel(error: Error): void;
}

/** No address could be connected. */
export class DialFailure extends Error {
  /** of the first address that has a route */
  readonly code: string;
  /** what happened to each address, or to the first ones: `ECONNREFUSED 127.0.0.1:80` */
  readonly tries: string;
  /** as Node's errors of connections, by which the Redis library recognises them */
  readonly syscall = 'connect';
  constructor(code: string, tries: string) {
    super(`connect ${tries}`);
    this.name = 'DialFailure';
    this.code = code;
    this.tries = tries;
  }
}

/** TCP is connected, but the peer does not complete the TLS handshake. */
export class HandshakeFailure extends DialFailure {}

export function dial(options: DialOptions, onDialed: OnDialed): OpenDial {
  return new Race(options, onDialed);
}

/** As dial, and the TLS handshake where `tls` is given; all of it within timeoutMs. */
export function openSocket(
  options: DialOptions,
  tls: ConnectionOptions | null = null,
  signal?: AbortSignal,
): Promise<Socket> {
  const endAt = monotonicNow() + options.timeoutMs;
  return new Promise((resolve, reject) => {
    const aborted = () => dialing.cancel(signal?.reason as Error);
    const dialing = dial(options, (error, socket) => {
      signal?.removeEventListener('abort', aborted);
      if (error !== null) reject(error);
      else if (tls === null) resolve(socket);
      else
        secure(socket, { ...options, timeoutMs: endAt - monotonicNow() }, tls, signal).then(resolve, reject);
    });
    if (signal?.aborted === true) aborted();
    else signal?.addEventListener('abort', aborted, { once: true });
  });
}

/** The address that answers, for a library that connects itself: Node does not give up a single address
 *  early. Dials only where the name has several. */
export async function answeringAddress(options: DialOptions): Promise<string> {
  let only: string | null = null;
  const chosen = new Error('one address');
  const judge = (address: string) => options.judge?.(address) ?? null;
  const find: FindAddresses = (name, found) =>
    (options.find ?? findBySystem)(name, (error, addresses) => {
      const allowed = addresses.filter(({ address }) => judge(address) === null);
      only = allowed.length === 1 ? (allowed[0]?.address ?? null) : null;
      if (only === null) found(error, addresses);
      else found(chosen, []);
    });
  if (isIP(options.host) !== 0) {
    const forbidden = judge(options.host);
    if (forbidden !== null) throw forbidden;
    return options.host;
  }
  try {
    const socket = await openSocket({ ...options, find });
    const { remoteAddress = '' } = socket;
    socket.destroy();
    return remoteAddress;
  } catch (error) {
    if (error === chosen && only !== null) return only;
    throw error;
  }
}

function secure(
  socket: Socket,
  { host, timeoutMs }: DialOptions,
  tls: ConnectionOptions,
  signal?: AbortSignal,
): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const name = isIP(host) === 0 ? { servername: tls.servername ?? host.replace(/\.$/, '') } : {};
    const secured = connectTls({ host, ...tls, ...name, socket }, () => end(null));
    const late = setTimeout(
      () => end(new HandshakeFailure('ETIMEDOUT', `ETIMEDOUT ${host}: no TLS handshake in time`)),
      Math.max(0, timeoutMs),
    );
    const aborted = () => end(signal?.reason as Error);
    const closed = () =>
      end(new HandshakeFailure('ECONNRESET', `ECONNRESET ${host}: closed in the TLS handshake`));
    const end = (error: Error | null) => {
      clearTimeout(late);
      signal?.removeEventListener('abort', aborted);
      secured.off('close', closed);
      if (error === null) {
        secured.off('error', end);
        resolve(secured);
        return;
      }
      // Its own error follows a destroy, and has a listener still.
      secured.destroy();
      reject(error);
    };
    secured.on('error', end).on('close', closed);
    signal?.addEventListener('abort', aborted, { once: true });
  });
}

/** Asks for the families of this machine first: some DNS servers never answer the question for the other one,
 *  and the system waits 5 to 15 s for that, longer than a dial. Then for both, where a name has a loopback
 *  address, or none of these families. */
export function findBy(lookup: Lookup): FindAddresses {
  return (name, found) =>
    lookup(name, { all: true, hints: ADDRCONFIG }, (error, addresses) => {
      if (error === null && !addresses.some(({ address }) => loopback.test(address))) found(null, addresses);
      else lookup(name, { all: true }, (failure, all) => found(failure, failure === null ? all : []));
    });
}

const findBySystem = findBy(lookupBySystem);
const loopback = /^(127\.|::1$)/;

/** RFC 8305, 4: the families take turns, the resolver's first one first; within one the resolver's order. */
export function inTurns(addresses: readonly string[]): readonly string[] {
  const isFirst = (address: string) => isIPv6(address) === isIPv6(addresses[0] ?? '');
  const [first, second] = [addresses.filter(isFirst), addresses.filter((address) => !isFirst(address))];
  const all: string[] = [];
  for (let n = 0; n < Math.max(first.length, second.length); n += 1)
    for (const address of [first[n], second[n]]) if (address !== undefined) all.push(address);
  return all;
}

/** Codes of addresses that this machine has no route to, or no address for. */
const noRoute: ReadonlySet<string> = new Set([
  'ENETUNREACH',
  'EHOSTUNREACH',
  'EADDRNOTAVAIL',
  'EAFNOSUPPORT',
  'EINVAL',
]);

class Race implements OpenDial {
  readonly #options: DialOptions;
  readonly #onDialed: OnDialed;
  /** not dialled yet, the next one first */
  #waiting: string[] = [];
  readonly #open = new Map<Socket, string>();
  readonly #failed: { readonly code: string; readonly address: string }[] = [];
  readonly #late: Timer;
  #next: Timer | undefined;
  #hasEnded = false;

  constructor(options: DialOptions, onDialed: OnDialed) {
    this.#options = options;
    this.#onDialed = onDialed;
    this.#late = setTimeout(() => this.#onLate(), Math.max(1, options.timeoutMs));
    const { host, find = findBySystem } = options;
    if (isIP(host) !== 0) process.nextTick(() => this.#found([host]));
    else
      find(host, (error, addresses) => {
        if (this.#hasEnded) return;
        if (error === null) options.onFound?.();
        if (error !== null) this.cancel(error);
        else this.#found(addresses.map(({ address }) => address));
      });
  }

  cancel(error: Error): void {
    if (!this.#end()) return;
    for (const socket of this.#open.keys()) socket.destroy();
    this.#onDialed(error, null);
  }

  #found(addresses: readonly string[]): void {
    if (this.#hasEnded) return;
    let forbidden: Error | null = null;
    const allowed = addresses.filter((address) => {
      const error = this.#options.judge?.(address) ?? null;
      forbidden ??= error;
      return error === null;
    });
    this.#waiting = inTurns([...new Set(allowed)]).slice(0, runtimeLimits.dialAddressesMax);
    if (this.#waiting.length > 0) this.#dialNext();
    else
      this.cancel(forbidden ?? new DialFailure('ENOTFOUND', `ENOTFOUND ${this.#options.host}: no address`));
  }

  #dialNext(): void {
    clearTimeout(this.#next);
    const address = this.#waiting.shift();
    if (address === undefined) {
      if (this.#open.size === 0) this.cancel(this.#failure());
      return;
    }
    const { port, connect = connectTo } = this.#options;
    const socket = connect(address, port);
    this.#open.set(socket, address);
    socket.once('connect', () => this.#connected(socket));
    // Not once: a destroyed socket may still report its error.
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) => this.#lost(socket, code ?? message));
    socket.once('close', () => this.#lost(socket, 'ECONNRESET'));
    if (this.#waiting.length > 0)
      this.#next = setTimeout(() => this.#dialNext(), runtimeLimits.dialStaggerMs);
  }

  #connected(socket: Socket): void {
    if (this.#hasEnded) return;
    const { remoteAddress } = socket;
    if (remoteAddress === undefined) {
      socket.destroy();
      this.#lost(socket, 'ECONNRESET');
      return;
    }
    const forbidden = this.#options.judge?.(remoteAddress) ?? null;
    if (forbidden !== null) {
      this.cancel(forbidden);
      return;
    }
    this.#end();
    this.#open.delete(socket);
    for (const other of this.#open.keys()) other.destroy();
    socket.removeAllListeners('error').removeAllListeners('close');
    this.#onDialed(null, socket);
  }

  #lost(socket: Socket, code: string): void {
    const address = this.#open.get(socket);
    if (address === undefined || this.#hasEnded) return;
    this.#open.delete(socket);
    this.#failed.push({ code, address });
    this.#dialNext();
  }

  #onLate(): void {
    for (const address of this.#open.values()) this.#failed.push({ code: 'ETIMEDOUT', address });
    const { host, port, timeoutMs } = this.#options;
    const code = 'ETIMEDOUT';
    if (this.#failed.length === 0)
      this.cancel(new DialFailure(code, `${code} ${host}:${port} in ${timeoutMs} ms`));
    else this.cancel(this.#failure());
  }

  #failure(): DialFailure {
    const { port } = this.#options;
    // An address without a route says nothing about the peer.
    const routed = this.#failed.filter(({ code }) => !noRoute.has(code));
    const failures = routed.length > 0 ? routed : this.#failed;
    const shown = failures.slice(0, runtimeLimits.dialTriesShown);
    const tries = shown.map(({ code, address }) =>
      isIPv6(address) ? `${code} [${address}]:${port}` : `${code} ${address}:${port}`,
    );
    return new DialFailure(failures[0]?.code ?? 'ECONNRESET', tries.join(', '));
  }

  /** false: it has ended before */
  #end(): boolean {
    if (this.#hasEnded) return false;
    this.#hasEnded = true;
    clearTimeout(this.#late);
    clearTimeout(this.#next);
    return true;
  }
}

function connectTo(address: string, port: number): Socket {
  return connectTcp({
    host: address,
    port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: runtimeLimits.dialKeepAliveMs,
  });
}

/** A stream to a server that is dialled, for a library that needs its stream at once (MySQL's). */
export class DialedStream extends Duplex {
  readonly #options: DialOptions;
  #dialing: OpenDial | null = null;
  #socket: Socket | null = null;

  constructor(options: DialOptions) {
    super();
    this.#options = options;
  }

  /** Writes and reads wait for it. */
  override _construct(done: (error?: Error | null) => void): void {
    if (this.destroyed) {
      done();
      return;
    }
    this.#dialing = dial(this.#options, (error, socket) => {
      if (error !== null) {
        // destroy() has its own error, or none.
        done(this.destroyed ? null : error);
        return;
      }
      this.#socket = socket;
      socket.on('data', (chunk) => {
        if (!this.push(chunk)) socket.pause();
      });
      socket.on('end', () => this.push(null));
      socket.on('error', (failure) => super.destroy(failure));
      socket.on('close', () => super.destroy());
      done();
    });
  }

  /** The stream would wait for the end of its dial. */
  override destroy(error?: Error): this {
    super.destroy(error);
    this.#dialing?.cancel(error ?? new Error('given up'));
    return this;
  }

  override _read(): void {
    this.#socket?.resume();
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#socket?.write(chunk, done);
  }

  override _final(done: () => void): void {
    this.#socket?.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket?.destroy();
    done(error);
  }
}
