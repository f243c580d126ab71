// Tests the ports for HTTP clients of ouqiang/delay-queue, sdmq and mykit-delay: a real intake on a real
// embedded store, whose clock the test moves instead of waiting.

import { connect } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePorts } from '../../scripts/services/free-port.ts';
import { apiLimits } from '../../src/api/limits.ts';
import { extensionOf } from '../../src/core/extension.ts';
import type { AttemptRecord } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { processLimits } from '../../src/process/limits.ts';
import { useCaseLimits } from '../../src/use-cases/limits.ts';
import { bury, failedAttempt } from '../support/handmade.ts';
import {
  type IntakeOptions,
  pullsWait,
  removeTokens,
  startIntake,
  tokenFor,
  withJobs,
} from '../support/intake.ts';
import { plainHttp } from '../support/plain-http.ts';
import { until } from '../support/until.ts';

const from = 1_893_456_000_000;
const popMs = 300;
const times = { frameMs: 10_000, idleMs: 60_000, drainIdleMs: 100, popMs };

async function start({ config = {}, ...options }: IntakeOptions = {}) {
  const [ouqiang = 0, sdmq = 0] = await freePorts(2);
  let now = from;
  const ports = { 'compat.ouqiang.port': ouqiang, 'compat.sdmq.port': sdmq };
  const dq = await startIntake({
    ...{ clock: () => now, compatTimes: times },
    ...options,
    config: { ...ports, ...config },
  });
  const { jobs } = dq.store;
  return {
    ...dq,
    ports: { ouqiang, sdmq },
    /** Moves the clock, and does the work of dq-timer. A due time is rounded up. */
    async pass(ms: number) {
      now += ms + 1;
      for (const partition of jobs.partitions()) await jobs.promote(partition, 500);
    },
    /** POST of ouqiang: the text of the reply, whose status is 200. */
    async ask(path: string, body: object | string): Promise<string> {
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      const reply = await plainHttp(ouqiang, 'POST', path, { body: text });
      expect([reply.status, reply.headers['content-type']]).toEqual([200, 'application/json']);
      return reply.text;
    },
    async sdmq(path: string): Promise<unknown> {
      const { status, text } = await plainHttp(sdmq, 'GET', path);
      expect(status).toBe(200);
      return JSON.parse(text);
    },
    async pushSdmq(message: object | string, type = 'application/json') {
      const body = typeof message === 'string' ? message : JSON.stringify(message);
      const { status, text } = await plainHttp(sdmq, 'POST', '/push', {
        ...{ body, headers: { 'content-type': type } },
      });
      return { status, ...(JSON.parse(text) as { success: boolean; data: string | null; message: string }) };
    },
  };
}

/** What HTTP clients send beside Host, Content-Type and Content-Length. */
const clientHeaders: readonly [string, Record<string, string>][] = [
  [
    'fetch of Node 20',
    {
      ...{ connection: 'keep-alive', accept: '*/*', 'accept-language': '*', 'sec-fetch-mode': 'cors' },
      ...{ 'user-agent': 'node', 'accept-encoding': 'gzip, deflate' },
    },
  ],
  [
    'fetch of undici',
    { accept: '*/*', 'accept-language': '*', 'sec-fetch-mode': 'cors', 'user-agent': 'undici' },
  ],
  ['request of undici', { connection: 'keep-alive' }],
  ['axios', { accept: 'application/json, text/plain, */*', 'user-agent': 'axios/1.21.1' }],
  [
    'got',
    {
      'user-agent': 'got (https://github.com/sindresorhus/got)',
      'accept-encoding': 'gzip, deflate, br',
    },
  ],
  [
    'Deno',
    { accept: '*/*', 'accept-language': '*', 'user-agent': 'Deno/2.9.6', 'accept-encoding': 'gzip,br' },
  ],
  ['Bun', { 'user-agent': 'Bun/1.4.5', accept: '*/*', 'accept-encoding': 'gzip, deflate, br, zstd' }],
  [
    'Java HttpClient',
    {
      ...{ connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'user-agent': 'Java-http-client/17.0.15' },
      'http2-settings': 'AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA',
    },
  ],
  [
    'Java HttpURLConnection',
    { 'user-agent': 'Java/17.0.15', accept: 'text/html, */*; q=0.2', connection: 'keep-alive' },
  ],
  ['OkHttp', { connection: 'Keep-Alive', 'accept-encoding': 'gzip', 'user-agent': 'okhttp/4.12.0' }],
  ['Go', { 'user-agent': 'Go-http-client/1.1', 'accept-encoding': 'gzip' }],
  ['urllib of Python', { 'user-agent': 'Python-urllib/3.11', 'accept-encoding': 'identity' }],
  ['requests of Python', { 'user-agent': 'python-requests/2.34.2', accept: '*/*', connection: 'keep-alive' }],
  ['curl', { 'user-agent': 'curl/7.88.1', accept: '*/*' }],
  ['wget', { 'user-agent': 'Wget/1.21.3', accept: '*/*', connection: 'Keep-Alive' }],
  ['a client behind a proxy with a Referer', { referer: 'http://gateway.example/' }],
];

const expired: AttemptRecord = { ...failedAttempt, reason: 'lease_expired', status: null };
const added = '{"code":0,"message":"添加成功","data":null}';
const done = '{"code":0,"message":"操作成功","data":null}';
const failed = (message: string) => JSON.stringify({ code: 1, message, data: null });
const push = { topic: 'order', id: 'a', delay: 10, ttr: 30, body: '{"n": 1.50}' };
const ok = (data: unknown = null) => ({ success: true, data, code: 200, message: null });
const bad = (message: string, data: unknown = null) => ({ success: false, data, code: 500, message });
const operator = { config: { 'compat.scopes': ['push', 'read', 'pull', 'operate'] } };

describe('ouqiang/delay-queue', () => {
  it('push, get, pop, finish: as its server answers, member for member', async () => {
    const dq = await start();
    expect(await dq.ask('/push', push)).toBe(added);
    const data = (from + 10_000) / 1_000;
    const got = `{"code":0,"message":"操作成功","data":{"topic":"order","id":"a","delay":${data},"ttr":30,"body":"{\\"n\\": 1.50}"}}`;
    expect(await dq.ask('/get', { id: 'a' })).toBe(got);
    expect(await dq.ask('/pop', { topic: 'order' })).toBe(done);
    await dq.pass(10_000);
    const popped = '{"code":0,"message":"操作成功","data":{"id":"a","body":"{\\"n\\": 1.50}"}}';
    expect(await dq.ask('/pop', { topic: ' nope , order' })).toBe(popped);
    expect(await dq.ask('/get', { id: 'a' })).toBe(got);
    expect(await dq.ask('/finish', { id: 'a' })).toBe(done);
    expect(await dq.store.jobs.get({ topic: 'order', id: 'a' })).toBeNull();
    expect(await dq.ask('/get', { id: 'a' })).toBe(done);
    expect(await dq.ask('/finish', { id: 'a' })).toBe(done);
    expect(await dq.ask('/delete', { id: 'a' })).toBe(done);
    expect(dq.counted.get('order delivered')).toBe(1);
    expect((await dq.api('GET', '/v1/topics/order')).body).toMatchObject({
      ...{ delivery: 'pull', lease: '1m', maxAttempts: 100, backoff: ['0s'], owner: 'compat' },
    });
    const lines = dq.requests.filter(({ via }) => via === 'ouqiang');
    expect(lines[0]).toMatchObject({ method: 'POST', topic: 'order', id: 'a', status: 201 });
  });

  it('push: keeps the own lease, the type of the body, and replaces', async () => {
    const dq = await start();
    await dq.ask('/push', '{"TOPIC":" order ","Id":"\\ta ","dElay":1,"ttr":7,"body":" text ","more":{}}');
    const job = await dq.store.jobs.get({ topic: 'order', id: 'a' });
    expect(job).toMatchObject({ extension: extensionOf({ leaseMs: 7_000 }), dueAt: from + 1_001 });
    expect([job?.contentType, String(job?.body)]).toEqual(['text/plain; charset=utf-8', 'text']);
    expect(await dq.ask('/push', push)).toBe(added);
    expect(await dq.store.jobs.get({ topic: 'order', id: 'a' })).toMatchObject({
      ...{ extension: extensionOf({ leaseMs: 30_000 }), contentType: 'application/json' },
    });
  });

  it('checks in the order of its server', async () => {
    const dq = await start();
    const delay = 'delay 取值范围1 - (2^31 - 1)';
    const rejected: [string, object | string, string][] = [
      ['/push', {}, 'job id不能为空'],
      ['/push', { id: ' ' }, 'job id不能为空'],
      ['/push', { id: 'a' }, 'topic 不能为空'],
      ['/push', { id: 'a', topic: 't' }, delay],
      ['/push', { ...push, delay: 0 }, delay],
      ['/push', { ...push, delay: 2_147_483_649 }, delay],
      ['/push', { ...push, ttr: 0 }, 'ttr 取值范围1 - 86400'],
      ['/push', { ...push, ttr: 86_401 }, 'ttr 取值范围1 - 86400'],
      ['/push', { ...push, delay: '1' }, '解析json失败'],
      ['/push', '{"id":"a","topic":"t","delay":1.0,"ttr":1}', '解析json失败'],
      ['/push', { ...push, id: 1 }, '解析json失败'],
      ['/push', '[]', '解析json失败'],
      ['/push', '', '解析json失败'],
      ['/push', '{"id":"a"} x', '解析json失败'],
      ['/pop', {}, 'topic不能为空'],
      ['/pop', { topic: ' , ' }, 'topic不能为空'],
      ['/pop', { topic: Array.from({ length: 101 }, (_, n) => `t${n}`).join() }, 'topic: at most 100 names'],
      ['/get', {}, 'job id不能为空'],
      ['/delete', { id: '' }, 'job id不能为空'],
      ['/finish', { id: null }, 'job id不能为空'],
    ];
    for (const [path, body, message] of rejected)
      expect(await dq.ask(path, body), `${path} ${JSON.stringify(body)}`).toBe(failed(message));
    await dq.api('POST', '/v1/topics', { topic: 'called', callbackUrl: 'http://127.0.0.1:9/' });
    expect(await dq.ask('/pop', { topic: 'called' })).toContain('"code":1');
    expect(await dq.ask('/push', { ...push, topic: 'called' })).toBe(added);
    expect(await dq.ask('/push', { ...push, topic: '会'.repeat(15) })).toContain('too long');
    expect((await plainHttp(dq.ports.ouqiang, 'POST', '/nope')).status).toBe(404);
  });

  it('topic names that dq does not allow are encoded, and read back', async () => {
    const dq = await start();
    await dq.ask('/push', { ...push, topic: '会员' });
    expect((await dq.api('GET', '/v1/topics/x__e4_bc_9a_e5_91_98')).body.title).toBe('会员');
    await dq.ask('/push', { ...push, id: 'b', topic: 'a\nb\u001b[2J' });
    expect((await dq.api('GET', '/v1/topics/x_a_0ab_1b_5b2J')).body.title).toBe('a b [2J');
    expect(JSON.parse(await dq.ask('/get', { id: 'a' })).data.topic).toBe('会员');
    await dq.pass(10_000);
    expect(JSON.parse(await dq.ask('/pop', { topic: '会员' })).data.id).toBe('a');
  });

  it('finish: without a known lease, ends pulled jobs of every topic and no other', async () => {
    const dq = await start();
    await dq.api('POST', '/v1/topics', { topic: 'called', callbackUrl: 'http://127.0.0.1:9/' });
    for (const topic of ['order', 'other', 'later', 'called']) await dq.ask('/push', { ...push, topic });
    await dq.ask('/push', { ...push, topic: 'later', delay: 86_400 });
    expect(JSON.parse(await dq.ask('/get', { id: 'a' })).data.topic).toBe('later');
    await dq.pass(10_000);
    // As another server does, which this one does not know.
    expect(
      (await dq.api('POST', '/v1/pull', { topics: ['order', 'other'], max: 2 })).body.items,
    ).toHaveLength(2);
    const owner = { instance: 7, incarnation: 1 };
    const others = { room: 9, leaseMs: 600_000 };
    const { jobs } = await dq.store.jobs.reserve(0, { owner, max: 9, others, topics: new Map() });
    expect(jobs.map(({ topic }) => topic)).toEqual(['called']);
    expect(await dq.ask('/finish', { id: 'a' })).toBe(done);
    for (const topic of ['order', 'other']) {
      expect(await dq.store.jobs.get({ topic, id: 'a' })).toBeNull();
      expect(dq.counted.get(`${topic} delivered`)).toBe(1);
    }
    expect((await dq.store.jobs.get({ topic: 'later', id: 'a' }))?.state).toBe('delayed');
    expect((await dq.store.jobs.get({ topic: 'called', id: 'a' }))?.state).toBe('reserved');
    expect(await dq.ask('/delete', { id: 'a' })).toBe(done);
    expect(dq.counted.get('later cancelled')).toBe(1);
  });

  it('finish: of a popped job, ends this one alone', async () => {
    const dq = await start();
    await dq.ask('/push', push);
    await dq.ask('/push', { ...push, topic: 'other' });
    await dq.pass(10_000);
    expect(JSON.parse(await dq.ask('/pop', { topic: 'order' })).data.id).toBe('a');
    expect(await dq.ask('/finish', { id: 'a' })).toBe(done);
    expect(await dq.store.jobs.get({ topic: 'order', id: 'a' })).toBeNull();
    expect((await dq.store.jobs.get({ topic: 'other', id: 'a' }))?.state).toBe('ready');
  });

  it('finish: of a lease that is lost, ends its version and no newer one', async () => {
    const { storeClockMs } = processLimits;
    onTestFinished(() => void Object.assign(processLimits, { storeClockMs }));
    Object.assign(processLimits, { storeClockMs: 0 });
    const dq = await start();
    const pop = async () => JSON.parse(await dq.ask('/pop', { topic: 'order' })).data?.id;
    const stored = () => dq.store.jobs.get({ topic: 'order', id: 'a' });
    await dq.ask('/push', push);
    await dq.pass(10_000);
    expect(await pop()).toBe('a');
    await dq.ask('/push', { ...push, delay: 86_400 });
    for (let n = 0; n < 2; n += 1) {
      expect(await dq.ask('/finish', { id: 'a' })).toBe(done);
      expect((await stored())?.state).toBe('delayed');
    }
    // The newer version, in the lease of a client of another server.
    await dq.pass(5_000);
    await dq.ask('/push', { ...push, delay: 1 });
    await dq.pass(1_000);
    const pulled = (await dq.api('POST', '/v1/topics/order/pull')).body.items;
    expect(pulled).toHaveLength(1);
    expect(await dq.ask('/finish', { id: 'a' })).toBe(done);
    expect((await stored())?.state).toBe('reserved');
    // The lease of the first pop has ended: only another server can have given a job to this client.
    await dq.pass(push.ttr * 1_000);
    await until('finish ends it', async () => {
      await dq.ask('/finish', { id: 'a' });
      return (await stored()) === null;
    });
  });

  it('finish: ends the job whose attempt has failed meanwhile', async () => {
    const dq = await start();
    await dq.ask('/push', push);
    await dq.pass(10_000);
    expect(JSON.parse(await dq.ask('/pop', { topic: 'order' })).data.id).toBe('a');
    await dq.pass(push.ttr * 1_000);
    const { pulled = [] } = await dq.store.jobs.recover(0, 1);
    const retries = pulled.map(({ lease }) => ({ ...lease, delayMs: 9_000, attempt: expired }));
    expect(await dq.store.jobs.retry(retries)).toEqual([{ kind: 'retried' }]);
    expect(await dq.ask('/finish', { id: 'a' })).toBe(done);
    expect(await dq.store.jobs.get({ topic: 'order', id: 'a' })).toBeNull();
  });

  it('finish: without a known lease, ends the job whose lease has expired, and no later push', async () => {
    const dq = await start();
    const stored = () => dq.store.jobs.get({ topic: 'order', id: 'a' });
    // As another server gives it, which this one does not know.
    const expire = async () => {
      await dq.pass(10_000);
      expect((await dq.api('POST', '/v1/topics/order/pull')).body.items).toHaveLength(1);
      await dq.pass(push.ttr * 1_000);
      const { pulled = [] } = await dq.store.jobs.recover(0, 1);
      const retries = pulled.map(({ lease }) => ({ ...lease, delayMs: 9_000, attempt: expired }));
      expect(await dq.store.jobs.retry(retries)).toEqual([{ kind: 'retried' }]);
    };
    await dq.ask('/push', push);
    await expire();
    await dq.ask('/push', push);
    expect(await dq.ask('/finish', { id: 'a' })).toBe(done);
    expect((await stored())?.state).toBe('delayed');
    await expire();
    expect(await dq.ask('/finish', { id: 'a' })).toBe(done);
    expect(await stored()).toBeNull();
    expect(dq.counted.get('order delivered')).toBe(1);
  });

  it('pop: the limit for connections without traffic does not cut it', async () => {
    const frontTimes = { ...limits, ...apiLimits, connectionTimeoutMs: 1_000, connectionsCheckMs: 50 };
    const dq = await start({ times: frontTimes, compatTimes: { ...times, popMs: 2_500 } });
    expect(await dq.ask('/pop', { topic: 'order' })).toBe(done);
  });

  it('pop: a body that is not UTF-8 is base64', async () => {
    const dq = await start();
    await dq.api('POST', '/v1/topics', { topic: 'order', delivery: 'pull' });
    await dq.push('order', Buffer.from([0xff, 0]), '?id=b', 'application/octet-stream');
    expect(await dq.ask('/pop', { topic: 'order' })).toBe(
      '{"code":0,"message":"操作成功","data":{"id":"b","body":"/wA=","encoding":"base64"}}',
    );
  });

  it('unknown is 503 in its format; a push that was not stored is code 1', async () => {
    let kind: 'unknown' | 'not_stored' = 'unknown';
    const dq = await start({
      store: withJobs(() => ({
        push: async (jobs) => jobs.map(() => ({ kind, code: 'x' })),
        search: () => Promise.reject(new StoreError({ kind: 'not_stored', code: 'x' })),
      })),
    });
    const ask = async (path: string, body: object) => {
      const { status, text } = await plainHttp(dq.ports.ouqiang, 'POST', path, {
        body: JSON.stringify(body),
      });
      return [status, JSON.parse(text).code];
    };
    expect(await ask('/push', push)).toEqual([503, 1]);
    expect(await ask('/get', { id: 'a' })).toEqual([503, 1]);
    expect(await ask('/finish', { id: 'a' })).toEqual([503, 1]);
    const message = await dq.pushSdmq({ topic: 't', id: 'i' });
    expect(message).toMatchObject({ status: 503, success: false, data: 'i' });
    kind = 'not_stored';
    expect(await ask('/push', push)).toEqual([200, 1]);
  });
});

describe('access', () => {
  it('web pages, foreign hosts and unknown tokens are rejected in the format of the protocol', async () => {
    const dq = await start();
    const ask = async (headers: Record<string, string>) =>
      (await plainHttp(dq.ports.ouqiang, 'POST', '/push', { body: JSON.stringify(push), headers })).text;
    const pages: Record<string, string>[] = [
      { origin: 'http://127.0.0.1' },
      { 'sec-fetch-site': 'none' },
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'user-agent': 'node' },
      { 'user-agent': 'Opera/9.80 (J2ME/MIDP)' },
      { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64)' },
      { host: 'evil.example' },
      { authorization: 'Bearer dqk_x' },
    ];
    for (const headers of pages) {
      const reply = await plainHttp(dq.ports.sdmq, 'GET', '/delete?jobId=a', { headers });
      expect([reply.status, JSON.parse(reply.text).success]).toEqual([
        ...[headers['authorization'] === undefined ? 403 : 401, false],
      ]);
      expect(JSON.parse(await ask(headers))).toMatchObject({ code: 1, data: null });
    }
    expect(await ask({ authorization: 'dqk_x' })).toContain('must be the word Bearer');
    expect(await dq.topics.lookUp('order')).toBeUndefined();
    expect(await ask({ host: 'localhost:1' })).toBe(added);
  });

  it('pushes of HTTP clients are accepted', async () => {
    const dq = await start();
    for (const [name, headers] of clientHeaders) {
      const body = JSON.stringify(push);
      const reply = await plainHttp(dq.ports.ouqiang, 'POST', '/push', { body, headers });
      expect(reply.text, name).toBe(added);
      const finish = await plainHttp(dq.ports.sdmq, 'GET', '/finish?jobId=a', { headers });
      expect(finish.status, name).toBe(200);
    }
    const url = `http://127.0.0.1:${dq.ports.ouqiang}/push`;
    const reply = await fetch(url, { method: 'POST', body: JSON.stringify(push) });
    expect(await reply.text()).toBe(added);
  });

  it('push: waits behind a share of another connection, not behind all that it has sent', async () => {
    const order: string[] = [];
    const held: (() => void)[] = [];
    let isHeld = true;
    const dq = await start({
      store: withJobs((real) => ({
        push: async (items) => {
          if (isHeld) await new Promise<void>((resolve) => held.push(resolve));
          order.push(...items.map(({ id }) => id));
          return real.push(items);
        },
      })),
    });
    await dq.api('POST', '/v1/topics', { topic: 't', delivery: 'pull' });
    const pushOf = (id: string) => {
      const body = JSON.stringify({ topic: 't', id, delay: 60, ttr: 60, body: 'x' });
      return `POST /push HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    };
    const send = (ids: readonly string[]) => {
      const socket = connect(dq.ports.ouqiang, '127.0.0.1').resume();
      onTestFinished(() => void socket.destroy());
      socket.write(ids.map(pushOf).join(''));
    };
    send(Array.from({ length: 3_000 }, (_, n) => `deep${n}`));
    await until('all have arrived', () => dq.role.inFlight() === 3_000);
    send(['other']);
    await until('the other one has arrived', () => dq.role.inFlight() === 3_001);
    isHeld = false;
    for (const release of held) release();
    await until('all are stored', () => order.length === 3_001);
    expect(order.indexOf('other')).toBeLessThan(useCaseLimits.batchFeedItemsMax + 3 * limits.pushBatchMax);
  });

  it('push: accepts each delay that its server accepts', async () => {
    const dq = await start();
    expect(await dq.ask('/push', { ...push, delay: 2_147_483_648 })).toBe(added);
    const job = await dq.store.jobs.get({ topic: 'order', id: 'a' });
    expect(job?.dueAt).toBe(from + 2_147_483_648_001);
    expect(JSON.parse(await dq.ask('/get', { id: 'a' })).data.delay).toBe((from + 2_147_483_648_000) / 1_000);
    expect((await dq.api('GET', '/v1/topics/order/jobs/a')).body.dueAt).toBe('2098-01-19T03:14:08.001Z');
  });

  it('addresses outside compat.allow get 403', async () => {
    const dq = await start({ config: { 'compat.allow': ['10.0.0.0/8'] } });
    const { status, text } = await plainHttp(dq.ports.ouqiang, 'POST', '/pop', { body: '{}' });
    expect([status, JSON.parse(text)]).toEqual([
      ...[403, { code: 1, message: '127.0.0.1 is not in compat.allow', data: null }],
    ]);
  });

  it('the rights of compat.scopes and compat.topics apply, or those of a token', async () => {
    const dq = await start({ config: { 'compat.scopes': ['push'], 'compat.topics': ['order'] } });
    expect(await dq.ask('/push', push)).toBe(added);
    expect(await dq.ask('/push', { ...push, topic: 'x' })).toContain('compat.topics does not cover');
    for (const [path, scope] of [
      ['/pop', 'pull'],
      ['/finish', 'pull'],
      ['/get', 'read'],
    ] as const)
      expect(await dq.ask(path, { topic: 'order', id: 'a' })).toBe(
        failed(`compat.scopes lacks the scope ${scope}; add it`),
      );
    expect(await dq.sdmq('/clearAll')).toEqual(bad('compat.scopes lacks the scope operate; add it'));
    const { headers } = await tokenFor(dq, ['*'], ['read']);
    const body = JSON.stringify({ id: 'a' });
    const get = () => plainHttp(dq.ports.ouqiang, 'POST', '/get', { body, headers });
    expect(JSON.parse((await get()).text).data.id).toBe('a');
    const pop = await plainHttp(dq.ports.ouqiang, 'POST', '/finish', { body, headers });
    expect(pop.text).toBe(failed('the token lacks the scope pull; add it'));
  });

  it.each(['ouqiang', 'sdmq'] as const)(
    'pop of %s: gets no job after its token was removed',
    async (port) => {
      const dq = await start({ compatTimes: { ...times, popMs: 60_000 } });
      const { headers } = await tokenFor(dq, ['order'], ['pull']);
      const [method, path] = port === 'sdmq' ? ['GET', '/get/order?wait=1m'] : ['POST', '/pop'];
      const body = port === 'sdmq' ? '' : '{"topic":"order"}';
      const waiting = plainHttp(dq.ports[port], method as string, path as string, { body, headers });
      await pullsWait(dq, 1);
      await removeTokens(dq, headers);
      await dq.ask('/push', push);
      await dq.pass(10_000);
      expect((await waiting).text).toContain('unknown or expired token');
      expect(await dq.ask('/pop', { topic: 'order' })).toContain('"id":"a"');
    },
  );

  it('compat.autoTopics off: a push to an unknown topic is rejected', async () => {
    const dq = await start({ config: { 'compat.autoTopics': 'off' } });
    expect(await dq.ask('/push', push)).toBe(failed('there is no topic "order"'));
    expect(await dq.topics.lookUp('order')).toBeUndefined();
  });

  it('a body that is too large is rejected', async () => {
    const dq = await start({ config: { 'limits.bodyBytes': 10 } });
    expect(await dq.ask('/push', { ...push, body: 'x'.repeat(11) })).toContain('larger than 10 bytes');
    const { status } = await plainHttp(dq.ports.ouqiang, 'POST', '/push', { body: 'x'.repeat(20_000) });
    expect(status).toBe(413);
  });
});

describe('sdmq and mykit-delay', () => {
  it('push: due at createTime + delay; its id or a generated one', async () => {
    const dq = await start();
    const at = async (id: string) => (await dq.store.jobs.get({ topic: 't', id }))?.dueAt;
    expect(await dq.pushSdmq({ topic: 't', id: 'a', delay: '5000', body: 7, more: [] })).toEqual({
      ...{ status: 200, ...ok('a') },
    });
    expect(await at('a')).toBe(from + 5_001);
    expect(String((await dq.store.jobs.get({ topic: 't', id: 'a' }))?.body)).toBe('7');
    await dq.pushSdmq({ topic: 't', id: 'b', delay: 5_000, createTime: from + 60_000, status: 5 });
    expect(await at('b')).toBe(from + 65_000);
    await dq.pushSdmq({ topic: 't', id: 'c', delay: 5_000, createTime: 1 });
    expect(await at('c')).toBe(from);
    expect((await dq.pushSdmq({ topic: 't' })).data).toMatch(/^t:[0-9a-f-]{36}$/);
    expect((await dq.pushSdmq({ topic: 't', bizKey: 'k' })).data).toMatch(/^t:k:[0-9a-f-]{36}$/);
    const read = await dq.pushSdmq({ topic: 't', id: 'b', status: '1' });
    expect(read).toMatchObject({ status: 200, ...bad('任务b状态异常') });
    expect(await dq.pushSdmq({ id: 'b' })).toMatchObject({ status: 200, ...bad('参数topic错误') });
    expect(await dq.pushSdmq('{')).toMatchObject({ status: 400, success: false, code: 500 });
    expect(await dq.pushSdmq({ topic: {} })).toMatchObject({ status: 400, success: false });
    expect(await dq.pushSdmq({ topic: 't' }, 'text/plain')).toMatchObject({ status: 415, success: false });
  });

  it('push: to a topic with format message, stores the whole message', async () => {
    const dq = await start();
    const more = { callbackUrl: 'http://127.0.0.1:9/', format: 'message' };
    expect((await dq.api('POST', '/v1/topics', { topic: 't', ...more })).status).toBe(201);
    await dq.pushSdmq({
      ...{ extendData: '{"k":1}', topic: 't', body: 'b', delay: '05', id: 1, subtopic: 's', bizKey: 'k' },
    });
    expect(String((await dq.store.jobs.get({ topic: 't', id: '1' }))?.body)).toBe(
      '{"topic":"t","subtopic":"s","id":"1","bizKey":"k","delay":5,"body":"b","extendData":"{\\"k\\":1}"}',
    );
  });

  it('delete and finish: ok also for an unknown job; of a job that is done, in the history', async () => {
    const dq = await start();
    await dq.pushSdmq({ topic: 't', id: 'a' });
    for (const path of ['/delete?jobId=a', '/DELETE?id=a', '/finish?jobId=a'])
      expect(await dq.sdmq(path)).toEqual(ok());
    await dq.pushSdmq({ topic: 't', id: 'b' });
    expect(await dq.sdmq('/finish?jobId=b')).toEqual(ok());
    expect(await dq.sdmq('/get/t')).toMatchObject({ data: { id: 'b' } });
    expect(await dq.sdmq('/finish?jobId=b')).toEqual(ok());
    expect(await dq.sdmq('/delete?jobId=b')).toEqual(bad('任务 b 已经完成'));
    expect(await dq.sdmq('/delete')).toEqual(bad('参数jobId错误'));
    expect((await plainHttp(dq.ports.sdmq, 'POST', '/delete?jobId=a')).status).toBe(405);
    expect((await plainHttp(dq.ports.sdmq, 'GET', '/nope')).status).toBe(404);
  });

  it('reStoreJob, reStore and clearAll', async () => {
    const dq = await start(operator);
    await dq.pushSdmq({ topic: 't', id: 'live', delay: 9_000 });
    await dq.api('POST', '/v1/topics', { topic: 'd', callbackUrl: 'http://127.0.0.1:9/' });
    await bury(dq, 'd', ['dead', 'dead2']);
    expect(await dq.sdmq('/reStoreJob?jobId=live')).toEqual(ok());
    expect(await dq.sdmq('/restore/dead')).toEqual(ok());
    expect((await dq.store.jobs.get({ topic: 'd', id: 'dead' }))?.state).toBe('ready');
    expect(await dq.sdmq('/reStoreJob?jobId=nope')).toEqual(bad('Job不存在!'));
    expect(await dq.sdmq('/reStore?expire=false')).toEqual(ok('花费了0 ms，恢复 0 行数据'));
    expect(await dq.sdmq('/clearAll')).toEqual(ok(expect.stringMatching(/^花费了\d+ ms，删除 3 行数据$/)));
    expect((await dq.store.admin.counts()).topics).toEqual({});
  });

  it('clearAll: only the topics of compat.topics', async () => {
    const dq = await start({ config: { ...operator.config, 'compat.topics': ['t.*'] } });
    await dq.pushSdmq({ topic: 't.1', id: 'a' });
    await dq.api('POST', '/v1/topics', { topic: 'u', callbackUrl: 'http://127.0.0.1:9/' });
    await dq.push('u', '{}', '?id=kept');
    expect(await dq.sdmq('/clearAll')).toEqual(ok(expect.stringContaining('删除 1 行数据')));
    expect(Object.keys((await dq.store.admin.counts()).topics)).toEqual(['u']);
  });

  it('get: one job as a message, or null; ack=true ends it', async () => {
    const dq = await start();
    const encoded = 'x__e4_bc_9a_e5_91_98';
    await dq.pushSdmq({ topic: '会员', id: 'a', delay: 1_000, body: 'b' });
    const path = `/get/${encodeURIComponent('会员')}?wait=100ms`;
    expect(await dq.sdmq(path)).toEqual(ok());
    await dq.pass(1_000);
    const data = { topic: '会员', id: 'a', delay: 1_001, body: 'b', createTime: from, status: 2 };
    expect(await dq.sdmq(path)).toEqual(ok(data));
    expect(await dq.sdmq('/finish?jobId=a')).toEqual(ok());
    await dq.pushSdmq({ topic: '会员', id: 'c' });
    expect(await dq.sdmq(`${path}&ack=true`)).toMatchObject({ data: { id: 'c', status: 2 } });
    const bytes = { id: 'e', body: '/wA=', encoding: 'base64' };
    await dq.push(encoded, Buffer.from([0xff, 0]), '?id=e', 'application/octet-stream');
    expect(await dq.sdmq(`${path}&ack=true`)).toMatchObject({ data: bytes });
    expect((await dq.store.admin.counts()).topics).toEqual({});
  });

  it('get: a job whose end is not stored is ready again', async () => {
    const failure = { kind: 'not_stored', code: 'busy' } as const;
    const ack = async (items: readonly unknown[]) => items.map(() => failure);
    const dq = await start({ store: withJobs(() => ({ ack })) });
    await dq.pushSdmq({ topic: 't', id: 'a' });
    expect(await dq.sdmq('/get/t?ack=true')).toMatchObject({ success: false, data: null });
    expect(await dq.sdmq('/get/t?wait=60s')).toMatchObject({ data: { id: 'a' } });
  });
});
