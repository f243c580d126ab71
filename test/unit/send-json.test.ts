// sendJson's one write and Node's own way give the same bytes and leave the same connection.

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { sendJson } from '../../src/api/http/send-json.ts';
import { until } from '../support/until.ts';

const nodesWay = (response: ServerResponse, status: number, json: string) => {
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(json),
  });
  response.end(json);
};

interface Seen {
  readonly received: string;
  /** what a handler and its connection see after each reply */
  readonly after: readonly unknown[];
}

/** Sends `text` to a server that answers by `send` when the request is complete, and `delay` turns later. */
async function seenBy(
  send: typeof sendJson,
  text: string,
  prepare: (response: ServerResponse, request: IncomingMessage) => void = () => {},
  json = '{"id":"a"}',
): Promise<Seen> {
  const after: unknown[] = [];
  const sent: Promise<void>[] = [];
  const server = createServer({ keepAliveTimeout: 7_000 }, (request, response) => {
    prepare(response, request);
    request.resume();
    request.on('end', () => {
      response.on('close', () => {
        const { socket } = request;
        after.push({
          ...{ closed: request.url, headersSent: response.headersSent },
          ...{ ended: [response.writableEnded, response.writableFinished, response.finished] },
          ...{ status: response.statusCode, timeout: socket.destroyed ? null : socket.timeout },
        });
      });
      for (const name of ['prefinish', 'finish'])
        response.on(name, () => after.push(`${request.url} ${name}`));
      // Later requests of the connection answer first: their replies wait.
      const answer = async () => {
        if (request.url?.startsWith('/now') !== true) await setTimeout(request.url === '/slow' ? 20 : 1);
        send(response, 201, json);
        await setImmediate();
      };
      sent.push(answer());
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  let received = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    received += chunk;
  });
  socket.write(text);
  if (text.includes('/unread')) {
    socket.pause();
    await until('both replies', () => sent.length === 2);
    await Promise.all(sent);
    const seen = [...after];
    socket.destroy();
    return { received: '', after: seen };
  }
  await once(socket, 'close');
  // The replies to a client that has left come later.
  await Promise.all(sent);
  return { received: received.replace(/Date: [^\r]+/g, 'Date: …'), after };
}

const request = (path: string, ...headers: string[]) =>
  [`POST ${path} HTTP/1.1`, 'host: a', 'content-length: 2', ...headers, '', '{}'].join('\r\n');
const end = request('/end', 'connection: close');

describe('sendJson and writeHead() with end()', () => {
  const same = async (...rest: [text: string, prepare?: Parameters<typeof seenBy>[2], json?: string]) => {
    const [ours, nodes] = await Promise.all([seenBy(sendJson, ...rest), seenBy(nodesWay, ...rest)]);
    expect(ours).toEqual(nodes);
    return ours;
  };

  it('give the same replies and events on one connection', async () => {
    const { received, after } = await same(request('/a') + request('/b') + end);
    expect(received.match(/HTTP\/1.1 201 Created/g)).toHaveLength(3);
    expect(received).toContain('Keep-Alive: timeout=7\r\n');
    expect(after).toHaveLength(9);
  });

  it('keep the order of replies', () => same(request('/slow') + request('/b') + request('/slow') + end));

  it('keep text that is not ASCII', async () => {
    const { received } = await same(request('/a') + end, undefined, '{"id":"订单 é"}');
    expect(received).toContain('订单 é');
  });

  it('keep headers that were set before', async () => {
    const { received } = await same(request('/a') + end, (response) => void response.setHeader('x-a', 'b'));
    expect(received).toContain('x-a: b');
  });

  it('close a connection that must not go on', () =>
    same(request('/a') + end, (response) => {
      response.shouldKeepAlive = false;
    }));

  it('answer HTTP/1.0', async () => {
    const old = request('/a', 'connection: keep-alive').replace('HTTP/1.1', 'HTTP/1.0');
    await same(old + end);
    await same(request('/a').replace('HTTP/1.1', 'HTTP/1.0'));
  });

  it('a reply is one write', async () => {
    let writes = 0;
    await seenBy(sendJson, request('/a') + end, (response, { socket, url }) => {
      if (url !== '/a') return;
      const write = socket.write.bind(socket) as typeof socket.write;
      socket.write = ((...args: Parameters<typeof write>) => {
        writes += 1;
        return write(...args);
      }) as typeof socket.write;
      response.on('finish', () => {
        socket.write = write;
      });
    });
    expect(writes).toBe(1);
  });

  it('wait for a client that does not read', async () => {
    const json = JSON.stringify('x'.repeat(8_000_000));
    const { after } = await same(request('/a') + request('/unread'), () => {}, json);
    expect(after).not.toContain('/a finish');
  });

  it.each([
    ['a client', '/a', (socket: Socket) => void socket.destroy()],
    // At once: the answer of the client to the end may close the connection before a timer runs.
    ['a connection that takes more', '/now', (socket: Socket) => void socket.end()],
  ])('end without %s, also those that wait behind another one', async (_what, path, leave) => {
    const requests = [1, 2, 3].map((n) => request(`${path}${n}`)).join('');
    const { received } = await same(requests, (_response, { socket, url }) => {
      if (url === `${path}1`) leave(socket);
    });
    expect(received).toBe('');
  });
});
