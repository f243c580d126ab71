// Receivers that are unreachable, silent, endless or that break off: one request each, a free slot, flat
// memory.
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { expect, it, onTestFinished } from 'vitest';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { startBlackHole } from '../support/black-hole.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { startRawServer } from '../support/raw-server.ts';
import { at, check, type Rows } from './attempt-table.ts';
import { closing, dripping, flooding, ok, raw, replying, saying } from './receivers.ts';

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
  const rig = await check(rows, {}, async (ended) => {
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
    ['drips its headers', 'retry: timeout', dripping('x-a: b\r\n', 20, 'HTTP/1.1 200 OK\r\n')],
    ['drips its body', 'retry: timeout', dripping('x', 20, head)],
    ['drips chunks', 'retry: timeout', dripping('1\r\nx\r\n', 20, chunked)],
    ['sends 100 for ever', 'retry: timeout', dripping('HTTP/1.1 100 Continue\r\n\r\n', 5)],
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

it('endless replies: dq reads until the timeout, memory stays flat', async () => {
  const bomb = gzipSync(Buffer.alloc(200 * 1024 * 1024));
  const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
  const chunk = `8000\r\n${'x'.repeat(0x8000)}\r\n`;
  const inChunks = (socket: Socket) => {
    socket.write(chunked);
    const pump = () => {
      while (!socket.destroyed && socket.write(chunk));
      if (!socket.destroyed) socket.once('drain', pump);
    };
    pump();
  };
  const endless = [
    ['of 1 GB', flooding('HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n')],
    ['until it closes', flooding('HTTP/1.0 200 OK\r\n\r\n')],
    ['in chunks', raw(inChunks)],
    ['in one chunk', flooding(`${chunked}3b9aca00\r\n`)],
  ] as const;
  const smallBomb = gzipSync(Buffer.alloc(10 * 1024 * 1024, ' '));
  const rows: Rows = [
    ...endless.flatMap(([name, receiver]) => [
      [name, 'retry: timeout', receiver] as const,
      [`${name}, with a rule`, 'retry: timeout', receiver, rule] as const,
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
  const rig = await check(rows);
  // The servers of this test run here too, and offered 15 GB.
  expect(peak).toBeLessThan(128 * 1024 * 1024);
  for (const { reply } of rig.notified())
    expect(String(reply ?? '').length).toBeLessThanOrEqual(notifierLimits.replyExcerptMax);
});

function memory(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
