// Tests the body budget: unfinished bodies are bounded in sum, and batches never use up the budget of pushes.
import { connect } from 'node:net';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { apiLimits } from '../../src/api/limits.ts';
import { type RawConnection, startIntake, type TestIntake, withJobs } from '../support/intake.ts';
import { until } from '../support/until.ts';

const batchBytes = apiLimits.apiBodyBytesMax;
const fits = apiLimits.batchesHeldMax;
let dq: TestIntake;
/** releases the waiting store call; null = the store answers at once */
let waiting: (() => void)[] | null;
let asked: number;

beforeEach(async () => {
  waiting = null;
  asked = 0;
  dq = await startIntake({
    config: { 'limits.batchBytes': batchBytes },
    store: withJobs((real) => ({
      push: async (jobs) => {
        asked += jobs.length;
        if (waiting !== null) await new Promise<void>((resolve) => waiting?.push(resolve));
        return real.push(jobs);
      },
    })),
  });
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9000/', delay: '1h' });
});

const head = (path: string, length: number | 'chunked') =>
  `POST ${path} HTTP/1.1\r\nhost: localhost\r\n${length === 'chunked' ? 'transfer-encoding: chunked' : `content-length: ${length}`}\r\n\r\n`;
const statusesOf = (connection: RawConnection) =>
  [...connection.received().matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => Number(match[1]));
const blank = Buffer.alloc(batchBytes - 2, ' ');
const send = (body: Buffer, path = '/v1/jobs') =>
  dq.call('POST', path, { body, headers: { 'content-type': 'application/json' } });
/** An empty batch of the largest size. */
const sendWhole = () => send(Buffer.concat([Buffer.from('['), blank, Buffer.from(']')]));
const untilFits = () => until('there is room again', async () => (await sendWhole()).status === 200);

/** Sends a batch without its last byte. */
function almost(): RawConnection {
  const connection = dq.open();
  connection.send(head('/v1/jobs', batchBytes));
  connection.send('[');
  connection.send(blank);
  return connection;
}

const probeBytes = apiLimits.socketReadBytes + 1;

/** Waits until no body can be taken but small ones: dq has read everything. Sends chunks, because only an
 *  unfinished body uses the budget. */
async function untilFull(): Promise<string> {
  return until('there is no room', async () => {
    const probe = dq.open();
    probe.send(head('/v1/jobs', 'chunked'));
    probe.send(`${probeBytes.toString(16)}\r\n${' '.repeat(probeBytes)}\r\n0\r\n\r\n`);
    await until('it is answered', () => statusesOf(probe).length > 0);
    probe.socket.destroy();
    return statusesOf(probe)[0] === 503 ? probe.received() : null;
  });
}

it('batches over the body budget are 503, and accepted when bytes are released', async () => {
  const held = Array.from({ length: fits }, almost);
  await untilFull();
  const rejected = await send(Buffer.alloc(batchBytes / 2, ' '));
  expect(rejected).toMatchObject({ status: 503, body: { code: 'not_stored', errors: [] } });
  expect(rejected.headers.get('retry-after')).toBe('1');
  expect(dq.requests.at(-1)).toMatchObject({ topic: null, status: 503, code: 'not_stored' });
  // Small bodies arrive in one piece, and pushes have their own budget.
  expect((await dq.api('POST', '/v1/jobs', [{ topic: 't', id: 'small', body: 1 }])).body.accepted).toBe(1);
  expect((await dq.push('t', '1', '?id=a')).status).toBe(201);
  expect((await dq.push('t', Buffer.alloc(200_000), '?id=b', 'a/b')).status).toBe(201);
  expect((await dq.api('PATCH', '/v1/topics/t', { title: 'x' })).status).toBe(200);

  for (const connection of held) connection.send(']');
  for (const connection of held)
    await until(
      'it is answered',
      () => statusesOf(connection).length === 1 && statusesOf(connection)[0] === 200,
    );
  expect(await sendWhole()).toMatchObject({ status: 200, body: { accepted: 0, failed: 0 } });
});

it('a client that holds most of the body budget gives way to others', async () => {
  const held = Array.from({ length: fits }, almost);
  await untilFull();
  const other = connect({ port: dq.port, host: '127.0.0.1', localAddress: '127.0.0.2' });
  onTestFinished(() => void other.destroy());
  let reply = '';
  other.on('data', (bytes) => {
    reply += String(bytes);
  });
  other.write(head('/v1/jobs', batchBytes));
  other.write('[');
  other.write(blank);
  other.write(']');
  await until('the other client is answered', () => reply.includes('\r\n\r\n'));
  expect(reply).toMatch(/^HTTP\/1\.1 200 /);
  const rejected = await until('one gives way', () => held.find(({ received }) => received() !== ''));
  expect(await rejected.closed).toMatch(/^HTTP\/1\.1 503 [\s\S]*"code":"not_stored"/);
  for (const connection of held)
    if (connection !== rejected) {
      connection.send(']');
      await until('it is answered', () => statusesOf(connection)[0] === 200);
    }
});

it('small bodies that arrive in pieces fit beside large ones', async () => {
  for (let n = 0; n < fits; n++) almost();
  await untilFull();
  const connection = dq.open();
  connection.send(`${head('/v1/jobs', 'chunked')}b\r\n[          \r\n`);
  connection.send('b\r\n          ]\r\n0\r\n\r\n');
  await until('it is answered', () => statusesOf(connection).length > 0);
  expect(statusesOf(connection)).toEqual([200]);
});

it('a broken connection releases its bytes', async () => {
  const held = Array.from({ length: fits }, almost);
  await untilFull();
  for (const { socket } of held) socket.destroy();
  await untilFits();
  expect(dq.role.inFlight()).toBe(0);
});

it('a batch holds its bytes until it is stored, even after its client left', async () => {
  waiting = [];
  const text = Buffer.alloc(batchBytes, ' ');
  text.write(`[{"topic":"t","id":"a","body":"${'x'.repeat(200_000)}"}`);
  text.write(']', batchBytes - 1);
  const connections = Array.from({ length: fits }, () => {
    const connection = dq.open();
    connection.send(head('/v1/jobs', batchBytes));
    connection.send(text);
    return connection;
  });
  await until('all are with the store', () => asked === fits);
  for (const { socket } of connections) socket.destroy();
  await until('the connections are gone', () => dq.role.inFlight() === 0);
  expect(await untilFull()).toContain('"code":"not_stored"');
  const go = waiting;
  waiting = null;
  for (const one of go) one();
  await untilFits();
});

it('a body rejected for another reason releases its bytes', async () => {
  const spaces = Buffer.alloc(batchBytes, ' ');
  for (let n = 0; n <= fits; n++) {
    expect((await send(spaces, '/v1/jobs?nope=1')).status).toBe(400);
    expect((await send(spaces)).status).toBe(400);
    expect((await send(Buffer.concat([spaces, spaces.subarray(0, 1)]))).status).toBe(413);
  }
});
