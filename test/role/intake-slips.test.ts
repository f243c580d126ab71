// Tests probable mistakes of producers: an item of a batch pushed as a job, and JSON sent as a form.

import { describe, expect, it } from 'vitest';
import { startIntake, type TestIntake } from '../support/intake.ts';
import { problem } from '../support/problem.ts';

const callbackUrl = 'http://127.0.0.1:9/';
const json = 'application/json';
const form = 'application/x-www-form-urlencoded';

async function start(): Promise<TestIntake> {
  const dq = await startIntake();
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl, delay: '1h' });
  await dq.api('POST', '/v1/topics', { topic: 'f', callbackUrl, delay: '1h', format: 'form' });
  return dq;
}

const later = '2090-01-01T00:00:00Z';

describe('an item of a batch as the body of a push', () => {
  it('is rejected with the right form, unless the query says literal=true', async () => {
    const dq = await start();
    for (const item of [
      { delay: '30s', body: { order: 1 } },
      { delay: 30, body: 1 },
      { delay: '30', id: 'a', body: 'x' },
      { at: later, body: {} },
      { topic: 't', body: { order: 1 } },
      { topic: 't', id: 'a', delay: '1h', mode: 'replace', body: [], contentType: json },
    ]) {
      const body = JSON.stringify(item);
      const reply = await dq.push('t', body, '', json);
      expect(reply).toMatchObject(problem(400, 'invalid', 'body'));
      for (const part of ['item of a batch', '?delay=30s', 'POST /v1/jobs', 'literal=true'])
        expect(reply.body.detail).toContain(part);
      expect((await dq.push('t', body, '?literal=true', json)).status).toBe(201);
      expect((await dq.push('t', body, '', 'application/vnd.shop+json')).status).toBe(201);
    }
  });

  it('is detected by its time or topic; other bodies with the same names are jobs', async () => {
    const dq = await start();
    for (const body of [
      { body: 'x' },
      { id: 4711, body: 'a chat message' },
      { id: 'a', body: 'x', topic: 'another' },
      { id: 'a', at: '2020-01-01T00:00:00Z', body: 'what was said then' },
      { delay: 'short', body: 'x' },
      { mode: 'replace', id: 'a', body: 'x' },
      { contentType: 'text/html', body: '<p>a mail</p>' },
      { delay: '30s', body: 'x', order: 1 },
      { delay: '30s', order: 1 },
      { delay: '30s' },
      { id: 'a', delay: '30s' },
      [{ delay: '30s', body: 1 }],
      'delay',
      null,
    ])
      expect((await dq.push('t', JSON.stringify(body), '', json)).status, JSON.stringify(body)).toBe(201);
  });

  it('is rejected for a topic of format form, and never inside a batch', async () => {
    const dq = await start();
    const item = { delay: '30s', body: { order: 1 } };
    expect((await dq.push('f', JSON.stringify(item), '')).body.errors).toMatchObject([{ field: 'body' }]);
    const { body } = await dq.api('POST', '/v1/jobs', [{ topic: 't', body: item }]);
    expect(body).toMatchObject({ accepted: 1, failed: 0 });
  });
});

describe('JSON of the type application/x-www-form-urlencoded', () => {
  it('is 415 with the right header', async () => {
    const dq = await start();
    for (const body of ['{"order":4711}', ' [1]', '{order:4711}']) {
      const reply = await dq.push('t', body, '', form);
      expect(reply).toMatchObject(problem(415, 'unsupported_media_type', 'content-type'));
      expect(reply.body.detail).toContain("-H 'content-type: application/json'");
      expect((await dq.push('t', body, '', `${form}; charset=utf-8`)).status).toBe(415);
      expect((await dq.push('t', body, '?literal=true', form)).status).toBe(201);
    }
  });

  it('is detected by its first character; a form is a job', async () => {
    const dq = await start();
    for (const body of ['a=1&b=2', 'a', '', '%7B=1', '5', '"x"'])
      expect((await dq.push('t', body, '', form)).status, body).toBe(201);
  });

  it('is 415 with the right header on the other routes too', async () => {
    const dq = await start();
    for (const [method, path] of [
      ['POST', '/v1/topics'],
      ['PATCH', '/v1/topics/t'],
      ['POST', '/v1/jobs'],
      ['POST', '/v1/dead/requeue'],
    ] as const) {
      const reply = await dq.call(method, path, { headers: { 'content-type': form }, body: '{}' });
      expect(reply.status, path).toBe(415);
      expect(reply.body.detail).toContain("-H 'content-type: application/json'");
    }
  });
});
