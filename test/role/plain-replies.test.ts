// Compares the two clients of callbacks over plain HTTP: for any reply, whole, torn or wrong, dq's own
// connections and undici's give a call the same end. DQ_REPLY_CASES=20000 tries more replies.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, expect, it, onTestFinished, vi } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import { Call, type CallEnd } from '../../src/notifier/call-back.ts';
import { Pools } from '../../src/notifier/pools.ts';
import { ticker } from '../../src/runtime/second-ticker.ts';
import { startBlackHole } from '../support/black-hole.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { startRawServer } from '../support/raw-server.ts';
import { until } from '../support/until.ts';
import { texts } from '../support/words.ts';

const cases = Number(process.env['DQ_REPLY_CASES'] ?? 400);
const seed = Number(process.env['DQ_REPLY_SEED'] ?? 1);
const secondReply = 'HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecond';
/** The same, from a receiver that keeps the connection for as long as dq accepts. */
const keptReply = secondReply.replace('\r\n\r\n', '\r\nkeep-alive: timeout=12\r\n\r\n');

interface Case {
  readonly pieces: readonly Buffer[];
  readonly ending: 'end' | 'reset';
}

const egress = { refuses: () => null } as never;
const trial = { admits: () => false, egress } as never;
const clients = {
  own: new Pools({ egress, trial, slots: 1_000 }),
  undici: new Pools({ egress, trial, slots: 1_000, seams: { plain: false } }),
};
afterAll(() => Promise.all([clients.own.close(), clients.undici.close()]));

/** Calls once, over dq's own connections unless others are given. */
const callOnce = (origin: string, more: object = {}, pools = clients.own) =>
  new Promise<CallEnd>((resolve) => {
    const usual = { origin, path: '/', method: 'POST' as const, headers: {}, body: Buffer.from('{}') };
    new Call(pools, { options: { ...usual, ...more }, check: 'verified', timeoutMs: 30_000 }, resolve);
  });

const heads = [
  ...['HTTP/1.1 200 OK', 'HTTP/1.1 204 No Content', 'HTTP/1.1 500 ', 'HTTP/1.1 404', 'HTTP/1.1 304 X'],
  ...['HTTP/1.0 200 OK', 'HTTP/1.1 100 Continue', 'HTTP/1.1 103 Early', 'HTTP/1.1 101 Switching'],
  ...[
    ...texts`HTTP/1.1 200 Tür | HTTP/2 200 | HTTP/1.1 099 X | HTTP/1.1 2000 X | http/1.1 200 OK`,
    'HTTP/1.1  200',
  ],
];
const lines = [
  ...texts`
    content-length: 4 | Content-Length: 4 | content-length:4 | content-length: 04 | content-length: +4
  `,
  ...texts`
    content-length: 0 | content-length: 5 | content-length: 4, 4 | content-length: 99999999999999999999
  `,
  ...texts`
    transfer-encoding: chunked | Transfer-Encoding: gzip | transfer-encoding: identity | content-length : 4
  `,
  ...['connection: close', 'Connection: Keep-Alive', 'connection: upgrade', 'connection: keep-alive, x'],
  ...['keep-alive: timeout=5', 'keep-alive: timeout=1', 'keep-alive: x', 'upgrade: h2c', 'trailer: x'],
  ...[
    'x-a: 1',
    'X-A: 2',
    'x-a:',
    'x-a:   3 \t',
    ...texts`x-ü: 1 | x-b: ü | x a: 1 | : 1 | x-a`,
    ' folded',
    '\tfolded',
  ],
  ...texts`
    constructor: 1 | __proto__: 1 | toString: x | retry-after: 5 | dq-no-retry: true | set-cookie: a=b
  `,
  ...['x-c: a\u0000b', 'x-c: a\rb', 'x-c: a\nb', 'content-encoding: gzip', `x-d: ${'y'.repeat(9_000)}`],
];
const bodies = [
  ...[
    '',
    '{}ab',
    '{}abc',
    '{}',
    '4\r\n{}ab\r\n0\r\n\r\n',
    '4;x=y\r\n{}ab\r\n0\r\nx: y\r\n\r\n',
    '4\r\n{}ab\r\n',
  ],
  ...['zz\r\n', secondReply, `{}ab${secondReply}`, `{}ab\r\n${secondReply}`, 'ü\u0000'],
];

function caseOf(dice: Dice): Case {
  const feed = dice.chance(0.95) ? '\r\n' : dice.pick(['\n', '\r', '\r\r\n']);
  const first = dice.chance(0.6) ? 'HTTP/1.1 200 OK' : dice.pick(heads);
  const length = dice.chance(0.6) ? ['content-length: 4'] : [];
  const more = Array.from({ length: dice.below(3) }, () => dice.pick(lines));
  const body = dice.chance(0.5) ? '{}ab' : dice.pick(bodies);
  let bytes = Buffer.from(
    [first, ...length, ...more, '', body].join(feed),
    dice.chance(0.9) ? 'utf8' : 'latin1',
  );
  if (dice.chance(0.1)) bytes = bytes.subarray(0, dice.below(bytes.length));
  if (dice.chance(0.15) && bytes.length > 0) bytes[dice.below(bytes.length)] = dice.below(256);
  if (dice.chance(0.1)) bytes = Buffer.concat([bytes, Buffer.from(secondReply)]);
  const cuts = dice.chance(0.5)
    ? []
    : Array.from({ length: 1 + dice.below(3) }, () => dice.below(bytes.length + 1));
  const places = [0, ...cuts.sort((a, b) => a - b), bytes.length];
  const pieces = places.slice(1).map((to, n) => bytes.subarray(places[n], to));
  return { pieces, ending: dice.chance(0.8) ? 'end' : 'reset' };
}

async function serve(socket: Socket, { pieces }: Case): Promise<void> {
  for (const piece of pieces) {
    if (piece.length > 0 && !socket.destroyed) socket.write(piece);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** The end of a call, as far as it decides anything. */
function told(end: CallEnd): unknown {
  if (end.kind !== 'replied') return end;
  const headers = Object.fromEntries(end.headerNames().map((name) => [name, end.header(name)]));
  return { status: end.status, text: end.text, bytes: end.bytes, cut: end.cut, headers };
}

it('replies: both clients give a call the same end', async () => {
  const dice = new Dice(seed);
  const all = Array.from({ length: cases }, () => caseOf(dice));
  /** requests by case, client and turn */
  const seen = new Map<string, number>();
  const server = createServer((socket) => {
    const [, , high, low] = (socket.localAddress ?? '').split('.').map(Number) as [
      number,
      number,
      number,
      number,
    ];
    const one = all[high * 200 + low] as Case;
    let requests = 0;
    let timer: NodeJS.Timeout | undefined;
    socket.on('error', () => {});
    socket.on('close', () => clearTimeout(timer));
    socket.on('data', (data) => {
      const [, client, turn] = /x-client: (\w+)\r\nx-turn: (\d)/.exec(data.toString('latin1')) ?? [];
      if (client === undefined) return;
      clearTimeout(timer);
      requests += 1;
      const name = `${high * 200 + low} ${client} ${turn}`;
      seen.set(name, (seen.get(name) ?? 0) + 1);
      if (turn === '2') {
        socket.end(secondReply);
        return;
      }
      void serve(socket, one).then(() => {
        const close = () => (one.ending === 'end' ? socket.end() : socket.resetAndDestroy());
        if (requests === 1) timer = setTimeout(close, 30);
      });
    });
  }).listen(0, '0.0.0.0');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const call = (client: keyof typeof clients, at: number, turn: number) => {
    const origin = `http://127.0.${Math.floor(at / 200)}.${at % 200}:${port}`;
    return callOnce(origin, { headers: { 'x-client': client, 'x-turn': String(turn) } }, clients[client]);
  };
  for (let from = 0; from < cases; from += 200) {
    await Promise.all(
      all.slice(from, from + 200).map(async (one, n) => {
        const at = from + n;
        const ends: unknown[] = [];
        for (const client of ['own', 'undici'] as const) {
          const first = told(await call(client, at, 1));
          const second = await call(client, at, 2);
          ends.push(first);
          const text =
            second.kind === 'replied'
              ? second.text
              : second.kind === 'no_reply'
                ? second.reason
                : second.kind;
          // protocol: surplus bytes of the first reply came during the second request.
          expect(['second', 'reset', 'protocol'], `${client} ${describe(one)}`).toContain(text);
          expect(seen.get(`${at} ${client} 1`), describe(one)).toBe(1);
          // Surplus bytes may have been its reply before the server read it. The close of a kept connection
          // may have met it; then it was sent again.
          expect(seen.get(`${at} ${client} 2`) ?? 0, describe(one)).toBeLessThan(3);
        }
        expect(ends[0], describe(one)).toEqual(ends[1]);
      }),
    );
  }
  server.close();
});

const describe = ({ pieces, ending }: Case) =>
  `${pieces.map((piece) => JSON.stringify(piece.toString('latin1'))).join(' + ')} ${ending}`;

/** Returns when the bytes are in the receive buffer of the other side. That side is this process, too, and
 *  has not read them yet. A busy kernel moves them there a moment after the write. */
function writeUnread(socket: Socket, text: string): void {
  const hex = (port: number | undefined) => (port ?? 0).toString(16).toUpperCase().padStart(4, '0');
  const [from, to] = [hex(socket.localPort), hex(socket.remotePort)];
  const unread = new RegExp(`:${to} [0-9A-F]{8}:${from} [0-9A-F]{2} [0-9A-F]{8}:(?!0{8})`);
  socket.write(text);
  const end = performance.now() + 10_000;
  while (!unread.test(readFileSync('/proc/net/tcp', 'latin1')))
    if (performance.now() > end) throw new Error('the bytes did not arrive');
}

it.each([
  ['within its last turn of the event loop', (send: () => void) => send()],
  ['while it is idle', (send: () => void) => setImmediate(send)],
])('a reply without a request %s: the next request goes over another connection', async (_when, later) => {
  const sockets: Socket[] = [];
  const server = await startRawServer((socket) => {
    if (!sockets.includes(socket)) sockets.push(socket);
    // Or the bytes below wait for the acknowledgement that the next request brings.
    socket.setNoDelay(true);
    socket.write(keptReply);
  });
  const origin = new URL(server.url).origin;
  expect(told(await callOnce(origin))).toMatchObject({ text: 'second' });
  expect(told(await callOnce(origin))).toMatchObject({ text: 'second' });
  expect(sockets).toHaveLength(1);
  await new Promise<void>((resolve) => {
    later(() => {
      writeUnread(sockets[0] as Socket, secondReply.replace('200', '500'));
      resolve();
    });
  });
  expect(told(await callOnce(origin))).toMatchObject({ status: 200 });
  expect(sockets).toHaveLength(2);
});

it('a usual request is written as undici writes it', async () => {
  const server = await startRawServer((socket) => void socket.end(secondReply));
  const { origin } = new URL(server.url);
  const headers = { 'content-type': 'text/plain; x=ü', 'x-a': 'b', 'dq-job-id': '1' };
  for (const method of ['POST', 'PUT'] as const)
    for (const body of [Buffer.from('ü\0\xff{}', 'latin1'), Buffer.alloc(0), Buffer.alloc(16 * 1024, 'x')]) {
      for (const client of ['own', 'undici'] as const)
        await callOnce(origin, { path: '/a?b=c', method, headers, body }, clients[client]);
      await until('both have closed', () => server.open.size === 0);
    }
  const texts = server.connections();
  expect(texts).toBe(12);
  const requests = server.received.join('').split(/(?=(?:POST|PUT) \/)/);
  for (let n = 0; n < 12; n += 2) expect(requests[n]).toBe(requests[n + 1]);
});

it.each([
  ['a value with a line feed', { headers: { 'x-a': 'a\nb: c' } }],
  ['a name with a line feed', { headers: { 'x-a: b\r\nx-b': 'c' } }],
  ['a second length', { headers: { 'content-length': '9' } }],
  ['a length and chunks', { headers: { 'Transfer-Encoding': 'chunked' } }],
  ['a blank in the path', { path: '/a HTTP/1.1' }],
  ['a character without a byte in the path', { path: '/\u1234' }],
  ['a path that is a host', { path: '@other/' }],
])('a request with %s is not sent', async (_name, part) => {
  const server = await startRawServer((socket) => void socket.end(secondReply));
  const { origin } = new URL(server.url);
  expect((await callOnce(origin, part)).kind).toBe('no_reply');
  expect(server.received).toEqual([]);
});

it('the end of the connections ends every request: unsent, unanswered, and half answered', async () => {
  const pools = new Pools({ egress, trial, slots: 10 });
  const ends: string[] = [];
  const server = await startRawServer((socket, n) => {
    if (n === 1) socket.write(secondReply);
    else if (n === 3) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf');
    else if (n === 4) socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
  });
  const idle = await startRawServer((socket) => void socket.write(secondReply));
  const hole = await startBlackHole();
  const start = async (origin: string) => {
    const end = await callOnce(origin, {}, pools);
    ends.push(end.kind === 'no_reply' ? end.reason : end.kind);
  };
  const { origin } = new URL(server.url);
  await start(origin);
  await start(new URL(idle.url).origin);
  for (let n = 2; n <= 4; n += 1) {
    void start(origin);
    await until('the request is there', () => server.received.length === n);
  }
  const unsent = [start(new URL(hole).origin), start(new URL(idle.url).origin)];
  await pools.close();
  await Promise.all(unsent);
  await until('all connections are closed', () => server.open.size + idle.open.size === 0);
  expect(ends).toEqual(['replied', 'replied', 'reset', 'reset', 'reset', 'reset', 'reset']);
  expect(idle.received).toHaveLength(1);
});

it('a request that joins waiting ones waits a whole turn of the event loop, too', async () => {
  const sockets: Socket[] = [];
  const server = await startRawServer((socket, n) => {
    if (n <= 2) sockets.push(socket);
    else socket.write(secondReply);
  });
  const { origin } = new URL(server.url);
  const kept = [callOnce(origin), callOnce(origin)];
  await until('both requests are there', () => sockets.length === 2);
  const [joined, first] = sockets as [Socket, Socket];
  // The order in which they are kept; the last one is used first.
  joined.setNoDelay(true).write(keptReply);
  await Promise.race(kept);
  first.write(keptReply);
  await Promise.all(kept);
  const ends: Promise<CallEnd>[] = [];
  const turn = await startRawServer(() => {
    // This process looks at the socket in the next turn.
    writeUnread(joined, secondReply.replace('200', '500'));
    ends.push(callOnce(origin));
  });
  const wake = connect(turn.port, '127.0.0.1').setNoDelay(true);
  onTestFinished(() => void wake.destroy());
  await once(wake, 'connect');
  await until('the other side has accepted it', () => turn.open.size === 1);
  setImmediate(() => {
    ends.push(callOnce(origin));
    setImmediate(() => wake.write('x'));
  });
  await until('both calls have started', () => ends.length === 2);
  for (const end of await Promise.all(ends)) expect(told(end)).toMatchObject({ status: 200 });
  expect(server.connections()).toBe(3);
});

it.each(['first', 'last'])(
  'kept connections that all close, the last used one %s: an unsent request goes over a new one',
  async (place) => {
    const sockets: Socket[] = [];
    const server = await startRawServer((socket, n) => {
      if (n <= 3) sockets.push(socket);
      if (n === 3) for (const each of sockets) each.write(secondReply);
      if (n > 3) socket.write(secondReply);
    });
    const { origin } = new URL(server.url);
    await Promise.all([callOnce(origin), callOnce(origin), callOnce(origin)]);
    // Then the kernel reports the ends in their order.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    for (const socket of place === 'last' ? sockets : sockets.reverse()) socket.destroy();
    expect(told(await callOnce(origin))).toMatchObject({ text: 'second' });
    expect(server.received).toHaveLength(4);
  },
);

it('a receiver with unusual replies: one connection after the first is kept', async () => {
  const server = await startRawServer((socket) => {
    socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n');
  });
  const { origin } = new URL(server.url);
  expect(told(await callOnce(origin))).toMatchObject({ text: 'ok' });
  await until('the first connection is closed', () => server.open.size === 0);
  for (let n = 0; n < 3; n += 1) {
    expect(told(await callOnce(origin))).toMatchObject({ text: 'ok' });
    // Its events of this turn are done.
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(server.connections()).toBe(2);
});

it('a receiver that keeps connections for 2 s gets no second request over one', async () => {
  const server = await startRawServer((socket) => {
    socket.write(secondReply.replace('\r\n\r\n', '\r\nkeep-alive: timeout=2\r\n\r\n'));
  });
  const { origin } = new URL(server.url);
  // Without the sweep, which closes it later.
  const each = vi.spyOn(ticker(), 'each').mockReturnValue(() => {});
  onTestFinished(() => each.mockRestore());
  await callOnce(origin);
  await until('the connection is closed', () => server.open.size === 0);
});

it('a kept connection without a further request closes when its time is over', async () => {
  const time = useJumpingTime();
  const server = await startRawServer((socket) => {
    socket.write(secondReply.replace('\r\n\r\n', '\r\nkeep-alive: timeout=60\r\n\r\n'));
  });
  const { origin } = new URL(server.url);
  await callOnce(origin);
  await time.passUntil('the connection is closed', () => server.open.size === 0, 5_000);
  await callOnce(origin);
  await time.passUntil('the next one, too', () => server.connections() === 2 && server.open.size === 0);
});

it('a connection of a pool that became too old closes with its reply', async () => {
  const ageMs = 40;
  // Without the sweep, which closes it later.
  const each = vi.spyOn(ticker(), 'each').mockReturnValue(() => {});
  onTestFinished(() => each.mockRestore());
  const pools = new Pools({ egress, trial, slots: 10, seams: { connectionAgeMsMax: ageMs } });
  onTestFinished(() => pools.close());
  const waiting: Socket[] = [];
  const server = await startRawServer((socket) => void waiting.push(socket));
  const { origin } = new URL(server.url);
  const ended = callOnce(origin, {}, pools);
  const startedAt = performance.now();
  await until('the pool is too old', () => waiting.length === 1 && performance.now() > startedAt + 2 * ageMs);
  waiting[0]?.write(secondReply);
  expect(told(await ended)).toMatchObject({ text: 'second' });
  await until('the connection is closed', () => server.open.size === 0);
});
