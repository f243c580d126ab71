// Makes one HTTP request over a connection of its own, and reads the whole reply. For programs that make few:
// an idle connection would keep a command alive, and delay the stop of a daemon. Follows no redirect. Bounds
// the length of the reply; its caller bounds the time. Rejected: fetch. Its first call costs a process 120 ms
// of processor time and 15 MiB, because Node then compiles a parser of its own.

import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { runtimeLimits } from './limits.ts';

export interface Exchanged {
  readonly status: number;
  readonly text: string;
  /** the server's clock in whole seconds, as epoch ms; null = no Date header */
  readonly at: number | null;
}

interface Exchange {
  /** default: GET */
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer | undefined;
  /** ends the exchange, which rejects with its reason */
  readonly signal: AbortSignal;
}

export function exchange(
  url: string | URL,
  { method = 'GET', headers = {}, body, signal }: Exchange,
): Promise<Exchanged> {
  const send = new URL(url).protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => reject(signal.aborted ? (signal.reason as Error) : error);
    const request = send(url, { method, headers, agent: false, signal }, (response) => {
      const chunks: Buffer[] = [];
      let size = 0;
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        size += chunk.length;
        if (size > runtimeLimits.replyBytesMax) request.destroy(new Error('the reply is too long'));
      });
      response.on('error', fail);
      response.on('end', () => {
        const at = Date.parse(response.headers.date ?? '');
        resolve({
          status: response.statusCode ?? 0,
          text: Buffer.concat(chunks).toString('utf8'),
          at: Number.isNaN(at) ? null : at,
        });
      });
    });
    // An error reply may come while the body is still being written; it has resolved the promise by then.
    request.on('error', fail);
    request.end(body);
  });
}
