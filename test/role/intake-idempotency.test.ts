// The idempotency window over HTTP: a field of a topic, an option of a push, and the reply within the window.
import { describe, expect, it } from 'vitest';
import { reserveOne } from '../support/handmade.ts';
import { type IntakeOptions, startIntake } from '../support/intake.ts';

const callbackUrl = 'http://127.0.0.1:9000/';

async function withTopic(settings: object = {}, options: IntakeOptions = {}) {
  const dq = await startIntake(options);
  const created = await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl, ...settings });
  expect(created.status).toBe(201);
  const delivered = async (query: string) => {
    const pushed = await dq.push('t', '{}', query);
    expect(pushed.status).toBe(201);
    const job = await reserveOne(dq);
    expect(await dq.store.jobs.ack([{ ...job, attempt: null }])).toEqual([{ kind: 'acked' }]);
    return pushed.body;
  };
  return { dq, created, delivered };
}

describe('the idempotency window', () => {
  it('of the topic: a repeat after the end stores nothing, in every mode; 0 in the push lifts it', async () => {
    const { dq, created, delivered } = await withTopic({ idempotency: '10m' });
    expect(created.body.idempotency).toBe('10m');
    const { version, dueAt } = await delivered('?id=a&delay=0');
    const { endedAt } = (await dq.api('GET', '/v1/topics/t/jobs/a')).body;
    for (const mode of ['replace', 'keep', 'reject']) {
      const { status, body } = await dq.push('t', '{"other":1}', `?id=a&mode=${mode}`);
      expect([status, body]).toEqual([
        200,
        {
          ...{ topic: 't', id: 'a', version, state: 'done', dueAt, endedAt },
          ...{ replaced: false, duplicate: true, inFlight: false },
        },
      ]);
    }
    expect(dq.metrics()?.counts).toContainEqual(['dq_pushes_total', ['ended'], 3]);
    expect(dq.counted.get('t pushed')).toBe(1);
    expect(await dq.push('t', '{}', '?id=a&idempotency=0')).toMatchObject({
      status: 201,
      body: { duplicate: false },
    });
    expect(await dq.push('t', '{}', '?id=a')).toMatchObject({ status: 200, body: { replaced: true } });
  });

  it('of a push, and of an item of a batch', async () => {
    const { dq, delivered } = await withTopic();
    await delivered('?id=a&delay=0');
    expect(await dq.push('t', '{}', '?id=a&idempotency=10m')).toMatchObject({
      body: { state: 'done', duplicate: true },
    });
    const items = [{ idempotency: '10m' }, { idempotency: '3s' }, { idempotency: 0 }, {}].map((more) => ({
      ...{ topic: 't', id: 'a', body: {}, ...more },
    }));
    const { body } = await dq.api('POST', '/v1/jobs', items);
    expect(body).toMatchObject({
      accepted: 4,
      results: [
        { status: 200, state: 'done', duplicate: true, endedAt: expect.any(String) },
        { status: 200, state: 'done', duplicate: true },
        { status: 201, duplicate: false },
        { status: 200, replaced: true },
      ],
    });
  });

  it('a window that dq cannot keep is rejected, and so is one without an id', async () => {
    const { dq } = await withTopic({}, { config: { 'history.retention': 3_600_000 } });
    const wrong = async (query: string) => (await dq.push('t', '{}', query)).body.errors;
    const field = 'idempotency';
    const tooLong = [{ field, message: 'must be at most history.retention (1h)' }];
    expect(await wrong('?id=a&idempotency=999ms')).toEqual([{ field, message: 'must be 0, or at least 1s' }]);
    expect(await wrong('?id=a&idempotency=soon')).toMatchObject([{ field }]);
    expect(await wrong('?idempotency=1m')).toEqual([
      { field, message: 'needs an id; dq recognises a repeat by it' },
    ]);
    const patched = await dq.api('PATCH', '/v1/topics/t', { idempotency: '2h' });
    expect([patched.status, patched.body.errors]).toEqual([400, tooLong]);
    expect((await dq.push('t', '{}', '?idempotency=0')).status).toBe(201);
  });

  it('a push may ask for a window longer than the history, which keeps no dead letter', async () => {
    const { dq } = await withTopic({}, { config: { 'history.retention': 0 } });
    await dq.push('t', '{}', '?id=a&delay=0');
    const { token, version } = await reserveOne(dq);
    const lease = { topic: 't', id: 'a', version, token };
    await dq.store.jobs.bury([{ ...lease, reason: 'nacked', attempt: null }]);
    for (const window of ['2h', '99999999d'])
      expect(await dq.push('t', '{}', `?id=a&idempotency=${window}`)).toMatchObject({
        status: 200,
        body: { state: 'dead', duplicate: true },
      });
    expect((await dq.push('t', '{}', '?idempotency=1m')).body.errors).toMatchObject([
      { field: 'idempotency' },
    ]);
  });

  it('/readyz warns of a window that a lowered history.retention cuts', async () => {
    const { dq } = await withTopic({ idempotency: '1h' });
    const topic = await dq.registry.get('t');
    if (topic === null) throw new Error('no topic');
    const warning = async () => (await dq.api('GET', '/readyz')).body.warnings;
    expect(await warning()).toEqual([]);
    // As it was stored with a longer history.
    const changed = { ...topic, idempotencyMs: 48 * 3_600_000 };
    expect((await dq.registry.update(changed, topic.revision)).kind).toBe('updated');
    expect(await warning()).toEqual([
      'history.retention is 1d, and shorter than the idempotency of t (2d): a repeat that comes later is a new job; raise the option, or lower the window',
    ]);
  });
});
