// Tests connections with unusual requests: slow, broken, incomplete, too large, pipelined. Every request gets
// its own answer or a closed connection, never the answer of another request.
import { type AddressInfo, connect, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type FrontTimes, HttpFront } from '../../src/api/http/http-front.ts';
import { DqError } from '../../src/core/errors.ts';
import { heldPushes, startIntake, type TestIntake, withJobs } from '../support/intake.ts';
import { until } from '../support/until.ts';

/** Times for fast clients: a busy machine must not make them slow. */
const times: FrontTimes = {
  ...{ headersTimeoutMs: 20_000, requestTimeoutMs: 30_000, connectionsCheckMs: 50 },
  ...{ connectionTimeoutMs: 60_000, keepAliveMs: 300, lingerMs: 2_000 },
};
/** Times for slow clients. */
const short: FrontTimes = { ...times, headersTimeoutMs: 300, requestTimeoutMs: 600, lingerMs: 500 };

const push = (id: string, body = '1', headers = '') =>
  `POST /v1/topics/t/jobs?id=${id} HTTP/1.1\r\nhost: localhost\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;
const statuses = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => Number(match[1]));

async function withTopic(dq: TestIntake): Promise<TestIntake> {
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9000/' });
  return dq;
}

/** Nothing of this process runs, its clients neither. */
const standStill = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

describe('broken HTTP', () => {
  it('gets a problem, then dq closes', async () => {
    const dq = await startIntake({ times });
    const long = `x: ${'a'.repeat(17_000)}\r\n`;
    for (const [text, status] of [
      ['nonsense\r\n\r\n', 400],
      ['\0\0\0\0\0\0\0\0', 400],
      ['PUSH /livez HTTP/1.1\r\nhost: localhost\r\n\r\n', 400],
      ['GET /li vez HTTP/1.1\r\nhost: localhost\r\n\r\n', 400],
      ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
      [`GET /livez HTTP/1.1\r\nhost: localhost\r\n${long}\r\n`, 431],
    ] as const) {
      const connection = dq.open();
      connection.send(Buffer.from(text, 'latin1'));
      const reply = await connection.closed;
      expect(statuses(reply), text).toEqual([status]);
      expect(reply).toContain('content-type: application/problem+json');
      const body = JSON.parse(reply.slice(reply.indexOf('{')));
      expect(body).toMatchObject({ status, code: 'invalid', errors: [] });
    }
    expect((await dq.api('GET', '/livez')).status).toBe(200);
  });

  it('an unknown expectation is 417; 100-continue is met', async () => {
    const dq = await withTopic(await startIntake({ times }));
    const odd = dq.open();
    odd.send(push('a', '1', 'expect: tea\r\n'));
    expect(statuses(await odd.closed)).toEqual([417]);
    const usual = dq.open();
    usual.send(push('b', '1', 'expect: 100-continue\r\nconnection: close\r\n'));
    expect(statuses(await usual.closed)).toEqual([100, 201]);
  });
});

describe('odd HTTP', () => {
  const start = 'POST /v1/topics/t/jobs?id=odd HTTP/1.1\r\nhost: localhost\r\n';
  const coding = `${start}transfer-encoding: `;
  /** plain-push.test.ts has those that a push could look like. */
  const rejected: readonly (readonly [what: string, text: string, status: number])[] = [
    ['authority form', 'CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n', 0],
    ['asterisk form', 'OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n', 400],
    ['a null byte in the path', start.replace('odd', 'a\0b').concat('\r\n'), 400],
    ['another transfer encoding', `${coding}gzip\r\n\r\n`, 400],
    ['chunks that are not last', `${coding}chunked, gzip\r\n\r\n`, 400],
    ['an invalid chunk size', `${coding}chunked\r\n\r\nxyz\r\n`, 400],
    ['a chunk size without end', `${coding}chunked\r\n\r\n${'f'.repeat(40)}\r\n`, 400],
    ['a length beyond all numbers', `${start}content-length: ${'9'.repeat(30)}\r\n\r\n1`, 400],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ];

  it('is rejected without effect, and leaves nothing in flight', async () => {
    const dq = await withTopic(await startIntake({ times: short }));
    // As the first bytes of a connection, and where node:http reads it already.
    for (const [what, text, status, isFirst] of rejected.flatMap((one) => [
      [...one, true] as const,
      [...one, false] as const,
    ])) {
      const connection = dq.open();
      if (!isFirst) {
        connection.send('GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n');
        await until('node:http reads', () => connection.received().endsWith('}'));
      }
      const skipped = connection.received().length;
      connection.send(Buffer.from(text));
      // A request that needs more bytes ends as too slow.
      const reply = (await connection.closed).slice(skipped);
      expect(statuses(reply), `${what}: ${reply}`).toEqual(status === 0 ? [] : [status]);
      if (status !== 0) expect(reply, what).toContain('application/problem+json');
      expect((await dq.store.admin.counts()).topics, what).toEqual({});
    }
    await until('nothing is in flight', () => dq.role.inFlight() === 0);
    expect(dq.errors).toEqual([]);
  });

  it('a header after thousands of others counts', async () => {
    const dq = await startIntake({ times });
    const connection = dq.open();
    const many = 'a:b\r\n'.repeat(3_000);
    connection.send(`GET /v1/topics HTTP/1.1\r\nhost: localhost\r\n${many}authorization: Bearer no\r\n\r\n`);
    expect(statuses(await connection.closed)).toEqual([401]);
  });

  it('valid but rare HTTP is answered: HTTP/1.0, unknown upgrades, trailers', async () => {
    const dq = await withTopic(await startIntake({ times }));
    const answered: readonly (readonly [text: string, status: number])[] = [
      ['GET /livez HTTP/1.0\r\n\r\n', 200],
      ['GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n', 200],
      [
        'POST /v1/topics/t/jobs?id=c HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n1;x=y\r\n1\r\n0\r\nx: y\r\n\r\n',
        201,
      ],
    ];
    for (const [text, status] of answered) {
      const connection = dq.open();
      connection.send(text);
      expect(statuses(await connection.closed), text).toEqual([status]);
    }
    expect((await dq.api('GET', '/v1/topics/t/jobs/c')).body.body).toBe('1');
  });
});

describe('slow clients', () => {
  it('after a pause of dq or of the machine, a request has time to arrive', async () => {
    const front = new HttpFront({
      admit: () => new DqError('unauthorized', 'nothing is admitted'),
      observer: { onAnswer: () => {}, onRejected: () => {} },
      times: short,
    });
    const { server } = front;
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => front.drain(0));
    const text = push('paused');
    const afterPause = async (early: number, atOnce: boolean) => {
      const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
      const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
      const reply = new Promise<string>((resolve) => client.once('data', (data) => resolve(String(data))));
      await new Promise((resolve) => client.once('connect', resolve));
      const socket = await accepted;
      client.write(text.slice(0, early));
      await until('dq has read the first bytes', () => socket.bytesRead === early);
      if (atOnce) client.write(text.slice(early));
      standStill(2 * short.headersTimeoutMs);
      // The client, too: it sends after the check for slow requests, and after the next one.
      if (!atOnce) setTimeout(() => client.write(text.slice(early)), 2 * short.connectionsCheckMs);
      return { reply, client };
    };
    // A server that starts keeps requests until its API exists.
    const starting = await afterPause(0, true);
    await until('the request has arrived', () => starting.client.bytesWritten === text.length);
    setTimeout(() => front.begin(), 400);
    expect(statuses(await starting.reply), 'before the API exists').toEqual([401]);
    starting.client.destroy();
    // All after the pause began, and the header's second half; read at once, and sent later.
    for (const [early, atOnce] of [
      [0, true],
      [30, true],
      [0, false],
      [30, false],
    ] as const) {
      const { reply, client } = await afterPause(early, atOnce);
      expect(statuses(await reply), `${early} bytes before, ${atOnce}`).toEqual([401]);
      client.destroy();
    }
  });

  it('pauses that last longer than the limit leave a request its time while dq reads', async () => {
    const slower = { ...short, headersTimeoutMs: 3_000, requestTimeoutMs: 3_000 };
    const dq = await withTopic(await startIntake({ times: slower }));
    // In the header, and in the body.
    const open = (
      [
        ['header', 30],
        ['body', 150],
      ] as const
    ).map(([id, early]) => {
      const text = push(id, `"${'x'.repeat(100)}"`);
      const connection = dq.open();
      connection.send(text.slice(0, early));
      return { ...connection, id, rest: text.slice(early) };
    });
    // dq reads the first bytes after the first pause, and Node's check names the request after the second.
    for (const _ of ['first', 'second', 'third']) {
      standStill(slower.headersTimeoutMs);
      await new Promise((resolve) => setTimeout(resolve, 2 * slower.connectionsCheckMs));
    }
    for (const { send, rest } of open) send(rest);
    for (const { id, received, socket } of open) {
      await until('a reply', () => statuses(received()).length > 0);
      expect(statuses(received()), id).toEqual([201]);
      socket.destroy();
    }
  });

  it('after a pause longer than the idle time, a request on a kept connection is answered', async () => {
    const dq = await startIntake({ times });
    const connection = dq.open();
    const text = 'GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n';
    connection.send(text);
    await until('the first answer', () => statuses(connection.received()).length === 1);
    // Of a turn of the event loop, timers come before reading; this is after reading.
    await new Promise((resolve) => setImmediate(resolve));
    connection.send(text);
    // Node keeps a connection for a second more than it advertises.
    standStill(times.keepAliveMs + 1_500);
    expect(statuses(await connection.closed)).toEqual([200, 200]);
  });

  it('a header that arrives late has a body that must arrive, too', async () => {
    const dq = await withTopic(await startIntake({ times: { ...short, headersTimeoutMs: 600 } }));
    const connection = dq.open();
    const [start, end] = [push('late', '12').slice(0, 30), push('late', '12').slice(30, -1)];
    connection.send(start);
    setTimeout(() => connection.send(end), 400);
    const reply = await connection.closed;
    expect(statuses(reply)).toEqual([408]);
    expect((await dq.api('GET', '/v1/topics/t/jobs/late')).status).toBe(404);
  });

  it('a dripping body is 408 and closed, and nothing is stored', async () => {
    const dq = await withTopic(await startIntake({ times: short }));
    const connection = dq.open();
    connection.send(
      'POST /v1/topics/t/jobs?id=slow HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n',
    );
    const drip = setInterval(() => connection.socket.write('x'), 50);
    const reply = await connection.closed;
    clearInterval(drip);
    expect(statuses(reply)).toEqual([408]);
    expect((await dq.api('GET', '/v1/topics/t/jobs/slow')).status).toBe(404);
    await until('nothing is in flight', () => dq.role.inFlight() === 0);
  });

  it('an incomplete body stores nothing and leaves nothing in flight', async () => {
    const dq = await withTopic(await startIntake({ times }));
    const connection = dq.open();
    connection.send(
      'POST /v1/topics/t/jobs?id=cut HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\nabc',
    );
    await until('the request is being read', () => dq.role.inFlight() === 1);
    connection.socket.destroy();
    await until('nothing is in flight', () => dq.role.inFlight() === 0);
    expect((await dq.api('GET', '/v1/topics/t/jobs/cut')).status).toBe(404);
    expect(dq.errors).toEqual([]);
  });

  it('a push survives its client', async () => {
    const hold = heldPushes();
    const dq = await withTopic(await startIntake({ times, store: hold.store }));
    const connection = dq.open();
    connection.send(push('left') + push('left2'));
    await until('both are with the store', () => hold.waiting() > 0 && dq.role.inFlight() === 2);
    connection.socket.destroy();
    await until('no request is in flight', () => dq.role.inFlight() === 0);
    hold.release();
    await until(
      'they are stored',
      async () => (await dq.api('GET', '/v1/topics/t/jobs/left2')).status === 200,
    );
    expect(dq.requests.filter(({ status }) => status === 201)).toHaveLength(2);
  });
});

describe('bodies over the limit', () => {
  const tooLarge = (id: string, length: number) =>
    `POST /v1/topics/t/jobs?id=${id} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${length}\r\n\r\n`;

  it('are rejected unread, and the answer arrives while the client writes', async () => {
    const dq = await withTopic(await startIntake({ times, config: { 'limits.bodyBytes': 1_000 } }));
    const connection = dq.open();
    // Writes for a while before it reads, like a client that sends its body at once.
    connection.socket.pause();
    connection.send(tooLarge('big', 4_000_000));
    let written = 0;
    const writing = setInterval(() => {
      written += 1;
      connection.send(Buffer.alloc(10_000));
    }, 10);
    await until('it has written for a while', () => written >= 20);
    clearInterval(writing);
    connection.socket.resume();
    const reply = await connection.closed;
    expect(statuses(reply)).toEqual([413]);
    expect(reply).not.toContain('(reset)');
    expect(reply.toLowerCase()).toContain('connection: close');
  });

  it('endless chunks end at the limit', async () => {
    const dq = await withTopic(await startIntake({ times, config: { 'limits.bodyBytes': 1_000 } }));
    const connection = dq.open();
    connection.send(
      'POST /v1/topics/t/jobs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n',
    );
    const chunk = `400\r\n${'x'.repeat(1024)}\r\n`;
    const flood = setInterval(() => connection.socket.write(chunk), 5);
    const reply = await connection.closed;
    clearInterval(flood);
    expect(statuses(reply)).toEqual([413]);
  });

  it('a request pipelined after one has no effect', async () => {
    const dq = await withTopic(await startIntake({ times, config: { 'limits.bodyBytes': 10 } }));
    const connection = dq.open();
    connection.send(tooLarge('big', 11) + 'x'.repeat(11) + push('behind'));
    expect(statuses(await connection.closed)).toEqual([413]);
    expect((await dq.api('GET', '/v1/topics/t/jobs/behind')).status).toBe(404);
    expect(dq.role.inFlight()).toBe(0);
  });
});

/** Each response with its body, by its content-length. */
function repliesIn(text: string): { readonly status: number; readonly body: unknown }[] {
  const replies = [];
  for (let rest = text; rest !== ''; ) {
    const end = rest.indexOf('\r\n\r\n') + 4;
    // An invitation to send a body.
    if (rest.startsWith('HTTP/1.1 100 ')) {
      rest = rest.slice(end);
      continue;
    }
    const length = Number(/content-length: (\d+)/i.exec(rest.slice(0, end))?.[1]);
    replies.push({ status: Number(rest.slice(9, 12)), body: JSON.parse(rest.slice(end, end + length)) });
    rest = rest.slice(end + length);
  }
  return replies;
}

describe('pipelining', () => {
  it('a 100 Continue never enters the answer of an earlier request', async () => {
    const hold = heldPushes();
    const dq = await withTopic(await startIntake({ times, store: hold.store }));
    // A push with `te` is not plain, so node:http reads it, and the next one beside it.
    for (const [rejected, header, count] of [
      [true, '', 1],
      [false, '', 1],
      [true, 'te: x\r\n', 2],
      [false, 'te: x\r\n', 2],
    ] as const) {
      const connection = dq.open();
      const second = push('b', '1', 'expect: 100-continue\r\nconnection: close\r\n');
      connection.send(push('a', '1', header) + (rejected ? second.replace('/t/', '/none/') : second));
      await until('a push is with the store', () => hold.waiting() > 0);
      await until('both were read', () => dq.role.inFlight() === count);
      const letGo = setInterval(hold.release, 10);
      const replies = repliesIn(await connection.closed);
      clearInterval(letGo);
      expect(replies).toMatchObject([
        { body: { id: 'a' } },
        { body: rejected ? { code: 'topic_not_found' } : { id: 'b' } },
      ]);
    }
  });

  it('a rejected client gets no 100 Continue', async () => {
    const dq = await withTopic(await startIntake({ times }));
    const connection = dq.open();
    connection.send(
      'POST /v1/topics/t/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer no\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n',
    );
    expect(statuses(await connection.closed)).toEqual([401]);
  });

  it('pushes of one turn go in one store call, at most 100, in order', async () => {
    const sizes: number[] = [];
    const ids: string[] = [];
    const dq = await withTopic(
      await startIntake({
        times,
        store: withJobs(({ push: store }) => ({
          push: (jobs) => {
            sizes.push(jobs.length);
            ids.push(...jobs.map(({ id }) => id));
            return store(jobs);
          },
        })),
      }),
    );
    const connection = dq.open();
    const wanted = Array.from({ length: 300 }, (_, n) => `i${n}`);
    connection.send(wanted.map((id) => push(id)).join(''));
    await until('all are answered', () => statuses(connection.received()).length === 300);
    expect(ids).toEqual(wanted);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(100);
    expect(sizes.length).toBeLessThan(30);
  });
});
