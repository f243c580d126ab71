// Tests draining: no served client is reset, no accepted job is lost, and it ends.
import { Agent, request } from 'node:http';
import { expect, it } from 'vitest';
import type { FrontTimes } from '../../src/api/http/http-front.ts';
import { heldPushes, startIntake } from '../support/intake.ts';
import { refuses } from '../support/listening.ts';
import { until } from '../support/until.ts';

const times: FrontTimes = {
  ...{ headersTimeoutMs: 1_000, requestTimeoutMs: 2_000, connectionsCheckMs: 50, connectionTimeoutMs: 5_000 },
  ...{ keepAliveMs: 4_000, lingerMs: 500 },
};

const get = 'GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n';

it('drain: serves kept connections, sends close, accepts no new connection', async () => {
  const dq = await startIntake({ times });
  const connection = dq.open();
  connection.send(get);
  await until('the first answer', () => connection.received().includes('"live":true'));
  expect(connection.received()).toMatch(/connection: keep-alive\r\nkeep-alive: timeout=/i);
  const drained = dq.role.drain(10_000);
  await until('the port is closed', () => refuses(dq.port));
  connection.send(get);
  const all = await connection.closed;
  expect(all.match(/HTTP\/1\.1 200/g)).toHaveLength(2);
  expect(all).not.toContain('(reset)');
  expect(all.slice(all.lastIndexOf('HTTP/1.1'))).toMatch(/connection: close/i);
  await drained;
});

it('drain: idle connections get their advertised time, then it ends', async () => {
  const keepAliveMs = 3_000;
  const dq = await startIntake({ times: { ...times, keepAliveMs } });
  const connection = dq.open();
  const from = performance.now();
  connection.send(get);
  await until('the answer', () => connection.received().includes('"live":true'));
  let ended = false;
  const drained = dq.role.drain(60_000).then(() => {
    ended = true;
  });
  await until('the port is closed', () => refuses(dq.port));
  expect(connection.socket.readyState).toBe('open');
  expect(ended).toBe(false);
  await drained;
  expect(await connection.closed).not.toContain('(reset)');
  expect(performance.now() - from).toBeGreaterThan(keepAliveMs - 100);
});

// A request that is not plain waits behind plain ones, which it is not in flight with.
it.each([
  ['plain', '', 3],
  ['other', 'te: x\r\n', 4],
])(
  'drain: waits for pending answers to %s requests; the last one closes its connection',
  async (_kind, header, count) => {
    const { store, release } = heldPushes();
    const dq = await startIntake({ times, store });
    await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9000/' });
    const connection = dq.open();
    const push = (id: string) =>
      `POST /v1/topics/t/jobs?id=${id} HTTP/1.1\r\nhost: localhost\r\n${header}content-length: 0\r\n\r\n`;
    connection.send(push('a') + push('b'));
    await until('both are in flight', () => dq.role.inFlight() === 2);
    const other = dq.open();
    other.send(push('c'));
    await until('three are in flight', () => dq.role.inFlight() === 3);
    const drained = dq.role.drain(10_000);
    // Pipelined during the drain: dq serves it, and it is the last.
    connection.send(get);
    await until('the fourth is in flight, or has not begun', () => dq.role.inFlight() === count);
    release();
    const all = await connection.closed;
    expect(all.match(/HTTP\/1\.1 20[01]/g)).toHaveLength(3);
    expect(all.match(/connection: close/gi)).toHaveLength(1);
    expect(await other.closed).toMatch(/^HTTP\/1\.1 201 [\s\S]*connection: close/i);
    await drained;
    expect(dq.role.inFlight()).toBe(0);
  },
);

it('drain: ends at the deadline with open connections', async () => {
  const dq = await startIntake({ times: { ...times, headersTimeoutMs: 60_000, requestTimeoutMs: 60_000 } });
  const connection = dq.open();
  connection.send('GET /livez HTTP/1.1\r\n');
  await until('it is connected', () => connection.socket.readyState === 'open');
  await dq.role.drain(300);
  await connection.closed;
});

it('drain: a client with a connection pool sees no error', async () => {
  // Node's client treats an advertised time below 1 s as 0 and opens a connection per request.
  const dq = await startIntake({ times: { ...times, keepAliveMs: 2_000 } });
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const results = { ok: 0, refused: 0, other: [] as string[] };
  const call = () =>
    new Promise<void>((resolve) => {
      const sent = request(`${dq.url}/livez`, { agent }, (response) => {
        response.resume();
        response.on('end', () => {
          results.ok += 1;
          resolve();
        });
      });
      sent.on('error', (error: NodeJS.ErrnoException) => {
        if (error.code === 'ECONNREFUSED') results.refused += 1;
        else results.other.push(String(error.code));
        resolve();
      });
      sent.end();
    });
  let drained: Promise<void> | null = null;
  const worker = async () => {
    while (results.refused === 0) {
      await call();
      if (results.ok === 200) drained = dq.role.drain(10_000);
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  await drained;
  agent.destroy();
  expect(results.other).toEqual([]);
  expect(results.ok).toBeGreaterThanOrEqual(200);
});

it('start: a taken port is one clear sentence, and leaves nothing behind', async () => {
  const dq = await startIntake({ times });
  const second = startIntake({ times, config: { 'server.port': dq.port } });
  await expect(second).rejects.toThrow(`port ${dq.port} is taken`);
  expect((await dq.api('GET', '/livez')).status).toBe(200);
});

it('drain: can be called again', async () => {
  const dq = await startIntake({ times });
  const [first, second] = [dq.role.drain(1_000), dq.role.drain(1_000)];
  await Promise.all([first, second]);
  await dq.role.drain(0);
  expect(await refuses(dq.port)).toBe(true);
});
