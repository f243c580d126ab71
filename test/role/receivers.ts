// Receivers for tables of attempts: they send bytes, valid HTTP or not.
import type { Socket } from 'node:net';
import { drip, flood, type RawServer, startRawServer } from '../support/raw-server.ts';

export interface Endpoint {
  readonly url: string;
  /** if set, the result contains the number of requests and of open connections */
  readonly server?: Pick<RawServer, 'received' | 'open'>;
}

export const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}';

/** Runs on every connection that sends bytes. */
export const raw = (onRequest: (socket: Socket) => void) => async (): Promise<Endpoint> => {
  const server = await startRawServer(onRequest);
  return { url: server.url, server };
};

export const replying = (...pieces: (string | Buffer)[]) =>
  raw((socket) => {
    for (const piece of pieces) socket.write(piece);
  });

/** `start`, then this piece again and again. */
export const dripping = (piece: string, everyMs: number, start = '') =>
  raw((socket) => {
    socket.write(start);
    drip(socket, piece, everyMs);
  });

export const flooding = (start: string, bytes = 1_000_000_000) =>
  raw((socket) => {
    socket.write(start);
    flood(socket, bytes);
  });

export const closing = (reply: string) => raw((socket) => void socket.end(reply));

/** A whole reply of 200 with this body. */
export const saying = (body: string | Buffer, ...headers: readonly string[]) =>
  replying(headOf(200, Buffer.byteLength(body), headers), body);

/** This status with a body of one character. */
export const answering = (status: number, ...headers: readonly string[]) =>
  replying(`${headOf(status, 1, headers)}x`);

function headOf(status: number, length: number, headers: readonly string[]): string {
  return [`HTTP/1.1 ${status} X`, `content-length: ${length}`, ...headers, '', ''].join('\r\n');
}
