// Receivers that are unreachable, silent, endless or that break off: one request each, a free slot, flat
// memory.
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { expect, it, onTestFinished } from 'vitest';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { startBlackHole } from '../support/black-hole.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { drip, flood, startRawServer } from '../support/raw-server.ts';
import { until } from '../support/until.ts';
import { at, check, type Rows, seenOf } from './attempt-table.ts';
import { closing, ok, raw, replying, saying } from './receivers.ts';

const rule = { retryIf: '{res.code}!=200' };

async function closedPort(): Promise<string> {
  const server = createTcpServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return `http://127.0.0.1:${port}/`;
}

it('unreachable receivers', async () => {
  const time = useJumpingTime();
  const hole = await startBlackHole();
  const rows: Rows = [
    ['refuses', 'retry: connect', at(await closedPort())],
    // The broadcast address of the loopback network: no route.
    ['has no route', 'retry: connect', at('http://127.255.255.255:9/')],
    ['is a black hole', 'retry: timeout', at(hole)],
    ['is a black hole under https', 'retry: timeout', at(hole.replace('http:', 'https:'))],
    ['is a black hole with a long timeout', 'retry: connect', at(hole), { timeoutMs: 20_000 }],
  ];
  // The others have ended.
  const { rig } = await check(rows, {}, async (ended) => {
    if (ended === rows.length - 1) await time.jump(1_000);
  });
  const gone = rig.notified().find(({ topic }) => topic === 't4');
  expect(gone?.['durationMs']).toBeGreaterThanOrEqual(notifierLimits.connectMsMax - 1);
});

it('receivers that are silent, slow or break off', async () => {
  const large = Buffer.alloc(4 * 1024 * 1024, 'x');
  const head = 'HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n';
  const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
  const rows: Rows = [
    ['never answers', 'retry: timeout', raw(() => {})],
    [
      'stops reading a long body',
      'retry: timeout',
      async () => {
        const server = await startRawServer((socket, n) => {
          if (n > 1) return;
          socket.pause();
          // Only a reader learns that the other side has closed.
          setTimeout(() => socket.resume(), 1_200);
        });
        return { url: server.url, server };
      },
      {},
      large,
    ],
    ['drips its status line', 'retry: timeout', raw((socket) => dripText(socket, 'HTTP/1.1 200 OK'))],
    [
      'drips its headers',
      'retry: timeout',
      raw((socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        drip(socket, 'x-a: b\r\n', 20);
      }),
    ],
    [
      'drips its body',
      'retry: timeout',
      raw((socket) => {
        socket.write(head);
        drip(socket, 'x', 20);
      }),
    ],
    [
      'drips chunks',
      'retry: timeout',
      raw((socket) => {
        socket.write(chunked);
        drip(socket, '1\r\nx\r\n', 20);
      }),
    ],
    [
      'sends 100 for ever',
      'retry: timeout',
      raw((socket) => drip(socket, 'HTTP/1.1 100 Continue\r\n\r\n', 5)),
    ],
    ['resets at once', 'retry: reset', raw((socket) => void socket.resetAndDestroy())],
    ['closes without a word', 'retry: reset', closing('')],
    ['closes within its status line', 'retry: reset', closing('HTTP/1.1 20')],
    ['closes within its headers', 'retry: reset', closing('HTTP/1.1 200 OK\r\nx-a:')],
    [
      'resets in the middle of its body',
      'retry: reset',
      raw((socket) => void socket.write(`${head}half`, () => setTimeout(() => socket.resetAndDestroy(), 20))),
    ],
    ['closes in the middle of its body', 'retry: reset', closing(`${head}half`)],
    ['closes in the middle of a chunk', 'retry: reset', closing(`${chunked}ff\r\nhalf`)],
    ...[head, chunked].map((start) => {
      const announced = start.replace('\r\n', '\r\nconnection: close\r\n');
      return [
        `closes as announced, too early: ${start.length}`,
        'retry: reset',
        closing(`${announced}ff`),
      ] as const;
    }),
    ['closes before the last chunk', 'retry: reset', closing(`${chunked}2\r\n{}\r\n`)],
    ['says more than it sends and waits', 'retry: timeout', replying(`${head}half`)],
    ['says less than it sends', 'ack: 200', replying(`${ok}{}{}{}`)],
    ['sends a second reply', 'ack: 200', replying(ok + ok.replace('200', '500'))],
    [
      'answers and reads nothing of a long body',
      'ack: 200',
      raw((socket) => {
        socket.pause();
        socket.write(ok);
      }),
      {},
      large,
    ],
  ];
  await check(rows);
});

function dripText(socket: Socket, text: string): void {
  let n = 0;
  const timer = setInterval(() => socket.write(text[n++ % text.length] ?? ''), 100);
  socket.on('close', () => clearInterval(timer));
}

it('a second reply to one request is ignored by the next job', async () => {
  const server = await startRawServer((socket) => void socket.write(ok + ok.replace('200', '500')));
  const { rig } = await seenOf({ first: { endpoint: { url: server.url } } });
  for (let n = 0; n < 5; n += 1) {
    await rig.push('t0', `b${n}`);
    await until('its delivery', () => rig.counted('t0', 'delivered') === n + 2);
  }
  expect(rig.notified().every(({ attempt, status }) => attempt === 1 && status === 200)).toBe(true);
  expect(server.connections()).toBe(6);
});

it('endless replies: dq reads until the timeout, memory stays flat', async () => {
  const bomb = gzipSync(Buffer.alloc(200 * 1024 * 1024));
  const endless: readonly (readonly [string, (socket: Socket) => void])[] = [
    [
      'of 1 GB',
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n');
        flood(socket, 1_000_000_000);
      },
    ],
    [
      'until it closes',
      (socket) => {
        socket.write('HTTP/1.0 200 OK\r\n\r\n');
        flood(socket, 1_000_000_000);
      },
    ],
    [
      'in chunks',
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
        const chunk = `8000\r\n${'x'.repeat(0x8000)}\r\n`;
        const pump = () => {
          while (!socket.destroyed && socket.write(chunk));
          if (!socket.destroyed) socket.once('drain', pump);
        };
        pump();
      },
    ],
    [
      'in one chunk',
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3b9aca00\r\n');
        flood(socket, 1_000_000_000);
      },
    ],
  ];
  const smallBomb = gzipSync(Buffer.alloc(10 * 1024 * 1024, ' '));
  const rows: Rows = [
    ...endless.flatMap(([name, onRequest]) => [
      [name, 'retry: timeout', raw(onRequest)] as const,
      [`${name}, with a rule`, 'retry: timeout', raw(onRequest), rule] as const,
    ]),
    ['a gzip bomb', 'ack: 200', saying(bomb, 'content-encoding: gzip')],
    ['a gzip bomb, with a rule', 'retry: reply_too_large 200', saying(bomb, 'content-encoding: gzip'), rule],
    [
      'a long reply of 500',
      'retry: status 500',
      replying(`HTTP/1.1 500 X\r\ncontent-length: ${bomb.length}\r\n\r\n`, bomb),
    ],
    // Only identity is accepted, so nothing is unpacked: the rule does not read it as JSON.
    ['a small gzip bomb', 'ack: 200', saying(smallBomb, 'content-encoding: gzip')],
    ['a small gzip bomb, with a rule', 'retry: rule 200', saying(smallBomb, 'content-encoding: gzip'), rule],
    [
      'good JSON in gzip, with a rule',
      'retry: rule 200',
      saying(gzipSync('{"code":200}'), 'content-encoding: gzip'),
      rule,
    ],
    ['JSON with a false content-encoding', 'ack: 200', saying('{"code":200}', 'content-encoding: br'), rule],
  ];
  const before = memory();
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, memory() - before);
  }, 5);
  onTestFinished(() => clearInterval(watch));
  const { rig } = await check(rows);
  // The servers of this test run here too, and offered 15 GB.
  expect(peak).toBeLessThan(128 * 1024 * 1024);
  for (const { reply } of rig.notified())
    expect(String(reply ?? '').length).toBeLessThanOrEqual(notifierLimits.replyExcerptMax);
});

function memory(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
