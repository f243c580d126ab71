// Pulling over HTTP: a real intake on a real embedded store. The leases themselves are in the conformance
// cases of the store; forged ones, clients that leave and drains are in the simulated worlds
// (test/sim/pull-clients.ts).
import { createHmac } from 'node:crypto';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { Config } from '../../src/config/options.ts';
import { limits } from '../../src/core/limits.ts';
import { pullLimits } from '../../src/intake/pull/limits.ts';
import { pullForClient } from '../../src/intake/pull/pull-for-client.ts';
import { Puller, type PullRequest } from '../../src/intake/pull/puller.ts';
import type { JobStore } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { StoreClock } from '../../src/process/store-clock.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { MetricBuffer } from '../../src/telemetry/metrics.ts';
import { pullsWait, removeTokens, startIntake, type TestIntake, tokenFor } from '../support/intake.ts';
import { problem } from '../support/problem.ts';
import { openSocketsTo } from '../support/sockets.ts';
import { until } from '../support/until.ts';

let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake({ config: { brokers: ['main=stomp+stomp://127.0.0.1:2'] } });
  await dq.api('POST', '/v1/topics', { topic: 'report', delivery: 'pull', backoff: ['1s'], maxAttempts: 3 });
});

const pull = async (query = '', topic = 'report') =>
  (await dq.api('POST', `/v1/topics/${topic}/pull${query}`)).body.items;
const job = async (id: string) => (await dq.api('GET', `/v1/topics/report/jobs/${id}`)).body;
const act = async (verb: string, leases: readonly string[], more: object = {}) =>
  (await dq.api('POST', `/v1/leases/${verb}`, { leases, ...more })).body;
const push = (id: string, body = '{"n":1}', topic = 'report') => dq.push(topic, body, `?id=${id}`);

/** The parts of the text of a lease. */
function read(lease: string) {
  const bytes = Buffer.from(lease, 'base64url');
  const mac = bytes.subarray(0, limits.leaseMacBytes);
  return { mac, parts: JSON.parse(bytes.subarray(limits.leaseMacBytes).toString()) };
}
// Of test/support/composed.ts.
const leaseKey = Buffer.alloc(32);
const macOf = (parts: Buffer) =>
  createHmac('sha256', leaseKey).update(parts).digest().subarray(0, limits.leaseMacBytes);

const away = () => Promise.reject(new StoreError({ kind: 'not_stored', code: 'busy' }));
/** A server over the same store that was started while the registry is unavailable. */
const startUnread = (get: () => Promise<unknown>) =>
  startIntake({
    restarts: 1,
    store: () => dq.store,
    registry: (registry) =>
      new Proxy(registry, {
        get(target, name: keyof typeof registry) {
          const value: unknown = target[name];
          if (name === 'changes') return away;
          if (name === 'get') return get;
          return typeof value === 'function' ? value.bind(target) : value;
        },
      }),
  });

const clientsWait = (count: number) => pullsWait(dq, count);
const aClientWaits = () => clientsWait(1);

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

  it('its attempt began at the pull by the storage clock, also while numbers are ahead of that', async () => {
    let now = Date.now();
    dq = await startIntake({ clock: () => now });
    await dq.api('POST', '/v1/topics', { topic: 'report', delivery: 'pull', backoff: ['1s'] });
    await push('first');
    await pull();
    now -= 3_600_000;
    await push('a');
    const [{ lease }] = await pull();
    const startedAt = new Date(now).toISOString();
    await act('nack', [lease]);
    expect((await job('a')).attempts).toMatchObject([{ startedAt, latenessMs: 0 }]);
  });

  it('a nack of jobs of several unread topics waits for the registry once', async () => {
    await dq.api('POST', '/v1/topics', { topic: 'other', delivery: 'pull' });
    await push('a');
    await push('b', '1', 'other');
    const leases = [...(await pull()), ...(await pull('', 'other'))].map(({ lease }) => lease);
    let asked = 0;
    let goOn = () => {};
    const bothAsk = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const started = await startUnread(() => {
      asked += 1;
      if (asked === 2) goOn();
      return bothAsk.then(away);
    });
    const nacked = await started.api('POST', '/v1/leases/nack', { leases });
    const lost = { status: 503, code: 'not_stored' };
    expect(nacked.body).toEqual({ results: [lost, lost] });
  });

  it('keeps its lease when a server that never read the registry gets its nack', async () => {
    await push('a');
    const [{ lease }] = await pull();
    const started = await startUnread(away);
    const nacked = await started.api('POST', '/v1/leases/nack', { leases: [lease] });
    expect(nacked.body).toEqual({ results: [{ status: 503, code: 'not_stored' }] });
    expect(await job('a')).toMatchObject({ state: 'reserved', attempts: [] });
    await act('nack', [lease]);
    const { attempts, dueAt } = await job('a');
    expect(Date.parse(dueAt) - Date.parse(attempts[0].startedAt)).toBeLessThan(60_000);
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
    expect(waiting.attempts[1]).toMatchObject({ nextDelayMs: 3_600_000, nextBy: 'retry_after' });
    expect(Date.parse(waiting.dueAt)).toBeGreaterThan(Date.now() + 3_500_000);
    await dq.api('POST', '/v1/topics/report/jobs/a/run');
    const [third] = await pull();
    await act('nack', [third.lease], { delay: '1h' });
    expect(await job('a')).toMatchObject({ state: 'dead', deadReason: 'attempts_exhausted' });
  });

  it('dies at once when its client says so, and goes back uncounted when it is released', async () => {
    await push('a');
    const [first] = await pull();
    expect(await act('nack', [first.lease], { release: true })).toEqual({ results: [{ status: 200 }] });
    const [again] = await pull();
    expect(again).toMatchObject({ id: 'a', attempt: 1 });
    await act('nack', [again.lease], { dead: true });
    expect(await job('a')).toMatchObject({ state: 'dead', deadReason: 'nacked' });
  });

  it('is snoozed by a release with a delay: it waits, and no attempt counts', async () => {
    await push('a');
    const [first] = await pull();
    expect(await act('nack', [first.lease], { release: true, delay: '10m' })).toEqual({
      results: [{ status: 200 }],
    });
    const waiting = await job('a');
    expect(waiting).toMatchObject({
      ...{ state: 'delayed', attempt: 0, attempts: [], again: 1, why: { code: 'waits_again' } },
    });
    expect(Date.parse(waiting.dueAt)).toBeGreaterThan(Date.now() + 590_000);
    expect(dq.counted.get('report again')).toBe(1);
    expect(await act('nack', [first.lease], { release: true, delay: '10m' })).toEqual({
      results: [{ status: 409, code: 'lease_lost' }],
    });
    await dq.api('POST', '/v1/topics/report/jobs/a/run');
    const [again] = await pull();
    expect(again).toMatchObject({ id: 'a', attempt: 1, again: 1 });
    await act('nack', [again.lease], { delay: '1h' });
    expect(await job('a')).toMatchObject({ attempt: 1, again: 1, why: { code: 'waits_to_retry' } });
    await dq.api('POST', '/v1/topics/report/jobs/a/run');
    const [third] = await pull();
    await act('nack', [third.lease], { release: true, delay: '30d' });
    expect(await job('a')).toMatchObject({ attempt: 1, again: 2, why: { code: 'waits_again' } });
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

describe('options of a job', () => {
  it('replace those of its topic: attempts, backoff, deadline', async () => {
    const options = '&maxAttempts=2&backoff=1h,2h&deadline=90m';
    expect((await dq.push('report', '1', `?id=own${options}`)).status).toBe(201);
    const { deadline, ...stored } = await job('own');
    expect(stored).toMatchObject({ maxAttempts: 2, backoff: ['1h', '2h'] });
    expect(Date.parse(deadline) - Date.parse(stored.createdAt)).toBeGreaterThan(5_390_000);
    const [first] = await pull();
    expect(first).toMatchObject({ attempt: 1, maxAttempts: 2 });
    await act('nack', [first.lease]);
    expect((await job('own')).attempts).toMatchObject([{ nextDelayMs: 3_600_000 }]);
    await dq.api('POST', '/v1/topics/report/jobs/own/run');
    await act('nack', [(await pull())[0].lease]);
    expect(await job('own')).toMatchObject({ state: 'dead', deadReason: 'attempts_exhausted' });
    await dq.api('POST', '/v1/topics/report/jobs/own/requeue');
    const again = await job('own');
    expect(again).toMatchObject({ maxAttempts: 2, backoff: ['1h', '2h'], deadline });
  });

  it('a trace of the push, also of a whole batch, reaches the client; an invalid one is ignored', async () => {
    const traceparent = `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`;
    const headers = { traceparent, tracestate: 'vendor=a' };
    await dq.call('POST', '/v1/topics/report/jobs?id=one', { headers, body: Buffer.from('1') });
    expect(await job('one')).toMatchObject(headers);
    const own = traceparent.replaceAll('2', '3');
    const items = [
      { topic: 'report', id: 'of the request', body: 1 },
      { topic: 'report', id: 'own', body: 1, traceparent: own },
      { topic: 'report', id: 'wrong', body: 1, traceparent: 'no' },
    ];
    await dq.api('POST', '/v1/jobs', items, headers);
    const pulled = await pull('?max=9');
    expect(
      pulled
        .map(({ id, traceparent: sent = '', tracestate = '' }: Record<string, string>) => [
          id,
          sent,
          tracestate,
        ])
        .sort(),
    ).toEqual([
      ['of the request', traceparent, 'vendor=a'],
      ['one', traceparent, 'vendor=a'],
      ['own', own, ''],
      ['wrong', '', ''],
    ]);
  });

  it('are rejected by name', async () => {
    const wrong = async (query: string) => (await dq.push('report', '1', query)).body.detail;
    expect(await wrong('?maxAttempts=0')).toBe('maxAttempts: must be a number from 1 to 100, not 0');
    expect(await wrong('?backoff=soon')).toMatch(/^backoff: must be "2n\+1", a list/);
    expect(await wrong('?backoff=[')).toMatch(/^backoff: must be 2n\+1, waits/);
    expect(await wrong('?deadline=tomorrow')).toMatch(/^deadline: must be a duration such as 2h/);
    expect(await wrong('?delay=2h&deadline=1h')).toMatch(/^deadline: must be later than the first attempt, /);
    const { body } = await dq.api('POST', '/v1/jobs', [
      { topic: 'report', id: 'good', body: 1, maxAttempts: 5, backoff: ['5s'], deadline: '1h' },
      { topic: 'report', body: 1, backoff: ['-1s'] },
      { topic: 'report', body: 1, maxAttempts: 101 },
    ]);
    expect(
      body.results.map(({ status, detail }: { status: number; detail: string }) => detail ?? status),
    ).toEqual([
      201,
      expect.stringMatching(/^items\[1\]\.backoff\[0\]: /),
      'items[2].maxAttempts: must be a number from 1 to 100, not 101',
    ]);
    expect(await job('good')).toMatchObject({ maxAttempts: 5, backoff: ['5s'] });
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
      expect(await dq.push(topic as string, '1', `?lease=${lease}`), `${topic} ${lease}`).toMatchObject(
        problem(400, 'invalid', 'lease'),
      );
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

  it('reads the maxAttempts of its topic at the answer, not at its request', async () => {
    const waiting = pull('?wait=60s');
    await aClientWaits();
    await dq.api('PATCH', '/v1/topics/report', { maxAttempts: 7 });
    await push('a');
    expect(await waiting).toMatchObject([{ id: 'a', attempt: 1, maxAttempts: 7 }]);
  });

  it('gets an empty answer at the end of its time', async () => {
    expect(await pull('?wait=100ms')).toEqual([]);
  });

  it('does not wait for clients of topics without jobs', async () => {
    await dq.api('POST', '/v1/topics', { topic: 'quiet', delivery: 'pull' });
    // Together they want more jobs than a reserve can bring.
    const idle = [1, 2, 3].map(() => pull('?max=100&wait=60s', 'quiet'));
    await clientsWait(3);
    await push('a');
    expect(await pull()).toMatchObject([{ id: 'a' }]);
    await dq.role.drain(0);
    // A drain answers them at once.
    expect(await Promise.all(idle)).toEqual([[], [], []]);
  });

  it('gets nothing while its topic has too many leases; log and why say so', async () => {
    const { pullLeasesMax } = limits;
    onTestFinished(() => void Object.assign(limits, { pullLeasesMax }));
    Object.assign(limits, { pullLeasesMax: 2 });
    for (const id of ['a', 'b']) await push(id);
    const [first] = await pull();
    expect([await pull(), await pull()]).toEqual([[], []]);
    const line = 'pull: a topic has too many leases; its jobs wait for an ack or nack';
    expect(dq.errors.filter((error) => error.includes(line))).toHaveLength(1);
    expect((await job('b')).why).toEqual({ code: 'at_pull_leases' });
    await act('ack', [first.lease]);
    expect((await job('b')).why).toEqual({ code: 'waits_for_pull' });
    expect(await pull()).toMatchObject([{ id: 'b' }]);
  });

  it('gets no job after its token was removed; the next client gets it', async () => {
    const { headers } = await tokenFor(dq, ['report'], ['pull', 'push']);
    const waiting = dq.call('POST', '/v1/topics/report/pull?wait=60s', { headers });
    await aClientWaits();
    await removeTokens(dq, headers);
    const others = await tokenFor(dq, ['report'], ['pull', 'push', 'read']);
    await dq.call('POST', '/v1/topics/report/jobs?id=a', { ...others, body: Buffer.from('secret') });
    expect(await waiting).toMatchObject(problem(401, 'unauthorized'));
    const next = await dq.call('POST', '/v1/topics/report/pull?wait=10s', others);
    expect(next.body.items).toMatchObject([{ id: 'a', attempt: 1 }]);
  });

  it('waits once on a connection: what it sent behind takes no place', async () => {
    const raw = dq.open();
    const one =
      'POST /v1/topics/report/pull?wait=60s HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n';
    raw.send(one.repeat(90));
    await aClientWaits();
    for (const id of ['a', 'b', 'c']) await push(id);
    await until('three are answered', () => raw.received().split('"id":').length === 4);
    await until('the fourth waits', () => dq.role.inFlight() === 87);
    expect(raw.received()).toMatch(/"id":"a".*"id":"b".*"id":"c"/s);
    raw.socket.destroy();
    await clientsWait(0);
    // Its jobs go to others.
    await push('d');
    expect(await pull('?wait=10s')).toMatchObject([{ id: 'd' }]);
  });
});

describe('a client that leaves', () => {
  const pullOf = (query: string) =>
    `POST /v1/topics/report/pull?${query} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n`;

  it('before its topic is known: no job is reserved for it', async () => {
    let asks = false;
    let goOn = () => {};
    const known = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const started = await startUnread(async () => {
      asks = true;
      await known;
      return dq.registry.get('report');
    });
    const raw = started.open();
    raw.send(pullOf('wait=60s'));
    await until('it asks for its topic', () => asks);
    const port = raw.socket.localPort as number;
    raw.socket.destroy();
    await until('dq has closed the connection', () => !openSocketsTo(process.pid, port));
    goOn();
    await until('its request has ended', () => started.role.inFlight() === 0);
    await started.push('report', '1', '?id=a');
    const next = await started.api('POST', '/v1/topics/report/pull?wait=60s');
    expect(next.body).toMatchObject({ items: [{ id: 'a' }] });
  });

  it('while it does not read its answer: the jobs are ready at once', async () => {
    const count = 70;
    for (let n = 0; n < count; n++) await push(`j${n}`, JSON.stringify('x'.repeat(60_000)));
    const raw = dq.open();
    raw.socket.pause();
    raw.send(pullOf(`max=${count}`));
    await until('the jobs are pulled', async () => (await job(`j${count - 1}`)).state === 'reserved');
    expect(dq.role.inFlight()).toBe(1);
    raw.socket.destroy();
    await until('all are released', async () => (await pull('?max=100')).length === count);
  });
});

describe('clients of one turn', () => {
  /** A puller beside the server's, so that its calls begin in one turn. */
  const pullerOn = (jobs: Partial<JobStore> = {}) => {
    const { store, topics } = dq;
    const puller = new Puller(
      {
        ...{ topics, log: silentLog, metrics: new MetricBuffer() },
        store: { ...store, jobs: { ...store.jobs, ...jobs } },
        clock: new StoreClock(() => store.admin.clock()),
        config: { pollCeiling: 100 } as Config,
      },
      { expire: async () => {} },
    );
    onTestFinished(() => puller.drain(0));
    return puller;
  };
  const request = { max: 1, waitMs: 0, leaseMs: null, client: 'c', refusal: () => null };
  const ids = async (puller: Puller, requests: readonly PullRequest[]) => {
    const all = await Promise.all(requests.map((one) => puller.pull(one).jobs));
    return all.map((pulled) => pulled.map(({ job: { id } }) => id).join());
  };

  it('are rejected above waitersMax, and their connections keep their time limit', async () => {
    const { waitersMax } = pullLimits;
    onTestFinished(() => void Object.assign(pullLimits, { waitersMax }));
    Object.assign(pullLimits, { waitersMax: 0 });
    const socket = new Socket().setTimeout(7_000);
    onTestFinished(() => void socket.destroy());
    const response = new ServerResponse(new IncomingMessage(socket));
    const asked = { ...request, topics: ['report'], waitMs: 60_000 };
    const pulled = pullForClient(pullerOn(), response, asked, (jobs) => jobs);
    await expect(pulled).rejects.toThrow('pull: 0 requests wait already; try again');
    expect(socket.timeout).toBe(7_000);
  });

  it('of one token or one topic take a share of the places', async () => {
    const { waitersMax } = pullLimits;
    onTestFinished(() => void Object.assign(pullLimits, { waitersMax }));
    Object.assign(pullLimits, { waitersMax: 16 });
    const puller = pullerOn();
    const taken = (client: string, topic: string) => {
      for (let n = 0; ; n += 1)
        try {
          puller.pull({ ...request, client, topics: [topic], waitMs: 60_000 }).jobs.catch(() => {});
        } catch (error) {
          return [n, (error as Error).message];
        }
    };
    const share = (n: number) =>
      `pull: ${n} requests of this client wait already, its share; try again later`;
    expect(taken('a', 'report')).toEqual([8, share(8)]);
    expect(taken('b', 'report')).toEqual([4, share(4)]);
    const full = 'pull: the topic report has its share of waiting requests; try again later';
    expect(taken('c', 'report')).toEqual([0, full]);
    expect(taken('c', 'other')).toEqual([2, share(2)]);
    expect(puller.waiting).toBe(14);
  });

  it('of several topics leave what they do not take', async () => {
    const others = ['other', 'third'];
    for (const topic of others) await dq.api('POST', '/v1/topics', { topic, delivery: 'pull' });
    const requests = [
      { ...request, topics: ['report', 'other'] },
      { ...request, topics: ['third'] },
    ];
    for (const inOrder of [requests, requests.toReversed()]) {
      for (const topic of ['report', ...others]) await push(topic, '1', topic);
      expect((await ids(pullerOn(), inOrder)).filter((id) => id === '')).toEqual([]);
      for (const topic of ['report', ...others]) await dq.api('DELETE', `/v1/topics/${topic}/jobs/${topic}`);
    }
  });

  it('with different leases all get a job of their topic', async () => {
    for (const id of ['a', 'b', 'c']) await push(id);
    const requests = [1, 2, 3].map((n) => ({ ...request, topics: ['report'], leaseMs: n * 60_000 }));
    expect((await ids(pullerOn(), requests)).toSorted()).toEqual(['a', 'b', 'c']);
  });

  it('are answered although further clients keep coming', async () => {
    for (const topic of ['quiet', 'other']) await dq.api('POST', '/v1/topics', { topic, delivery: 'pull' });
    const backlog = 60;
    for (let n = 0; n < backlog; n++) await push(`j${n}`);
    await push('o', '1', 'other');
    const { jobs } = dq.store;
    let asked = 0;
    const coming: Promise<unknown>[] = [];
    const come = () => coming.push(puller.pull({ ...request, topics: ['report'] }).jobs);
    const puller = pullerOn({
      reserve: async (partition, wanted) => {
        const reserved = await jobs.reserve(partition, wanted);
        if (++asked < backlog) come();
        return reserved;
      },
    });
    // Two leases of one topic, so that a partition is asked again.
    const idle = [1, 2].map((n) =>
      puller.pull({ ...request, waitMs: 60_000, leaseMs: n * 60_000, topics: ['quiet'] }),
    );
    const wantsTwo = puller.pull({ ...request, max: 2, topics: ['other'] });
    come();
    expect(await wantsTwo.jobs).toHaveLength(1);
    expect(asked).toBeLessThan(backlog / 2);
    for (const one of idle) one.cancel();
    await Promise.all(coming);
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
      ['/v1/leases/nack', { leases: ['abc'], release: true, dead: true }, 400, 'invalid'],
      ['/v1/leases/nack', { leases: ['abc'], release: true, reason: 'x' }, 400, 'invalid'],
      ['/v1/leases/nack', { leases: ['abc'], release: true, delay: '0' }, 400, 'invalid'],
      ['/v1/leases/nack', { leases: ['abc'], release: true, delay: '31d' }, 400, 'invalid'],
    ];
    for (const [path, json, status, code] of wrong)
      expect(await dq.api('POST', path, json), path).toMatchObject({ status, body: { code } });
  });

  it('of a topic that dq delivers: says where its jobs go', async () => {
    await dq.api('POST', '/v1/topics', {
      ...{ topic: 'published', delivery: 'mq', target: { broker: 'main', to: 'orders' } },
    });
    expect((await dq.api('POST', '/v1/topics/published/pull')).body.detail).toBe(
      'topic published: dq publishes its jobs to main/orders; change delivery to pull first',
    );
  });

  it('rejects each unknown text, and serves the other leases of the call', async () => {
    await push('a');
    const [{ lease }] = await pull();
    const { mac, parts } = read(lease);
    const text = (changed: unknown) => Buffer.concat([mac, Buffer.from(JSON.stringify(changed))]);
    const wrong = [
      ...[parts.with(0, 'x'.repeat(300)), parts.with(1, '..'), parts.with(3, 1e300), parts.with(4, 65_536)],
      ...[parts.with(5, -1), parts.slice(0, 5), [...parts, -1], [...parts, null], [...parts, 1, 2]],
      ...[[...parts, '', 1], {}, 1, null],
    ];
    const texts = ['', '?', 'abc', ...wrong.map((changed) => text(changed).toString('base64url'))];
    expect(await act('ack', [...texts, lease])).toEqual({
      results: [...texts.map(() => ({ status: 400, code: 'invalid' })), { status: 200 }],
    });
  });

  it('ends a lease of another build, whose text has a time that its token tells, or none', async () => {
    await push('a');
    await dq.push('report', '1', '?id=b&deadline=1h');
    for (const { lease } of await pull('?max=2')) {
      const { parts } = read(lease);
      const [topic, id, version, token, failures, dueAt, ...block] = parts;
      expect(block.every((part: unknown) => typeof part === 'string')).toBe(true);
      const numbers = [topic, id, version, token, failures, dueAt];
      for (const time of [[], [Math.floor(token / 1_000)]]) {
        const text = Buffer.from(JSON.stringify([...numbers, ...time, ...block]));
        const signed = Buffer.concat([macOf(text), text]).toString('base64url');
        expect(await act('extend', [signed], { for: '1h' })).toMatchObject({ results: [{ status: 200 }] });
      }
    }
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
      (await dq.api('POST', '/v1/leases/ack', { leases: [lease] }, headers)).body.results;
    const elsewhere = await tokenFor(dq, ['other'], ['pull', 'read']);
    expect(await ack(elsewhere.headers)).toEqual([{ status: 403, code: 'forbidden' }]);
    expect(await ack(puller.headers)).toEqual([{ status: 200 }]);
  });
});
