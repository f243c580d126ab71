// Recent attempts and endpoints: from the notifier over dq-upkeep to GET /v1/attempts and GET /v1/endpoints.
import { describe, expect, it } from 'vitest';
import type { TopicFailures } from '../../src/core/endpoint.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import type { ToMaster } from '../../src/process/messages.ts';
import { createUpkeep } from '../../src/upkeep/upkeep.ts';
import { adminToken, bearer, startIntake, type TestIntake, tokenFor } from '../support/intake.ts';
import { problem } from '../support/problem.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { startRig } from './rig.ts';

const everything = { topic: null, topics: ['*'], outcome: null, limit: 50 } as const;

describe('attempts', () => {
  it('dq-upkeep lists what notifiers have sent; a new one begins empty', async () => {
    const rig = await startRig();
    const sink = await startSink((arrival, response) => {
      response.writeHead(arrival.id === 'bad' ? 500 : 200).end(`{"id":"${arrival.id}"}`);
    });
    await rig.topic('t', sink.url, { backoff: { type: 'ladder', stepsMs: [60_000] } });
    await rig.run(createUpkeep(rig.context({ title: 'dq-upkeep' })));
    expect((await rig.ask('attempts', everything))?.attempts).toEqual([]);
    await rig.run(createNotifier(rig.context({ title: 'dq-notifier-0' })));
    await rig.push('t', 'good');
    await rig.push('t', 'bad');
    const sent = () => rig.sent.flatMap((message) => (message.kind === 'attempts' ? message.attempts : []));
    await until('the samples are sent', () => sent().length === 2);
    rig.tell({ kind: 'attempts', attempts: sent() });
    const { attempts = [] } = (await rig.ask('attempts', everything)) ?? {};
    expect(attempts.map(({ id }) => id).sort()).toEqual(['bad', 'good']);
    expect(attempts.find(({ id }) => id === 'bad')).toMatchObject({
      ...{ topic: 't', attempt: 1, outcome: 'failed', reason: 'status', status: 500, detail: '' },
      ...{ replyExcerpt: '{"id":"bad"}', origin: new URL(sink.url).origin, notifier: 'dq-notifier-0' },
    });
  });

  it('a call that fails without a reply says why', async () => {
    const rig = await startRig();
    await rig.topic('t', 'http://127.0.0.1:2/');
    await rig.run(createNotifier(rig.context()));
    await rig.push('t', 'a');
    await until('the sample is sent', () => rig.sent.some(({ kind }) => kind === 'attempts'));
    const message = rig.sent.find(({ kind }) => kind === 'attempts') as ToMaster & { kind: 'attempts' };
    expect(message.attempts[0]).toMatchObject({
      reason: 'connect',
      detail: 'ECONNREFUSED 127.0.0.1:2',
      status: null,
    });
  });
});

describe('endpoints', () => {
  it('the notifier counts running calls, failures in a row and results of each origin', async () => {
    const rig = await startRig();
    const fine = await startSink();
    const hanging = await startSink(() => {});
    const backoff = { type: 'ladder', stepsMs: [60_000] } as const;
    await rig.topic('fine', fine.url);
    await rig.topic('refused', 'http://127.0.0.1:2/', { backoff });
    await rig.topic('hanging', hanging.url, { timeoutMs: 60_000 });
    await rig.run(createNotifier(rig.context()));
    await rig.push('hanging', 'h');
    for (const id of ['1', '2', '3']) await rig.push('refused', id);
    await rig.push('fine', 'f');
    await until('all were called', () => rig.notified().length === 4 && hanging.open().length === 1);
    const of = (name: string, asked = {}) =>
      rig
        .ask('endpoints', { topic: null, topics: ['*'], ...asked })
        .then((parts) => parts?.find(({ topics }) => topics.includes(name)));
    expect(await of('fine')).toMatchObject({
      ...{ origin: new URL(fine.url).origin, topics: ['fine'], delivered: 1, failed: 0 },
    });
    expect(await of('refused')).toMatchObject({
      ...{ delivered: 0, failed: 3, lastSuccessAt: null, lastReason: 'connect' },
    });
    expect(await of('hanging')).toMatchObject({ inFlight: 1, delivered: 0, failed: 0 });
    await until('a long call makes it probing', async () => (await of('hanging'))?.isProbing === true);
    expect(await of('fine', { topics: ['refused'] })).toBeUndefined();
    expect(await rig.ask('endpoints', { topic: 'fine', topics: ['*'] })).toHaveLength(1);
    expect(await rig.ask('endpoints', { topic: 'absent', topics: ['*'] })).toEqual([]);
    await rig.topic('uncalled', `${fine.url}/other`);
    expect(await rig.ask('endpoints', { topic: 'uncalled', topics: ['*'] })).toMatchObject([
      { topics: ['fine'] },
    ]);
    hanging.finish(hanging.open()[0]);
    await until('no call runs', async () => (await of('hanging'))?.inFlight === 0);
  });
});

describe('GET /v1/attempts and GET /v1/endpoints', () => {
  const sample = {
    ...{ topic: 'order.close', id: '1', version: 1893456000000001, attempt: 2, startedAt: 0, durationMs: 5 },
    ...{ latenessMs: 3, outcome: 'failed', reason: 'status', status: 500, replyExcerpt: '{}', detail: '' },
    ...{ origin: 'http://a', notifier: 'dq-notifier-0' },
  } as const;
  const part = {
    ...{ origin: 'http://a', topics: ['order.close'], isProbing: false, inFlight: 1 },
    ...{
      ...{ lastSuccessAt: 1, lastFailureAt: null, lastReason: null, delivered: 4, failed: 0, durations: [4] },
      longestMs: 1,
    },
  } as const;

  const failing: TopicFailures = {
    ...{ topic: 'order.close', delivered: 0, failed: 40, failuresInRow: 0, lastSuccessAt: null },
    ...{ since: null, lastReason: 'connect', lastStatus: null, lastDetail: '' },
    ...{ unansweredInRow: 0, lastFailuresAt: [] },
  };

  function start(answerOf: (name: string, params: object) => unknown): Promise<TestIntake> {
    return startIntake({
      onSend: (message, answer) => {
        if (message.kind !== 'ask') return;
        const { call, to, question } = message;
        const given = answerOf(question.name, question.params as object);
        const answers = to === 'upkeep' ? [given] : [given, null];
        answer({
          ...{ kind: 'answers', call },
          answers: answers.map((one, n) => ({ process: `dq-${to}-${n}`, answer: one })),
        });
      },
    });
  }

  it('passes filter, limit and the topics of the caller on', async () => {
    const asked: object[] = [];
    const dq = await start((name, params) => {
      asked.push({ name, ...params });
      return name === 'attempts' ? { since: 0, attempts: [sample] } : [part];
    });
    expect(await dq.api('GET', '/v1/attempts?topic=order.close&outcome=failed&limit=7')).toMatchObject({
      status: 200,
      body: {
        items: [{ ...sample, version: '1893456000000001', startedAt: '1970-01-01T00:00:00.000Z' }],
        since: '1970-01-01T00:00:00.000Z',
      },
    });
    const some = await tokenFor(dq, ['order.*']);
    expect((await dq.call('GET', '/v1/attempts', some)).status).toBe(200);
    expect((await dq.call('GET', '/v1/attempts?topic=pay', some)).status).toBe(403);
    expect((await dq.call('GET', '/v1/endpoints?topic=pay', some)).status).toBe(403);
    expect(asked).toEqual([
      { name: 'attempts', topic: 'order.close', topics: ['*'], outcome: 'failed', limit: 7 },
      { name: 'attempts', topic: null, topics: ['order.*'], outcome: null, limit: 50 },
    ]);
  });

  it('names the state of an endpoint, and silent notifiers', async () => {
    let given: object = part;
    let failures: readonly TopicFailures[] = [];
    const dq = await start((name) =>
      name === 'failures' ? failures : name === 'past_failures' ? [] : [given],
    );
    const get = async () => (await dq.api('GET', '/v1/endpoints')).body;
    expect(await get()).toMatchObject({
      items: [
        {
          ...{ origin: 'http://a', topics: ['order.close'], topicCount: 1, state: 'healthy', attempts: 4 },
          ...{ successRate: 1, p95Ms: 1, lastSuccessAt: '1970-01-01T00:00:00.001Z', lastFailureAt: null },
        },
      ],
      silent: ['dq-notifier-1'],
    });
    given = { ...part, delivered: 19, failed: 1 };
    expect((await get()).items[0]).toMatchObject({ state: 'failing', successRate: 0.95 });
    given = part;
    failures = [{ ...failing, failuresInRow: 3, since: 1 }];
    expect((await get()).items[0]).toMatchObject({ state: 'failing', failuresInRow: 3 });
    given = { ...part, isProbing: true };
    expect((await get()).items[0].state).toBe('probing');
  });

  it('are unavailable where no process answers, and reject bad filters', async () => {
    const dq = await start(() => null);
    for (const path of ['/v1/attempts', '/v1/endpoints'])
      expect(await dq.api('GET', path)).toMatchObject(problem(503, 'unavailable'));
    for (const limit of ['0', '201', '-1', 'x'])
      expect(await dq.api('GET', `/v1/attempts?limit=${limit}`)).toMatchObject({ status: 400 });
    const reply = await dq.call('GET', '/v1/attempts?topic=%20', { headers: bearer(adminToken) });
    expect(reply.status).toBe(404);
  });
});
