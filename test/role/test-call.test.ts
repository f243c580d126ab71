// Test calls: what the receiver gets, what the caller learns, and that nothing is stored or counted.

import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { apiLimits } from '../../src/api/limits.ts';
import { contractLimits } from '../../src/contract/api/limits.ts';
import { topicDefaults } from '../../src/core/topic/topic.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import type { TestCall, TestCallResult } from '../../src/process/questions.ts';
import { type IntakeOptions, startIntake, tokenFor } from '../support/intake.ts';
import { problem } from '../support/problem.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { type Rig, secret, startRig, startTopic } from './rig.ts';

const body = '{"order":4711}';

async function testCall(rig: Rig, more: Partial<TestCall> = {}): Promise<TestCallResult> {
  const topic = await rig.registry.get('t');
  if (topic === null) throw new Error('no topic');
  const result = await rig.ask('test_call', { topic, body, contentType: 'application/json', ...more });
  if (result === null) throw new Error('no answer');
  return result;
}

describe('notifier: test call', () => {
  it('makes a signed call and tells the reply, the verdict and the times', async () => {
    const rig = await startRig();
    const sink = await startSink((_arrival, response) => {
      response.setHeader('x-shop', 'a');
      response.setHeader('set-cookie', 'secret=1');
      response.end('{"code":500,\n"msg":"\u202e"}');
    });
    await rig.topic('t', `${sink.url}?a=1`, {
      ...{ headers: { 'x-key': 'k' }, retryIf: '{res.code}!=200' },
      backoff: { type: 'ladder', stepsMs: [60_000] },
    });
    await rig.run(createNotifier(rig.context()));
    const result = await testCall(rig);
    expect(result).toMatchObject({
      request: { method: 'POST', url: `${sink.url}?a=1`, body },
      reply: { status: 200, body: '{"code":500,\n"msg":"\\u202e"}', cut: false },
      verdict: { outcome: 'failed', reason: 'rule', detail: '', next: 'retry', delayMs: 60_000 },
      ruleValues: { '{res.code}': '500' },
      phases: { lookupMs: null, tlsMs: null },
    });
    const headers = result.reply?.headers ?? [];
    expect(headers).toContain('x-shop: a');
    expect(headers.join()).not.toContain('secret');
    expect(result.phases.connectMs).toBeGreaterThanOrEqual(0);
    expect(result.phases.waitMs).toBeGreaterThanOrEqual(0);
    const [arrival] = sink.arrivals;
    expect(arrival?.headers).toMatchObject({ ...result.request.headers, 'dq-test': 'true', 'x-key': 'k' });
    const id = `${arrival?.headers['webhook-id']}.${arrival?.headers['webhook-timestamp']}.`;
    const mac = createHmac('sha256', Buffer.from(secret.slice(6), 'base64'))
      .update(id)
      .update(body);
    expect(arrival?.headers['webhook-signature']).toBe(`v1,${mac.digest('base64')}`);
    expect((await testCall(rig)).phases.connectMs, 'a kept connection').toBeNull();
  });

  it('stores and counts nothing, also when all calls fail', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:2/');
    await rig.run(createNotifier(rig.context()));
    rig.metrics();
    for (let n = 0; n < 2 * notifierLimits.ailingAttempts; n += 1)
      expect(await testCall(rig)).toMatchObject({
        ...{ reply: null, ruleValues: null, phases: { waitMs: null } },
        verdict: { outcome: 'failed', reason: 'connect', detail: 'ECONNREFUSED 127.0.0.1:2', next: 'retry' },
      });
    expect(await rig.ask('capacity', { topic: 't' })).toEqual([]);
    expect(await rig.ask('endpoints', { topic: null, topics: ['*'] })).toEqual([]);
    expect(rig.notified()).toEqual([]);
    expect(JSON.stringify(rig.metrics())).not.toMatch(/dq_(attempts|callback|delivery)/);
    expect(await rig.store.admin.counts()).toMatchObject({ topics: {} });
    // Samples and statistics of a real attempt come after all of those.
    await rig.push('t', 'a');
    await until('it is called', () => rig.sent.some(({ kind }) => kind === 'attempts'));
    const samples = rig.sent.flatMap((message) => (message.kind === 'attempts' ? message.attempts : []));
    expect(samples.map(({ id }) => id)).toEqual(['a']);
    expect((await rig.ask('endpoints', { topic: null, topics: ['*'] }))?.[0]?.failed).toBe(1);
  });

  it('obeys the egress policy', async () => {
    const { rig, sink } = await startTopic();
    await rig.run(createNotifier(rig.context({ config: { 'egress.policy': 'public' } })));
    expect(await testCall(rig)).toMatchObject({
      reply: null,
      verdict: { outcome: 'failed', reason: 'blocked_address' },
    });
    expect(sink.arrivals).toEqual([]);
  });

  it('ends with the timeout of the topic', async () => {
    const { rig } = await startTopic({ answer: () => {}, timeoutMs: 300, maxAttempts: 1 });
    await rig.run(createNotifier(rig.context()));
    expect(await testCall(rig)).toMatchObject({
      reply: null,
      verdict: { reason: 'timeout', detail: 'no whole reply within 300 ms', next: 'bury', delayMs: null },
    });
  });

  it('shows the start of a long reply', async () => {
    const { rig } = await startTopic({
      answer: (_arrival, response) => void response.end('x'.repeat(20_000)),
    });
    await rig.run(createNotifier(rig.context()));
    const { reply } = await testCall(rig);
    expect([reply?.body.length, reply?.cut]).toEqual([notifierLimits.testReplyMax, true]);
  });
});

describe('POST /v1/topics/{topic}/test-call', () => {
  const url = '/v1/topics/t/test-call';
  const callbackUrl = 'http://127.0.0.1:9/';
  const result: TestCallResult = {
    request: { method: 'POST', url: callbackUrl, headers: { 'x-key': 'k', 'dq-test': 'true' }, body: '{}' },
    ...{ reply: null, ruleValues: null },
    phases: { lookupMs: 1, connectMs: 2, tlsMs: null, waitMs: 3, readMs: 0, totalMs: 6 },
    verdict: { outcome: 'failed', reason: 'reset', detail: 'closed', next: 'bury', delayMs: null },
  };

  async function start(options: Partial<IntakeOptions> = {}, answer: object | null = result) {
    const asked: TestCall[] = [];
    const dq = await startIntake({
      onSend: (message, send) => {
        if (message.kind !== 'ask') return;
        expect(message).toMatchObject({ to: 'notifier', toOne: true, question: { name: 'test_call' } });
        asked.push(message.question.params as TestCall);
        send({ kind: 'answers', call: message.call, answers: [{ process: 'dq-notifier-0', answer }] });
      },
      ...options,
    });
    const headers = { 'x-key': 'k' };
    await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl, headers, retryIf: '{status}>1' });
    return { dq, asked };
  }

  it('sends the stored topic or a draft of it to one notifier, and stores no draft', async () => {
    const { dq, asked } = await start();
    expect(await dq.api('POST', url, {})).toMatchObject({
      status: 200,
      body: { ...result, notifier: 'dq-notifier-0' },
    });
    const draft = { callbackUrl: 'http://127.0.0.1:9/new', headers: { 'x-key': '***' } };
    await dq.api('POST', url, { body: '<a/>', contentType: 'text/xml', draft });
    expect(await dq.api('POST', url, { body: 'x', contentType: null })).toMatchObject({ status: 200 });
    await dq.api('POST', '/v1/topics/new/test-call', { draft: { callbackUrl } });
    expect(asked).toMatchObject([
      { topic: { callbackUrl, headers: { 'x-key': 'k' } }, body: '{}', contentType: 'application/json' },
      {
        topic: { callbackUrl: draft.callbackUrl, headers: { 'x-key': 'k' }, retryIf: '{status}>1' },
        ...{ body: '<a/>', contentType: 'text/xml' },
      },
      { body: 'x', contentType: null },
      { topic: { topic: 'new', callbackUrl, maxAttempts: 10 } },
    ]);
    expect((await dq.api('GET', '/v1/topics/t')).body.callbackUrl).toBe(callbackUrl);
    expect((await dq.api('GET', '/v1/topics/new')).status).toBe(404);
  });

  it('a draft needs the scope admin; others do not see header values', async () => {
    const { dq } = await start();
    const operator = await tokenFor(dq, ['*'], ['operate']);
    const call = (input: object) => dq.api('POST', url, input, operator.headers);
    expect(await call({ draft: { timeout: '1s' } })).toMatchObject(problem(403, 'forbidden'));
    expect((await call({})).body.request.headers).toEqual({ 'x-key': '***', 'dq-test': 'true' });
  });

  it('rejects bad drafts, bad bodies and unknown topics without a call', async () => {
    const { dq, asked } = await start({}, result);
    const fields = async (input: object, path = url) => {
      const { status, body } = await dq.api('POST', path, input);
      return [status, ...(body.errors ?? []).map(({ field }: { field: string }) => field)];
    };
    expect(await fields({ draft: { callbackUrl: 'ftp://a' } })).toEqual([400, 'callbackUrl']);
    expect(await fields({ draft: { topic: 'other' } })).toEqual([400, 'topic']);
    expect(await fields({ draft: { secret: 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw' } })).toEqual([
      400,
      'secret',
    ]);
    expect(await fields({ draft: {} }, '/v1/topics/new/test-call')).toEqual([400, 'callbackUrl']);
    expect(await fields({ body: 'x' })).toEqual([400, 'body']);
    expect(await fields({ body: 'é'.repeat(apiLimits.testBodyBytesMax / 2 + 1) })).toEqual([400, 'body']);
    expect(await fields({ contentType: 'a\nb' })).toEqual([400, 'content-type']);
    expect(await fields({ nope: 1 })).toEqual([400, 'nope']);
    expect(await fields({}, '/v1/topics/absent/test-call')).toEqual([404]);
    const target = { broker: 'gone', to: 'q', key: null };
    const settings = { ...topicDefaults, delivery: 'mq', target } as const;
    await dq.registry.create({ ...settings, topic: 'mq', state: 'active', secrets: [] });
    expect(await fields({}, '/v1/topics/mq/test-call')).toEqual([400, 'target.broker']);
    expect(asked).toEqual([]);
  });

  it('allows 10 calls a minute', async () => {
    const { dq, asked } = await start();
    for (let n = 0; n < contractLimits.testCallsPerMinute; n += 1)
      expect((await dq.api('POST', url, {})).status).toBe(200);
    expect(await dq.api('POST', url, {})).toMatchObject(problem(429, 'too_many_test_calls'));
    expect(asked).toHaveLength(contractLimits.testCallsPerMinute);
  });

  it('is unavailable where no notifier answers, and without deliveries', async () => {
    const { dq } = await start({}, null);
    expect(await dq.api('POST', url, {})).toMatchObject(problem(503, 'unavailable'));
    const quiet = await start({ config: { noDeliveries: true } });
    expect(await quiet.dq.api('POST', url, {})).toMatchObject({ status: 503 });
    expect(quiet.asked).toEqual([]);
  });
});
