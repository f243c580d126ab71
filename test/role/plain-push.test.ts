// dq-server reads a plain push from its socket; node:http and Fastify serve each connection that has sent
// anything else. Both ways give the same bytes and the same lines of the request log, but for times, ids and
// versions, and store the same job.
// `DQ_PUSH_FUZZ=20000` sends that many random pushes each way, and damaged ones.

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import type { FrontTimes } from '../../src/api/http/http-front.ts';
import type { Scope } from '../../src/core/token.ts';
import type { Store } from '../../src/ports/job-store.ts';
import { turn } from '../../src/runtime/time.ts';
import { bearer, type IntakeOptions, startIntake, type TestIntake, tokenFor } from '../support/intake.ts';
import { until } from '../support/until.ts';
import { texts, words } from '../support/words.ts';

const callbackUrl = 'http://127.0.0.1:9/';
const json = 'application/json';

/** Each way has a server of its own, so that an id is new to both. */
interface Ways {
  readonly plain: TestIntake;
  readonly node: TestIntake;
}

async function startWays(options?: IntakeOptions): Promise<Ways> {
  return { plain: await start(options), node: await start(options) };
}

async function start(options: IntakeOptions = {}): Promise<TestIntake> {
  const dq = await startIntake({ config: { 'limits.bodyBytes': 100_000 }, ...options });
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
  /** with its `?` */
  readonly query?: string;
  readonly version?: string;
  readonly headers?: readonly string[];
  readonly contentType?: string | null;
  readonly body?: Buffer | string;
  /** of each way's server */
  readonly credentials?: Readonly<Record<keyof Ways, string>>;
  /** the body ends early, and so does the connection */
  readonly cut?: number;
  /** the body comes in two writes */
  readonly split?: boolean;
}

/** The next request closes the connection, and shows that the reply before it was whole. */
const last = 'GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n';

function exchange(ways: Ways, push: Push, way: keyof Ways): Promise<unknown> {
  const { cut } = push;
  const { head, framed } = bytesOf(push, way);
  if (cut !== undefined && framed.length > 0)
    return send(ways[way], way, [
      Buffer.concat([head, framed.subarray(0, Math.min(cut, framed.length - 1))]),
      'end',
    ]);
  const half = framed.length >> 1;
  return send(
    ways[way],
    way,
    push.split === true
      ? [head, framed.subarray(0, half), Buffer.concat([framed.subarray(half), Buffer.from(last)])]
      : [Buffer.concat([head, framed, Buffer.from(last)])],
  );
}

function bytesOf(push: Push, way: keyof Ways): { readonly head: Buffer; readonly framed: Buffer } {
  const { method = 'POST', topic = 't', version = '1.1', headers = [], contentType = json } = push;
  const body = Buffer.from(push.body ?? '{"order":4711}');
  const chunked = headers.includes('transfer-encoding: chunked');
  const lines = [
    `${method} /v1/topics/${topic}/jobs${push.query ?? ''} HTTP/${version}`,
    ...(headers.some((line) => line.startsWith('host:')) ? [] : ['host: 127.0.0.1']),
    ...(contentType === null ? [] : [`content-type: ${contentType}`]),
    ...(chunked || headers.some((line) => line.startsWith('content-length:'))
      ? []
      : [`content-length: ${body.length}`]),
    ...(push.credentials === undefined ? [] : [`authorization: ${push.credentials[way]}`]),
    ...headers,
  ];
  const framed = chunked
    ? Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')])
    : body;
  return { head: Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), framed };
}

/** After it node:http reads the connection. */
const first = 'GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n';

/** Sends each of the pieces in a turn of its own; `end` ends the client's half. */
async function send(dq: TestIntake, way: keyof Ways, pieces: readonly (Buffer | 'end')[]): Promise<unknown> {
  const connection = dq.open();
  if (way === 'node') {
    connection.send(first);
    await until('node:http reads', () => connection.received().endsWith('}'));
  }
  const skipped = connection.received().length;
  const before = dq.requests.length;
  for (const piece of pieces) {
    if (piece === 'end') connection.socket.end();
    else connection.send(piece);
    await turns();
  }
  const received = (await connection.closed).slice(skipped);
  connection.socket.destroy();
  // dq logs a push that was cut when its connection has closed.
  await until('nothing is in flight', () => dq.role.inFlight() === 0);
  await turns();
  // A rejection does not wait for the pushes before it.
  const logged = dq.requests.slice(before).map((line) => withoutTimes(JSON.stringify(line)));
  logged.sort();
  return { received: withoutTimes(received), logged };
}

interface Exchanged {
  readonly received: string;
  /** lines of the request log */
  readonly logged: readonly string[];
}

async function turns(): Promise<void> {
  for (let n = 0; n < 3; n++) await turn();
}

function withoutTimes(text: string): string {
  return (
    text
      .replace(/\bDate: [^\r]+/g, 'Date: …')
      .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
      .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '…')
      .replace(/"webhookId":"[^"]+"/g, '"webhookId":"…"')
      .replace(/"version":"\d+"/g, '"version":"…"')
      // dq makes few suggestions per second.
      .replace(/; did you mean [^?"]+\?/g, '')
      .replace(
        /content-length: \d+(?=[^{]+\{"(topic":|title":"(No such topic|No such route|Method not)))/g,
        'content-length: …',
      )
      .replace(/"ms":[\d.]+/g, '"ms":…')
      .replace(/content-length: \d+(?=\r\n\r\n\{"title":"Request Timeout)/g, 'content-length: …')
      .replace(/\d+ bytes of this connection/g, '… bytes of this connection')
  );
}

async function expectSame(ways: Ways, push: Push): Promise<string> {
  const plain = await exchange(ways, push, 'plain');
  expect(plain, JSON.stringify(push)).toEqual(await exchange(ways, push, 'node'));
  return (plain as { received: string }).received;
}

const plain = '{"order":4711}';
const later = '2031-01-31T09:00:00';
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
  [400, { body: Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]) }],
  [400, { body: `\ufeff${plain}` }],
  [201, { body: `\ufeff${plain}`, contentType: 'text/plain' }],
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
  [201, { query: '?id=4711&delay=30m' }],
  [400, { query: '?id=4711&delay=30m', body: '{"order":' }],
  [200, { query: '?mode=keep&id=4711' }],
  [409, { query: '?id=4711&mode=reject' }],
  [400, { query: '?id=4711&mode=Keep' }],
  [200, { query: '?&&id=4711&' }],
  [201, { query: '?' }],
  [201, { query: '?delay=1h%2030m' }],
  [201, { query: '?delay=1h+30m&deadline=2h&maxAttempts=3&backoff=15s,3m' }],
  [201, { query: '?backoff=%5B%2215s%22,%223m%22%5D' }],
  [201, { query: `?at=${later}+08:00` }],
  [201, { query: `?at=${later}%2B08:00` }],
  [400, { query: `?at=${later}` }],
  [400, { query: `?at=${later}Z&delay=1s` }],
  [400, { query: '?delay=5' }],
  [400, { query: '?delay=' }],
  [400, { query: '?delay' }],
  [400, { query: '?id=' }],
  [400, { query: '?id=a&id=b' }],
  [400, { query: '?id=a&%69d=a' }],
  [201, { query: '?%69%64=%61%2f%62' }],
  [201, { query: '?id=caf%C3%A9+%F0%9F%98%80' }],
  [201, { query: '?id=a=b?c' }],
  [201, { query: '?id=a%26b%3Dc%25' }],
  [400, { query: '?id=a%00' }],
  [400, { query: '?id=%C0%AF' }],
  [400, { query: '?id=%ED%A0%80' }],
  [400, { query: '?id=%' }],
  [400, { query: '?id=%4' }],
  [400, { query: '?id=%zz' }],
  [400, { query: '?id=\xe9' }],
  [400, { query: '?id=a#b' }],
  [400, { query: '?id=.' }],
  [201, { query: `?id=${'x'.repeat(256)}` }],
  [400, { query: `?id=${'x'.repeat(257)}` }],
  [400, { query: `?id=${'%C3%A9'.repeat(129)}` }],
  [431, { query: `?id=${'x'.repeat(70_000)}` }],
  [400, { query: '?ID=a' }],
  [400, { query: '?id[]=a' }],
  [400, { query: '?unknown=1' }],
  [400, { query: '?=a' }],
  [400, { query: '?%25=a' }],
  [400, { query: '?__proto__=a' }],
  [400, { query: '?toString=a&id=b' }],
  [400, { query: '?lease=30s' }],
  [201, { topic: 'p', query: '?lease=30s' }],
  [400, { topic: 'p', query: '?lease=1ms' }],
  [400, { query: '?maxAttempts=0' }],
  [400, { query: '?deadline=1s&delay=2s' }],
  [400, { query: '?literal=1' }],
  [400, { query: '?literal' }],
  [201, { query: '?literal=true', body: '{"delay":"30s","body":1}' }],
  [201, { query: '?literal=true', contentType: 'application/x-www-form-urlencoded' }],
  [404, { topic: 'none', query: '?id=a' }],
  [405, { method: 'PUT', query: '?id=a' }],
];

it('both ways of a push give the same reply and the same log line', async () => {
  const ways = await startWays();
  for (const [status, push] of cases)
    expect(await expectSame(ways, push), JSON.stringify(push)).toMatch(
      new RegExp(`^(HTTP/1.1 100 Continue\r\n\r\n)?HTTP/1.1 ${status} `),
    );
  // The client ends the connection within the body.
  for (const cut of [0, 5]) await expectSame(ways, { cut });
  expect([ways.plain.errors, ways.node.errors]).toEqual([[], []]);
});

it('both ways admit the same callers', async () => {
  const ways = await startWays();
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
    const tokenOf = async (dq: TestIntake) => (await tokenFor(dq, topics, scopes)).headers.authorization;
    const credentials = { plain: await tokenOf(ways.plain), node: await tokenOf(ways.node) };
    expect(await expectSame(ways, { credentials })).toContain(` ${status} `);
  }
  const { authorization } = bearer('dqk_000000000000_x');
  const credentials = { plain: authorization, node: authorization };
  expect(await expectSame(ways, { credentials })).toContain(' 401 ');
  expect(await expectSame(ways, {})).toContain(' 401 ');
});

const plainPush = (query = '', headers = '', body = '{}') =>
  `POST /v1/topics/t/jobs${query} HTTP/1.1\r\nhost: 127.0.0.1\r\n${headers}content-type: ${json}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

it('both ways answer alike for a store that fails', async () => {
  for (const outcome of [
    { kind: 'not_stored', code: 'unavailable' },
    { kind: 'not_stored', code: 'disk_full' },
    { kind: 'unknown', code: 'no_answer' },
  ] as const) {
    const store = (store: Store): Store => ({
      ...store,
      jobs: { ...store.jobs, push: async (jobs) => jobs.map(() => outcome) },
    });
    const ways = await startWays({ store });
    const received = await expectSame(ways, {});
    expect(received).toMatch(/^HTTP\/1.1 503 [\s\S]+retry-after: 1\r\n[\s\S]+HTTP\/1.1 200 /);
  }
});

it('node:http sees no plain push, with or without known parameters', async () => {
  const dq = await start();
  const queries = [
    ...['', '', '?id=4711&delay=30m', `?id=a%2fb&at=${later}%2B08:00`],
    ...['?mode=keep&maxAttempts=3&backoff=1m,2m', '?deadline=2h', '?literal=true', ''],
  ];
  const { statuses, byNode } = await statusesByNode(dq, queries.map((query) => plainPush(query)).join(''));
  expect(statuses).toEqual(queries.map(() => 201));
  expect(byNode).toBe(0);
});

it('from the first request that is not plain, node:http reads the connection', async () => {
  const dq = await start();
  for (const other of [
    ...['?other=1', '?id=a&id=b', '?id=%ff', '?delay=5', '?mode=other', '?literal=false'].map((query) =>
      plainPush(query),
    ),
    plainPush('', '', '{'),
    plainPush().replace('/t/', '/none/'),
    plainPush('', 'origin: http://127.0.0.1\r\n'),
    plainPush('', 'authorization: Bearer no\r\n'),
    plainPush('', 'expect: 100-continue\r\n'),
    'GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n',
  ]) {
    const { byNode } = await statusesByNode(dq, plainPush() + other + plainPush());
    expect(byNode, other).toBe(2);
  }
});

/** `byNode`: requests that node:http has read, without the last one. */
async function statusesByNode(dq: TestIntake, text: string) {
  const urls: string[] = [];
  const note = (message: unknown) => {
    const { request } = message as { readonly request: IncomingMessage };
    if (request.headers.host === '127.0.0.1' && request.headers.connection !== 'close')
      urls.push(request.url ?? '');
  };
  subscribe('http.server.request.start', note);
  onTestFinished(() => void unsubscribe('http.server.request.start', note));
  const connection = dq.open();
  connection.send(text + last);
  const received = await connection.closed;
  unsubscribe('http.server.request.start', note);
  const statuses = [...received.matchAll(/HTTP\/1.1 (\d+) /g)].map(([, status]) => Number(status));
  return { statuses: statuses.slice(0, -1), byNode: urls.length };
}

/** Incomplete requests end soon. */
const impatient: FrontTimes = {
  ...{ headersTimeoutMs: 1_000, requestTimeoutMs: 1_000, connectionsCheckMs: 50 },
  ...{ connectionTimeoutMs: 60_000, keepAliveMs: 5_000, lingerMs: 300 },
};

const head = (lines: readonly string[], body = '{}', start = 'POST /v1/topics/t/jobs HTTP/1.1') =>
  `${[start, ...lines, '', body].join('\r\n')}`;
const host = 'host: 127.0.0.1';
const type = `content-type: ${json}`;
const two = 'content-length: 2';

/** Pieces of one connection, and the statuses of the replies; `last` follows each but the first ones. */
const odd: readonly (readonly [what: string, pieces: readonly (string | 'end')[], statuses: number[]])[] = [
  ['nothing', ['end'], []],
  ['half a header, and its half closed', [plainPush().slice(0, 60), 'end'], [400]],
  ['a header that arrives in two', [plainPush().slice(0, 60), plainPush().slice(60) + last], [201, 200]],
  ['a header without its body', [plainPush().slice(0, -2), `{}${last}`], [201, 200]],
  ['a slow header', [plainPush().slice(0, 60)], [408]],
  ['a slow header behind a push', [plainPush() + plainPush().slice(0, 60)], [201, 408]],
  ['a slow body behind a push', [plainPush() + plainPush().slice(0, -1)], [201, 408]],
  ['one byte', ['P', plainPush().slice(1) + last], [201, 200]],
  ['many at once', [plainPush().repeat(30) + last], [...Array(30).fill(201), 200]],
  [
    'one that is not plain in the middle',
    [plainPush() + plainPush('?x=1') + plainPush() + last],
    [201, 400, 201, 200],
  ],
  [
    'a last one in the middle',
    [plainPush() + plainPush('', 'connection: close\r\n') + plainPush() + last],
    [201, 201],
  ],
  ['nonsense behind a push', [`${plainPush()}nonsense\r\n\r\n`], [201]],
  ['a null byte behind a push', [`${plainPush()}\0${last}`], [201]],
  ['an empty line behind a push', [`${plainPush()}\r\n${plainPush()}${last}`], [201, 201, 200]],
  ['an empty line first', [`\r\n${plainPush()}${last}`], [201, 200]],
  ['a body longer than its length', [`${plainPush()}}${last}`], [201]],
  ['a body shorter than its length', [head([host, type, 'content-length: 3']) + last], [400]],
  ['bare line feeds', [plainPush().replaceAll('\r\n', '\n') + last], [400]],
  ['a bare line feed', [head([`${host}\nx: y`, type, two]) + last], [400]],
  ['a bare carriage return', [head([host, 'x: a\rb', type, two]) + last], [400]],
  ['an end of line feeds', [head([host, type, two]).replace('\r\n\r\n', '\n\n') + last], [400]],
  ['a null byte in a value', [head([host, 'x: a\0b', type, two]) + last], [400]],
  ['a value that is not ASCII', [head([host, 'x: \xe9', type, two]) + last], [201, 200]],
  ['a folded value', [head([host, 'x: a\r\n b', type, two]) + last], [400]],
  ['a folded length', [head([host, type, 'content-length:\r\n 2']) + last], [400]],
  ['blanks around a value', [head([host, 'x: \t a \t ', type, two]) + last], [201, 200]],
  ['no blank before a value', [head(['host:127.0.0.1', 'x:', type, 'content-length:2']) + last], [201, 200]],
  ['a blank before a colon', [head([host, type, 'content-length : 2']) + last], [400]],
  ['a line without a colon', [head([host, 'x', type, two]) + last], [400]],
  ['a line without a name', [head([host, ': x', type, two]) + last], [400]],
  ['a name with brackets', [head([host, 'x(y): z', type, two]) + last], [400]],
  [
    'names of objects',
    [head([host, '__proto__: x', 'constructor: y', 'toString: z', type, two]) + last],
    [201, 200],
  ],
  [
    'capitals',
    [head(['HOST: 127.0.0.1', 'Content-Type: application/json', 'CONTENT-LENGTH: 2']) + last],
    [201, 200],
  ],
  ['two equal lengths', [head([host, type, two, two]) + last], [400]],
  ['two lengths', [head([host, type, two, 'content-length: 0']) + last], [400]],
  ['a length in a list', [head([host, type, 'content-length: 2, 2']) + last], [400]],
  ['a length with a sign', [head([host, type, 'content-length: +2']) + last], [400]],
  ['a length below 0', [head([host, type, 'content-length: -2']) + last], [400]],
  ['a length with zeros', [head([host, type, 'content-length: 0002']) + last], [201, 200]],
  ['a hexadecimal length', [head([host, type, 'content-length: 0x2']) + last], [400]],
  ['an empty length', [head([host, type, 'content-length:']) + last], [400]],
  ['no length', [head([host, type]) + last], [400]],
  ['a length beyond the limit', [head([host, type, 'content-length: 99999999'])], [413]],
  [
    'chunks beside a length',
    [head([host, type, two, 'transfer-encoding: chunked'], '2\r\n{}\r\n0\r\n\r\n') + last],
    [400],
  ],
  [
    'a length beside chunks',
    [head([host, type, 'transfer-encoding: chunked', two], '2\r\n{}\r\n0\r\n\r\n') + last],
    [400],
  ],
  ['another coding beside a length', [head([host, type, 'transfer-encoding: identity', two]) + last], [400]],
  ['no host', [head([type, two]) + last], [400]],
  ['two hosts', [head([host, host, type, two]) + last], [400]],
  ['an empty host', [head(['host:', type, two]) + last], [403]],
  ['two tokens', [head([host, 'authorization: a', 'authorization: b', type, two]) + last], [400]],
  ['two traces', [head([host, 'traceparent: a', 'traceparent: b', type, two]) + last], [201, 200]],
  ['an upgrade', [head([host, 'connection: upgrade', 'upgrade: h2c', type, two]) + last], [201]],
  ['a list of connection', [head([host, 'connection: keep-alive, x', type, two]) + last], [201, 200]],
  ['close for a proxy', [head([host, 'proxy-connection: close', type, two]) + last], [201]],
  ['HTTP/1.0', [head([host, type, two], '{}', 'POST /v1/topics/t/jobs HTTP/1.0') + last], [201]],
  ['HTTP/1.2', [head([host, type, two], '{}', 'POST /v1/topics/t/jobs HTTP/1.2') + last], [400]],
  ['a lower-case method', [head([host, type, two], '{}', 'post /v1/topics/t/jobs HTTP/1.1') + last], [400]],
  ['a lower-case version', [head([host, type, two], '{}', 'POST /v1/topics/t/jobs http/1.1') + last], [400]],
  ['two blanks', [head([host, type, two], '{}', 'POST  /v1/topics/t/jobs HTTP/1.1') + last], [201, 200]],
  [
    'two blanks before the version',
    [head([host, type, two], '{}', 'POST /v1/topics/t/jobs  HTTP/1.1') + last],
    [201, 200],
  ],
  ['a blank at the end', [head([host, type, two], '{}', 'POST /v1/topics/t/jobs HTTP/1.1 ') + last], [400]],
  ['a tab', [head([host, type, two], '{}', 'POST\t/v1/topics/t/jobs HTTP/1.1') + last], [400]],
  ['no version', [head([host, type, two], '{}', 'POST /v1/topics/t/jobs') + last], [201]],
  [
    'an absolute target',
    [head([host, type, two], '{}', 'POST http://a/v1/topics/t/jobs HTTP/1.1') + last],
    [400],
  ],
  [
    'a target without a slash',
    [head([host, type, two], '{}', 'POST v1/topics/t/jobs HTTP/1.1') + last],
    [400],
  ],
  ['two slashes', [head([host, type, two], '{}', 'POST //v1/topics/t/jobs HTTP/1.1') + last], [404, 200]],
  [
    'a dot segment',
    [head([host, type, two], '{}', 'POST /v1/topics/../topics/t/jobs HTTP/1.1') + last],
    [404, 200],
  ],
  ['a fragment', [head([host, type, two], '{}', 'POST /v1/topics/t/jobs#x HTTP/1.1') + last], [400]],
  [
    'an escaped topic',
    [head([host, type, two], '{}', 'POST /v1/topics/%74/jobs HTTP/1.1') + last],
    [201, 200],
  ],
  [
    'an escaped slash',
    [head([host, type, two], '{}', 'POST /v1/topics/t%2Fjobs HTTP/1.1') + last],
    [405, 200],
  ],
  ['a header above 4 KiB', [plainPush('', `x: ${'y'.repeat(5_000)}\r\n`) + last], [201, 200]],
  ['a header above 16 KiB', [plainPush('', `x: ${'y'.repeat(17_000)}\r\n`) + last], [431]],
  ['a body above one read', [plainPush('', '', `"${'x'.repeat(90_000)}"`) + last], [201, 200]],
];

it('both ways read odd requests alike', async () => {
  const ways = await startWays({ times: impatient });
  const seen: unknown[] = [];
  for (const [what, pieces] of odd) {
    const bytes = pieces.map((piece) => (piece === 'end' ? piece : Buffer.from(piece, 'latin1')));
    const [plain, node] = await Promise.all([
      send(ways.plain, 'plain', bytes),
      send(ways.node, 'node', bytes),
    ]);
    expect(plain, what).toEqual(node);
    const { received } = plain as { readonly received: string };
    seen.push([what, [...received.matchAll(/HTTP\/1.1 (\d+) /g)].map(([, status]) => Number(status))]);
  }
  expect(seen).toEqual(odd.map(([what, , statuses]) => [what, statuses]));
  expect([ways.plain.errors, ways.node.errors]).toEqual([[], []]);
});

it('both ways read damaged pushes alike', async () => {
  const ways = await startWays({ times: impatient });
  const dice = new Dice(20_261_128);
  const rounds = Number(process.env['DQ_PUSH_FUZZ'] ?? 200);
  let taken = 0;
  for (let n = 0; n < rounds; n++) {
    const bytes = damaged(dice);
    const [plain, node] = await Promise.all([
      send(ways.plain, 'plain', [bytes]),
      send(ways.node, 'node', [bytes]),
    ]);
    expect(withoutBounded(plain), JSON.stringify(bytes.toString('latin1'))).toEqual(withoutBounded(node));
    taken += (plain as Exchanged).logged.length;
  }
  expect(taken).toBeGreaterThan(rounds / 4);
  expect([ways.plain.errors, ways.node.errors]).toEqual([[], []]);
});

/** Without the lines of requests that dq rejects by their head: it writes few of them per second. */
function withoutBounded(exchanged: unknown): unknown {
  const { received, logged } = exchanged as Exchanged;
  return { received, logged: logged.filter((line) => !/"leftOut":|"bytes":0,"ms":null/.test(line)) };
}

/** One to three pushes, with a few bytes of a header changed, removed or added. */
function damaged(dice: Dice): Buffer {
  const pushes = Array.from({ length: 1 + dice.below(3) }, () =>
    Buffer.from(
      plainPush(randomQuery(dice), dice.pick(['', 'x: y\r\n', 'connection: keep-alive\r\n'])),
      'latin1',
    ),
  );
  const bytes = Buffer.concat(pushes);
  const at = dice.below(bytes.length);
  const byte = dice.pick([0, 9, 10, 13, 32, 43, 44, 48, 49, 58, 0x80, dice.below(256)]);
  const damage = [
    bytes,
    Buffer.concat([bytes.subarray(0, at), Buffer.of(byte), bytes.subarray(at)]),
    Buffer.concat([bytes.subarray(0, at), Buffer.of(byte), bytes.subarray(at + 1)]),
    Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + dice.below(3))]),
  ];
  return Buffer.concat([dice.pick(damage), Buffer.from(last)]);
}

it('random pushes get the same answers both ways', async () => {
  const ways = await startWays();
  const dice = new Dice(20_261_126);
  const sent = Number(process.env['DQ_PUSH_FUZZ'] ?? 250);
  const statuses = new Map<string, number>();
  for (let n = 0; n < sent; n++) {
    const push = randomPush(dice);
    const status = /^HTTP\/1.1 (\d+)/.exec(await expectSame(ways, push))?.[1] ?? 'none';
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  // Otherwise the generator would compare too little.
  for (const status of ['201', '400', '404', '409']) expect(statuses.get(status)).toBeGreaterThan(0);
  for (const topic of ['t', 'f', 'p', 'paused'])
    for (let id = 0; id < randomIds; id++) {
      const path = `/v1/topics/${topic}/jobs/${id}`;
      const stored = async (dq: TestIntake) => withoutTimes(JSON.stringify((await dq.api('GET', path)).body));
      expect(await stored(ways.plain), path).toEqual(await stored(ways.node));
    }
  expect([ways.plain.errors, ways.node.errors]).toEqual([[], []]);
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
const headers = texts`
  traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 | tracestate: a=b |
  transfer-encoding: chunked | transfer-encoding: gzip | content-encoding: gzip |
  content-encoding: identity | content-length: 3 | expect: 100-continue | connection: keep-alive |
  connection: close | host: localhost:1 | accept-version: 1 | x: y
`;

function randomPush(dice: Dice): Push {
  const picked = [...new Set(Array.from({ length: dice.below(3) }, () => dice.pick(headers)))];
  // A client that leaves after a whole request may miss its answer, so it never declares less than it sends.
  const leaves = dice.chance(0.1) && !picked.includes('content-length: 3');
  return {
    topic: dice.chance(0.7) ? 't' : dice.pick(topics),
    query: randomQuery(dice),
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

const randomIds = 20;
const names = ['id', 'delay', 'at', 'mode', 'lease', 'maxAttempts', 'backoff', 'deadline', 'literal'];
const otherNames = ['', 'Id', '%69d', 'delay ', 'topic', '__proto__', 'constructor', '%', 'id%00', 'body'];
const values = [
  ...['4711', 'a', 'a%2Fb', '', ...words`. %00 %C0%AF %ED%A0%80 %EF%BB%BF % %E9 + a+b true`],
  ...[...words`30m 1h+30m 0 5 -1s 9999d PT30M`, `${later}Z`, `${later}+08:00`, '1960000000000', '7'],
  ...['keep', 'replace', 'reject', '2n%2B1', '15s,3m', '%5B%2215s%22%5D', '3', '101', 'x=y?z'],
];

/** dq logs some of the requests that it rejects by their head, so none of these is here. */
function randomQuery(dice: Dice): string {
  if (dice.chance(0.3)) return '';
  const pieces = Array.from({ length: dice.below(5) }, () => {
    if (dice.chance(0.1))
      return dice.pick(['', '=', '?', '&', ';', 'id', `id=${'y'.repeat(dice.below(400))}`]);
    const name = dice.chance(0.1) ? dice.pick(otherNames) : dice.pick(names);
    return `${name}=${dice.chance(0.6) ? usualOf(name, dice) : dice.pick(values)}`;
  });
  return `?${pieces.join('&')}`;
}

/** Mostly a value that the parameter takes, so that many random queries are valid. */
function usualOf(name: string, dice: Dice): string {
  if (name === 'id') return `${dice.below(randomIds)}`;
  if (name === 'mode') return dice.pick(['keep', 'replace', 'reject']);
  if (name === 'literal') return 'true';
  if (name === 'maxAttempts') return `${1 + dice.below(100)}`;
  if (name === 'backoff') return dice.pick(['1m', '2n%2B1', '15s,3m,1h']);
  return name === 'at' ? `${later}Z` : `${1 + dice.below(50)}m`;
}
