// A TCP proxy between a client and a real server that loses one call or one answer, and the connection with
// it.

import type { AddressInfo } from 'node:net';
import { createServer, connect as dial, type Socket } from 'node:net';

export interface LossyProxy {
  readonly port: number;
  /** Loses the next bytes of a client, or of the server, with the connection. */
  loseNext(what: 'call' | 'answer'): void;
  /** Cancels loseNext; false when the loss has happened. */
  spare(): boolean;
  stop(): Promise<void>;
}

export async function startLossyProxy(port: number): Promise<LossyProxy> {
  const sockets = new Set<Socket>();
  let loses: 'call' | 'answer' | null = null;
  const server = createServer((client) => {
    const upstream = dial(port, '127.0.0.1');
    const end = () => {
      for (const socket of [client, upstream]) {
        sockets.delete(socket);
        socket.destroy();
      }
    };
    const pass = (from: Socket, to: Socket, lost: 'call' | 'answer') => {
      sockets.add(from);
      from.on('error', end);
      from.on('close', end);
      from.on('data', (bytes) => {
        if (loses === lost) {
          loses = null;
          end();
        } else to.write(bytes);
      });
    };
    pass(client, upstream, 'call');
    pass(upstream, client, 'answer');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    loseNext(what) {
      loses = what;
    },
    spare() {
      const waited = loses !== null;
      loses = null;
      return waited;
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
