// Pulling over HTTP: a real intake on a real embedded store. The leases themselves are tested by the
// conformance cases of the store.
import { beforeEach, describe, expect, it } from 'vitest';
import { startIntake, type TestIntake, tokenFor } from '../support/intake.ts';
import { until } from '../support/until.ts';

let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake();
  await dq.api('POST', '/v1/topics', { topic: 'report', delivery: 'pull', backoff: ['1s'], maxAttempts: 3 });
});

const pull = async (query = '', topic = 'report') =>
  (await dq.api('POST', `/v1/topics/${topic}/pull${query}`)).body.items;
const job = async (id: string) => (await dq.api('GET', `/v1/topics/report/jobs/${id}`)).body;
const act = async (verb: string, leases: readonly string[], more: object = {}) =>
  (await dq.api('POST', `/v1/leases/${verb}`, { leases, ...more })).body;
const push = (id: string, body = '{"n":1}', topic = 'report') => dq.push(topic, body, `?id=${id}`);

const aClientWaits = () =>
  until(
    'a client waits',
    () =>
      dq.metrics()?.gauges.some(([name, series]) => name === 'dq_pull_waiting' && series[0]?.[1] === 1) ===
      true,
  );

describe('a pulled job', () => {
  it('comes once, with its body and a lease, and ends with an ack', async () => {
    await push('a', '{"n": 9007199254740993}');
    const items = await pull('?lease=5m');
    expect(items).toEqual([
      {
        ...{ topic: 'report', id: 'a', version: expect.stringMatching(/^\d+$/), attempt: 1, maxAttempts: 3 },
        ...{ webhookId: expect.any(String), lease: expect.any(String), leaseUntil: expect.any(String) },
        ...{ dueAt: expect.any(String), createdAt: expect.any(String) },
        ...{ contentType: 'application/json', body: '{"n": 9007199254740993}' },
      },
    ]);
    const [{ lease, leaseUntil, dueAt }] = items;
    expect(Date.parse(leaseUntil) - Date.parse(dueAt)).toBeGreaterThanOrEqual(300_000);
    expect(await pull()).toEqual([]);
    expect((await job('a')).why.code).toBe('pulled');
    expect(await act('ack', [lease])).toEqual({ results: [{ status: 200 }] });
    expect(await job('a')).toMatchObject({ state: 'done', attempts: [{ outcome: 'delivered', attempt: 1 }] });
    expect(await act('ack', [lease])).toEqual({ results: [{ status: 409, code: 'lease_lost' }] });
    expect(dq.counted.get('report delivered')).toBe(1);
  });

  it('with a body that is not UTF-8 comes as base64', async () => {
    await dq.call('POST', '/v1/topics/report/jobs?id=b', {
      headers: { 'content-type': 'application/octet-stream' },
      body: Buffer.from([255, 0]),
    });
    expect(await pull()).toMatchObject([{ bodyBase64: '/wA=' }]);
  });

  it('is retried after a nack, by the backoff or the given delay, and dies at the last attempt', async () => {
    await push('a');
    const [first] = await pull();
    expect(await act('nack', [first.lease], { reason: 'locked' })).toEqual({ results: [{ status: 200 }] });
    expect((await job('a')).attempts).toMatchObject([
      { reason: 'nacked', detail: 'locked', outcome: 'failed' },
    ]);
    await dq.api('POST', '/v1/topics/report/jobs/a/run');
    const [second] = await pull();
    expect(second).toMatchObject({ id: 'a', attempt: 2 });
    await act('nack', [second.lease], { delay: '1h' });
    const waiting = await job('a');
    expect(waiting.state).toBe('delayed');
    expect(Date.parse(waiting.dueAt)).toBeGreaterThan(Date.now() + 3_500_000);
    await dq.api('POST', '/v1/topics/report/jobs/a/run');
    const [third] = await pull();
    await act('nack', [third.lease], { delay: '1h' });
    expect(await job('a')).toMatchObject({ state: 'dead', buryReason: 'attempts_exhausted' });
  });

  it('dies at once when its client says so, and goes back uncounted when it is released', async () => {
    await push('a');
    const [first] = await pull();
    expect(await act('nack', [first.lease], { release: true })).toEqual({ results: [{ status: 200 }] });
    const [again] = await pull();
    expect(again).toMatchObject({ id: 'a', attempt: 1 });
    await act('nack', [again.lease], { dead: true });
    expect(await job('a')).toMatchObject({ state: 'dead', buryReason: 'nacked' });
  });

  it('keeps its lease longer when it is extended; a lost lease is not extended', async () => {
    await push('a');
    const [{ lease, leaseUntil }] = await pull('?lease=1s');
    const { results } = await act('extend', [lease], { for: '1h' });
    expect(Date.parse(results[0].leaseUntil)).toBeGreaterThan(Date.parse(leaseUntil) + 3_000_000);
    await dq.api('DELETE', '/v1/topics/report/jobs/a');
    expect(await act('extend', [lease], { for: '1h' })).toEqual({
      results: [{ status: 409, code: 'lease_lost' }],
    });
  });
});

describe('a lease of its own', () => {
  it('of a job wins over that of the request and of the topic', async () => {
    expect((await dq.push('report', '1', '?id=own&lease=1h')).status).toBe(201);
    const [{ dueAt, leaseUntil }] = await pull('?lease=2s');
    expect(Date.parse(leaseUntil) - Date.parse(dueAt)).toBeGreaterThanOrEqual(3_600_000);
  });

  it('is rejected for a topic that dq calls, and out of its bounds', async () => {
    await dq.api('POST', '/v1/topics', { topic: 'called', callbackUrl: 'http://127.0.0.1:9/' });
    for (const [topic, lease] of [
      ['called', '1m'],
      ['report', '0'],
      ['report', '25h'],
      ['report', 'soon'],
    ])
      expect(await dq.push(topic as string, '1', `?lease=${lease}`), `${topic} ${lease}`).toMatchObject({
        status: 400,
        body: { errors: [{ field: 'lease' }] },
      });
  });

  it('can be given to the items of a batch', async () => {
    const items = [{ topic: 'report', id: 'b', body: 1, lease: '1h' }];
    expect((await dq.api('POST', '/v1/jobs', items)).body).toMatchObject({ accepted: 1 });
    const [{ dueAt, leaseUntil }] = await pull();
    expect(Date.parse(leaseUntil) - Date.parse(dueAt)).toBeGreaterThanOrEqual(3_600_000);
  });
});

describe('a client that waits', () => {
  it('gets a job that is pushed meanwhile', async () => {
    const waiting = pull('?wait=60s');
    await aClientWaits();
    await push('late');
    expect(await waiting).toMatchObject([{ id: 'late' }]);
  });

  it('gets an empty answer at the end of its time', async () => {
    expect(await pull('?wait=100ms')).toEqual([]);
  });

  it('gets jobs of several topics; 50 clients get 50 different jobs', async () => {
    await dq.api('POST', '/v1/topics', { topic: 'other', delivery: 'pull' });
    const all = Array.from({ length: 50 }, () =>
      dq.api('POST', '/v1/pull', { topics: ['report', 'other'], wait: '60s' }),
    );
    for (let n = 0; n < 50; n++) await push(`j${n}`, '1', n % 2 === 0 ? 'report' : 'other');
    const got = (await Promise.all(all)).flatMap(({ body }) =>
      body.items.map(({ topic, id }: { topic: string; id: string }) => `${topic}/${id}`),
    );
    expect(new Set(got).size).toBe(50);
    expect(got).toHaveLength(50);
  });

  it('that leaves loses nothing: its job goes to the next one', async () => {
    const abort = new AbortController();
    const left = fetch(`${dq.url}/v1/topics/report/pull?wait=60s`, {
      method: 'POST',
      signal: abort.signal,
    }).catch(() => 'left');
    await aClientWaits();
    abort.abort();
    await left;
    await push('a');
    expect(await pull('?wait=60s')).toMatchObject([{ id: 'a', attempt: 1 }]);
  });

  it('is answered at once when the server drains', async () => {
    const waiting = pull('?wait=60s');
    await aClientWaits();
    await dq.role.drain(5_000);
    expect(await waiting).toEqual([]);
  });
});

describe('a request', () => {
  it('names what is wrong', async () => {
    await dq.api('POST', '/v1/topics', { topic: 'called', callbackUrl: 'http://127.0.0.1:9/' });
    const wrong: readonly (readonly [string, object | undefined, number, string])[] = [
      ['/v1/topics/absent/pull', undefined, 404, 'topic_not_found'],
      ['/v1/topics/called/pull', undefined, 409, 'topic_not_pull'],
      ['/v1/topics/report/pull?max=101', undefined, 400, 'invalid'],
      ['/v1/topics/report/pull?wait=181s', undefined, 400, 'invalid'],
      ['/v1/topics/report/pull?lease=25h', undefined, 400, 'invalid'],
      ['/v1/leases/ack', { leases: ['abc'] }, 400, 'invalid'],
      ['/v1/leases/nack', { leases: ['abc'], release: true, dead: true }, 400, 'invalid'],
    ];
    for (const [path, json, status, code] of wrong)
      expect(await dq.api('POST', path, json), path).toMatchObject({ status, body: { code } });
  });

  it('brings nothing of a paused topic, and needs the scope pull and the topic', async () => {
    await push('a');
    await dq.api('POST', '/v1/topics/report/pause');
    expect(await pull()).toEqual([]);
    await dq.api('POST', '/v1/topics/report/resume');
    const reader = await tokenFor(dq, ['*'], ['read', 'operate', 'push']);
    expect((await dq.call('POST', '/v1/topics/report/pull', reader)).status).toBe(403);
    const other = await tokenFor(dq, ['other'], ['pull']);
    expect((await dq.call('POST', '/v1/topics/report/pull', other)).status).toBe(403);
    const puller = await tokenFor(dq, ['rep*'], ['pull']);
    const { body } = await dq.call('POST', '/v1/topics/report/pull', puller);
    const lease = body.items[0].lease;
    const ack = async (headers: Record<string, string>) =>
      (
        await dq.call('POST', '/v1/leases/ack', {
          headers: { ...headers, 'content-type': 'application/json' },
          body: JSON.stringify({ leases: [lease] }),
        })
      ).body.results;
    const elsewhere = await tokenFor(dq, ['other'], ['pull', 'read']);
    expect(await ack(elsewhere.headers)).toEqual([{ status: 403, code: 'forbidden' }]);
    expect(await ack(puller.headers)).toEqual([{ status: 200 }]);
  });
});
