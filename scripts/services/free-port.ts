// Finds free ports of this machine. Hazard: another process can take a port before its use, so callers that
// start a server try again with another port (tryPorts).

import { createServer, type Server as NetServer } from 'node:net';

const attempts = 5;

/** `n` different ports, all open until all are known. */
export async function freePorts(n: number): Promise<number[]> {
  const held = await Promise.all(Array.from({ length: n }, hold));
  await Promise.all(held.map(({ server }) => new Promise((resolve) => server.close(resolve))));
  return held.map(({ port }) => port);
}

/** Starts a server that needs `n` ports; again with other ports while one of them is in use. */
export async function tryPorts<T>(n: number, start: (ports: readonly number[]) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(await freePorts(n));
    } catch (error) {
      if (attempt === attempts || !/in ?use/i.test(String(error))) throw error;
    }
  }
}

function hold(): Promise<{ readonly server: NetServer; readonly port: number }> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      if (address === null || typeof address === 'string') throw new Error('a TCP server without a port');
      resolve({ server, port: address.port });
    });
  });
}
