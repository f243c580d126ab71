// Tests the routes for operators: dead letters, statistics, processes, capacity, health.
import { describe, expect, it } from 'vitest';
import type { ProcessInfo } from '../../src/process/messages.ts';
import { jobOf } from '../conformance/trial.ts';
import { bury } from '../support/handmade.ts';
import { startIntake } from '../support/intake.ts';
import { problem } from '../support/problem.ts';
import { until } from '../support/until.ts';

const callbackUrl = 'http://127.0.0.1:9000/';
describe('dead letters', () => {
  it('are listed newest first, in pages, by topic and time of death', async () => {
    const dq = await startIntake();
    for (const topic of ['a', 'b']) await dq.api('POST', '/v1/topics', { topic, callbackUrl });
    await bury(dq, 'a', ['1', '2', '3']);
    await bury(dq, 'b', ['1']);
    const { body } = await dq.api('GET', '/v1/dead?topic=a');
    expect(body.nextCursor).toBe(null);
    expect(body.items.map(({ id }: { id: string }) => id).sort()).toEqual(['1', '2', '3']);
    expect(body.items[0]).toEqual({
      ...{ topic: 'a', id: expect.any(String), version: expect.stringMatching(/^\d+$/) },
      ...{ deadAt: expect.stringMatching(/Z$/), deadReason: 'attempts_exhausted', lastReason: 'status' },
      ...{ status: 500, attempt: 1, replyExcerpt: 'no', detail: '' },
      dueAt: expect.stringMatching(/Z$/),
      createdAt: expect.stringMatching(/Z$/),
    });
    const first = await dq.api('GET', '/v1/dead?limit=3');
    const rest = await dq.api('GET', `/v1/dead?limit=3&cursor=${encodeURIComponent(first.body.nextCursor)}`);
    expect([...first.body.items, ...rest.body.items]).toHaveLength(4);
    expect(rest.body.nextCursor).toBe(null);
    expect((await dq.api('GET', '/v1/dead?until=2001-01-01T00:00:00Z')).body.items).toEqual([]);
    expect((await dq.api('GET', '/v1/dead?since=2001-01-01T00:00:00+01:00')).body.items).toHaveLength(4);
  });

  it('an invalid cursor is rejected', async () => {
    const dq = await startIntake();
    for (const cursor of ['nonsense', '', '1', '%00'])
      expect(await dq.api('GET', `/v1/dead?cursor=${cursor}`)).toMatchObject(
        problem(400, 'invalid', 'cursor'),
      );
  });

  it('are requeued by id, by topic, by time, or all', async () => {
    const dq = await startIntake();
    for (const topic of ['a', 'b']) await dq.api('POST', '/v1/topics', { topic, callbackUrl });
    await bury(dq, 'a', ['1', '2', '3']);
    await bury(dq, 'b', ['1']);
    const requeue = async (filter: object) => (await dq.api('POST', '/v1/dead/requeue', filter)).body;
    expect(await requeue({ topic: 'a', ids: ['1', 'none'] })).toEqual({ requeued: 1, more: false });
    expect((await dq.api('GET', '/v1/topics/a/jobs/1')).body).toMatchObject({
      state: 'ready',
      attempt: 0,
      attempts: [{ attempt: 1, status: 500, beforeRequeue: true }],
      body: '{"id":"1"}',
    });
    expect(await requeue({ until: '2001-01-01T00:00:00Z' })).toEqual({ requeued: 0, more: false });
    expect(await requeue({ topic: 'a', since: 1_000_000_000_000 })).toEqual({ requeued: 2, more: false });
    expect(await requeue({ all: true })).toEqual({ requeued: 1, more: false });
    expect((await dq.api('GET', '/v1/dead')).body.items).toEqual([]);
  });

  it('are removed by id, by topic, by time, or all', async () => {
    const dq = await startIntake();
    for (const topic of ['a', 'b']) await dq.api('POST', '/v1/topics', { topic, callbackUrl });
    await bury(dq, 'a', ['1', 'x,y', '3']);
    await bury(dq, 'b', ['1']);
    const purge = async (query: string) => (await dq.api('DELETE', `/v1/dead?${query}`)).body;
    const ids = encodeURIComponent('["x,y","none"]');
    expect(await purge(`topic=a&ids=${ids}`)).toEqual({ purged: 1, more: false });
    expect((await dq.api('GET', '/v1/topics/a/jobs/x%2Cy')).body.state).toBe('purged');
    expect(await purge('until=2001-01-01T00:00:00Z')).toEqual({ purged: 0, more: false });
    expect(await purge('topic=a&since=2001-01-01T00:00:00+01:00')).toEqual({ purged: 2, more: false });
    expect(await purge('all=true')).toEqual({ purged: 1, more: false });
    expect((await dq.api('GET', '/v1/dead')).body.items).toEqual([]);
  });

  it('are not removed without a filter, or with a bad one', async () => {
    const dq = await startIntake();
    await dq.api('POST', '/v1/topics', { topic: 'a', callbackUrl });
    await bury(dq, 'a', ['1']);
    for (const [query, field] of [
      ['', 'all'],
      ['?all=', 'all'],
      ['?all=false', 'all'],
      ['?all=1', 'all'],
      ['?ids=["1"]', 'topic'],
      ['?topic=a&ids=1', 'ids'],
      ['?topic=a&ids=1,2', 'ids'],
      ['?topic=a&ids=[]', 'ids'],
      ['?topic=a&ids=[1]', 'ids'],
      ['?topic=a&ids={}', 'ids'],
      ['?topic=a&ids=["1",".."]', 'ids[1]'],
      ['?topic=-', 'topic'],
      ['?topic=', 'topic'],
      ['?since=5', 'since'],
      ['?until=tomorrow', 'until'],
    ])
      expect(await dq.api('DELETE', `/v1/dead${query}`), query).toMatchObject(problem(400, 'invalid', field));
    expect((await dq.api('GET', '/v1/dead')).body.items).toHaveLength(1);
  });

  it('a push of the same id replaces a dead letter, and counts as a new job', async () => {
    const dq = await startIntake();
    await dq.api('POST', '/v1/topics', { topic: 'a', callbackUrl });
    await bury(dq, 'a', ['1']);
    expect(await dq.push('a', '2', '?id=1&mode=reject')).toMatchObject({
      status: 201,
      body: { replaced: false },
    });
    expect((await dq.api('GET', '/v1/dead')).body.items).toEqual([]);
  });
});

describe('stats', () => {
  it('counts jobs by state, and jobs without a topic as orphaned', async () => {
    const dq = await startIntake();
    for (const topic of ['a', 'idle']) await dq.api('POST', '/v1/topics', { topic, callbackUrl });
    await bury(dq, 'a', ['1']);
    await dq.push('a', '1', '?delay=1h');
    await dq.store.jobs.push([jobOf('x', { topic: 'gone' })]);
    const day = Number(new Date().toISOString().slice(0, 10).replaceAll('-', ''));
    await dq.registry.addStats([
      { topic: 'a', day: 20010101, name: 'pushed', n: 5 },
      { topic: 'a', day, name: 'pushed', n: 2 },
    ]);
    const { body } = await dq.api('GET', '/v1/stats');
    expect(body).toMatchObject({
      states: { delayed: 1, ready: 1, reserved: 0, dead: 1 },
      orphaned: 1,
      oldestOverdueMs: expect.any(Number),
    });
    const none = { pushed: 0, delivered: 0, retried: 0, dead: 0, cancelled: 0, again: 0 };
    const states = { delayed: 0, ready: 0, reserved: 0, dead: 0 };
    expect(body.topics).toEqual([
      {
        ...{ topic: 'a', registered: true, states: { ...states, delayed: 1, dead: 1 } },
        ...{ total: { ...none, pushed: 7 }, today: { ...none, pushed: 2 } },
      },
      { topic: 'gone', registered: false, total: none, today: none, states: { ...states, ready: 1 } },
      { topic: 'idle', registered: true, total: none, today: none, states },
    ]);
  });

  it('counts no jobs for a topic with the name of an inherited member', async () => {
    const dq = await startIntake();
    await dq.api('POST', '/v1/topics', { topic: 'constructor', callbackUrl });
    const none = { delayed: 0, ready: 0, reserved: 0, dead: 0 };
    expect((await dq.api('GET', '/v1/stats')).body).toMatchObject({
      topics: [{ topic: 'constructor', states: none }],
      states: none,
      orphaned: 0,
    });
    expect((await dq.api('GET', '/v1/topics/constructor/stats')).body.states).toEqual(none);
  });
});

describe('processes', () => {
  const process: ProcessInfo = {
    ...{ title: 'dq-server-0', role: 'server', pid: 4711, version: '0.0.0', generation: 2, state: 'ready' },
    ...{ startedAt: Date.UTC(2026, 0, 1), restarts: 0, inFlight: 1, rssBytes: 50_000_000, cpuPercent: 1.5 },
  };

  it('come from the master, each answer by its number', async () => {
    const calls: number[] = [];
    const dq = await startIntake({
      onSend: (message, answer) => {
        if (message.kind !== 'processes') return;
        calls.push(message.call);
        answer({ kind: 'processes', call: message.call + 100, processes: [] });
        // Both wait, and the later one is answered first.
        if (calls.length < 2) return;
        for (const call of [...calls].reverse())
          answer({ kind: 'processes', call, processes: [{ ...process, restarts: call }] });
      },
    });
    // On one connection, in one piece: their order is certain, and no time passes between them.
    const connection = dq.open();
    const get = 'GET /v1/processes HTTP/1.1\r\nhost: localhost\r\n';
    connection.send(`${get}\r\n${get}connection: close\r\n\r\n`);
    const [, ...replies] = (await connection.closed).split(/HTTP\/1\.1 200 [^{]*/);
    expect(replies.map((body) => JSON.parse(body).processes)).toEqual(
      [1, 2].map((restarts) => [{ ...process, restarts, startedAt: '2026-01-01T00:00:00.000Z' }]),
    );
    const { body } = await dq.api('GET', '/v1/processes');
    expect(body.processes[0].restarts).toBe(3);
    expect(calls).toEqual([1, 2, 3]);
  });

  it('are unavailable when the master does not answer', async () => {
    const dq = await startIntake();
    expect(await dq.api('GET', '/v1/processes')).toMatchObject(problem(503, 'unavailable'));
  });
});

describe('topic capacity', () => {
  const url = '/v1/topics/t/capacity';
  const reasons = [{ code: 'paused', message: 'the topic is paused', remedy: 'resume', values: {} }] as const;

  it('has the reasons of each notifier, null for a silent one', async () => {
    const dq = await startIntake({
      onSend: (message, answer) => {
        if (message.kind !== 'ask') return;
        const { call, question } = message;
        if (question.name !== 'capacity') return answer({ kind: 'answers', call, answers: [] });
        expect(message).toMatchObject({ to: 'notifier' });
        const { topic } = question.params as { topic: string };
        const answers = [
          { process: `${topic} 0`, answer: reasons },
          { process: `${topic} 1`, answer: null },
        ];
        answer({ kind: 'answers', call, answers });
      },
    });
    await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl });
    await dq.push('t', '1');
    expect(await dq.api('GET', url)).toMatchObject({
      status: 200,
      body: {
        topic: 't',
        states: { delayed: 0, ready: 1, reserved: 0, dead: 0 },
        reasons: [],
        notifiers: [
          { notifier: 't 0', reasons },
          { notifier: 't 1', reasons: null },
        ],
      },
    });
  });

  it('answers without a store, without a notifier, and for unregistered topics with jobs', async () => {
    let isStoreDown = false;
    const unknown = [{ code: 'unknown_topic', message: 'm', remedy: 'r', values: {} }] as const;
    let answers: { process: string; answer: readonly object[] }[] = [];
    const dq = await startIntake({
      onSend: (message, answer) => {
        if (message.kind !== 'ask') return;
        const { call, question } = message;
        answer({ kind: 'answers', call, answers: question.name === 'capacity' ? answers : [] });
      },
      store: (store) => ({
        ...store,
        admin: Object.assign(Object.create(store.admin), {
          counts: () => (isStoreDown ? Promise.reject(new Error('down')) : store.admin.counts()),
        }),
      }),
    });
    await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl });
    const codes = async () =>
      (await dq.api('GET', url)).body.reasons.map(({ code }: { code: string }) => code);
    expect(await codes()).toEqual(['no_notifier', 'no_ready_job']);
    isStoreDown = true;
    expect(await codes()).toEqual(['no_notifier', 'store_unavailable']);
    isStoreDown = false;
    const share = { code: 'no_share', message: 'm', remedy: 'r', values: { callers: 'dq-notifier-0' } };
    answers = [{ process: 'dq-notifier-1', answer: [share] }];
    expect((await dq.api('GET', url)).body.reasons[0]).toMatchObject({
      code: 'no_caller',
      message: 'only dq-notifier-0 may call this topic, and none of them is ready',
    });
    answers = [{ process: 'n', answer: unknown }];
    expect(await dq.api('GET', '/v1/topics/absent/capacity')).toMatchObject({ status: 404 });
    await dq.store.jobs.push([jobOf('1', { topic: 'orphan' })]);
    expect(await dq.api('GET', '/v1/topics/orphan/capacity')).toMatchObject({
      status: 200,
      body: { states: { ready: 1 }, notifiers: [{ notifier: 'n', reasons: unknown }] },
    });
  });

  it('names a job that is due and not ready', async () => {
    const dq = await startIntake({
      config: { pollCeiling: 1 },
      onSend: (message, answer) => {
        if (message.kind !== 'ask') return;
        answer({ kind: 'answers', call: message.call, answers: [{ process: 'n', answer: [] }] });
      },
    });
    await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl });
    const codes = async () =>
      (await dq.api('GET', url)).body.reasons.map(({ code }: { code: string }) => code);
    await dq.push('t', '1', '?id=later&delay=1h');
    expect(await codes()).toEqual(['no_ready_job']);
    // No timer works in this test.
    await dq.push('t', '1', '?id=a&delay=1ms');
    await until('the job is overdue', async () => (await codes()).includes('not_promoted'));
    expect((await dq.api('GET', url)).body.reasons).toMatchObject([
      { code: 'not_promoted', values: { id: 'a', lateMs: expect.any(Number) } },
      { code: 'no_ready_job' },
    ]);
    expect((await dq.api('GET', '/v1/topics/t/jobs/a')).body.why.code).toBe('not_promoted');
  });

  it('is unavailable when the master does not answer', async () => {
    const dq = await startIntake();
    await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl });
    expect(await dq.api('GET', url)).toMatchObject(problem(503, 'unavailable'));
  });
});

describe('health', () => {
  it('shows the durability in force', async () => {
    const dq = await startIntake();
    expect(await dq.api('GET', '/readyz')).toMatchObject({
      status: 200,
      body: { ready: true, durability: expect.stringContaining('SQLite'), warnings: [] },
    });
    expect(await dq.api('GET', '/livez')).toMatchObject({ status: 200, body: { live: true } });
  });
});
