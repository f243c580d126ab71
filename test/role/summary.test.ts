// Tests GET /v1/summary and GET /v1/me: sums over the caller's topics, and the topics that need attention.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { version } from '../../src/core/version.ts';
import { startIntake, tokenFor } from '../support/intake.ts';

async function start() {
  const dq = await startIntake({
    config: { 'console.label': 'shop', 'console.color': 'red' },
  });
  for (const topic of ['order.close', 'order.open', 'bill.send', 'bill.late'])
    await dq.api('POST', '/v1/topics', {
      topic,
      title: `title of ${topic}`,
      callbackUrl: 'http://127.0.0.1:9/',
    });
  for (const topic of ['order.close', 'order.open', 'bill.send']) await dq.push(topic, '1', '?delay=1h');
  await dq.push('bill.late', '1');
  await dq.api('POST', '/v1/topics/order.open/pause');
  await dq.api('POST', '/v1/topics/bill.send/offline');
  const day = Number(new Date().toISOString().slice(0, 10).replaceAll('-', ''));
  const add = (topic: string, name: 'delivered' | 'retried' | 'dead' | 'pushed', n: number) =>
    dq.registry.addStats([{ topic, day, name, n }]);
  await add('order.close', 'delivered', 95);
  await add('order.close', 'retried', 5);
  await add('bill.late', 'delivered', 18);
  await add('bill.late', 'retried', 1);
  return dq;
}

describe('GET /v1/summary', () => {
  it('sums states and counters, and names the topics that need attention', async () => {
    const dq = await start();
    const { status, body } = await dq.api('GET', '/v1/summary');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      topics: { active: 2, paused: 1, offline: 1 },
      states: { delayed: 3, ready: 1, reserved: 0, dead: 0 },
      today: { delivered: 113, retried: 6 },
      ...{ orphaned: 0, ready: true, incidents: [], attentionCount: 3 },
      held: {
        ...{ topics: 2, jobs: 2 },
        most: expect.arrayContaining([
          { topic: 'bill.send', why: 'offline', jobs: 1 },
          { topic: 'order.open', why: 'paused', jobs: 1 },
        ]),
      },
    });
    expect(body.oldestOverdueMs).toBeGreaterThanOrEqual(0);
    expect(body.attention).toMatchObject([
      { topic: 'order.close', title: 'title of order.close', state: 'active', reasons: ['failing'] },
      { topic: 'bill.send', state: 'offline', reasons: ['offline'] },
      { topic: 'order.open', state: 'paused', reasons: ['paused'], states: { delayed: 1 } },
    ]);
  });

  it('covers the topics of the caller; only callers for every topic see warnings and incidents', async () => {
    const dq = await start();
    mkdirSync(join(dq.dataDir, 'alerts'), { recursive: true });
    const incident = {
      ...{ id: 1, kind: 'redis', about: 'redis-1:6379', state: 'begun', at: 0, detail: 'does not answer' },
      ...{ alert: 'sent', sentAt: 0 },
    };
    writeFileSync(join(dq.dataDir, 'alerts/0000000000000001.json'), JSON.stringify(incident));
    const some = await dq.call('GET', '/v1/summary', await tokenFor(dq, ['order.*']));
    expect(some.body.oldestOverdueMs).toBeNull();
    expect(some.body).toMatchObject({
      topics: { active: 1, paused: 1, offline: 0 },
      states: { delayed: 2, ready: 0 },
      attentionCount: 2,
      held: { topics: 1, jobs: 1, most: [{ topic: 'order.open', why: 'paused', jobs: 1 }] },
      warnings: [],
      incidents: [],
    });
    expect(JSON.stringify(some.body)).not.toContain('bill');
    const all = await dq.call('GET', '/v1/summary', await tokenFor(dq, ['*']));
    expect(all.body.incidents).toEqual([
      {
        ...{ kind: 'redis', about: 'redis-1:6379', since: '1970-01-01T00:00:00.000Z' },
        ...{ detail: 'does not answer', topic: null, id: null, command: 'dq doctor' },
      },
    ]);
    expect((await dq.call('GET', '/v1/summary', await tokenFor(dq, ['*'], ['push']))).status).toBe(403);
  });

  it('many viewers cost as much as one', async () => {
    let calls = 0;
    const dq = await startIntake({
      store: (store) => ({
        ...store,
        admin: new Proxy(store.admin, {
          get: (target, name: keyof typeof store.admin) => {
            if (name === 'counts') calls += 1;
            return (target[name] as () => unknown).bind(target);
          },
        }),
      }),
    });
    await Promise.all(Array.from({ length: 20 }, () => dq.api('GET', '/v1/summary')));
    // Sums are kept for a second: on a slow machine the calls can take longer.
    expect(calls).toBeLessThan(5);
  });
});

describe('GET /v1/me', () => {
  it('answers name, rights and facts, for every token', async () => {
    const dq = await start();
    expect((await dq.api('GET', '/v1/me')).body).toMatchObject({
      ...{ name: 'this machine', scopes: ['admin'], tokensExist: false, label: 'shop', color: 'red' },
      ...{ timezone: 'UTC', store: 'embedded', version },
    });
    const before = Date.now();
    const { body } = await dq.call('GET', '/v1/me', await tokenFor(dq, ['a.*'], ['push']));
    expect(body).toMatchObject({ scopes: ['push'], topics: ['a.*'], tokensExist: true, readOnly: false });
    expect(body.name).toMatch(/^t-/);
    expect(Date.parse(body.now)).toBeGreaterThanOrEqual(before);
    expect(Date.parse(body.now)).toBeLessThanOrEqual(Date.now());
  });
});
