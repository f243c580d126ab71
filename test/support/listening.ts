// Servers in the process of a test.

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** Listens on a port that the system chooses, and returns it. The server and its connections end with the
 *  test. */
export async function listening(server: Server, host = '127.0.0.1'): Promise<number> {
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  onTestFinished(async () => {
    for (const socket of open) socket.destroy();
    await new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  return (server.address() as AddressInfo).port;
}

/** A proxy, whose two sockets end together. Returns its port. `upstreamPort`: of the next connection. */
export function proxying(
  upstreamPort: () => number,
  onConnection: (client: Socket, upstream: Socket) => void,
): Promise<number> {
  return listening(
    createServer((client) => {
      const upstream = connect(upstreamPort(), '127.0.0.1');
      for (const socket of [client, upstream]) {
        // Tests end connections on purpose.
        socket.on('error', () => {});
        socket.on('close', () => {
          client.destroy();
          upstream.destroy();
        });
      }
      onConnection(client, upstream);
    }),
  );
}

/** Whether no server listens on this port. */
export function refuses(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => resolve(socket.destroy() === null));
    socket.on('error', () => resolve(true));
  });
}
