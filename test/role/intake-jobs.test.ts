// Tests push, get and cancel of single jobs over real sockets.
import { Webhook } from 'standardwebhooks';
import { beforeEach, describe, expect, it } from 'vitest';
import { jobOf } from '../conformance/trial.ts';
import { bury, failedAttempt, reserveOne } from '../support/handmade.ts';
import { bearer, startIntake, type TestIntake } from '../support/intake.ts';
import { payload } from '../support/payloads.ts';
import { problem } from '../support/problem.ts';
import { texts, words } from '../support/words.ts';

let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake();
  const reply = await dq.api('POST', '/v1/topics', {
    topic: 't',
    callbackUrl: 'http://127.0.0.1:9000/',
    delay: '1h',
  });
  expect(reply.status).toBe(201);
});

const uuidV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('push', () => {
  it('answers 201 with the stored job', async () => {
    const reply = await dq.push('t', '{"order":1}', '?id=a&delay=30m');
    expect(reply).toMatchObject({
      status: 201,
      body: { topic: 't', id: 'a', state: 'delayed', replaced: false, duplicate: false, inFlight: false },
    });
    expect(reply.body.version).toMatch(/^\d+$/);
    expect(Date.parse(reply.body.dueAt) - Date.now()).toBeGreaterThan(29 * 60_000);
    expect(Object.keys(reply.body)).toEqual([
      ...['topic', 'id', 'version', 'state', 'dueAt', 'replaced', 'duplicate', 'inFlight'],
    ]);
  });

  it('makes a new UUIDv7 without an id', async () => {
    const [a, b] = await Promise.all([dq.push('t', '1'), dq.push('t', '1')]);
    expect(a.body.id).toMatch(uuidV7);
    expect(b.body.id).toMatch(uuidV7);
    expect(a.body.id).not.toBe(b.body.id);
  });

  it('is due after the delay of its topic without one of its own', async () => {
    const { body } = await dq.push('t', '1');
    const inMs = Date.parse(body.dueAt) - Date.now();
    expect(inMs).toBeGreaterThan(59 * 60_000);
    expect(inMs).toBeLessThanOrEqual(60 * 60_000);
  });

  it('is ready when its time is past', async () => {
    expect((await dq.push('t', '1', '?delay=0')).body.state).toBe('ready');
    expect((await dq.push('t', '1', '?at=2001-01-01T00:00:00Z')).body.state).toBe('ready');
  });

  it('reads a space before an offset as +', async () => {
    for (const at of [
      '2030-01-01T08:00:00+08:00',
      '2030-01-01T08:00:00%2B08:00',
      '2030-01-01T08:00:00%2b08:00',
    ]) {
      const { body } = await dq.push('t', '1', `?at=${at}`);
      expect(body.dueAt).toBe('2030-01-01T00:00:00.000Z');
    }
  });

  it('replaces a live job of its id: 200, a later version', async () => {
    const first = await dq.push('t', '1', '?id=a');
    const second = await dq.push('t', '2', '?id=a');
    expect(second).toMatchObject({
      status: 200,
      body: { replaced: true, duplicate: false, inFlight: false },
    });
    expect(BigInt(second.body.version)).toBeGreaterThan(BigInt(first.body.version));
    expect((await dq.api('GET', '/v1/topics/t/jobs/a')).body.body).toBe('2');
  });

  it('reports a running attempt of the replaced job', async () => {
    await dq.push('t', '1', '?id=a&delay=0');
    await reserveOne(dq);
    expect((await dq.push('t', '2', '?id=a')).body).toMatchObject({ replaced: true, inFlight: true });
  });

  it('mode keep leaves the live job and reports it', async () => {
    const first = await dq.push('t', '1', '?id=a');
    const second = await dq.push('t', '2', '?id=a&mode=keep&delay=0');
    expect(second).toEqual({ ...second, status: 200, body: { ...first.body, duplicate: true } });
    expect((await dq.api('GET', '/v1/topics/t/jobs/a')).body.body).toBe('1');
  });

  it('mode reject answers 409 job_exists and leaves the live job', async () => {
    await dq.push('t', '1', '?id=a');
    const rejected = await dq.push('t', '2', '?id=a&mode=reject');
    expect(rejected).toMatchObject({ status: 409, body: { status: 409, code: 'job_exists', errors: [] } });
    expect((await dq.api('GET', '/v1/topics/t/jobs/a')).body.body).toBe('1');
  });

  it('counts what it stored and logs a line for each push', async () => {
    await dq.push('t', 'abc', '?id=a', 'text/plain');
    await dq.push('t', 'abc', '?id=a&mode=keep', 'text/plain');
    await dq.push('t', 'abc', '?id=a&mode=reject', 'text/plain');
    await dq.push('t', 'abc', '?id=b&delay=soon', 'text/plain');
    expect(dq.counted).toEqual(new Map([['t pushed', 1]]));
    expect(dq.requests).toEqual([
      {
        method: 'POST',
        topic: 't',
        id: 'a',
        status: 201,
        code: null,
        version: expect.stringMatching(/^\d+$/),
        dueAt: expect.any(String),
        bytes: 3,
        ms: expect.any(Number),
      },
      expect.objectContaining({ status: 200, code: null, bytes: 3 }),
      expect.objectContaining({ status: 409, code: 'job_exists', version: null, dueAt: null }),
      expect.objectContaining({ id: 'b', status: 400, code: 'invalid', bytes: 3, ms: null }),
    ]);
  });
});

describe('bodies', () => {
  it('come back byte for byte: big numbers, keys twice, NUL, emoji, deep nesting, binary', async () => {
    for (let n = 0; n < 36; n++) {
      const { body, contentType } = payload(n);
      expect((await dq.push('t', body, `?id=${n}`, contentType)).status).toBe(201);
      const { body: job } = await dq.api('GET', `/v1/topics/t/jobs/${n}`);
      const bytes = 'body' in job ? Buffer.from(job.body, 'utf8') : Buffer.from(job.bodyBase64, 'base64');
      expect(bytes.equals(body), `payload ${n}`).toBe(true);
      expect('body' in job && 'bodyBase64' in job).toBe(false);
      expect(job.contentType).toBe(contentType);
    }
  });

  it.each([
    ['without a content type', 'content-length: 3', '\0\xff1', { contentType: null }],
    ['without a length', 'x: y', '', { body: '' }],
    ['in chunks', 'transfer-encoding: chunked', '2\r\nab\r\n1\r\nc\r\n0\r\n\r\n', { body: 'abc' }],
  ])('can arrive %s', async (_how, header, body, stored) => {
    const connection = dq.open();
    const start = 'POST /v1/topics/t/jobs?id=n HTTP/1.1\r\nhost: localhost\r\nconnection: close';
    connection.send(`${start}\r\n${header}\r\n\r\n${body}`);
    expect(await connection.closed).toMatch(/^HTTP\/1\.1 201 /);
    expect((await dq.api('GET', '/v1/topics/t/jobs/n')).body).toMatchObject(stored);
  });

  it('can be empty', async () => {
    expect((await dq.push('t', '', '?id=e', '')).status).toBe(201);
    expect((await dq.api('GET', '/v1/topics/t/jobs/e')).body.body).toBe('');
  });

  it('are read as JSON only with exactly that media type', async () => {
    for (const type of ['application/problem+json', 'text/json', 'application/jsonp', 'application/x-ndjson'])
      expect((await dq.push('t', '{nonsense', '?id=x', type)).status).toBeLessThan(300);
    for (const type of texts`
      application/json | APPLICATION/JSON | application/json; charset=utf-8 | application/json ;x=1
    `)
      expect(await dq.push('t', '{nonsense', '?id=x', type)).toMatchObject(
        problem(400, 'malformed_json', 'body'),
      );
    expect((await dq.push('t', '', '?id=x', 'application/json')).body.detail).toBe(
      'the content type is application/json, but the body is empty',
    );
  });

  it('JSON can be nested as deep as its bytes allow', async () => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    expect((await dq.push('t', deep)).status).toBe(201);
  });
});

describe('ids', () => {
  const good = [
    ...words`a ... a/b a%2Fb 100%`,
    'a b',
    ...words`+ ? # &= 订单 👩‍👩‍👧`,
    '\u00a0',
    '__proto__',
    'constructor',
    'ü'.repeat(128),
  ];
  it('any text without control characters names one job everywhere', async () => {
    for (const id of good) {
      const escaped = encodeURIComponent(id);
      expect((await dq.push('t', '1', `?id=${escaped}`)).body.id).toBe(id);
      expect((await dq.api('GET', `/v1/topics/t/jobs/${escaped}`)).body.id).toBe(id);
      expect((await dq.api('DELETE', `/v1/topics/t/jobs/${escaped}`)).status).toBe(200);
    }
  });

  it('are compared byte for byte: case and normal forms are other ids', async () => {
    await dq.push('t', '1', `?id=${encodeURIComponent('\u00e9')}`);
    expect((await dq.api('GET', `/v1/topics/t/jobs/${encodeURIComponent('e\u0301')}`)).status).toBe(404);
    await dq.push('t', '1', '?id=a');
    expect((await dq.api('GET', '/v1/topics/t/jobs/A')).status).toBe(404);
  });
});

describe('cancel and get', () => {
  it('shows a job with its attempts and the limits of its topic', async () => {
    const pushed = await dq.push('t', '{}', '?id=a&delay=0');
    const attempt = { ...failedAttempt, startedAt: Date.UTC(2026, 0, 1) };
    await dq.store.jobs.retry([{ ...(await reserveOne(dq)), delayMs: 60_000, attempt }]);
    expect((await dq.api('GET', '/v1/topics/t/jobs/a')).body).toEqual({
      topic: 't',
      id: 'a',
      version: pushed.body.version,
      state: 'delayed',
      dueAt: expect.stringMatching(/Z$/),
      // The record has no lateness.
      firstDueAt: null,
      createdAt: expect.stringMatching(/Z$/),
      attempt: 1,
      maxAttempts: 10,
      why: { code: 'waits_to_retry', at: expect.stringMatching(/Z$/) },
      webhookId: expect.stringMatching(/^msg_[0-9a-z]{25}$/),
      strikes: 0,
      nextAttempts: expect.arrayContaining([{ attempt: 10, at: expect.stringMatching(/Z$/) }]),
      contentType: 'application/json',
      bytes: 2,
      body: '{}',
      attempts: [{ ...attempt, startedAt: '2026-01-01T00:00:00.000Z' }],
    });
  });

  it('shows what a failed attempt keeps, and the waits that follow', async () => {
    await dq.push('t', '{}', '?id=a&delay=0');
    const kept = {
      latenessMs: 7,
      detail: 'connect ECONNREFUSED 10.0.0.8:80',
      ruleValues: { '{res.code}': '500' },
      replyHeaders: ['server: nginx'],
      nextDelayMs: 60_000,
      nextBy: 'backoff',
    } as const;
    const job = await reserveOne(dq);
    await dq.store.jobs.retry([{ ...job, delayMs: 60_000, attempt: { ...failedAttempt, ...kept } }]);
    const { body } = await dq.api('GET', '/v1/topics/t/jobs/a');
    expect(body.attempts).toMatchObject([kept]);
    // The retry has moved the due time.
    expect(body.firstDueAt).toBe(new Date(failedAttempt.startedAt - kept.latenessMs).toISOString());
    expect(body.dueAt > body.firstDueAt).toBe(true);
    const [second, third] = body.nextAttempts;
    expect(second).toEqual({ attempt: 2, at: body.dueAt });
    expect(Date.parse(third.at) - Date.parse(second.at)).toBe(3 * 60_000);
    expect(body.nextAttempts).toHaveLength(9);
  });

  it('says why a job waits, runs, is dead or is held', async () => {
    const why = async (id = 'a') => (await dq.api('GET', `/v1/topics/t/jobs/${id}`)).body.why;
    const { body: pushed } = await dq.push('t', '1', '?id=a');
    expect(await why()).toEqual({ code: 'waits_until_due', at: pushed.dueAt });
    await dq.api('POST', '/v1/topics/t/pause');
    expect(await why()).toEqual({ code: 'waits_until_due', at: pushed.dueAt, held: 'topic_paused' });
    await dq.api('POST', '/v1/topics/t/jobs/a/run');
    expect(await why()).toEqual({ code: 'topic_paused' });
    await dq.api('POST', '/v1/topics/t/offline');
    expect(await why()).toEqual({ code: 'topic_offline' });
    await dq.api('POST', '/v1/topics/t/resume');
    // No master answers in this test.
    expect(await why()).toEqual({ code: 'unknown', ahead: 0 });
    await dq.push('t', '2', '?id=later&delay=0');
    expect(await why('later')).toEqual({ code: 'unknown', ahead: 1 });
    await dq.api('DELETE', '/v1/topics/t/jobs/later');
    const job = await reserveOne(dq);
    expect(await why()).toEqual({ code: 'leased' });
    await dq.store.jobs.bury([{ ...job, reason: 'gone', attempt: failedAttempt }]);
    const { body: dead } = await dq.api('GET', '/v1/topics/t/jobs/a');
    expect(dead).toMatchObject({ deadReason: 'gone', alert: 'owed', nextAttempts: [] });
    expect(dead.why).toEqual({ code: 'dead', at: dead.deadAt });
    await dq.store.jobs.push([jobOf('b', { topic: 'gone' })]);
    expect((await dq.api('GET', '/v1/topics/gone/jobs/b')).body.why).toEqual({ code: 'not_registered' });
  });

  it('shows the callback as dq would send it now, signed', async () => {
    await dq.api('PATCH', '/v1/topics/t', {
      callbackUrl: 'http://127.0.0.1:9000/a?b=1',
      headers: { 'x-key': 'k1' },
    });
    const { body: rotated } = await dq.api('POST', '/v1/topics/t/secret');
    await dq.push('t', '{"n":9007199254740993}', '?id=a');
    const { body } = await dq.api('POST', '/v1/topics/t/jobs/a/request');
    expect(body).toMatchObject({
      method: 'POST',
      url: 'http://127.0.0.1:9000/a?b=1',
      headers: { 'content-type': 'application/json', 'x-key': 'k1', 'dq-job-id': 'a', 'dq-attempt': '1' },
      body: '{"n":9007199254740993}',
    });
    expect(() => new Webhook(rotated.secret).verify(body.body, body.headers)).not.toThrow();
    await dq.push('t', Buffer.from([0xff]), '?id=raw', 'application/octet-stream');
    const raw = await dq.api('POST', '/v1/topics/t/jobs/raw/request', undefined);
    expect(raw).toMatchObject({ body: { bodyBase64: '/w==' } });
    expect(await dq.api('POST', '/v1/topics/t/jobs/none/request')).toMatchObject(
      problem(404, 'job_not_found'),
    );
    expect(await dq.api('POST', '/v1/topics/none/jobs/none/request')).toMatchObject(
      problem(404, 'topic_not_found'),
    );
    const { body: token } = await dq.api('POST', '/v1/tokens', { name: 'o', scopes: ['operate'] });
    const masked = await dq.call('POST', '/v1/topics/t/jobs/a/request', { headers: bearer(token.token) });
    expect(masked.body.headers).toMatchObject({ 'x-key': '***', 'dq-attempt': '1' });
  });

  it('cancels once; a repeat finds no job', async () => {
    await dq.push('t', '1', '?id=a');
    expect(await dq.api('DELETE', '/v1/topics/t/jobs/a')).toMatchObject({
      status: 200,
      body: { cancelled: true, inFlight: false },
    });
    expect(await dq.api('DELETE', '/v1/topics/t/jobs/a')).toMatchObject(problem(404, 'job_not_found'));
    expect(dq.counted.get('t cancelled')).toBe(1);
    expect(dq.requests.slice(1)).toEqual([
      expect.objectContaining({ method: 'DELETE', topic: 't', id: 'a', status: 200, code: null }),
      expect.objectContaining({ method: 'DELETE', topic: 't', id: 'a', status: 404, code: 'job_not_found' }),
    ]);
  });

  it('shows an ended job: how, when, its attempts, no body', async () => {
    await dq.push('t', '{}', '?id=a&delay=0');
    await dq.store.jobs.retry([{ ...(await reserveOne(dq)), delayMs: 0, attempt: failedAttempt }]);
    const delivered = {
      ...failedAttempt,
      attempt: 2,
      outcome: 'delivered',
      reason: null,
      status: 200,
    } as const;
    const before = (await dq.api('GET', '/v1/topics/t/jobs/a')).body;
    const job = await reserveOne(dq);
    await dq.store.jobs.ack([{ ...job, attempt: delivered }]);
    const { topic, id, createdAt, dueAt, maxAttempts, webhookId } = before;
    const startedAt = new Date(failedAttempt.startedAt).toISOString();
    const { body } = await dq.api('GET', '/v1/topics/t/jobs/a');
    expect(body).toEqual({
      ...{ topic, id, createdAt, dueAt, firstDueAt: null, maxAttempts, webhookId },
      version: String(job.version),
      state: 'done',
      endedAt: expect.stringMatching(/Z$/),
      keptUntil: expect.stringMatching(/Z$/),
      why: { code: 'ended', at: body.endedAt },
      attempt: 2,
      attempts: [
        { ...failedAttempt, startedAt },
        { ...delivered, startedAt, latenessMs: 0 },
      ],
    });
  });

  it('shows cancelled and purged jobs, and a live job of the same id first', async () => {
    const get = async () => (await dq.api('GET', '/v1/topics/t/jobs/a')).body;
    await dq.push('t', '1', '?id=a');
    await dq.api('DELETE', '/v1/topics/t/jobs/a');
    expect(await get()).toMatchObject({ state: 'cancelled', attempt: 0, attempts: [] });
    for (const verb of ['run', 'reschedule?delay=1s', 'requeue'])
      expect((await dq.api('POST', `/v1/topics/t/jobs/a/${verb}`)).body.code).toBe('job_not_found');
    expect((await dq.push('t', '2', '?id=a&mode=reject')).status).toBe(201);
    expect(await get()).toMatchObject({ state: 'delayed', body: '2' });
    await dq.api('DELETE', '/v1/topics/t/jobs/a');
    await bury(dq, 't', ['a']);
    await dq.api('DELETE', '/v1/dead?topic=t');
    expect(await get()).toMatchObject({ state: 'purged', attempt: 1 });
    expect(await get()).not.toHaveProperty('body');
  });

  it('tells a missing job from a missing topic', async () => {
    expect(await dq.api('GET', '/v1/topics/t/jobs/none')).toMatchObject(problem(404, 'job_not_found'));
    for (const [method, path] of [
      ['GET', '/v1/topics/none/jobs/a'],
      ['DELETE', '/v1/topics/none/jobs/a'],
      ['GET', '/v1/topics/-bad-/jobs/a'],
    ] as const)
      expect(await dq.api(method, path)).toMatchObject(problem(404, 'topic_not_found'));
    expect(await dq.push('none', '1')).toMatchObject(problem(404, 'topic_not_found'));
  });
});
