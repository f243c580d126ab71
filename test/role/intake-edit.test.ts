// Tests PATCH of one job: what it changes and keeps, who may call it, and each rejection.
import { createHash } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { deadlineOf, optionsIn } from '../../src/core/extension.ts';
import type { Scope } from '../../src/core/token.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { bury, failedAttempt, reserveOne } from '../support/handmade.ts';
import { startIntake, type TestIntake, tokenFor } from '../support/intake.ts';
import { problem } from '../support/problem.ts';
import { until } from '../support/until.ts';

const callbackUrl = 'http://127.0.0.1:9000/';
const job = '/v1/topics/t/jobs/a';
let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake();
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl });
});

const get = async () => (await dq.api('GET', job)).body;
const send = (text: string, version: string, headers: Readonly<Record<string, string>> = {}, path = job) =>
  dq.call('PATCH', path, {
    headers: { 'content-type': 'application/json', 'if-match': `"${version}"`, ...headers },
    body: text,
  });
const edit = async (members: object) => send(JSON.stringify(members), (await get()).version);

/** As a caller with these scopes alone. */
const headersFor = async (...scopes: readonly Scope[]) => (await tokenFor(dq, ['*'], scopes)).headers;

describe('edit', () => {
  it('changes body and options, byte for byte, and keeps the rest', async () => {
    await dq.push('t', '{"x": 1.0}', '?id=a&delay=1h&maxAttempts=7');
    const { why: _, nextAttempts: __, ...before } = await get();
    const { status, body } = await send('{"body": {"big":12345678901234567890,"x":1.00} }', before.version);
    expect(status).toBe(200);
    expect(Object.keys(body)).toEqual(['topic', 'id', 'version', 'state', 'dueAt']);
    expect(BigInt(body.version)).toBeGreaterThan(BigInt(before.version));
    const { why: ___, nextAttempts: ____, ...after } = await get();
    const text = '{"big":12345678901234567890,"x":1.00}';
    expect(after).toEqual({ ...before, version: body.version, body: text, bytes: text.length });
    await edit({
      maxAttempts: 3,
      backoff: ['15s'],
      deadline: '3h',
      delay: '2h',
      contentType: 'text/plain',
      body: 'né',
    });
    expect(await get()).toMatchObject({
      ...{ maxAttempts: 3, backoff: ['15s'], contentType: 'text/plain', body: 'né' },
      webhookId: before.webhookId,
    });
    expect(await edit({ newWebhookId: true })).toMatchObject({ status: 200 });
    expect((await get()).webhookId).not.toBe(before.webhookId);
  });

  it('keeps failures and attempts; the callback has the new body', async () => {
    await dq.push('t', '1', '?id=a&delay=0');
    await dq.store.jobs.retry([{ ...(await reserveOne(dq)), delayMs: 3_600_000, attempt: failedAttempt }]);
    await edit({ body: 2, delay: 0 });
    expect(await get()).toMatchObject({ attempt: 1, attempts: [{ attempt: 1 }], state: 'ready' });
    expect(await reserveOne(dq)).toMatchObject({ failures: 1, body: Buffer.from('2') });
  });

  it('a due time after the deadline removes it, as a reschedule does', async () => {
    await dq.push('t', '1', '?id=a&delay=1m&deadline=1h');
    await edit({ delay: '2h' });
    const deadline = async () => {
      const stored = await dq.store.jobs.get({ topic: 't', id: 'a' });
      return stored && deadlineOf(optionsIn(stored.extension), stored);
    };
    expect(await deadline()).toBe(Number.POSITIVE_INFINITY);
    expect(await edit({ deadline: '1h' })).toMatchObject(problem(400, 'invalid', 'deadline'));
    await edit({ deadline: '3h' });
    expect(await deadline()).toBeLessThan(Date.now() + 3 * 3_600_000 + 1);
  });

  it('a dead letter is edited and requeued in one step, now or later', async () => {
    await bury(dq, 't', ['a']);
    expect(await edit({ body: 1 })).toMatchObject(problem(409, 'job_dead'));
    expect(await get()).toMatchObject({ state: 'dead', body: '{"id":"a"}' });
    expect(await edit({ body: { fixed: true }, requeue: true })).toMatchObject({
      ...{ status: 200, body: { state: 'ready' } },
    });
    expect(await get()).toMatchObject({
      attempt: 0,
      body: '{"fixed":true}',
      attempts: [{ beforeRequeue: true }],
    });
    expect(await edit({ requeue: true })).toMatchObject(problem(409, 'not_dead'));
  });

  it('a reserved job is 409 job_in_flight and keeps its body', async () => {
    await dq.push('t', '1', '?id=a&delay=0');
    await reserveOne(dq);
    expect(await edit({ body: 2 })).toMatchObject(problem(409, 'job_in_flight'));
    expect(await get()).toMatchObject({ state: 'reserved', body: '1' });
  });

  it('needs If-Match; another version is 412 with the job as it is now', async () => {
    await dq.push('t', '1', '?id=a&delay=1h');
    const { version } = await get();
    const missing = await dq.api('PATCH', job, { body: 2 });
    expect(missing).toMatchObject(problem(400, 'invalid', 'if-match'));
    expect(missing.body.errors[0].message).toBe('is required; send the version of the job as it was read');
    await dq.api('POST', `${job}/reschedule?delay=2h`);
    const changed = await send('{"body":2}', version);
    expect(changed).toMatchObject(problem(412, 'job_changed'));
    expect(changed.body.job).toMatchObject({ version: (await get()).version, body: '1', state: 'delayed' });
    // Between the read and the write of dq-server.
    const { jobs } = dq.store;
    const right = jobs.edit;
    dq.store.jobs.edit = async (items) => {
      await jobs.run([{ topic: 't', id: 'a' }]);
      return right(items);
    };
    expect(await edit({ body: 2 })).toMatchObject({
      status: 412,
      body: { job: { state: 'ready', body: '1' } },
    });
  });

  it('an absent or ended job, and an unknown topic, are 404', async () => {
    expect(await send('{"body":1}', '1')).toMatchObject(problem(404, 'job_not_found'));
    await dq.push('t', '1', '?id=a&delay=1h');
    const { version } = await get();
    await dq.api('DELETE', job);
    expect(await send('{"body":1}', version)).toMatchObject(problem(404, 'job_not_found'));
    const unknown = await send('{"body":1}', '1', {}, '/v1/topics/x/jobs/a');
    expect(unknown).toMatchObject(problem(404, 'topic_not_found'));
  });

  it.each([
    ['{"body":2', 400, 'malformed_json', 'body'],
    ['[]', 400, 'invalid', 'body'],
    ['{}', 400, 'invalid', 'body'],
    ['{"requeue":false}', 400, 'invalid', 'body'],
    ['{"requeue":1}', 400, 'invalid', 'requeue'],
    ['{"id":"b"}', 400, 'invalid', 'id'],
    ['{"body":1,"body":2}', 400, 'invalid', 'body'],
    ['{"body":1,"contentType":"text/plain"}', 400, 'invalid', 'body'],
    ['{"contentType":"\\u00e9"}', 400, 'invalid', 'contentType'],
    ['{"delay":"soon"}', 400, 'invalid', 'delay'],
    ['{"delay":"1s","at":1893456000000}', 400, 'invalid', 'at'],
    ['{"maxAttempts":0}', 400, 'invalid', 'maxAttempts'],
    ['{"backoff":"x"}', 400, 'invalid', 'backoff'],
    ['{"deadline":"1s"}', 400, 'invalid', 'deadline'],
    [`{"body":"${'x'.repeat(300_000)}"}`, 413, 'body_too_large', 'body'],
  ])('%.40s is rejected and changes nothing', async (text, status, code, field) => {
    await dq.push('t', '1', '?id=a&delay=1h');
    const before = await get();
    expect(await send(text, before.version)).toMatchObject(problem(status, code, field));
    expect(await get()).toEqual(before);
  });

  it('a topic of the format form needs an object, as for a push', async () => {
    await dq.api('POST', '/v1/topics', { topic: 'f', callbackUrl, format: 'form' });
    await dq.push('f', '{"a":1}', '?id=a&delay=1h');
    const path = '/v1/topics/f/jobs/a';
    const { version } = (await dq.api('GET', path)).body;
    const changed = (body: unknown) => dq.api('PATCH', path, { body }, { 'if-match': version });
    expect(await changed([1])).toMatchObject(problem(400, 'invalid', 'body'));
    expect(await changed({ a: 2 })).toMatchObject({ status: 200 });
  });

  it.each([
    ['{"contentType":"application/json"}', 't'],
    ['{"maxAttempts":3,"contentType":"text/plain"}', 'f'],
  ])('%s for a stored body that does not fit is rejected without quoting it', async (text, topic) => {
    await dq.api('POST', '/v1/topics', { topic: 'f', callbackUrl });
    const secret = 'password=hunter2';
    const path = `/v1/topics/${topic}/jobs/s`;
    const pushed = await dq.call('POST', `/v1/topics/${topic}/jobs?id=s&delay=1h`, {
      headers: { 'content-type': 'text/plain' },
      body: secret,
    });
    await dq.api('PATCH', '/v1/topics/f', { format: 'form' });
    const refused = await send(text, pushed.body.version, await headersFor('operate', 'push'), path);
    expect(refused).toMatchObject(problem(400, 'malformed_json', 'body'));
    for (let at = 0; at + 6 <= secret.length; at += 1)
      expect(JSON.stringify(refused.body)).not.toContain(secret.slice(at, at + 6));
  });

  it('a store that does not do it is 503, and says whether it may have', async () => {
    await dq.push('t', '1', '?id=a&delay=1h');
    const { version } = await get();
    dq.store.jobs.edit = async () => [{ kind: 'not_stored', code: 'redis_full' }];
    expect(await send('{"body":2}', version)).toMatchObject(problem(503, 'not_stored'));
    dq.store.jobs.edit = async () => [{ kind: 'unknown', code: 'spool_failed' }];
    expect(await send('{"body":2}', version)).toMatchObject(problem(503, 'unknown'));
    dq.store.jobs.edit = () => Promise.reject(new StoreError({ kind: 'unknown', code: 'lost' }));
    expect(await send('{"body":2}', version)).toMatchObject(problem(503, 'unknown'));
  });
});

describe('access and audit', () => {
  it('needs the scopes operate and push; the job of a 412 needs read', async () => {
    await dq.push('t', '1', '?id=a&delay=1h');
    const { version } = await get();
    const [operate, push, both, reader] = [
      await headersFor('operate'),
      await headersFor('push'),
      await headersFor('operate', 'push'),
      await headersFor('operate', 'push', 'read'),
    ];
    expect((await send('{"body":2}', version, operate)).body.detail).toContain('scope push');
    expect((await send('{"body":2}', version, push)).body.detail).toContain('scope operate');
    expect((await send('{"body":2}', '1', both)).body).not.toHaveProperty('job');
    expect((await send('{"body":2}', '1', reader)).body.job).toMatchObject({ version });
    expect((await send('{"body":2}', version, both)).status).toBe(200);
  });

  it('the audit log has the fields, and of the bodies their length and digest', async () => {
    await bury(dq, 't', ['a']);
    await edit({ body: { secret: 1 }, requeue: true, maxAttempts: 3, newWebhookId: true });
    await edit({ body: 1, requeue: true });
    const read = async () => (await dq.registry.audit({ jobId: 'a' }, null, 10)).items;
    await until('two entries', async () => (await read()).length >= 2);
    const [rejected, edited] = await read();
    const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16);
    expect(edited).toMatchObject({ action: 'editJob', topic: 't', jobId: 'a', status: 200, code: null });
    expect(edited?.detail?.changes).toEqual([
      { field: 'state', before: 'dead', after: 'ready' },
      { field: 'dueAt', before: expect.any(String), after: expect.any(String) },
      {
        ...{ field: 'body', before: `10 bytes, sha256 ${digest('{"id":"a"}')}` },
        after: `12 bytes, sha256 ${digest('{"secret":1}')}`,
      },
      { field: 'maxAttempts', before: null, after: 3 },
      { field: 'webhookId', before: null, after: 'new' },
    ]);
    expect(rejected).toMatchObject({ action: 'editJob', status: 409, code: 'not_dead' });
    expect(JSON.stringify(await read())).not.toContain('secret":1');
  });

  it('the audit log has the fields of an edit whose outcome is unknown', async () => {
    await dq.push('t', '{"id":"u"}', '?id=u&delay=1h');
    const { version } = (await dq.api('GET', '/v1/topics/t/jobs/u')).body;
    dq.store.jobs.edit = async () => [{ kind: 'unknown', code: 'timeout' }];
    const reply = await send('{"body":{"n":2}}', version, {}, '/v1/topics/t/jobs/u');
    expect(reply).toMatchObject({ status: 503, body: { code: 'unknown' } });
    const [entry] = await until('an entry', async () => {
      const { items } = await dq.registry.audit({ jobId: 'u' }, null, 10);
      return items.length > 0 ? items : undefined;
    });
    expect(entry).toMatchObject({ status: 503, code: 'unknown' });
    expect(entry?.detail?.changes?.map(({ field }) => field)).toEqual(['body']);
  });
});
