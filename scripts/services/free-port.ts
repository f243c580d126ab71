// Finds free ports of this machine. They lie below those that the kernel gives to connections and to servers
// without a port, so that no other process gets the port of a server that is being restarted. Hazard: another
// run on this machine can take a port before its use, so callers that start a server try again with another
// port (tryPorts).

import { createServer, type Server as NetServer } from 'node:net';

const attempts = 5;

/** Linux gives ports from 32,768 on (net.ipv4.ip_local_port_range). Browsers and fetch reject 10,080. */
const firstPort = 10_100;
const lastPort = 32_099;
/** Each worker of vitest has a part of its own, and begins anywhere in it. */
const parts = 10;
const portsInPart = (lastPort + 1 - firstPort) / parts;
const part = firstPort + (Number(process.env['VITEST_POOL_ID'] ?? 0) % parts) * portsInPart;
let given = Math.floor(Math.random() * portsInPart);

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

async function hold(): Promise<{ readonly server: NetServer; readonly port: number }> {
  for (let tried = 1; ; tried += 1) {
    given += 1;
    const port = part + (given % portsInPart);
    try {
      return { server: await listen(port), port };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || tried === portsInPart) throw error;
    }
  }
}

function listen(port: number): Promise<NetServer> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
