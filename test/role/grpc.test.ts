// Tests the gRPC port: a real intake on a real embedded store, called by the C implementation of gRPC and by
// the bytes that a consumer of Dubbo 3 sends.

import { once } from 'node:events';
import {
  type ClientHttp2Session,
  connect as connectHttp2,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2';
import { connect, createServer } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePorts } from '../../scripts/services/free-port.ts';
import { apiLimits } from '../../src/api/limits.ts';
import { optionsIn } from '../../src/core/extension.ts';
import { limits } from '../../src/core/limits.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { listen } from '../../src/runtime/listen.ts';
import { framed, type GrpcAnswer, grpcClient, rawGrpc } from '../support/grpc-client.ts';
import {
  type IntakeOptions,
  pullsWait,
  removeTokens,
  startIntake,
  tokenFor,
  withJobs,
} from '../support/intake.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { lacks } from '../support/services.ts';
import { until } from '../support/until.ts';

const from = 1_893_456_000_000;
const mib = 1024 * 1024;
const isMissing = await lacks('grpc');

async function start({ config = {}, ...options }: IntakeOptions = {}) {
  const [port = 0] = await freePorts(1);
  let now = from;
  const dq = await startIntake({
    ...{ clock: () => now, ...options },
    config: { 'compat.grpc.port': port, ...config },
  });
  const { jobs } = dq.store;
  const topic = { topic: 'order', delivery: 'pull', lease: '60s', backoff: ['1m'], maxAttempts: 3 };
  await dq.api('POST', '/v1/topics', topic);
  const client = await grpcClient(port);
  return {
    dq,
    ...dq,
    ...client,
    port,
    job: (id: string) => jobs.get({ topic: 'order', id }),
    push: (request: object) => client.queue('Push', { topic: 'order', ...request }),
    async pull(request: object = {}) {
      const { code, reply, details } = await client.queue('Pull', { topics: ['order'], ...request });
      expect([code, details]).toEqual(['OK', 'OK']);
      return (reply.jobs ?? []) as Record<string, string>[];
    },
    /** Moves the clock, and does the work of dq-timer. */
    async pass(ms: number) {
      now += ms + 1;
      for (const partition of jobs.partitions()) await jobs.promote(partition, 500);
    },
    waits: () => pullsWait(dq, 1),
  };
}

const failure = ({ code, details, trailers }: GrpcAnswer) => ({
  ...{ code, details, dq: trailers['dq-code'], field: trailers['dq-field'] },
});

describe.skipIf(isMissing)('dq.v1.Queue', () => {
  it('push, get, pull, extend, nack, ack: a job through its life', async () => {
    const dq = await start();
    const pushed = await dq.push({ id: 'a', body: btoa('{"n":1}'), contentType: 'text/x', delay: '10s' });
    const version: unknown = pushed.reply['version'];
    // A version ends with microseconds of its own.
    expect(Math.floor(Number(version) / 1_000)).toBe(from);
    const dueAt = '2030-01-01T00:00:10.001Z';
    expect(pushed.reply).toEqual({ topic: 'order', id: 'a', version, state: 'delayed', dueAt });
    const got = await dq.queue('Get', { topic: 'order', id: 'a' });
    expect(got.reply).toMatchObject({
      ...{ topic: 'order', id: 'a', version, state: 'delayed', dueAt, maxAttempts: 3 },
      ...{ createdAt: '2030-01-01T00:00:00.000Z', contentType: 'text/x', body: btoa('{"n":1}') },
    });
    expect(await dq.pull()).toEqual([]);
    await dq.pass(10_000);
    const [job] = await dq.pull({ lease: '2m' });
    expect(job).toMatchObject({
      ...{ topic: 'order', id: 'a', version, attempt: 1, maxAttempts: 3, body: btoa('{"n":1}') },
      ...{ webhookId: got.reply.webhookId, leaseUntil: '2030-01-01T00:02:10.001Z', contentType: 'text/x' },
    });
    const leases = [job?.['lease']];
    const extended = await dq.queue('Extend', { leases, duration: '10m' });
    expect(extended.reply).toEqual({ results: [{ leaseUntil: '2030-01-01T00:10:10.001Z' }] });
    const nacked = await dq.queue('Nack', { leases, delay: '5s', reason: 'locked' });
    expect(nacked.reply).toEqual({ results: [{}] });
    expect((await dq.queue('Ack', { leases })).reply).toEqual({ results: [{ code: 'lease_lost' }] });
    await dq.pass(5_000);
    const [again] = await dq.pull();
    expect(again).toMatchObject({ id: 'a', attempt: 2 });
    const last = [again?.['lease']];
    expect((await dq.queue('Nack', { leases: last, release: true })).reply).toEqual({ results: [{}] });
    const [third] = await dq.pull();
    expect(third).toMatchObject({ id: 'a', attempt: 2 });
    expect((await dq.queue('Ack', { leases: [third?.['lease']] })).reply).toEqual({ results: [{}] });
    const ended = (await dq.queue('Get', { topic: 'order', id: 'a' })).reply;
    expect(ended).toMatchObject({ state: 'done', attempt: 2, endedAt: '2030-01-01T00:00:15.002Z' });
    expect(ended.body).toBeUndefined();
    expect(ended.attempts).toMatchObject([
      { attempt: 1, outcome: 'failed', reason: 'nacked', detail: 'locked' },
      { attempt: 2, outcome: 'delivered' },
    ]);
    expect(dq.counted.get('order delivered')).toBe(1);
    expect(dq.requests[0]).toMatchObject({ topic: 'order', id: 'a', status: 201, via: 'grpc' });
  });

  it('push: modes, options of a job, its trace; cancel', async () => {
    const dq = await start();
    const parent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const options = { maxAttempts: 5, backoff: '15s,3m', deadline: '2030-01-01T02:00:00Z', lease: '7s' };
    await dq.queue('Push', { topic: 'order', id: 'a', ...options }, { metadata: { traceparent: parent } });
    expect(optionsIn((await dq.job('a'))?.extension)).toMatchObject({
      ...{ maxAttempts: 5, backoff: { stepsMs: [15_000, 180_000] }, leaseMs: 7_000 },
      deadline: from + 7_200_000,
    });
    const [pulled] = await dq.pull();
    expect(pulled).toMatchObject({ maxAttempts: 5, traceparent: parent });
    expect((await dq.push({ id: 'a' })).reply).toMatchObject({ replaced: true, inFlight: true });
    expect((await dq.push({ id: 'a', mode: 'KEEP' })).reply).toMatchObject({ duplicate: true });
    expect(failure(await dq.push({ id: 'a', mode: 'REJECT' }))).toMatchObject({
      ...{ code: 'ALREADY_EXISTS', dq: 'job_exists' },
    });
    expect((await dq.queue('Cancel', { topic: 'order', id: 'a' })).reply).toEqual({});
    expect(failure(await dq.queue('Cancel', { topic: 'order', id: 'a' }))).toMatchObject({
      ...{ code: 'NOT_FOUND', dq: 'job_not_found' },
    });
    const made = (await dq.push({ id: undefined, at: '2030-01-01T08:00:00+08:00' })).reply;
    expect([made.id.length, made.state]).toEqual([36, 'ready']);
  });

  it('a batch: a result for each job, in order', async () => {
    const dq = await start();
    const token = (await tokenFor(dq.dq, ['ord*'], ['push'])).token;
    const jobs = [
      { topic: 'order', id: 'a', body: btoa('1') },
      { topic: 'order', id: 'a', body: btoa('2') },
      { topic: 'order', maxAttempts: 101 },
      { topic: 'ordinary' },
      { topic: 'other' },
      { topic: 'order', body: Buffer.alloc(256 * 1024 + 1).toString('base64') },
      { topic: 'order', body: btoa('{'), contentType: 'application/json' },
    ];
    const { reply } = await dq.queue('PushBatch', { jobs }, { token });
    expect([reply.accepted, reply.failed]).toEqual([2, 5]);
    expect(reply.results).toMatchObject([
      { job: { id: 'a', state: 'ready' } },
      { job: { id: 'a', replaced: true } },
      {
        error: {
          ...{ code: 'invalid', field: 'max_attempts' },
          message: 'max_attempts: must be a number from 1 to 100, not 101',
        },
      },
      { error: { code: 'topic_not_found' } },
      { error: { code: 'forbidden' } },
      { error: { code: 'body_too_large' } },
      { error: { code: 'malformed_json', field: 'body' } },
    ]);
    expect(String((await dq.job('a'))?.body)).toBe('2');
    const many = Array.from({ length: limits.batchItemsMax + 1 }, () => ({ topic: 'order' }));
    expect(failure(await dq.queue('PushBatch', { jobs: many }, { token }))).toMatchObject({ field: 'jobs' });
  });

  it('errors: the code, the field and the remedy are in the trailers', async () => {
    const dq = await start();
    await dq.api('POST', '/v1/topics', { topic: 'called', callbackUrl: 'http://127.0.0.1:9/' });
    await dq.api('POST', '/v1/topics/called/offline');
    const cases: [string, object, string, string, string?][] = [
      ['Push', { topic: 'order', delay: '10' }, 'INVALID_ARGUMENT', 'invalid', 'delay'],
      ['Push', { topic: 'order', delay: '1s', at: '1' }, 'INVALID_ARGUMENT', 'invalid', 'at'],
      ['Push', { topic: 'order', id: '' }, 'INVALID_ARGUMENT', 'invalid', 'id'],
      ['Push', { topic: 'order', mode: 7 }, 'INVALID_ARGUMENT', 'invalid', 'mode'],
      ['Push', { topic: 'order', contentType: 'a\nb' }, 'INVALID_ARGUMENT', 'invalid', 'content_type'],
      ['Push', { topic: 'order', backoff: '{' }, 'INVALID_ARGUMENT', 'invalid', 'backoff'],
      ['Push', { topic: 'nö' }, 'NOT_FOUND', 'topic_not_found'],
      ['Push', { topic: 'called' }, 'FAILED_PRECONDITION', 'topic_offline'],
      ['Get', { topic: 'order', id: 'x' }, 'NOT_FOUND', 'job_not_found'],
      ['Get', { topic: 'nope', id: 'x' }, 'NOT_FOUND', 'topic_not_found'],
      ['Get', { topic: 'order' }, 'INVALID_ARGUMENT', 'invalid', 'id'],
      ['Cancel', { topic: 'order' }, 'INVALID_ARGUMENT', 'invalid'],
      ['Pull', {}, 'INVALID_ARGUMENT', 'invalid', 'topics'],
      ['Pull', { topics: ['nope'] }, 'NOT_FOUND', 'topic_not_found'],
      ['Pull', { topics: ['called'] }, 'FAILED_PRECONDITION', 'topic_not_pull'],
      ['Pull', { topics: ['order'], max: 0 }, 'INVALID_ARGUMENT', 'invalid', 'max'],
      ['Pull', { topics: ['order'], wait: '181s' }, 'INVALID_ARGUMENT', 'invalid', 'wait'],
      ['Pull', { topics: ['order'], lease: '1' }, 'INVALID_ARGUMENT', 'invalid', 'lease'],
      ['Ack', {}, 'INVALID_ARGUMENT', 'invalid', 'leases'],
      ['Nack', { leases: ['?'], release: true, dead: true }, 'INVALID_ARGUMENT', 'invalid', 'release'],
      ['Nack', { leases: ['?'], reason: 'x'.repeat(201) }, 'INVALID_ARGUMENT', 'invalid', 'reason'],
      ['Extend', { leases: ['?'] }, 'INVALID_ARGUMENT', 'invalid', 'duration'],
    ];
    for (const [method, request, code, dqCode, field] of cases) {
      const answer = failure(await dq.queue(method, request));
      expect(answer, `${method} ${JSON.stringify(request)}`).toMatchObject({ code, dq: dqCode });
      expect(answer.field, `${method} ${JSON.stringify(request)}`).toBe(field);
      if (field !== undefined)
        expect(answer.details).toMatch(new RegExp(`^${field.replace(/\W/g, '\\$&')}: `));
    }
    const { trailers } = await dq.push({ delay: '10' });
    expect(trailers['dq-remedy']).toContain('10s');
    // Any text of a caller can be in a message.
    expect((await dq.queue('Pull', { topics: ['会\n员'] })).details).toBe('there is no topic "会\\n员"');
    // Long, and cut within a character
    for (const name of ['会'.repeat(30_000), `x${'😀'.repeat(30_000)}`]) {
      const answers = [await dq.push({ topic: name }), await dq.health(name), await dq.push({ delay: name })];
      for (const { code, details } of answers) {
        expect(['NOT_FOUND', 'INVALID_ARGUMENT']).toContain(code);
        expect(details.length).toBeLessThan(1_300);
      }
    }
    expect((await dq.push({ backoff: `{"type":"${'😀'.repeat(40)}"}` })).code).toBe('INVALID_ARGUMENT');
    expect((await dq.push({ backoff: `{"type":"x${'😀'.repeat(40)}"}` })).code).toBe('INVALID_ARGUMENT');
    expect(dq.errors).toEqual([]);
  });

  it('Pull: gets no job after its token was removed', async () => {
    const dq = await start();
    const { headers, token } = await tokenFor(dq.dq, ['order'], ['pull']);
    const waiting = dq.queue('Pull', { topics: ['order'], wait: '60s' }, { token });
    await dq.waits();
    await removeTokens(dq.dq, headers);
    const producer = await tokenFor(dq.dq, ['order'], ['push', 'pull']);
    await dq.dq.call('POST', '/v1/topics/order/jobs?id=a', { ...producer, body: Buffer.from('1') });
    expect((await waiting).code).toBe('UNAUTHENTICATED');
    const next = { token: producer.token };
    expect((await dq.queue('Pull', { topics: ['order'], wait: '10s' }, next)).reply.jobs).toHaveLength(1);
  });

  it('access: with tokens each call needs one, whose rights decide', async () => {
    const dq = await start({ config: { 'compat.scopes': ['push'] } });
    expect(failure(await dq.queue('Get', { topic: 'order', id: 'a' }))).toMatchObject({
      ...{ code: 'PERMISSION_DENIED', dq: 'forbidden', details: expect.stringContaining('compat.scopes') },
    });
    const tokenOf = async (topics: string[], scopes: ('push' | 'pull' | 'read')[]) =>
      (await tokenFor(dq.dq, topics, scopes)).token;
    const push = await tokenOf(['order'], ['push']);
    const pull = await tokenOf(['order', 'other'], ['pull']);
    const codeOf = async (method: string, request: object, token?: string) =>
      failure(await dq.queue(method, request, token === undefined ? {} : { token })).code;
    expect(await codeOf('Push', { topic: 'order' })).toBe('UNAUTHENTICATED');
    expect(await codeOf('Push', { topic: 'order' }, 'dqk_x')).toBe('UNAUTHENTICATED');
    expect(await codeOf('Push', { topic: 'order' }, push)).toBe('OK');
    expect(await codeOf('Push', { topic: 'other' }, push)).toBe('PERMISSION_DENIED');
    expect(await codeOf('PushBatch', { jobs: [] }, pull)).toBe('PERMISSION_DENIED');
    expect(await codeOf('Cancel', { topic: 'other', id: 'a' }, push)).toBe('PERMISSION_DENIED');
    expect(await codeOf('Get', { topic: 'order', id: 'a' }, push)).toBe('PERMISSION_DENIED');
    expect(await codeOf('Pull', { topics: ['order'] }, push)).toBe('PERMISSION_DENIED');
    expect(await codeOf('Pull', { topics: ['called'] }, pull)).toBe('PERMISSION_DENIED');
    for (const method of ['Ack', 'Nack', 'Extend'])
      expect(await codeOf(method, { leases: ['?'] }, push)).toBe('PERMISSION_DENIED');
    const { reply } = await dq.queue('Pull', { topics: ['order'] }, { token: pull });
    const others = await tokenOf(['other'], ['pull']);
    const leases = [reply.jobs[0].lease];
    expect((await dq.queue('Ack', { leases }, { token: others })).reply.results).toEqual([
      { code: 'forbidden' },
    ]);
    expect((await dq.queue('Ack', { leases }, { token: pull })).reply.results).toEqual([{}]);
    // The address identifies the clients of mykit-delay; health checks have no token.
    expect((await dq.mykit('push', { topic: 'order' })).reply).toMatchObject({ success: true });
    expect((await dq.mykit('push', { topic: 'order' }, { token: 'dqk_x' })).code).toBe('UNAUTHENTICATED');
    for (const service of ['', 'dq.v1.Queue'])
      expect((await dq.health(service)).reply).toEqual({ status: 'SERVING' });
    expect((await dq.health('nope')).code).toBe('NOT_FOUND');
  });

  it('access: callers outside compat.allow are rejected', async () => {
    const dq = await start({ config: { 'compat.allow': ['10.0.0.0/8'] } });
    for (const answer of [await dq.push({}), await dq.health(''), await dq.mykit('clearAll', {})])
      expect(failure(answer)).toMatchObject({
        ...{ code: 'PERMISSION_DENIED', details: '127.0.0.1 is not in compat.allow' },
      });
  });

  it('pull: waits for a job; a client that cancels leaves it to others', async () => {
    const dq = await start();
    const waiting = dq.pull({ wait: '1m' });
    await dq.waits();
    await dq.push({ id: 'a' });
    const [job] = await waiting;
    expect(job).toMatchObject({ id: 'a', attempt: 1 });
    await dq.queue('Ack', { leases: [job?.['lease']] });
    const begun = dq.begin('Pull', { topics: ['order'], max: 2, wait: '1m' });
    await dq.waits();
    begun.cancel();
    expect((await begun.answer).code).toBe('CANCELLED');
    await pullsWait(dq.dq, 0);
    await dq.push({ id: 'b' });
    expect((await dq.job('b'))?.state).toBe('ready');
    expect(await dq.pull()).toMatchObject([{ id: 'b', attempt: 1 }]);
  });

  it('pull: releases the jobs of a client that leaves while dq reserves them', async () => {
    let reserving: (() => void) | null = null;
    const dq = await start({
      store: withJobs((real) => ({
        reserve: async (...args) => {
          const reserved = await real.reserve(...args);
          if (reserved.jobs.length > 0 && reserving === null)
            await new Promise<void>((resolve) => (reserving = resolve));
          return reserved;
        },
      })),
    });
    await dq.push({ id: 'a' });
    const begun = dq.begin('Pull', { topics: ['order'] });
    await until('the job is reserved', () => reserving !== null);
    begun.cancel();
    await begun.answer;
    (reserving as (() => void) | null)?.();
    await until('it is released', async () => (await dq.job('a'))?.state === 'ready');
    expect(await dq.pull()).toMatchObject([{ id: 'a', attempt: 1 }]);
  });

  it('pull: releases the jobs of a reply that its client does not read', async () => {
    const dq = await start();
    const ids = ['a', 'b', 'c', 'd'];
    // More than the window of a stream.
    const body = Buffer.alloc(100_000).toString('base64');
    for (const id of ids) await dq.push({ id, body });
    const states = () => Promise.all(ids.map(async (id) => (await dq.job(id))?.state));
    const session = connectHttp2(`http://127.0.0.1:${dq.port}`);
    onTestFinished(() => session.destroy());
    const stream = session.request({
      ':method': 'POST',
      ':path': '/dq.v1.Queue/Pull',
      'content-type': 'application/grpc+proto',
      te: 'trailers',
    });
    // topics: order, max: 4
    stream.end(framed(Buffer.from('0a056f726465721004', 'hex')));
    await once(stream, 'response');
    expect(await states()).toEqual(ids.map(() => 'reserved'));
    stream.close(constants.NGHTTP2_CANCEL);
    await until('they are released', async () => (await states()).every((state) => state === 'ready'));
  });

  it('pull: a wait ends before the deadline of the call', async () => {
    const dq = await start();
    const answer = await dq.queue('Pull', { topics: ['order'], wait: '1m' }, { timeout: 3 });
    expect([answer.code, answer.reply]).toEqual(['OK', {}]);
  });

  it('pull: a reply fits the limit of clients, and the rest stays ready', async () => {
    const dq = await start();
    const body = Buffer.alloc(250_000).toString('base64');
    for (let n = 0; n < 15; n++) await dq.push({ id: `j${n}`, body });
    const first = await dq.pull({ max: 100 });
    expect(first).toHaveLength(12);
    await until('the rest is released', async () => (await dq.pull({ max: 100 })).length === 3);
  });

  it('an unknown outcome: clients repeat a push with an id, and get the id of one without', async () => {
    let kind: 'unknown' | 'not_stored' = 'unknown';
    const dq = await start({
      store: withJobs(() => ({
        push: async (jobs) => jobs.map(() => ({ kind, code: 'x' })),
        get: () => Promise.reject(new StoreError({ kind: 'not_stored', code: 'x' })),
      })),
    });
    const given = await dq.push({ id: 'a' });
    expect(failure(given)).toMatchObject({ code: 'UNAVAILABLE', dq: 'unknown' });
    const without = await dq.push({});
    expect(failure(without)).toMatchObject({ code: 'UNKNOWN', dq: 'unknown' });
    expect(without.trailers['dq-id']).toMatch(/^[0-9a-f-]{36}$/);
    const { reply } = await dq.queue('PushBatch', { jobs: [{ topic: 'order' }] });
    expect(reply.results[0].error).toMatchObject({
      code: 'unknown',
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect((await dq.mykit('push', { topic: 'order', id: 'a' })).code).toBe('UNAVAILABLE');
    const mykit = (await dq.mykit('push', { topic: 'order' })).reply;
    expect(mykit).toMatchObject({ code: 500, data: expect.stringMatching(/^order:[0-9a-f-]{36}$/) });
    kind = 'not_stored';
    expect(failure(await dq.push({}))).toMatchObject({ code: 'UNAVAILABLE', dq: 'not_stored' });
    expect((await dq.mykit('push', { topic: 'order' })).reply).toMatchObject({ code: 500 });
    expect(failure(await dq.queue('Get', { topic: 'order', id: 'a' }))).toMatchObject({
      ...{ code: 'UNAVAILABLE', dq: 'unavailable' },
    });
  });
});

describe.skipIf(isMissing)('mykit-delay', () => {
  it('the calls of a consumer have the results of the HTTP port', async () => {
    const dq = await start({ config: { 'compat.scopes': ['push', 'read', 'pull', 'operate'] } });
    const ok = (data = '') => ({ success: true, ...(data === '' ? {} : { data }), code: 200 });
    const pushed = { topic: 'mykit', id: 'a', body: 'text', delay: '5000', createTime: String(from) };
    expect((await dq.mykit('push', pushed)).reply).toEqual(ok('a'));
    const job = await dq.store.jobs.get({ topic: 'mykit', id: 'a' });
    expect(job).toMatchObject({ dueAt: from + 5_000, contentType: 'text/plain; charset=utf-8' });
    const made = (await dq.mykit('push', { topic: 'mykit', bizKey: 'k', status: 5 })).reply;
    expect(made.data).toMatch(/^mykit:k:[0-9a-f-]{36}$/);
    expect((await dq.mykit('push', { topic: 'mykit', id: 'b', status: 1 })).reply).toEqual({
      ...{ message: '任务b状态异常', code: 500 },
    });
    expect((await dq.mykit('push', {})).reply).toEqual({ message: '参数topic错误', code: 500 });
    expect((await dq.mykit('delete', { jobId: 'a' })).reply).toEqual(ok());
    expect((await dq.mykit('finish', { jobId: made.data })).reply).toEqual(ok());
    expect((await dq.store.jobs.get({ topic: 'mykit', id: String(made.data) }))?.state).toBe('ready');
    expect((await dq.api('POST', '/v1/topics/mykit/pull')).body.items).toHaveLength(1);
    expect((await dq.mykit('finish', { jobId: made.data })).reply).toEqual(ok());
    expect((await dq.mykit('delete', { jobId: made.data })).reply).toMatchObject({ code: 500 });
    expect((await dq.mykit('finish', {})).reply).toMatchObject({ message: '参数jobId错误' });
    expect((await dq.mykit('reStoreJob', { jobId: 'a' })).reply).toMatchObject({ message: 'Job不存在!' });
    await dq.push({ id: 'dead' });
    const [job2] = await dq.pull();
    await dq.queue('Nack', { leases: [job2?.['lease']], dead: true });
    expect((await dq.job('dead'))?.state).toBe('dead');
    expect((await dq.mykit('reStoreJob', { jobId: 'dead' })).reply).toEqual(ok());
    expect((await dq.job('dead'))?.state).toBe('ready');
    expect((await dq.mykit('reStore', { expire: false })).reply.data).toBe('花费了0 ms，恢复 0 行数据');
    expect((await dq.mykit('clearAll', {})).reply.data).toMatch(/^花费了\d+ ms，删除 1 行数据$/);
  });

  it('a push whose texts are "0" keeps them', async () => {
    const dq = await start();
    const message = { topic: '0', id: '0', body: '0' };
    expect((await dq.mykit('push', message)).reply).toMatchObject({ success: true, data: '0' });
    expect(String((await dq.store.jobs.get({ topic: '0', id: '0' }))?.body)).toBe('0');
  });

  it('a push keeps the whole message for a topic of that format', async () => {
    const dq = await start();
    await dq.api('POST', '/v1/topics', {
      topic: 'whole',
      callbackUrl: 'http://127.0.0.1:9/',
      format: 'message',
    });
    await dq.mykit('push', { topic: 'whole', id: 'a', subtopic: 's', body: 'b', ttl: '9223372036854775807' });
    const { body } = (await dq.store.jobs.get({ topic: 'whole', id: 'a' })) ?? {};
    expect(String(body)).toBe(
      '{"topic":"whole","subtopic":"s","id":"a","ttl":9223372036854775807,"body":"b"}',
    );
  });

  const path = '/io.mykit.delay.rpc.dubbo.MykitDelayDubboInterface';
  const triple = {
    ...{ 'tri-protocol-version': '1.0', 'tri-consumer-appname': 'shop', 'tri-req-id': '1' },
    ...{ 'grpc-timeout': '3000m', 'grpc-accept-encoding': 'gzip', 'user-agent': 'dubbo-java/3.3' },
  };
  // JobWrapp {topic: order, id: a, body: {}}, with numbers of fields from 11 on.
  const wrapp = Buffer.from('5a056f726465726a01618a01027b7d', 'hex');

  it('the bytes of Dubbo 3: a message, and grpc-status in the trailers', async () => {
    const dq = await start();
    const reply = await rawGrpc(dq.port, `${path}/push`, framed(wrapp), triple);
    expect(reply.headers).toMatchObject({ ':status': 200, 'content-type': 'application/grpc+proto' });
    expect(reply.trailers['grpc-status']).toBe('0');
    // {success: true, data: a, message: '', code: 200}
    expect(reply.bytes.toString('hex')).toBe(`000000000a${'5801'}${'620161'}${'6a00'}${'70c801'}`);
    expect(String((await dq.job('a'))?.body)).toBe('{}');
    // delay 5000, and createTime 0, which stubs leave out
    const later = Buffer.concat([wrapp, Buffer.from('788827980100', 'hex')]);
    await rawGrpc(dq.port, `${path}/push`, framed(later), triple);
    expect((await dq.job('a'))?.dueAt).toBe(from + 5_001);
  });

  it('rejects the wrapped messages of a consumer without the .proto', async () => {
    const dq = await start();
    // TripleRequestWrapper {serializeType: hessian4, args: [x], argTypes: [T]}
    const wrapper = Buffer.from('0a0868657373696e3412017834', 'hex').subarray(0, 13);
    const bad = [wrapper, Buffer.from('5a05', 'hex'), Buffer.from('5a01ff07', 'hex')];
    for (const method of ['push', 'clearAll'])
      for (const bytes of bad) {
        const { headers } = await rawGrpc(dq.port, `${path}/${method}`, framed(bytes), triple);
        expect(headers['grpc-status'], `${method} ${bytes.toString('hex')}`).toBe('3');
        expect(decodeURI(String(headers['grpc-message']))).toContain("generate the stub from dq's .proto");
      }
  });
});

describe.skipIf(isMissing)('the gRPC port', () => {
  const push = Buffer.from('0a056f72646572', 'hex');

  it('answers malformed calls, and goes on', async () => {
    const dq = await start();
    const path = '/dq.v1.Queue/Push';
    const statusOf = async (bytes: Buffer, headers: Record<string, string> = {}, to = path) => {
      const reply = await rawGrpc(dq.port, to, bytes, headers);
      return (
        reply.headers['grpc-status'] ?? reply.trailers['grpc-status'] ?? `HTTP ${reply.headers[':status']}`
      );
    };
    expect(await statusOf(framed(push))).toBe('0');
    // INVALID_ARGUMENT: invalid bytes, an unknown field, one in a job of a batch
    for (const message of ['ff', '0a', '0aff', 'f80601', '0affffffff0f', '0d', '0b', '00'])
      expect(await statusOf(framed(Buffer.from(message, 'hex'))), message).toBe('3');
    // A varint for a text; a text that is not UTF-8
    for (const message of ['0800', '0a056f726465721201ff'])
      expect(await statusOf(framed(Buffer.from(message, 'hex'))), message).toBe('3');
    expect(await statusOf(framed(Buffer.from('f80601', 'hex')), {}, '/grpc.health.v1.Health/Check')).toBe(
      '3',
    );
    // Two million empty jobs
    const empty = framed(Buffer.from('0a00'.repeat(2_000_000), 'hex'));
    expect(await statusOf(empty, {}, '/dq.v1.Queue/PushBatch')).toBe('3');
    expect((await rawGrpc(dq.port, '/dq.v1.Queue/PushBatch', empty)).headers['grpc-message']).toContain(
      'jobs:%20too%20many',
    );
    const batch = framed(Buffer.from('0a03f80601', 'hex'));
    expect(await statusOf(batch, {}, '/dq.v1.Queue/PushBatch')).toBe('3');
    // No message, two, a compressed one; a prefix that promises 4 GB
    expect(await statusOf(Buffer.alloc(0))).toBe('12');
    expect(await statusOf(Buffer.concat([framed(push), framed(push)]))).toBe('12');
    expect(await statusOf(framed(push), { 'grpc-encoding': 'gzip' })).toBe('3');
    expect(await statusOf(Buffer.from('00ffffffff00', 'hex'))).toBe('8');
    expect(await statusOf(framed(push), {}, '/dq.v1.Queue/Nope')).toBe('12');
    expect(await statusOf(framed(push), {}, '/%00/ü')).toBe('12');
    expect(await statusOf(framed(push), { 'content-type': 'application/json' })).toBe('HTTP 415');
    expect(await statusOf(framed(push), { 'grpc-timeout': 'x' })).toBe('13');
    expect(await statusOf(framed(push), { 'x-bin': '?', traceparent: 'x'.repeat(5_000) })).toBe('0');
    // An incomplete message
    expect(await statusOf(Buffer.from('0000000009', 'hex'))).toBe('12');
    // No HTTP/2, or broken frames
    const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    const settings = Buffer.from('000000040000000000', 'hex');
    const oversized = Buffer.concat([preface, settings, Buffer.from('ffffff0401ffffffff', 'hex')]);
    const compressed = Buffer.concat([preface, settings, Buffer.from('000005010500000001ffffffffff', 'hex')]);
    const goaway = /0000..070000000000/;
    for (const [bytes, reply] of [
      [Buffer.from('GET / HTTP/1.1\r\nhost: x\r\n\r\n'), /^/],
      [Buffer.alloc(3), /^/],
      [oversized, goaway],
      [compressed, goaway],
    ] as const) {
      const socket = connect(dq.port, '127.0.0.1');
      let received = '';
      let isClosed = false;
      socket
        .on('error', () => {})
        .on('close', () => {
          isClosed = true;
        });
      socket.on('data', (data) => {
        received += data.toString('hex');
      });
      socket.end(bytes);
      await until('dq ends the connection', () => isClosed || goaway.test(received));
      expect(received).toMatch(reply);
      socket.destroy();
    }
    expect(dq.errors).toEqual([]);
    expect((await dq.push({})).code).toBe('OK');
  });

  it('rejects what unfinished requests would hold above 64 MiB', async () => {
    const dq = await start();
    const session = connectHttp2(`http://127.0.0.1:${dq.port}`);
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(15 * mib, 1);
    const statuses: string[] = [];
    for (let n = 0; n < 5; n++) {
      const headers = { ':path': '/dq.v1.Queue/PushBatch', 'content-type': 'application/grpc' };
      const stream = session.request({ ':method': 'POST', ...headers });
      stream.on('response', (received) => statuses.push(String(received['grpc-status'])));
      stream.on('error', () => {});
      stream.write(Buffer.concat([prefix, Buffer.alloc(14 * mib)]));
    }
    await until('one is rejected', () => statuses.length > 0);
    session.destroy();
    expect(statuses[0]).toBe('14');
    await until('nothing is in flight', () => dq.role.inFlight() === 0);
    expect((await dq.push({ body: Buffer.alloc(200_000).toString('base64') })).code).toBe('OK');
  });

  it('a call that arrives while the server starts waits for the API', async () => {
    const [port = 0] = await freePorts(1);
    const early = until('a connection', () => rawGrpc(port, '/dq.v1.Queue/Push', framed(push)), {
      everyMs: 1,
    });
    await startIntake({ config: { 'compat.grpc.port': port } });
    // NOT_FOUND: no such topic. UNAVAILABLE would say that dq does not know its tokens yet.
    expect((await early).headers['grpc-status']).toBe('5');
  });

  it('bounds a message, and the time of its arrival', async () => {
    const dq = await start({
      config: { 'limits.bodyBytes': 1_000, 'limits.batchBytes': 2_000 },
      times: { ...limits, ...apiLimits, headersTimeoutMs: 1_000, requestTimeoutMs: 1_000 },
    });
    const large = await dq.push({ body: Buffer.alloc(1_001).toString('base64') });
    expect(failure(large)).toMatchObject({ code: 'RESOURCE_EXHAUSTED', dq: 'body_too_large' });
    expect((await dq.push({ body: Buffer.alloc(30_000).toString('base64') })).code).toBe(
      'RESOURCE_EXHAUSTED',
    );
    const session = connectHttp2(`http://127.0.0.1:${dq.port}`);
    const slow = session.request({
      ':method': 'POST',
      ':path': '/dq.v1.Queue/Push',
      'content-type': 'application/grpc',
    });
    slow.write(framed(push).subarray(0, 7));
    const status = await new Promise((resolve) =>
      slow.on('response', (headers) =>
        resolve([headers['grpc-status'], decodeURI(String(headers['grpc-message']))]),
      ),
    );
    expect(status).toEqual(['14', 'the request arrived too slowly; send it again']);
    session.destroy();
    await until('nothing is in flight', () => dq.role.inFlight() === 0);
  });

  const headersOf = (path: string) => ({
    ...{ ':method': 'POST', ':path': path, 'content-type': 'application/grpc' },
  });
  const short = { headersTimeoutMs: 500, requestTimeoutMs: 500, connectionTimeoutMs: 500, lingerMs: 100 };
  const times = { ...limits, ...apiLimits, ...short };

  it('ends calls whose client sends no end, or reads no reply', async () => {
    const { store, dq, push: pushed } = await start();
    await pushed({ id: 'a', body: btoa('{}') });
    // Its short times also hold for the API, where they would cut the calls of a busy test.
    const [port = 0] = await freePorts(1);
    const hasty = await startIntake({
      ...{ times, restarts: 1, store: () => store, registry: () => dq.registry },
      config: { 'compat.grpc.port': port },
    });
    const session = connectHttp2(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 0 } });
    const endless = session.request(headersOf('/dq.v1.Queue/Push'));
    endless.write(framed(push).subarray(0, 7));
    // GetRequest {topic: order, id: a}
    const unread = session.request(headersOf('/dq.v1.Queue/Get'));
    unread.on('error', () => {});
    unread.end(framed(Buffer.from('0a056f72646572120161', 'hex')));
    await until('dq has ended both', () => endless.closed && unread.closed);
    expect(hasty.role.inFlight()).toBe(0);
    session.destroy();
  });

  it('a client that holds most of the memory of requests gives way to others', async () => {
    const dq = await start();
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(15 * mib, 1);
    const hog = connectHttp2(`http://127.0.0.1:${dq.port}`);
    const statuses: string[] = [];
    let sent = 0;
    for (let n = 0; n < 4; n++) {
      const stream = hog.request(headersOf('/dq.v1.Queue/PushBatch'));
      stream.on('response', (received) => statuses.push(String(received['grpc-status'])));
      stream.on('error', () => {});
      stream.write(Buffer.concat([prefix, Buffer.alloc(14 * mib)]), () => {
        sent += 1;
      });
    }
    await until('dq holds the most', () => sent === 4);
    const local = connect({ port: dq.port, host: '127.0.0.1', localAddress: '127.0.0.2' });
    const other = connectHttp2(`http://127.0.0.1:${dq.port}`, { createConnection: () => local });
    const batch = other.request(headersOf('/dq.v1.Queue/PushBatch'));
    const answer = new Promise<IncomingHttpHeaders>((resolve) => batch.once('response', resolve));
    // The message is not a batch: dq has read it.
    batch.end(framed(Buffer.alloc(14 * mib)));
    expect((await answer)['grpc-status']).toBe('3');
    await until('the hog knows', () => statuses.length > 0);
    expect(statuses).toEqual(['14']);
    hog.destroy();
    other.destroy();
    await until('nothing is in flight', () => dq.role.inFlight() === 0);
  });

  it('bytes after the status are not held', async () => {
    const dq = await start();
    const session = connectHttp2(`http://127.0.0.1:${dq.port}`);
    const prefix = Buffer.alloc(5);
    // Above the limit of a message: rejected at once
    prefix.writeUInt32BE(70 * mib, 1);
    const loud = session.request(headersOf('/dq.v1.Queue/Push'));
    const rejected = new Promise((resolve) => loud.on('response', resolve));
    loud.on('error', () => {}).write(prefix);
    await rejected;
    await new Promise((resolve) => loud.write(Buffer.alloc(64 * mib), resolve));
    expect((await dq.push({ body: Buffer.alloc(200_000).toString('base64') })).code).toBe('OK');
    session.destroy();
  });

  it('holds the bytes of a batch until it is stored, also if its client leaves', async () => {
    let store: (() => void)[] = [];
    const dq = await start({
      store: withJobs((real) => ({
        push: async (...args) => {
          await new Promise<void>((resolve) => store.push(resolve));
          return real.push(...args);
        },
      })),
    });
    const body = Buffer.alloc(250_000);
    const job = Buffer.concat([Buffer.from('0a056f726465721a90a10f', 'hex'), body]);
    const item = Buffer.concat([Buffer.from('0a9ba10f', 'hex'), job]);
    const batch = framed(Buffer.concat(Array.from({ length: 60 }, () => item)));
    const session = connectHttp2(`http://127.0.0.1:${dq.port}`);
    session.on('error', () => {});
    for (let n = 0; n < 4; n++) {
      const stream = session.request(headersOf('/dq.v1.Queue/PushBatch'));
      await new Promise<void>((resolve) => stream.end(batch, resolve));
      stream.on('error', () => {});
      await until('dq has the batch', () => dq.role.inFlight() === 0 || store.length > 0);
    }
    session.destroy();
    await until('the client has left', () => dq.role.inFlight() === 0);
    const late = await rawGrpc(dq.port, '/dq.v1.Queue/PushBatch', batch);
    expect(late.headers['grpc-status']).toBe('14');
    for (const resolve of store) resolve();
    store = [];
  });

  it('drain: answers the calls that dq has begun, and disclaims later ones', async () => {
    const dq = await start();
    const line = await heldLine(dq.port);
    const session = connectHttp2(`http://127.0.0.1:${line.port}`);
    const goaways: number[] = [];
    session.on('goaway', (code) => goaways.push(code));
    const call = (path: string, message: Buffer) =>
      new Promise<string>((resolve) => {
        const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc' };
        const stream = session.request(headers);
        let status = 'none';
        const read = (received: object) => {
          status = String((received as Record<string, unknown>)['grpc-status'] ?? status);
        };
        stream
          .on('response', read)
          .on('trailers', read)
          .on('error', () => {});
        stream.on('close', () => resolve(stream.rstCode === 0 ? status : `RST ${stream.rstCode}`));
        stream.resume().end(framed(message));
      });
    // PullRequest {topics: [order], wait: 1m}
    const pull = call('/dq.v1.Queue/Pull', Buffer.from('0a056f726465721a02316d', 'hex'));
    await dq.waits();
    // The client does not see the GOAWAY yet.
    line.hold();
    const sent = line.sent();
    const drained = dq.role.drain(10_000);
    await until('the pull is answered', () => dq.role.inFlight() === 0);
    const late = call('/dq.v1.Queue/Push', push);
    await until('the late call is sent', () => line.sent() > sent);
    // dq keeps the connection open until the client has confirmed the GOAWAY.
    for (let n = 0; n < 10; n++) await dq.job('any');
    expect(line.isClosed()).toBe(false);
    line.release();
    const refused = `RST ${constants.NGHTTP2_REFUSED_STREAM}`;
    expect(await Promise.all([pull, late])).toEqual(['0', refused]);
    await drained;
    await until('the connection is closed', () => session.destroyed);
    expect(dq.counted.get('order pushed')).toBeUndefined();
    expect(goaways.every((code) => code === constants.NGHTTP2_NO_ERROR) && goaways.length > 0).toBe(true);
  });

  it('drain: waits for no connection without a call', async () => {
    const dq = await start();
    await Promise.all([settled(connectHttp2(`http://127.0.0.1:${dq.port}`)), stubborn(dq.port)]);
    await dq.role.drain(600_000);
  });

  const silentMs = 2_000;
  const few = { frameMs: 60_000, idleMs: 60_000, drainIdleMs: 100, silentMs, connectionsMax: 4 };
  // GetRequest {topic: order, id: a}
  const get = framed(Buffer.from('0a056f72646572120161', 'hex'));

  it('connections without a call give way while places are short', async () => {
    const time = useJumpingTime();
    const dq = await start({ compatTimes: few, times: { ...limits, ...apiLimits, lingerMs: 100 } });
    const pull = dq.begin('Pull', { topics: ['order'], wait: '1m' });
    await dq.waits();
    const idle = connectHttp2(`http://127.0.0.1:${dq.port}`);
    const goaways: number[] = [];
    idle.on('goaway', (code) => goaways.push(code));
    await Promise.all([settled(idle), stubborn(dq.port)]);
    await time.jump(silentMs + 1);
    expect((await rawGrpc(dq.port, '/dq.v1.Queue/Get', get)).headers['grpc-status']).toBe('5');
    await until('the silent client knows', () => idle.destroyed);
    expect(new Set(goaways)).toEqual(new Set([constants.NGHTTP2_NO_ERROR]));
    // The client that does not close its side holds no place either.
    await until('there are three places', async () => {
      const sessions = [1, 2, 3].map(() => connectHttp2(`http://127.0.0.1:${dq.port}`));
      const outcome = await Promise.allSettled(sessions.map(settled));
      for (const session of sessions) session.destroy();
      return outcome.every(({ status }) => status === 'fulfilled');
    });
    expect((await dq.push({ id: 'a' })).code).toBe('OK');
    expect((await pull.answer).reply.jobs).toMatchObject([{ id: 'a' }]);
  });

  it('a call that begins while its connection gives way is disclaimed', async () => {
    const time = useJumpingTime();
    const dq = await start({ compatTimes: few, times: { ...limits, ...apiLimits, lingerMs: 60_000 } });
    const line = await heldLine(dq.port);
    const session = connectHttp2(`http://127.0.0.1:${line.port}`);
    await Promise.all([settled(session), ...[1, 2].map(() => stubborn(dq.port))]);
    await time.jump(silentMs + 1);
    line.hold();
    expect((await rawGrpc(dq.port, '/dq.v1.Queue/Get', get)).headers['grpc-status']).toBe('5');
    const sent = line.sent();
    const late = session.request(headersOf('/dq.v1.Queue/Push'));
    late.on('error', () => {}).end(framed(push));
    await until('the late call is sent', () => line.sent() > sent);
    for (let n = 0; n < 10; n++) await dq.job('any');
    expect(line.isClosed()).toBe(false);
    line.release();
    await until('the client knows', () => late.closed);
    expect(late.rstCode).toBe(constants.NGHTTP2_REFUSED_STREAM);
    await until('the connection is closed', () => session.destroyed);
    expect(dq.counted.get('order pushed')).toBeUndefined();
  });
});

/** dq serves the connection. */
function settled(session: ClientHttp2Session): Promise<void> {
  return new Promise((served, fail) => {
    session.once('remoteSettings', () => served());
    session.on('error', fail).once('close', () => fail(new Error('closed')));
    onTestFinished(() => session.destroy());
  });
}

/** A client that sends nothing, and never closes its side. */
async function stubborn(port: number): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  await new Promise((served, fail) => socket.once('data', served).once('error', fail));
}

/** A connection whose bytes to the client wait between hold() and release(). */
async function heldLine(to: number) {
  const held: (() => void)[] = [];
  let isHeld = false;
  let sent = 0;
  let isClosed = false;
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const other = connect({ port: to, host: '127.0.0.1', allowHalfOpen: true });
    for (const [one, end] of [
      [client, other],
      [other, client],
    ] as const)
      one.on('error', () => end.destroy()).on('close', () => end.destroySoon());
    const toClient = (act: () => void) => {
      if (isHeld) held.push(act);
      else act();
    };
    other.on('close', () => {
      isClosed = true;
    });
    client.on('data', (bytes) => {
      sent += bytes.length;
      other.write(bytes);
    });
    client.on('end', () => other.end());
    other.on('data', (bytes) => toClient(() => client.write(bytes)));
    other.on('end', () => toClient(() => client.end()));
  });
  const { port } = await listen(server, '127.0.0.1', 0);
  onTestFinished(() => void server.close());
  return {
    port,
    /** bytes of the client */
    sent: () => sent,
    /** by dq */
    isClosed: () => isClosed,
    hold: () => {
      isHeld = true;
    },
    release: () => {
      isHeld = false;
      for (const send of held.splice(0)) send();
    },
  };
}
