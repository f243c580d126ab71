// A plain push goes past the routes, one with an escape in its path (`/topics/%74/jobs`) through them. Both
// ways give the same reply and the same line of the request log, byte for byte but for times, ids and
// versions, and store the same job.
// `DQ_PUSH_FUZZ=20000` sends that many random pushes each way.

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect, it, onTestFinished } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import type { Scope } from '../../src/core/token.ts';
import { bearer, startIntake, type TestIntake, tokenFor } from '../support/intake.ts';
import { texts, words } from '../support/words.ts';

const callbackUrl = 'http://127.0.0.1:9/';
const json = 'application/json';

/** Each way has a server of its own, so that an id is new to both. */
interface Ways {
  readonly direct: TestIntake;
  readonly routed: TestIntake;
}

async function startWays(): Promise<Ways> {
  return { direct: await start(), routed: await start() };
}

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

async function exchange(ways: Ways, push: Push, way: keyof Ways): Promise<unknown> {
  const dq = ways[way];
  const { method = 'POST', topic = 't', version = '1.1', headers = [], contentType = json, cut } = push;
  const name = way === 'direct' ? topic : topic.replace(/^\w/, escaped);
  const body = Buffer.from(push.body ?? '{"order":4711}');
  const chunked = headers.includes('transfer-encoding: chunked');
  const lines = [
    `${method} /v1/topics/${name}/jobs${push.query ?? ''} HTTP/${version}`,
    ...(headers.some((line) => line.startsWith('host:')) ? [] : ['host: 127.0.0.1']),
    ...(contentType === null ? [] : [`content-type: ${contentType}`]),
    ...(chunked || headers.some((line) => line.startsWith('content-length:'))
      ? []
      : [`content-length: ${body.length}`]),
    ...(push.credentials === undefined ? [] : [`authorization: ${push.credentials[way]}`]),
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
  return { received: withoutTimes(received).replaceAll(`/topics/${name}/`, `/topics/${topic}/`), logged };
}

const escaped = (text: string): string => `%${text.charCodeAt(0).toString(16)}`;

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
  );
}

async function expectSame(ways: Ways, push: Push): Promise<string> {
  const direct = await exchange(ways, push, 'direct');
  const routed = await exchange(ways, push, 'routed');
  expect(direct, JSON.stringify(push)).toEqual(routed);
  return (direct as { received: string }).received;
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
  expect([ways.direct.errors, ways.routed.errors]).toEqual([[], []]);
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
    const credentials = { direct: await tokenOf(ways.direct), routed: await tokenOf(ways.routed) };
    expect(await expectSame(ways, { credentials })).toContain(` ${status} `);
  }
  const { authorization } = bearer('dqk_000000000000_x');
  const credentials = { direct: authorization, routed: authorization };
  expect(await expectSame(ways, { credentials })).toContain(' 401 ');
  expect(await expectSame(ways, {})).toContain(' 401 ');
});

it('a plain push goes past the routes, also as the second of a connection', async () => {
  const dq = await start();
  expect(await statusesAndRouted(dq, ['', '', ''])).toEqual({ statuses: ['201', '201', '201'], routed: 0 });
});

it('a push with known parameters goes past the routes', async () => {
  const dq = await start();
  const queries = [
    'id=4711&delay=30m',
    `id=a%2fb&at=${later}%2B08:00`,
    'mode=keep&maxAttempts=3&backoff=1m,2m',
  ];
  const statuses = ['201', '201', '201'];
  expect(await statusesAndRouted(dq, queries)).toEqual({ statuses, routed: 0 });
  expect(await statusesAndRouted(dq, ['deadline=2h', 'literal=true', ''])).toEqual({ statuses, routed: 0 });
});

it('only the route rejects a query', async () => {
  const dq = await start();
  const queries = ['other=1', 'id=a&id=b', 'id=%ff', 'delay=5', 'mode=other', 'literal=false'];
  const statuses = queries.map(() => '400');
  // The route's handler sees only the value that the schema admits.
  expect(await statusesAndRouted(dq, queries)).toEqual({ statuses, routed: 1 });
});

/** `routed`: of them, those that a handler of Fastify served. */
async function statusesAndRouted(dq: TestIntake, queries: readonly string[]): Promise<unknown> {
  let routed = 0;
  const count = () => {
    routed += 1;
  };
  subscribe('tracing:fastify.request.handler:start', count);
  onTestFinished(() => void unsubscribe('tracing:fastify.request.handler:start', count));
  const connection = dq.open();
  const push = (query: string) =>
    `POST /v1/topics/t/jobs${query === '' ? '' : `?${query}`} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ${json}\r\ncontent-length: 2\r\n\r\n{}`;
  connection.send(queries.map(push).join('') + last);
  const replies = [...(await connection.closed).matchAll(/HTTP\/1.1 (\d+) /g)].map(([, status]) => status);
  unsubscribe('tracing:fastify.request.handler:start', count);
  // The last request does not push.
  return { statuses: replies.slice(0, -1), routed: routed - 1 };
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
      expect(await stored(ways.direct), path).toEqual(await stored(ways.routed));
    }
  expect([ways.direct.errors, ways.routed.errors]).toEqual([[], []]);
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
