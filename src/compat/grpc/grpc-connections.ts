// GrpcConnections knows the connections of the gRPC port from their start to their end, with or without a
// call, and ends them.
// Invariants: a call that dq has begun is answered before its connection ends. A call that arrives after the
// GOAWAY has no effect, and its client knows that: the GOAWAY names the last call that dq takes, and clients
// open the others on another connection. dq reads and discards what a client sends behind the GOAWAY: the
// reset of a connection with unread bytes could overtake it. Each connection that dq ends is closed in time,
// also if its client does not close its side.

import type { Http2Server, ServerHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import { type ConnectionInjector, type Server as GrpcServer, ServerCredentials } from '@grpc/grpc-js';
import { monotonicNow } from '../../runtime/time.ts';
import { afterRunning, type RunningTimer } from '../../runtime/timeout.ts';

export class GrpcConnections {
  readonly #injector: ConnectionInjector;
  readonly #lingerMs: number;
  readonly #open = new Map<Socket, GrpcConnection>();
  /** the connection that the library is given at this moment */
  #given: GrpcConnection | null = null;

  constructor(grpc: GrpcServer, lingerMs: number) {
    this.#lingerMs = lingerMs;
    this.#injector = grpc.createConnectionInjector(ServerCredentials.createInsecure());
    const [http2] = (grpc as unknown as InnerServer).http2Servers.keys();
    if (http2 === undefined) throw new Error('@grpc/grpc-js has no HTTP/2 server');
    // Each connection has a session at once; the library's interceptors see those with a call only.
    http2.on('session', (session) => this.#given?.opened(session));
  }

  get size(): number {
    return this.#open.size;
  }

  /** Before dq serves it. */
  add(socket: Socket): void {
    this.#open.set(socket, new GrpcConnection(socket, this.#lingerMs));
    socket.once('close', () => this.#open.delete(socket));
  }

  /** Serves a connection that was added. */
  serve(socket: Socket): void {
    this.#given = this.#open.get(socket) ?? null;
    if (this.#given === null) return;
    this.#injector.injectConnection(socket);
    this.#given = null;
    // Until now dq has read nothing, so a client that left has caused no error event, which had no listener.
    socket.resume();
  }

  serveAll(): void {
    for (const socket of [...this.#open.keys()]) this.serve(socket);
  }

  /** Ends those without a call for so long. */
  endSilent(silentMs: number): void {
    for (const connection of this.#open.values()) connection.endIfSilent(silentMs);
  }

  /** Ends each after its calls. */
  end(): void {
    for (const connection of this.#open.values()) connection.end();
  }

  destroy(): void {
    for (const socket of this.#open.keys()) socket.destroy();
  }
}

class GrpcConnection {
  readonly #socket: Socket;
  /** null: dq does not serve the connection yet */
  #session: ServerHttp2Session | null = null;
  #calls = 0;
  /** monotonicNow() of the start of the connection, or of the end of its last call */
  #silentSince = monotonicNow();

  constructor(socket: Socket, lingerMs: number) {
    this.#socket = socket;
    let timer: RunningTimer | null = null;
    // dq has ended its side, for whatever reason; the client need not end its own.
    socket.once('finish', () => {
      timer = afterRunning(lingerMs, () => socket.destroy());
    });
    socket.once('close', () => timer?.clear());
  }

  opened(session: ServerHttp2Session): void {
    this.#session = session;
    session.on('stream', (stream) => {
      this.#calls += 1;
      stream.once('close', () => {
        this.#calls -= 1;
        this.#silentSince = monotonicNow();
      });
    });
  }

  endIfSilent(silentMs: number): void {
    if (this.#calls === 0 && monotonicNow() - this.#silentSince >= silentMs) this.end();
  }

  end(): void {
    // Sends the GOAWAY, waits for the calls, and ends the connection behind them. A ping could not tell that
    // the client knows: after a GOAWAY, Node reads nothing from a session without calls before it is closed.
    if (this.#session === null) this.#socket.destroy();
    else this.#session.close();
  }
}

/** A private member of the library's server. */
interface InnerServer {
  readonly http2Servers: ReadonlyMap<Http2Server, unknown>;
}
