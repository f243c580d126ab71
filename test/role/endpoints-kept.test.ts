// Connections that the receiver closes during the next request: at most a failed attempt, never a repeated
// request.
import type { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { createNotifier } from '../../src/notifier/notifier.ts';
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
    method,
    format: method === 'GET' ? 'form' : 'raw',
    concurrency: 2,
    maxAttempts: 100,
    backoff: { type: 'ladder', stepsMs: [0] },
  });
  await rig.pushAll('t', ids('j', jobs));
  await rig.run(createNotifier(rig.context()));
  await until('all are delivered', () => rig.counted('t', 'delivered') === jobs, 60_000);
  const requests = server.received.filter((text) => text.startsWith(method)).map(requestOf);
  expect(new Set(requests).size).toBe(requests.length);
  const failed = rig.notified().filter(({ outcome }) => outcome === 'failed');
  expect(rig.notified()).toHaveLength(jobs + failed.length);
  expect(failed.filter(({ reason }) => reason !== 'reset')).toEqual([]);
  return { requests: requests.length, failed: failed.length };
}

it.each<[string, (socket: Socket, n: number) => void]>([
  ['with its reply', (socket) => socket.end()],
  ['a moment after it', (socket) => setImmediate(() => socket.end())],
  ['by a reset', (socket) => setImmediate(() => socket.resetAndDestroy())],
  ['0 to 4 ms after it', (socket, n) => setTimeout(() => socket.end(), n % 5)],
])('a receiver that closes kept connections %s gets every attempt once', async (_when, close) => {
  const seen = await deliverAll('POST', (socket, n) => socket.write(reply, () => close(socket, n)));
  // A written request may meet a close: 16 in 400 on a quiet machine. An unwritten one costs no attempt.
  expect(seen.failed).toBeLessThan(jobs / 2);
});

it.each(['POST', 'PUT', 'GET'] as const)(
  'a %s without an answer is a failed attempt, sent once',
  async (method) => {
    const seen = await deliverAll(method, (socket, n) => {
      if (n % 3 === 0) socket.destroy();
      else socket.write(reply);
    });
    expect(seen.failed).toBeGreaterThan(jobs / 3);
    expect(seen.requests).toBe(jobs + seen.failed);
  },
);
