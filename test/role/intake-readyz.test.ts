// Tests what /readyz shows to which caller: reasons and warnings contain names and addresses, so callers that
// may not read everything get the failing check and counts.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { apiLimits } from '../../src/api/limits.ts';
import type { Scope } from '../../src/core/token.ts';
import { IncidentFiles, newIncident } from '../../src/process/incident-files.ts';
import { adminToken, bearer, startIntake, type TestIntake, tokenFor } from '../support/intake.ts';

const secretive = 'topic order.close has an unreadable job 4711 on redis://10.0.0.9:6379';

// The usual readyMs is shorter than a pause of this process. The answer would then be 503.
const { readyMs } = apiLimits;
beforeAll(() => void Object.assign(apiLimits, { readyMs: 60_000 }));
afterAll(() => void Object.assign(apiLimits, { readyMs }));

/** Starts an intake with a store that reports this health. */
async function start(health: { ok: boolean; durability: string; warnings: string[] }): Promise<TestIntake> {
  return startIntake({
    store: (store) => ({ ...store, admin: { ...store.admin, health: async () => health } }),
  });
}

/** As a configuration that lacks the broker of a topic. */
async function loseBroker(dq: TestIntake, name: string): Promise<void> {
  const topic = await dq.registry.get(name);
  if (topic === null) throw new Error('no topic');
  const changed = { ...topic, target: { ...topic.target, broker: 'gone' } };
  expect((await dq.registry.update(changed, topic.revision)).kind).toBe('updated');
}

async function callers(dq: TestIntake): Promise<{ readers: string[]; others: (string | null)[] }> {
  const tokenOf = async (scope: Scope, topics = ['*']) => (await tokenFor(dq, topics, [scope])).token;
  const readers = [adminToken, await tokenOf('read'), await tokenOf('admin')];
  return { readers, others: [null, 'dqk_wrong', await tokenOf('push'), await tokenOf('read', ['x.*'])] };
}

const ready = (dq: TestIntake, token: string | null) =>
  dq.call('GET', '/readyz', { headers: token === null ? {} : bearer(token) });

describe('/readyz', () => {
  it('ready: warnings for callers that may read everything, counts for others', async () => {
    const dq = await start({ ok: true, durability: 'safe', warnings: [secretive, 'another one'] });
    const { readers, others } = await callers(dq);
    for (const token of readers)
      expect(await ready(dq, token), String(token)).toMatchObject({
        status: 200,
        body: {
          ...{ ready: true, check: null, warningCount: 2, durability: 'safe' },
          ...{ warnings: [secretive, 'another one'] },
        },
      });
    for (const token of others) {
      const { status, body } = await ready(dq, token);
      expect([status, body], String(token)).toEqual([200, { ready: true, check: null, warningCount: 2 }]);
    }
  });

  it('not ready: the failing check for all, the reason for readers', async () => {
    const dq = await start({ ok: false, durability: 'unknown', warnings: [secretive] });
    const { readers, others } = await callers(dq);
    for (const token of readers)
      expect(await ready(dq, token), String(token)).toMatchObject({
        status: 503,
        body: { ready: false, check: 'store', detail: `store: ${secretive}` },
      });
    for (const token of others) {
      const { status, body } = await ready(dq, token);
      expect([status, body.ready, body.check], String(token)).toEqual([503, false, 'store']);
      expect(JSON.stringify(body)).not.toMatch(/order|4711|10\.0\.0\.9/);
    }
  });

  it('counts incidents, and names them to readers', async () => {
    const dq = await start({ ok: true, durability: 'safe', warnings: [] });
    const detail = 'jobs are late: the oldest was due 1m ago (topic t)';
    const oldest = { topic: 't', id: 'a', dueAt: 1 };
    const late = newIncident({ kind: 'late', about: '', state: 'begun', detail, oldest }, []);
    const crash = { kind: 'crash_loop', about: 'timer', state: 'begun', detail: 'it dies' } as const;
    const loop = newIncident(crash, [late.id]);
    const files = new IncidentFiles(dq.dataDir);
    for (const incident of [late, loop]) await files.write(incident);
    const { others } = await callers(dq);
    const since = ({ at }: { at: number }) => `(reported at ${new Date(at).toISOString()})`;
    expect((await ready(dq, adminToken)).body.warnings).toEqual([
      `${detail} ${since(late)}; dq explain t says what holds the jobs of the topic`,
      `it dies ${since(loop)}; dq status shows the processes; the log files error-timer-* have the cause`,
    ]);
    for (const token of others) {
      const { body } = await ready(dq, token);
      expect(body).toEqual({ ready: true, check: null, warningCount: 2 });
    }
  });

  it('brokers: names topics without their broker to readers, the brokers to admins, and no URL', async () => {
    const dq = await startIntake({ config: { brokers: ['main=amqp091+amqp://u:s3cret@127.0.0.1:2'] } });
    const post = (json: object, path = '') => dq.api('POST', `/v1/topics${path}`, json, bearer(adminToken));
    const target = { broker: 'main', to: 'orders' };
    for (const topic of ['kept', 'a', 'b', 'c', 'd'])
      expect((await post({ topic, delivery: 'mq', target })).status).toBe(201);
    for (const topic of ['a', 'b', 'c', 'd']) await loseBroker(dq, topic);
    const { readers, others } = await callers(dq);
    const warning =
      'brokers of the configuration lacks the broker of a (gone), b (gone), c (gone) and 1 more; their jobs are held: add it, and reload';
    for (const token of readers)
      expect((await ready(dq, token)).body.warnings).toEqual(expect.arrayContaining([warning]));
    for (const token of others) expect(JSON.stringify((await ready(dq, token)).body)).not.toContain('gone');

    const me = async (token: string) => (await dq.call('GET', '/v1/me', { headers: bearer(token) })).body;
    const [, read = '', admin = ''] = readers;
    expect((await me(admin)).brokers).toEqual([{ name: 'main', type: 'amqp091' }]);
    expect((await me(read)).brokers).toEqual([]);
    expect(JSON.stringify(await me(admin))).not.toContain('s3cret');

    expect(await post({}, '/a/test-call')).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'target.broker', message: expect.stringContaining(': main') }] },
    });
  });

  it('shows everything while no token exists and only this machine reaches dq', async () => {
    const dq = await start({ ok: true, durability: 'safe', warnings: [secretive] });
    expect((await ready(dq, null)).body.warnings).toEqual([secretive]);
  });

  it('shows counts where a token is required although none exists', async () => {
    const dq = await startIntake({
      config: { 'server.host': '0.0.0.0' },
      store: (store) => ({
        ...store,
        admin: {
          ...store.admin,
          health: async () => ({ ok: true, durability: 'safe', warnings: [secretive] }),
        },
      }),
    });
    const { port } = dq;
    const reply = await fetch(`http://127.0.0.1:${port}/readyz`);
    expect(await reply.json()).toEqual({ ready: true, check: null, warningCount: 1 });
  });
});
