// A callback receiver for tests: keeps every arrival, replies as the test sets.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { sha256 } from './payloads.ts';

export interface Arrival {
  readonly path: string;
  readonly topic: string;
  readonly id: string;
  readonly attempt: number;
  readonly webhookId: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
  readonly sha256: string;
  /** end of the whole request; epoch ms */
  readonly arrivedAt: number;
  /** when the reply was written or the connection broke; null while it is open */
  endedAt: number | null;
  /** the connection broke before the reply was written */
  broken: boolean;
}

/** Answers one arrival; without a response it hangs. */
export type Answer = (arrival: Arrival, response: ServerResponse) => void | Promise<void>;

export interface Sink {
  readonly url: string;
  readonly port: number;
  readonly arrivals: readonly Arrival[];
  /** arrivals without a reply */
  open(): readonly Arrival[];
  /** sets the answer for later arrivals */
  answer(answer: Answer): void;
  /** Answers a hanging arrival with 200 and a body. */
  finish(arrival: Arrival | undefined): void;
  close(): Promise<void>;
}

export const ok: Answer = (_arrival, response) => {
  response.writeHead(200, { 'content-type': 'application/json' }).end('{"code":200}');
};

export const status =
  (code: number, headers: Record<string, string> = {}, body = ''): Answer =>
  (_arrival, response) => {
    response.writeHead(code, headers).end(body);
  };

/** `atPort`: of a receiver that has closed; 0: a free one */
export async function startSink(first: Answer = ok, atPort = 0): Promise<Sink> {
  let answer = first;
  const arrivals: Arrival[] = [];
  const open = new Map<Arrival, ServerResponse>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      const arrival: Arrival = {
        path: request.url ?? '',
        topic: String(request.headers['dq-topic']),
        id: decodeURIComponent(String(request.headers['dq-job-id'])),
        attempt: Number(request.headers['dq-attempt']),
        ...{ webhookId: String(request.headers['webhook-id']), headers: request.headers, body },
        ...{ sha256: sha256(body), arrivedAt: Date.now(), endedAt: null, broken: false },
      };
      arrivals.push(arrival);
      open.set(arrival, response);
      response.on('close', () => {
        open.delete(arrival);
        arrival.endedAt ??= Date.now();
        arrival.broken = !response.writableFinished;
      });
      Promise.resolve(answer(arrival, response)).catch((error: unknown) => response.destroy(error as Error));
    });
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(atPort, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  onTestFinished(close);
  return {
    url: `http://127.0.0.1:${port}/`,
    port,
    arrivals,
    open: () => [...open.keys()],
    answer(next) {
      answer = next;
    },
    finish(arrival) {
      const response = arrival && open.get(arrival);
      if (response === undefined) throw new Error('this arrival has its answer');
      void ok(arrival as Arrival, response);
    },
    close,
  };
}
