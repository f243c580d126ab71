// Outcome jobs from the ends of calls, leases and burials, and the registration of their topics.
import { describe, expect, it } from 'vitest';
import { extensionOf } from '../../src/core/extension.ts';
import { type JobKey, pullOwner } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import { readTraceContext } from '../../src/core/trace-context.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { createUpkeep } from '../../src/upkeep/upkeep.ts';
import { endWithOutcomes } from '../../src/use-cases/outcome-jobs.ts';
import { adminToken, bearer, startIntake, tokenFor } from '../support/intake.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { between, damage, owner, type Rig, startRig } from './rig.ts';

const noCall = { delivery: 'pull' } as const;
const find = { limit: 10, cursor: null };

/** The only job of the topic, with its body as JSON. */
async function follows(rig: Pick<Rig, 'store'>, topic: string) {
  const key = await until('the job that follows', async () => {
    const { items } = await rig.store.jobs.search({ topic }, find.limit, find.cursor);
    return items[0];
  });
  const job = await rig.store.jobs.get(key);
  if (job === null) throw new Error(`${key.id} is gone`);
  return { ...job, json: JSON.parse(String(job.body)) };
}

describe('a call', () => {
  it('that delivers a job pushes the job of onDone, with the reply, the body and the trace', async () => {
    const rig = await startRig();
    const sink = await startSink((_, reply) => void reply.writeHead(201).end('{"code":0,"ü":1}'));
    await rig.topic('next', '', { ...noCall, delayMs: 60_000, priority: 'high' });
    await rig.topic('t', sink.url, { onDone: 'next' });
    await rig.run(createNotifier(rig.context()));
    const trace = readTraceContext('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', '');
    if (trace === null) throw new Error('the trace is not valid');
    await rig.push('t', 'a', {
      body: Buffer.from('{"order":9007199254740993}'),
      extension: extensionOf({ trace }),
    });
    const job = await follows(rig, 'next');
    const [arrival] = sink.arrivals;
    expect(job.json).toEqual({
      ...{ type: 'dq.done', topic: 't', id: 'a', version: expect.stringMatching(/^\d+$/), attempt: 1 },
      ...{ webhookId: arrival?.headers['webhook-id'], deadReason: null, status: 201 },
      ...{ createdAt: expect.stringMatching(/Z$/), endedAt: expect.stringMatching(/Z$/) },
      ...{ reply: '{"code":0,"ü":1}', contentType: 'application/json', body: '{"order":9007199254740993}' },
    });
    expect(job.id).toBe(`${job.json.webhookId}:${job.json.version}`);
    expect(job).toMatchObject({ state: 'delayed', contentType: 'application/json' });
    expect(job.extension).toEqual(extensionOf({ trace }));
    expect(await rig.store.jobs.get({ topic: 't', id: 'a' })).toBeNull();
    await until('it is counted', () => rig.counted('t', 'delivered') === 1);
    expect(rig.counted('next', 'pushed')).toBe(1);
  });

  it('that buries a job pushes the job of onDead alone; bytes come in base64, long ones as a length', async () => {
    const rig = await startRig();
    const sink = await startSink(status(410));
    for (const name of ['done', 'dead']) await rig.topic(name, '', noCall);
    await rig.topic('t', sink.url, { onDone: 'done', onDead: 'dead' });
    await rig.run(createNotifier(rig.context()));
    await rig.push('t', 'a', { body: Buffer.from([255, 0]), contentType: null });
    const { json } = await follows(rig, 'dead');
    expect(json).toMatchObject({ type: 'dq.dead', deadReason: 'gone', status: 410, contentType: null });
    expect(json).toMatchObject({ bodyBase64: '/wA=' });
    expect(json).not.toHaveProperty('body');
    expect((await rig.store.jobs.search({ topic: 'done' }, 1, null)).items).toEqual([]);
    await rig.store.jobs.cancel([{ topic: 'dead', id: (await follows(rig, 'dead')).id }]);
    const bodyBytes = limits.outcomePartBytesMax + 1;
    await rig.push('t', 'b', { body: Buffer.alloc(bodyBytes, ' ') });
    expect((await follows(rig, 'dead')).json).toMatchObject({ body: null, bodyBytes });
  });
});

describe('dq-upkeep', () => {
  /** Job `a` of topic t has a lease whose loss makes it poison. */
  async function almostPoison(rig: Rig, leaseMs = 60_000): Promise<void> {
    await rig.topic('dead', '', noCall);
    await rig.topic('t', 'http://127.0.0.1:1/', { onDead: 'dead' });
    await rig.push('t', 'a');
    const others = { room: 10, leaseMs };
    for (let strike = 1; strike <= limits.strikesPoison; strike += 1) {
      const asked = { owner: owner(strike), max: 1, others, topics: new Map() };
      await rig.store.jobs.reserve(0, asked);
      if (strike < limits.strikesPoison) await rig.store.jobs.recoverOwners(0, 7, { dead: strike }, 10);
    }
  }

  const stateOf = async (rig: Rig, topic: string) => (await rig.store.jobs.get({ topic, id: 'a' }))?.state;
  const tellDeath = (rig: Rig) => rig.tell({ kind: 'owner_dead', incarnation: limits.strikesPoison });

  /** dq-upkeep, where the reads of job t/a are rejected. `how`: as the store gets it */
  const runWith = (rig: Rig, rejects: (how?: 'bodiless') => StoreError | null) => {
    const store = between(rig, {
      async get(key: JobKey, how?: 'bodiless') {
        const error = key.topic === 't' ? rejects(how) : null;
        if (error !== null) throw error;
        return rig.store.jobs.get(key, how);
      },
    });
    return rig.run(createUpkeep(rig.context({ store })));
  };

  it('buries a poison job whose body is damaged: the job that follows has none', async () => {
    const rig = await startRig({ recoverHoldMs: 0 });
    await almostPoison(rig);
    const damaged = new StoreError({ kind: 'not_stored', code: 'store_damaged' });
    await runWith(rig, (how) => (how === undefined ? damaged : null));
    tellDeath(rig);
    expect((await follows(rig, 'dead')).json).toMatchObject({ id: 'a', deadReason: 'poison', body: null });
    expect(await stateOf(rig, 't')).toBe('dead');
  });

  it('pushes the job that a damaged record of the topic of a poison job still names', async () => {
    const rig = await startRig({ recoverHoldMs: 0 });
    await almostPoison(rig);
    damage(rig, 'settings', 'torn');
    await rig.topics.refresh();
    expect(rig.topics.isUnreadable('t')).toBe(true);
    await rig.run(createUpkeep(rig.context()));
    tellDeath(rig);
    expect((await follows(rig, 'dead')).json).toMatchObject({ type: 'dq.dead', deadReason: 'poison' });
    expect(await stateOf(rig, 't')).toBe('dead');
  });

  it('ends the expired leases of pulled jobs while a poison job cannot be read', async () => {
    const time = useJumpingTime();
    const rig = await startRig({ recoverHoldMs: 0, clock: time.wall });
    await almostPoison(rig, 900);
    await rig.topic('u', '', { ...noCall, maxAttempts: 1 });
    await rig.push('u', 'a');
    await rig.reserve(1, pullOwner, 1_000);
    let isAway = true;
    await runWith(rig, () => (isAway ? new StoreError({ kind: 'not_stored', code: 'busy' }) : null));
    await time.passUntil('the end of the pulled job', async () => (await stateOf(rig, 'u')) === 'dead');
    expect(await stateOf(rig, 't')).toBe('reserved');
    isAway = false;
    await time.passUntil('the end of the other', async () => (await stateOf(rig, 't')) === 'dead');
    expect((await follows(rig, 'dead')).json).toMatchObject({ deadReason: 'poison', body: '{"id":"a"}' });
  });
});

describe('a pulled job', () => {
  it('that its client ends pushes the job of onDone, with the result, or of onDead', async () => {
    const dq = await startIntake();
    for (const topic of ['done', 'dead']) await dq.api('POST', '/v1/topics', { topic, delivery: 'pull' });
    const outcomes = { onDone: 'done', onDead: 'dead' };
    await dq.api('POST', '/v1/topics', { topic: 'report', delivery: 'pull', ...outcomes });
    await dq.push('report', '{"n":1}', '?id=a');
    await dq.push('report', '{"n":2}', '?id=b');
    const { items } = (await dq.api('POST', '/v1/topics/report/pull?max=2')).body;
    const [a, b] = items.map(({ lease }: { lease: string }) => lease);
    const long = { leases: [a], result: 'x'.repeat(limits.outcomePartBytesMax) };
    expect(await dq.api('POST', '/v1/leases/ack', long)).toMatchObject({ status: 413 });
    const ack = { leases: [a], result: { rows: 3 } };
    expect((await dq.api('POST', '/v1/leases/ack', ack)).body).toEqual({ results: [{ status: 200 }] });
    const { json } = await follows(dq, 'done');
    expect(json).toMatchObject({ type: 'dq.done', id: 'a', attempt: 1, status: null, body: '{"n":1}' });
    expect(json).toMatchObject({ reply: '{"rows":3}' });
    await dq.api('POST', '/v1/leases/nack', { leases: [b], dead: true });
    expect((await follows(dq, 'dead')).json).toMatchObject({ id: 'b', deadReason: 'nacked', reply: null });
    expect((await dq.api('POST', '/v1/leases/ack', { leases: [a, b] })).body).toEqual({
      results: [409, 409].map((status) => ({ status, code: 'lease_lost' })),
    });
    expect(['done', 'dead'].map((topic) => dq.counted.get(`${topic} pushed`))).toEqual([1, 1]);
  });
});

describe('the end of a pulled job whose topic this process does not know', () => {
  /** Acks a lease of topic t: `t` names `next` in onDone. */
  async function acked(change: (rig: Rig) => Promise<unknown>) {
    const rig = await startRig();
    await rig.topic('next', '', noCall);
    await rig.topic('t', '', { ...noCall, onDone: 'next' });
    await rig.push('t', 'a');
    const others = { room: 1, leaseMs: 60_000 };
    const asked = { owner: pullOwner, max: 1, others, topics: new Map() };
    const [lease] = (await rig.store.jobs.reserve(0, asked)).jobs;
    if (lease === undefined) throw new Error('no lease');
    await change(rig);
    const items = [{ topic: 't', id: 'a', version: lease.version, token: lease.token, isPulled: true }];
    const end = (topics: Pick<Rig['topics'], 'get'>, registry = rig.registry) =>
      endWithOutcomes(
        { ...rig.context(), topics, registry },
        items.map((item) => ({ ...item, attempt: null })),
        () => ({ reason: null, reply: null }),
        (its) => rig.store.jobs.ack(its),
      );
    return { rig, end };
  }

  it('waits for the registry, which may know it', async () => {
    const { rig, end } = await acked(async () => {});
    const away = async () => Promise.reject(new StoreError({ kind: 'not_stored', code: 'busy' }));
    const silent = Object.assign(Object.create(rig.registry), { get: away });
    expect(await end(new Map(), silent)).toEqual([{ kind: 'not_stored', code: 'busy' }]);
    expect((await rig.store.jobs.get({ topic: 't', id: 'a' }))?.state).toBe('reserved');
    expect(await end(new Map())).toEqual([{ kind: 'acked' }]);
    expect((await follows(rig, 'next')).json).toMatchObject({ type: 'dq.done', id: 'a' });
  });

  it('pushes the job that a damaged record of it still names', async () => {
    const { rig, end } = await acked(async (rig) => {
      damage(rig, 'settings', 'torn');
      await rig.topics.refresh();
    });
    expect(rig.topics.isUnreadable('t')).toBe(true);
    expect(await end(rig.topics)).toEqual([{ kind: 'acked' }]);
    expect((await follows(rig, 'next')).json).toMatchObject({ type: 'dq.done', id: 'a' });
  });

  it('pushes nothing where the topic was removed', async () => {
    const { rig, end } = await acked(async ({ registry, topics }) => {
      const known = await registry.get('t');
      await registry.remove('t', known?.revision ?? 0);
      await topics.refresh();
    });
    expect(await end(rig.topics)).toEqual([{ kind: 'acked' }]);
    expect((await rig.store.jobs.search({ topic: 'next' }, 1, null)).items).toEqual([]);
  });
});

describe('registration', () => {
  const callbackUrl = 'http://127.0.0.1:9000/';

  it('rejects circles and unknown topics, and names a similar one', async () => {
    const dq = await startIntake();
    const add = (topic: string, more: object = {}) =>
      dq.api('POST', '/v1/topics', { topic, callbackUrl, ...more });
    await add('invoice.make');
    expect(await add('order.paid', { onDone: 'invoice.mak' })).toMatchObject({
      status: 400,
      body: { detail: 'onDone: topic invoice.mak is not registered (invoice.make?)' },
    });
    expect((await add('order.paid', { onDone: 'invoice.make' })).status).toBe(201);
    expect(await dq.api('PATCH', '/v1/topics/invoice.make', { onDead: 'order.paid' })).toMatchObject({
      status: 400,
      body: { detail: 'onDead: invoice.make → order.paid → invoice.make is a circle; remove one step' },
    });
    expect((await dq.api('PATCH', '/v1/topics/order.paid', { title: 'x' })).body.onDone).toBe('invoice.make');
    expect((await dq.api('PATCH', '/v1/topics/order.paid', { onDone: '' })).body.onDone).toBe('');
  });

  it('keeps a topic that another one names', async () => {
    const dq = await startIntake();
    const add = (topic: string, more: object = {}) =>
      dq.api('POST', '/v1/topics', { topic, callbackUrl, ...more });
    await add('invoice.make');
    await add('order.paid', { onDone: 'invoice.make' });
    await dq.push('invoice.make', '1');
    for (const jobs of ['', '?jobs=purge'])
      expect(await dq.api('DELETE', `/v1/topics/invoice.make${jobs}`)).toMatchObject({
        status: 409,
        body: {
          code: 'topic_in_use',
          detail: 'topic invoice.make: order.paid names it in onDone; change that first',
        },
      });
    expect((await dq.api('GET', '/v1/topics/invoice.make')).body.state).toBe('active');
    expect((await dq.store.admin.counts()).topics['invoice.make']).toMatchObject({ ready: 1 });
  });

  it('needs the rights to both topics', async () => {
    const dq = await startIntake();
    await dq.api('POST', '/v1/topics', { topic: 'other', callbackUrl });
    const { headers } = await tokenFor(dq, ['mine.*'], ['admin']);
    const call = (onDone: string) =>
      dq.call('POST', '/v1/topics', {
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify({ topic: 'mine.a', callbackUrl, onDone }),
      });
    expect((await call('other')).status).toBe(403);
    expect((await call('')).status).toBe(201);
  });

  it('of a topic that names one already needs no rights to that, and shows no topic of others', async () => {
    const dq = await startIntake();
    for (const topic of ['other.a', 'other.b', 'mine.b'])
      await dq.api('POST', '/v1/topics', { topic, callbackUrl });
    const mine = { callbackUrl, onDone: 'other.a' };
    await dq.api('POST', '/v1/topics', { topic: 'mine.a', ...mine });
    await dq.api('PATCH', '/v1/topics/other.b', { onDead: 'mine.b' });
    const { headers } = await tokenFor(dq, ['mine.*'], ['admin']);
    type Method = 'PUT' | 'PATCH' | 'POST' | 'DELETE';
    const call = (method: Method, path: string, body?: object, who: Record<string, string> = headers) =>
      dq.call(method, `/v1/topics${path}`, {
        headers: { ...who, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    const all = bearer(adminToken);
    expect((await call('PUT', '/mine.a', { ...mine, title: 'x' })).status).toBe(200);
    expect((await call('PATCH', '/mine.a', { onDone: 'other.a', title: 'y' })).body.title).toBe('y');
    expect((await call('PATCH', '/mine.a', { onDead: 'other.a' })).status).toBe(403);
    expect((await call('PUT', '/mine.a', { callbackUrl, onDone: 'other.b' })).status).toBe(403);
    // mine.b → mine.a → other.a → mine.b
    await call('PATCH', '/other.a', { onDone: 'mine.b' }, all);
    const detail = 'leads back to mine.b, by topics that this token does not cover; name another topic';
    const circle = await call('PATCH', '/mine.b', { onDone: 'mine.a' });
    expect(circle).toMatchObject({ status: 400, body: { detail: `onDone: ${detail}` } });
    expect(circle.body.errors).toEqual([{ field: 'onDone', message: detail }]);
    expect(JSON.stringify(circle)).not.toContain('other.');
    const inUse = await call('DELETE', '/mine.b');
    expect(inUse).toMatchObject({ status: 409, body: { code: 'topic_in_use' } });
    expect(JSON.stringify(inUse)).not.toContain('other.');
    expect((await call('DELETE', '/mine.b', undefined, all)).body.namedBy).toMatch(/^other\.[ab]$/);

    const previewed = async (body: object) => (await call('POST', '/preview', body)).body.errors;
    expect(await previewed({ topic: 'mine.b', onDone: 'mine.a' })).toEqual(circle.body.errors);
    expect(await previewed({ topic: 'mine.a', onDone: 'other.a' })).toEqual([]);
    expect(await previewed({ topic: 'mine.a', onDead: 'other.b' })).toEqual([
      { field: 'onDead', message: 'the token does not cover the topic other.b; use one that does' },
    ]);
    const draft = { callbackUrl, onDone: 'mine.c' };
    expect(await previewed(draft)).toEqual([{ field: 'onDone', message: 'topic mine.c is not registered' }]);
    expect(await previewed({ ...draft, onDone: 'mine.b' })).toEqual([]);
  });
});
