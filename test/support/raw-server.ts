// A receiver that answers with the given bytes, valid HTTP or not, which no HTTP library would send.
import { createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { listening } from './listening.ts';
import { selfSigned } from './self-signed.ts';

export interface RawServer {
  readonly port: number;
  readonly url: string;
  /** connections accepted so far */
  connections(): number;
  /** received heads and bodies, one entry per chunk of bytes */
  readonly received: readonly string[];
  readonly open: ReadonlySet<Socket>;
}

/** `onRequest`: bytes have arrived; `n` counts from 1 over all connections. */
export async function startRawServer(
  onRequest: (socket: Socket, n: number) => void,
  scheme: 'http' | 'https' = 'http',
): Promise<RawServer> {
  const received: string[] = [];
  const open = new Set<Socket>();
  let connections = 0;
  const onConnection = (socket: Socket) => {
    connections += 1;
    open.add(socket);
    socket.on('close', () => open.delete(socket));
    socket.on('error', () => {
      // The other side breaks connections on purpose.
    });
    socket.on('data', (data) => {
      received.push(data.toString('latin1'));
      onRequest(socket, received.length);
    });
  };
  const server = scheme === 'http' ? createServer(onConnection) : createTlsServer(selfSigned, onConnection);
  const port = await listening(server);
  return { port, url: `${scheme}://127.0.0.1:${port}/`, connections: () => connections, received, open };
}

/** Writes a piece repeatedly until the connection is closed. */
export function drip(socket: Socket, piece: string | Buffer, everyMs: number): void {
  const timer = setInterval(() => socket.write(piece), everyMs);
  socket.on('close', () => clearInterval(timer));
}

/** Writes at the reader's speed, until `bytes` are written or the reader closes. */
export function flood(socket: Socket, bytes: number): void {
  const piece = Buffer.alloc(64 * 1024, 'x');
  let left = bytes;
  const pump = () => {
    while (left > 0 && !socket.destroyed) {
      left -= piece.length;
      if (!socket.write(piece)) {
        socket.once('drain', pump);
        return;
      }
    }
  };
  pump();
}
