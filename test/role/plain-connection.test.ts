// Tests connections whose requests a service takes from the socket: order, clients that leave or do not read,
// time limits, draining. plain-push.test.ts compares what is read.
import { type AddressInfo, connect, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type FrontTimes, HttpFront } from '../../src/api/http/http-front.ts';
import type { Answer } from '../../src/api/http/plain-connection.ts';
import { allRights } from '../../src/core/token.ts';
import { until } from '../support/until.ts';

const times: FrontTimes = {
  ...{ headersTimeoutMs: 20_000, requestTimeoutMs: 30_000, connectionsCheckMs: 50 },
  ...{ connectionTimeoutMs: 60_000, keepAliveMs: 5_000, lingerMs: 500 },
};

const plain = (path: string, body = '') =>
  `POST /${path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
const other = (path: string) => `GET /${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`;
const headers = { 'content-type': 'text/plain' };

/** The requests that a service has taken, each with its answer, and those of node:http, answered at once. */
async function start(changed: Partial<FrontTimes> = {}, answers?: string) {
  const taken = new Map<string, Answer>();
  const byNode: string[] = [];
  const statuses: number[] = [];
  const observer = { onAnswer: (status: number) => void statuses.push(status), onRejected: () => {} };
  const front = new HttpFront({ admit: () => allRights, observer, times: { ...times, ...changed } });
  front.serverFor((request, response) => {
    byNode.push(request.url ?? '');
    request.resume();
    response.end('node');
  });
  front.servePlain(({ url, begin }) => {
    const answer = begin();
    taken.set(url.slice(1), answer);
    if (answers !== undefined) answer.send(200, headers, answers);
    return true;
  });
  front.begin();
  const { server } = front;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => front.drain(0));
  const open = async () => {
    const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
    const client = connect({
      port: (server.address() as AddressInfo).port,
      host: '127.0.0.1',
      allowHalfOpen: true,
    });
    onTestFinished(() => void client.destroy());
    let received = '';
    client.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
    });
    client.on('end', () => client.end());
    client.on('error', () => {});
    const closed = new Promise<string>((resolve) => client.on('close', () => resolve(received)));
    return { client, served: await accepted, received: () => received, closed };
  };
  const answer = (path: string, status = 200) => taken.get(path)?.send(status, headers, path);
  return { front, taken, byNode, statuses, open, answer };
}

const bodiesIn = (text: string) => [...text.matchAll(/\r\n\r\n([a-z\d]*)/g)].map(([, body]) => body);
const closesIn = (text: string) => text.match(/connection: close/gi)?.length ?? 0;

describe('answers of plain requests', () => {
  it('leave in the order of the requests', async () => {
    const { front, taken, open, answer, statuses } = await start();
    const { client, received } = await open();
    client.write(plain('a') + plain('b') + plain('c'));
    await until('all are taken', () => taken.size === 3);
    expect(front.inFlight()).toBe(3);
    answer('c', 201);
    answer('b', 503);
    expect(statuses).toEqual([]);
    answer('a');
    await until('all are answered', () => bodiesIn(received()).length === 3);
    expect(bodiesIn(received())).toEqual(['a', 'b', 'c']);
    expect(statuses).toEqual([200, 503, 201]);
    expect(front.inFlight()).toBe(0);
  });

  it('leave before node:http gets what is behind them', async () => {
    const { taken, byNode, open, answer } = await start();
    const { client, served, received } = await open();
    client.write(plain('a') + other('b') + plain('c'));
    await until('the rest waits', () => taken.size === 1 && served.isPaused());
    // It arrives while dq does not read.
    client.write(plain('d') + other('e'));
    expect(byNode).toEqual([]);
    answer('a');
    await until('all are answered', () => bodiesIn(received()).length === 5);
    expect(bodiesIn(received())[0]).toBe('a');
    expect(byNode).toEqual(['/b', '/c', '/d', '/e']);
  });

  it('reach a client that ends its half within the next request', async () => {
    const { front, taken, byNode, open, answer } = await start();
    const { client, served, closed } = await open();
    client.write(`${plain('a')}GET /b HTTP/1.1\r\nho`);
    await until('the rest waits', () => taken.size === 1 && served.isPaused());
    client.end();
    await until('it ends', () => served.readableEnded);
    answer('a');
    expect(bodiesIn(await closed)).toEqual(['a']);
    expect([byNode, front.inFlight()]).toEqual([[], 0]);
  });

  it('a client that leaves gets none, and counts none', async () => {
    for (const leave of [
      (client: Socket) => client.resetAndDestroy(),
      (client: Socket) => client.destroy(),
      (client: Socket) => client.end(),
    ]) {
      const { front, taken, open, answer, statuses } = await start();
      const { client, served, received, closed } = await open();
      client.write(plain('a') + plain('b'));
      await until('both are taken', () => taken.size === 2);
      const gone = new Promise((resolve) => served.once('close', resolve));
      leave(client);
      await Promise.all([gone, closed]);
      expect(front.inFlight()).toBe(0);
      for (const path of ['b', 'a']) answer(path);
      expect([front.inFlight(), statuses, received()]).toEqual([0, [], '']);
    }
  });

  it('a client that does not read them is not read', async () => {
    const text = 'x'.repeat(1_000_000);
    const { taken, open } = await start({}, text);
    const { client, served, received } = await open();
    client.pause();
    const sent = 60;
    for (let n = 0; n < sent; n++) {
      client.write(plain(`${n}`));
      await until('it is taken, or dq reads no more', () => taken.size > n || served.isPaused());
    }
    expect(served.isPaused()).toBe(true);
    expect(taken.size).toBeLessThan(sent);
    client.resume();
    await until('all are answered', () => received().length > sent * text.length);
    await until('all have arrived', () => taken.size === sent && received().endsWith('x'));
    expect([...received().matchAll(/HTTP\/1.1 200/g)]).toHaveLength(sent);
  });

  it('that wait for an earlier one are bounded', async () => {
    const { taken, open, answer } = await start();
    const { client, served, received } = await open();
    client.write(plain('first'));
    await until('it is taken', () => taken.size === 1);
    const later = Array.from({ length: 200 }, (_, n) => `${n}`);
    client.write(later.map((path) => plain(path)).join(''));
    await until('they are taken', () => taken.size === 201);
    for (const path of later) taken.get(path)?.send(200, headers, path.padStart(1_000, 'x'));
    client.write(plain('last'));
    await until('it is taken', () => taken.has('last'));
    await until('dq reads no more', () => served.isPaused());
    answer('first');
    await until('dq reads again', () => !served.isPaused());
    answer('last');
    await until('all are answered', () => bodiesIn(received()).length === 202);
  });
});

describe('time limits of plain connections', () => {
  it('a client that sends nothing gets a 408', async () => {
    const { open } = await start({ headersTimeoutMs: 300 });
    expect(await (await open()).closed).toMatch(/^HTTP\/1\.1 408 /);
  });

  it('an idle connection ends after its advertised time, not while a request has no answer', async () => {
    const { taken, open, answer } = await start({ keepAliveMs: 0 });
    const { client, served, closed } = await open();
    client.write(plain('a'));
    await until('it is taken', () => taken.size === 1);
    const idleMs = served.timeout;
    await until('the idle time is over', () => served.timeout !== idleMs);
    answer('a');
    expect(served.timeout).toBe(idleMs);
    expect(bodiesIn(await closed)).toEqual(['a']);
  });

  it('a request without an answer ends after the time of a connection without traffic', async () => {
    const { front, taken, open } = await start({ keepAliveMs: 0, connectionTimeoutMs: 1_500 });
    const { client, closed } = await open();
    client.write(plain('a'));
    await until('it is taken', () => taken.size === 1);
    expect(await closed).toBe('');
    expect(front.inFlight()).toBe(0);
  });
});

describe('draining of plain connections', () => {
  it('the last answer of each closes it, and idle ones get their time', async () => {
    const { front, taken, byNode, open, answer } = await start({ keepAliveMs: 1_000 });
    const [pipelined, behind, idle, kept] = [await open(), await open(), await open(), await open()];
    pipelined.client.write(plain('a') + plain('b'));
    behind.client.write(plain('c') + other('d'));
    idle.client.write(plain('e'));
    kept.client.write(plain('f'));
    await until('all are taken', () => taken.size === 5 && behind.served.isPaused());
    for (const path of ['e', 'f']) answer(path);
    const drained = front.drain(60_000);
    kept.client.write(plain('g'));
    await until('it is taken', () => taken.has('g'));
    for (const path of ['a', 'b', 'c', 'g']) answer(path);
    await drained;
    const [ab, cd, e, fg] = await Promise.all([pipelined, behind, idle, kept].map(({ closed }) => closed));
    expect([ab, cd, e, fg].map((text = '') => [bodiesIn(text).length, closesIn(text)])).toEqual([
      ...[
        [2, 1],
        [2, 1],
        [1, 0],
        [2, 1],
      ],
    ]);
    expect(byNode).toEqual(['/d']);
  });

  it('ends at the deadline', async () => {
    const { front, taken, open } = await start();
    const [pending, silent] = [await open(), await open()];
    pending.client.write(plain('a'));
    await until('it is taken', () => taken.size === 1);
    await front.drain(100);
    expect(await Promise.all([pending.closed, silent.closed])).toEqual(['', '']);
    await until('nothing is in flight', () => front.inFlight() === 0);
  });
});
