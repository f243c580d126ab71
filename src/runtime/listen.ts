// listen.ts opens the port of a server in a worker, and names the reason when it cannot.

import type { AddressInfo, Server } from 'node:net';

/** Not through Fastify, which opens a second server for `localhost`. In a worker the handle comes from the
 *  master and is shared with the other workers that ask for the same address and port. Rejects with the
 *  error of the system; the server can try again. */
export function listen(server: Server, host: string, port: number): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => reject(error);
    server.once('error', fail);
    server.listen({ host, port }, () => {
      server.off('error', fail);
      resolve(server.address() as AddressInfo);
    });
  });
}

/** As `listen`, and with port 0 on the port that the servers of this daemon have, once they have one. Servers
 *  that ask for port 0 share one socket only as long as one of them lives: when all have died, the next one
 *  gets a new port, and has to ask for the port that clients know.
 *  @param known absent: no server has listened yet */
export async function listenAgain(server: Server, host: string, port: number, known?: number) {
  const endpoint = await listen(server, host, port);
  if (port !== 0 || known === undefined || endpoint.port === known) return endpoint;
  await new Promise((resolve) => server.close(resolve));
  return listen(server, host, known);
}

interface ListenFlags {
  readonly host: string;
  readonly port: number;
  /** how the user changes them: `--port (server.port)` */
  readonly hostFlag: string;
  readonly portFlag: string;
}

/** One sentence with the remedy; the cause where it has none. */
export function whyNotListening(error: unknown, { host, hostFlag, portFlag, ...flags }: ListenFlags): Error {
  // With port 0 it may be the port that the servers had before.
  const { port = flags.port } = error as { readonly port?: number };
  switch ((error as NodeJS.ErrnoException).code) {
    case 'EADDRINUSE':
      return new Error(`port ${port} is taken; choose another one with ${portFlag}, 0 picks a free one`);
    case 'EACCES':
      return new Error(`this user may not open port ${port}; choose one above 1023`);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new Error(`${host} is not an address of this machine; set ${hostFlag}`);
    default:
      return new Error(`cannot listen on ${host}:${port}`, { cause: error });
  }
}

/** An address that programs of this machine can call, also for a wildcard. */
export function urlOf({ address, family, port }: AddressInfo, scheme = 'http'): string {
  const host =
    address === '0.0.0.0'
      ? '127.0.0.1'
      : address === '::'
        ? '[::1]'
        : family === 'IPv6'
          ? `[${address}]`
          : address;
  return `${scheme}://${host}:${port}`;
}

/** The same of a configured host. */
export function urlOfHost(host: string, port: number, scheme?: string): string {
  return urlOf({ address: host, family: host.includes(':') ? 'IPv6' : 'IPv4', port }, scheme);
}
