// A push without a query goes past the routes, one with an empty query (`/jobs?`) through them. Both ways
// give the same reply and the same line of the request log, byte for byte but for times, ids and versions.
// `DQ_PUSH_FUZZ=20000` sends that many random pushes each way.

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect, it, onTestFinished } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import type { Scope } from '../../src/core/token.ts';
import { bearer, startIntake, type TestIntake, tokenFor } from '../support/intake.ts';

const callbackUrl = 'http://127.0.0.1:9/';
const json = 'application/json';

async function start(): Promise<TestIntake> {
  const dq = await startIntake({ config: { 'limits.bodyBytes': 100_000 } });
  for (const topic of [
    { topic: 't' },
    { topic: 'f', format: 'form' },
    { topic: 'paused' },
    { topic: 'offline' },
    { topic: 'toString' },
  ])
    await dq.api('POST', '/v1/topics', { callbackUrl, delay: '1h', ...topic });
  await dq.api('POST', '/v1/topics', { topic: 'p', delivery: 'pull', delay: '1h' });
  await dq.api('POST', '/v1/topics/paused/pause');
  await dq.api('POST', '/v1/topics/offline/offline');
  return dq;
}

interface Push {
  readonly method?: string;
  readonly topic?: string;
  readonly version?: string;
  readonly headers?: readonly string[];
  readonly contentType?: string | null;
  readonly body?: Buffer | string;
  /** the body ends early, and so does the connection */
  readonly cut?: number;
  /** the body comes in two writes */
  readonly split?: boolean;
}

/** The next request closes the connection, and shows that the reply before it was whole. */
const last = 'GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n';

async function exchange(dq: TestIntake, push: Push, query: '' | '?'): Promise<unknown> {
  const { method = 'POST', topic = 't', version = '1.1', headers = [], contentType = json, cut } = push;
  const body = Buffer.from(push.body ?? '{"order":4711}');
  const chunked = headers.includes('transfer-encoding: chunked');
  const lines = [
    `${method} /v1/topics/${topic}/jobs${query} HTTP/${version}`,
    ...(headers.some((line) => line.startsWith('host:')) ? [] : ['host: 127.0.0.1']),
    ...(contentType === null ? [] : [`content-type: ${contentType}`]),
    ...(chunked || headers.some((line) => line.startsWith('content-length:'))
      ? []
      : [`content-length: ${body.length}`]),
    ...headers,
  ];
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  const framed = chunked
    ? Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')])
    : body;
  const before = dq.requests.length;
  const connection = dq.open();
  if (cut !== undefined && framed.length > 0) {
    connection.send(Buffer.concat([head, framed.subarray(0, Math.min(cut, framed.length - 1))]));
    connection.socket.end();
  } else if (push.split === true) {
    connection.send(head);
    connection.send(framed.subarray(0, framed.length >> 1));
    connection.send(Buffer.concat([framed.subarray(framed.length >> 1), Buffer.from(last)]));
  } else connection.send(Buffer.concat([head, framed, Buffer.from(last)]));
  const received = await connection.closed;
  connection.socket.destroy();
  const logged = dq.requests.slice(before).map((line) => withoutTimes(JSON.stringify(line)));
  return { received: withoutTimes(received).replaceAll('/jobs?', '/jobs'), logged };
}

function withoutTimes(text: string): string {
  return (
    text
      .replace(/\bDate: [^\r]+/g, 'Date: …')
      .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
      .replace(/"dueAt":"[^"]+"/g, '"dueAt":"…"')
      .replace(/"version":"\d+"/g, '"version":"…"')
      // dq makes few suggestions per second.
      .replace(/; did you mean [^?"]+\?/g, '')
      .replace(/content-length: \d+(?=[^{]+\{"(topic":|title":"No such topic))/g, 'content-length: …')
      .replace(/"ms":[\d.]+/g, '"ms":…')
  );
}

async function expectSame(dq: TestIntake, push: Push): Promise<string> {
  const direct = await exchange(dq, push, '');
  const routed = await exchange(dq, push, '?');
  expect(direct, JSON.stringify(push)).toEqual(routed);
  return (direct as { received: string }).received;
}

const plain = '{"order":4711}';
const cases: readonly (readonly [status: number, push: Push])[] = [
  [201, {}],
  [201, { body: '', contentType: 'text/plain' }],
  [400, { body: '' }],
  [201, { contentType: 'application/json; charset=utf-8' }],
  [201, { contentType: 'Application/JSON;charset=UTF-8' }],
  [201, { contentType: 'application/octet-stream', body: Buffer.from([0, 255, 254]) }],
  [201, { contentType: null }],
  [400, { contentType: 'json' }],
  [400, { contentType: '' }],
  [201, { contentType: `text/${'x'.repeat(90)}` }],
  [400, { contentType: `text/${'x'.repeat(2_000)}` }],
  [400, { body: '{"order":' }],
  [400, { body: Buffer.from([0x22, 0xff, 0x22]) }],
  [400, { body: '{"delay":"30s","body":1}' }],
  [415, { contentType: 'application/x-www-form-urlencoded', body: plain }],
  [415, { headers: ['content-encoding: gzip'] }],
  [201, { headers: ['transfer-encoding: chunked'] }],
  [201, { headers: ['traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'] }],
  [201, { headers: ['traceparent: nonsense', 'tracestate: a=b'] }],
  [201, { headers: ['expect: 100-continue'] }],
  [417, { headers: ['expect: more'] }],
  [400, { headers: ['content-type: text/plain'] }],
  [403, { headers: ['host: shop.example'] }],
  [403, { headers: ['origin: http://127.0.0.1'] }],
  [201, { headers: ['connection: close'] }],
  [201, { version: '1.0' }],
  [201, { version: '1.0', headers: ['connection: keep-alive'] }],
  [201, { split: true }],
  [201, { body: `"${'x'.repeat(99_000)}"` }],
  [413, { body: `"${'x'.repeat(100_000)}"` }],
  [413, { body: `"${'x'.repeat(100_000)}"`, headers: ['transfer-encoding: chunked'] }],
  [405, { method: 'PUT' }],
  [404, { topic: 'none' }],
  [404, { topic: '__proto__' }],
  [201, { topic: 'toString' }],
  [201, { topic: '%74' }],
  [404, { topic: 't/' }],
  [201, { topic: 'f' }],
  [400, { topic: 'f', body: '[]' }],
  [400, { topic: 'f', body: '[]', contentType: 'text/plain' }],
  [201, { topic: 'p' }],
  [201, { topic: 'paused' }],
  [409, { topic: 'offline' }],
];

it('both ways of a push give the same reply and the same log line', async () => {
  const dq = await start();
  for (const [status, push] of cases)
    expect(await expectSame(dq, push), JSON.stringify(push)).toMatch(
      new RegExp(`^(HTTP/1.1 100 Continue\r\n\r\n)?HTTP/1.1 ${status} `),
    );
  // The client ends the connection within the body.
  for (const cut of [0, 5]) await expectSame(dq, { cut });
  expect(dq.errors).toEqual([]);
});

it('both ways admit the same callers', async () => {
  const dq = await start();
  const makers: readonly (readonly [number, readonly Scope[], readonly string[]])[] = [
    [201, ['push'], ['*']],
    [201, ['push'], ['t']],
    [201, ['push', 'read'], ['f', 't']],
    [201, ['admin'], ['*']],
    [201, ['admin'], ['t*']],
    [403, ['admin'], ['f']],
    [403, ['push'], ['f', 't1', 'x*']],
    [403, ['read', 'pull', 'operate'], ['*']],
  ];
  for (const [status, scopes, topics] of makers) {
    const { authorization } = (await tokenFor(dq, topics, scopes)).headers;
    expect(await expectSame(dq, { headers: [`authorization: ${authorization}`] })).toContain(` ${status} `);
  }
  const { authorization } = bearer('dqk_000000000000_x');
  expect(await expectSame(dq, { headers: [`authorization: ${authorization}`] })).toContain(' 401 ');
  expect(await expectSame(dq, {})).toContain(' 401 ');
});

it('a plain push goes past the routes, also as the second of a connection', async () => {
  const dq = await start();
  let routed = 0;
  const count = () => {
    routed += 1;
  };
  subscribe('tracing:fastify.request.handler:start', count);
  onTestFinished(() => void unsubscribe('tracing:fastify.request.handler:start', count));
  const connection = dq.open();
  const push = `POST /v1/topics/t/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ${json}\r\ncontent-length: 2\r\n\r\n{}`;
  connection.send(push + push + push + last);
  expect((await connection.closed).match(/HTTP\/1.1 201 Created/g)).toHaveLength(3);
  expect(routed).toBe(1);
});

it('random pushes get the same answers both ways', async () => {
  const dq = await start();
  const dice = new Dice(20_261_126);
  const sent = Number(process.env['DQ_PUSH_FUZZ'] ?? 250);
  const statuses = new Map<string, number>();
  for (let n = 0; n < sent; n++) {
    const push = randomPush(dice);
    const status = /^HTTP\/1.1 (\d+)/.exec(await expectSame(dq, push))?.[1] ?? 'none';
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  // Otherwise the generator would compare too little.
  for (const status of ['201', '400', '404', '409']) expect(statuses.get(status)).toBeGreaterThan(0);
  expect(dq.errors).toEqual([]);
});

const topics = ['t', 'f', 'p', 'paused', 'offline', 'none', 'T', '%74', 't%2F', 'toString', ''];
const types = [
  json,
  'application/json;charset=utf-8',
  'text/plain',
  'a/b',
  'A/B+c',
  'x',
  'text/plain; a=b',
  'é/x',
];
const bodies = [
  plain,
  '',
  '"',
  'null',
  '{"body":1,"delay":"1s"}',
  '{"topic":"t","body":2}',
  '[1,2]',
  '\ud800',
  '{"a":"é"}',
];
const headers = [
  'traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  'tracestate: a=b',
  'transfer-encoding: chunked',
  'transfer-encoding: gzip',
  'content-encoding: gzip',
  'content-encoding: identity',
  'content-length: 3',
  'expect: 100-continue',
  'connection: keep-alive',
  'connection: close',
  'host: localhost:1',
  'accept-version: 1',
  'x: y',
];

function randomPush(dice: Dice): Push {
  const picked = [...new Set(Array.from({ length: dice.below(3) }, () => dice.pick(headers)))];
  // A client that leaves after a whole request may miss its answer, so it never declares less than it sends.
  const leaves = dice.chance(0.1) && !picked.includes('content-length: 3');
  return {
    topic: dice.chance(0.7) ? 't' : dice.pick(topics),
    contentType: dice.chance(0.1) ? null : dice.chance(0.6) ? json : dice.pick(types),
    body: dice.chance(0.5)
      ? plain
      : dice.chance(0.1)
        ? `"${'x'.repeat(dice.below(120_000))}"`
        : dice.chance(0.2)
          ? Buffer.from(Array.from({ length: dice.below(40) }, () => dice.below(256)))
          : dice.pick(bodies),
    headers: picked,
    ...(dice.chance(0.1) ? { version: '1.0' } : {}),
    ...(leaves ? { cut: dice.below(12) } : {}),
    split: dice.chance(0.2),
  };
}
