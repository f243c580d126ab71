// Connections that the receiver closes during the next request, or on which it sends surplus bytes: a request
// is sent again once, over a new connection, and only if no byte of its reply has arrived.
import type { Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Call, type CallEnd } from '../../src/notifier/call-back.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { type PoolSeams, Pools } from '../../src/notifier/pools.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { startRawServer } from '../support/raw-server.ts';
import { until } from '../support/until.ts';
import { ids, startRig } from './rig.ts';

const reply = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}';
const jobs = 400;

/** `id attempt` of a request in one piece. */
const requestOf = (text: string) =>
  `${/^dq-job-id: (\S+)/m.exec(text)?.[1]} ${/^dq-attempt: (\d+)/m.exec(text)?.[1]}`;

async function deliverAll(method: 'POST' | 'PUT' | 'GET', onRequest: (socket: Socket, n: number) => void) {
  const rig = await startRig();
  const server = await startRawServer(onRequest);
  await rig.topic('t', server.url, {
    ...{ method, format: method === 'GET' ? 'form' : 'raw', concurrency: 2, maxAttempts: 100 },
    backoff: { type: 'ladder', stepsMs: [0] },
  });
  await rig.pushAll('t', ids('j', jobs));
  await rig.run(createNotifier(rig.context()));
  await until('all are delivered', () => rig.counted('t', 'delivered') === jobs);
  const requests = server.received.filter((text) => text.startsWith(method)).map(requestOf);
  const failed = rig.notified().filter(({ outcome }) => outcome === 'failed');
  expect(rig.notified()).toHaveLength(jobs + failed.length);
  expect(failed.filter(({ reason }) => reason !== 'reset')).toEqual([]);
  return { requests, attempts: jobs + failed.length, failed: failed.length };
}

const timesOf = (all: readonly string[]) => all.map((one) => all.filter((other) => other === one).length);

it.each<[string, (socket: Socket, n: number) => void]>([
  ['with its reply', (socket) => socket.end()],
  ['a moment after it', (socket) => setImmediate(() => socket.end())],
  ['by a reset', (socket) => setImmediate(() => socket.resetAndDestroy())],
  ['0 to 4 ms after it', (socket, n) => setTimeout(() => socket.end(), n % 5)],
])('a receiver that closes kept connections %s costs no attempt', async (_when, close) => {
  const seen = await deliverAll('POST', (socket, n) => socket.write(reply, () => close(socket, n)));
  expect(seen.failed).toBe(0);
  expect(Math.max(...timesOf(seen.requests))).toBeLessThanOrEqual(2);
});

it.each(['POST', 'PUT', 'GET'] as const)(
  'a %s without an answer on a new connection is a failed attempt, sent once',
  async (method) => {
    const seen = await deliverAll(method, (socket, n) => {
      if (n % 3 === 0) socket.destroy();
      else socket.end(reply.replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n'));
    });
    expect(seen.failed).toBeGreaterThan(jobs / 3);
    expect(seen.requests).toHaveLength(seen.attempts);
    expect(Math.max(...timesOf(seen.requests))).toBe(1);
  },
);

const egress = { refuses: () => null } as never;
const trial = { admits: () => false, egress } as never;
const keptReply = reply.replace('\r\n\r\n', '\r\nkeep-alive: timeout=12\r\n\r\n');

/** Calls over HTTP by dq's own connections and by undici's, and over TLS. */
describe.each(['own', 'undici', 'https'] as const)('over %s connections', (way) => {
  function startPools(seams: PoolSeams = {}): (url: string, timeoutMs?: number) => Promise<CallEnd> {
    const pools = new Pools({ egress, trial, slots: 100, seams: { plain: way === 'own', ...seams } });
    onTestFinished(() => pools.close());
    return (url, timeoutMs = 30_000) =>
      new Promise((resolve) => {
        const { origin } = new URL(url);
        const options = { origin, path: '/', method: 'POST' as const, headers: {}, body: Buffer.from('{}') };
        // undici frees the connection in the next turn.
        const onEnd = (end: CallEnd) => setImmediate(() => setImmediate(resolve, end));
        new Call(pools, { options, check: 'unverified', timeoutMs }, onEnd);
      });
  }
  const startServer = (onRequest: (socket: Socket, n: number) => void) =>
    startRawServer(onRequest, way === 'https' ? 'https' : 'http');
  const posts = (received: readonly string[]) => received.join('').split(/(?=POST \/)/);
  const replied = { kind: 'replied', status: 200 };

  it.each([
    ['closes', (socket: Socket) => void socket.end()],
    ['is reset', (socket: Socket) => void (way === 'https' ? socket.destroy() : socket.resetAndDestroy())],
  ])('a request whose kept connection %s is sent again over a new one', async (_how, close) => {
    const call = startPools();
    const server = await startServer((socket, n) => {
      if (n === 2) close(socket);
      else socket.write(keptReply);
    });
    expect(await call(server.url)).toMatchObject(replied);
    expect(await call(server.url)).toMatchObject(replied);
    expect(posts(server.received)).toHaveLength(3);
    expect(server.connections()).toBe(2);
  });

  it('a request is sent again once only', async () => {
    const call = startPools();
    const server = await startServer((socket, n) => {
      if (n <= 2) socket.write(keptReply);
      else socket.destroy();
    });
    // Two kept connections: the second request must not go over the other one.
    await Promise.all([call(server.url), call(server.url)]);
    expect(server.connections()).toBe(2);
    expect(await call(server.url)).toEqual({ kind: 'no_reply', reason: 'reset' });
    expect(posts(server.received)).toHaveLength(4);
    expect(server.connections()).toBe(3);
  });

  it('a request whose reply has begun is not sent again', async () => {
    const call = startPools();
    const server = await startServer((socket, n) => {
      if (n === 1) socket.write(keptReply);
      else socket.end('H');
    });
    expect(await call(server.url)).toMatchObject(replied);
    expect(await call(server.url)).toEqual({ kind: 'no_reply', reason: 'reset' });
    expect(posts(server.received)).toHaveLength(2);
  });

  it('a request that is sent again without a reply ends at the deadline of the call', async () => {
    const time = useJumpingTime();
    const call = startPools();
    const server = await startServer((socket, n) => {
      if (n === 1) socket.write(keptReply);
      else if (n === 2) socket.destroy();
    });
    expect(await call(server.url)).toMatchObject(replied);
    const ended = call(server.url, 60_000);
    await until('it is sent again', () => posts(server.received).length === 3);
    expect(await time.outlast(ended, 5_000)).toEqual({ kind: 'no_reply', reason: 'timeout' });
    expect(posts(server.received)).toHaveLength(3);
    await until('all are closed', () => server.open.size === 0);
  });

  it('a receiver that sent bytes without a request gets one request per connection', async () => {
    const call = startPools();
    const sockets = new Set<Socket>();
    const server = await startServer((socket) => {
      sockets.add(socket);
      socket.write(keptReply);
    });
    await Promise.all([call(server.url), call(server.url)]);
    const [first] = sockets;
    first?.write(keptReply.replace('200', '500'));
    await until('its connection is closed', () => first?.destroyed === true);
    await until('the other one is closed', () => server.open.size === 0);
    for (let n = 0; n < 3; n += 1) expect(await call(server.url)).toMatchObject(replied);
    expect(server.connections()).toBe(5);
    const asked = posts(server.received).map((text) => /^connection: (.*)/m.exec(text)?.[1]?.trim());
    expect(asked).toEqual(['keep-alive', 'keep-alive', 'close', 'close', 'close']);
  });

  it('a reply that is written twice: the next request gets a new connection, and each one after it', async () => {
    const call = startPools();
    const server = await startServer((socket) => socket.write(keptReply + keptReply.replace('200', '500')));
    for (let n = 0; n < 4; n += 1) expect(await call(server.url)).toMatchObject(replied);
    expect(server.received.map((text) => /connection: (.*)\r/.exec(text)?.[1])).toEqual([
      'keep-alive',
      ...['close', 'close', 'close'],
    ]);
  });

  it('a receiver that sent bytes without a request has kept connections again with the next pool', async () => {
    const call = startPools({ connectionAgeMsMax: 1_000 });
    const server = await startServer((socket) => {
      const surplus = server.received.length === 1 ? keptReply : '';
      socket.write(keptReply + surplus);
    });
    await call(server.url);
    await until('a request over a kept connection', async () => {
      await call(server.url);
      return server.received.length > server.connections();
    });
  });
});
