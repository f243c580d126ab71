// Tests the rotation of a topic's secret, and the statistics of one topic.
import { describe, expect, it } from 'vitest';
import { startIntake } from '../support/intake.ts';
import { problem } from '../support/problem.ts';

const callbackUrl = 'http://127.0.0.1:9000/';
const day = 24 * 3_600_000;
const given = (byte: number) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`;

async function withTopic() {
  const dq = await startIntake();
  const { body } = await dq.api('POST', '/v1/topics', { topic: 'a', callbackUrl });
  return { dq, first: body.secret as string };
}

describe('POST /v1/topics/{topic}/secret', () => {
  it('shows a new secret once; the old one signs until 24 h later', async () => {
    const { dq, first } = await withTopic();
    const before = Date.now();
    const { status, body } = await dq.call('POST', '/v1/topics/a/secret');
    expect(status).toBe(200);
    expect(body).toMatchObject({ topic: 'a', secret: expect.stringMatching(/^whsec_/) });
    expect(body.secret).not.toBe(first);
    const untilAt = Date.parse(body.oldSignsUntil);
    // The server estimates the storage clock, wrongly by half of the time that the answer took.
    expect(untilAt).toBeGreaterThanOrEqual(before + day - 60_000);
    expect(untilAt).toBeLessThanOrEqual(Date.now() + day + 60_000);
    const secrets = [
      { secret: body.secret, untilAt: null },
      { secret: first, untilAt },
    ];
    expect((await dq.registry.get('a'))?.secrets).toEqual(secrets);
    expect(dq.topics.get('a')?.open().secrets).toEqual(secrets);
    const shown = [
      await dq.api('GET', '/v1/topics/a'),
      await dq.api('GET', '/v1/topics'),
      dq.requests,
      dq.errors,
    ];
    for (const { secret } of secrets) expect(JSON.stringify(shown)).not.toContain(secret);
  });

  it('accepts a given secret, but not the current one', async () => {
    const { dq, first } = await withTopic();
    const rotate = (secret: string) => dq.api('POST', '/v1/topics/a/secret', { secret });
    const stored = async () => (await dq.registry.get('a'))?.secrets.map(({ secret }) => secret);
    expect((await rotate(given(1))).body.secret).toBe(given(1));
    expect(await rotate(given(1))).toMatchObject(problem(400, 'invalid', 'secret'));
    expect(await stored()).toEqual([given(1), first]);
    expect(await rotate(first)).toMatchObject({ status: 200, body: { secret: first } });
    expect(await stored()).toEqual([first, given(1)]);
  });

  it('with If-Match it rotates the secret of that revision alone', async () => {
    const { dq, first } = await withTopic();
    const { revision } = (await dq.api('GET', '/v1/topics/a')).body;
    const rotate = (expected: number) =>
      dq.call('POST', '/v1/topics/a/secret', { headers: { 'if-match': `"${expected}"` } });
    expect(await rotate(revision - 1)).toMatchObject(problem(412, 'topic_changed'));
    expect((await dq.registry.get('a'))?.secrets).toEqual([{ secret: first, untilAt: null }]);
    expect(await rotate(revision)).toMatchObject({ status: 200 });
  });

  it.each([
    [{ secret: 'short' }, 'secret'],
    [{ secret: 5 }, 'secret'],
    [{ secret: null }, 'secret'],
    [{ other: 1 }, 'other'],
    [[], 'body'],
    ['x', 'body'],
  ])('%j is rejected by field name, and nothing is rotated', async (body, field) => {
    const { dq, first } = await withTopic();
    expect(await dq.api('POST', '/v1/topics/a/secret', body)).toMatchObject(problem(400, 'invalid', field));
    expect((await dq.registry.get('a'))?.secrets).toEqual([{ secret: first, untilAt: null }]);
  });

  it('an unknown topic is 404', async () => {
    const { dq } = await withTopic();
    for (const name of ['b', '-'])
      expect((await dq.call('POST', `/v1/topics/${name}/secret`)).body.code).toBe('topic_not_found');
  });

  it('an old secret survives other changes of the topic until it expires', async () => {
    const { dq, first } = await withTopic();
    const { body } = await dq.call('POST', '/v1/topics/a/secret');
    const secretsNow = async () => (await dq.registry.get('a'))?.secrets.map(({ secret }) => secret);
    await dq.api('PATCH', '/v1/topics/a', { title: 'x' });
    await dq.api('PUT', '/v1/topics/a', { callbackUrl });
    await dq.api('POST', '/v1/topics/a/pause');
    expect(await secretsNow()).toEqual([body.secret, first]);
    const topic = await dq.registry.get('a');
    if (topic === null) throw new Error('no topic');
    const secrets = topic.secrets.map((one) =>
      one.untilAt === null ? one : { ...one, untilAt: Date.now() - 1 },
    );
    await dq.registry.update({ ...topic, secrets }, topic.revision);
    await dq.api('PATCH', '/v1/topics/a', { title: 'y' });
    expect(await secretsNow()).toEqual([body.secret]);
  });
});

describe('GET /v1/topics/{topic}/stats', () => {
  it('counts one topic, its jobs by state', async () => {
    const { dq } = await withTopic();
    await dq.api('POST', '/v1/topics', { topic: 'b', callbackUrl, delay: '1h' });
    for (const topic of ['a', 'b', 'b']) expect((await dq.push(topic, '{}')).status).toBe(201);
    const now = new Date();
    const today = now.getUTCFullYear() * 10_000 + (now.getUTCMonth() + 1) * 100 + now.getUTCDate();
    await dq.registry.addStats([
      { topic: 'b', day: today, name: 'pushed', n: 2 },
      { topic: 'b', day: today, name: 'dead', n: 1 },
      { topic: 'a', day: today, name: 'pushed', n: 1 },
    ]);
    const none = { pushed: 0, delivered: 0, retried: 0, dead: 0, cancelled: 0, again: 0 };
    expect((await dq.call('GET', '/v1/topics/b/stats')).body).toEqual({
      topic: 'b',
      total: { ...none, pushed: 2, dead: 1 },
      today: { ...none, pushed: 2, dead: 1 },
      states: { delayed: 2, ready: 0, reserved: 0, dead: 0 },
    });
  });

  it('is all zeros for a new topic, and 404 for an unknown one', async () => {
    const { dq } = await withTopic();
    const { body } = await dq.call('GET', '/v1/topics/a/stats');
    expect([...Object.values(body.total), ...Object.values(body.states)]).toEqual(Array(10).fill(0));
    expect(await dq.call('GET', '/v1/topics/b/stats')).toMatchObject(problem(404, 'topic_not_found'));
  });
});
