// One HTTP request without the headers of a browser, which fetch adds and the ports of other queues reject.
import { type IncomingHttpHeaders, request } from 'node:http';

export interface PlainReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export function plainHttp(
  port: number,
  method: string,
  path: string,
  { body = '', headers = {} }: { body?: string; headers?: Record<string, string> } = {},
): Promise<PlainReply> {
  return new Promise((resolve, reject) => {
    const sent = request({ port, method, path, headers, host: '127.0.0.1', agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
      );
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
