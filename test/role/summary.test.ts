// Tests GET /v1/summary and GET /v1/me: sums over the caller's topics, and the topics that need attention.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { contractLimits } from '../../src/contract/api/limits.ts';
import type { TopicAttentionJson } from '../../src/contract/api/stats.ts';
import type { TopicFailures } from '../../src/core/endpoint.ts';
import { limits } from '../../src/core/limits.ts';
import { version } from '../../src/core/version.ts';
import { masterLimits } from '../../src/master/limits.ts';
import { EndpointCalls } from '../../src/notifier/endpoint-calls.ts';
import type { Questions } from '../../src/process/questions.ts';
import { openDatabase } from '../../src/runtime/database.ts';
import { bury, failedAttempt, reserveOne } from '../support/handmade.ts';
import { startIntake, tokenFor } from '../support/intake.ts';
import { until } from '../support/until.ts';

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
        ...{ detail: 'does not answer', topic: null, id: null, waiting: null, command: 'dq doctor' },
      },
    ]);
    expect((await dq.call('GET', '/v1/summary', await tokenFor(dq, ['*'], ['push']))).status).toBe(403);
  });

  /** Counts the calls of StoreAdmin.counts. */
  async function startCounting() {
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
    return { dq, calls: () => calls };
  }

  it('many viewers cost as much as one', async () => {
    const { dq, calls } = await startCounting();
    await Promise.all(Array.from({ length: 20 }, () => dq.api('GET', '/v1/summary')));
    // Sums are kept for a second: on a slow machine the calls can take longer.
    expect(calls()).toBeLessThan(5);
  });

  it('many topics whose jobs wait for pull clients cost as much as one', async () => {
    const { dq, calls } = await startCounting();
    const day = Number(new Date().toISOString().slice(0, 10).replaceAll('-', ''));
    for (const topic of ['a', 'b', 'c', 'd']) {
      await dq.api('POST', '/v1/topics', { topic, delivery: 'pull' });
      await dq.push(topic, '1', '?delay=0');
      await dq.registry.addStats([{ topic, day, name: 'retried', n: 20 }]);
    }
    const before = calls();
    const { attention } = (await dq.api('GET', '/v1/summary')).body as { attention: TopicAttentionJson[] };
    expect(attention.map(({ oldest }) => oldest?.why)).toEqual(Array(4).fill('waits_for_pull'));
    expect(calls() - before).toBe(1);
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

describe('topics that need attention', () => {
  const minute = 60_000;
  const callbackUrl = 'http://127.0.0.1:9/';
  const values = { running: 64, concurrency: 64 };
  const full = { code: 'concurrency_reached', message: 'm', remedy: 'r', values } as const;

  type Failures = readonly TopicFailures[] | null;

  /** `failures`: what each notifier says. */
  async function startWith(
    failures: readonly (Failures | ((asked: Questions['failures']['params']) => Failures))[],
    topics: readonly string[],
  ) {
    const dq = await startIntake({
      onSend: (message, answer) => {
        if (message.kind !== 'ask') return;
        const { call, question } = message;
        const says = (n: number) => {
          const own = failures[n];
          if (question.name !== 'failures') return question.name === 'capacity' ? [full] : null;
          return typeof own === 'function' ? own(question.params as never) : own;
        };
        const answers = failures.map((_, n) => ({ process: `n${n}`, answer: says(n) ?? null }));
        answer({ kind: 'answers', call, answers });
      },
    });
    for (const topic of topics) await dq.api('POST', '/v1/topics', { topic, callbackUrl });
    const attention = async () => (await dq.api('GET', '/v1/summary')).body.attention as TopicAttentionJson[];
    return { dq, attention };
  }

  const at = 1_900_000_000_000;
  const calls: TopicFailures = {
    ...{ topic: 'pay.check', delivered: 0, failed: 0, failuresInRow: 0 },
    ...{ lastSuccessAt: null, since: null, lastReason: null, lastStatus: null, lastDetail: '' },
    ...{ unansweredInRow: 0, lastFailuresAt: [] },
  };

  it('a topic fails by what the notifiers count together, since the first failure after a success', async () => {
    const first = {
      ...calls,
      failed: 3,
      failuresInRow: 3,
      since: at,
      lastFailuresAt: [at, at + minute + 1, at + minute + 2],
      lastReason: 'status',
      lastStatus: 502,
    } as const;
    const second = {
      ...{ ...calls, delivered: 1, failed: 1, failuresInRow: 1, lastSuccessAt: at + minute },
      ...{ since: at + 2 * minute, lastReason: 'timeout' as const },
    };
    const well = { ...calls, topic: 'order.close', delivered: 95, failed: 1 };
    const { dq, attention } = await startWith([[first, well], null, [second]], ['pay.check', 'order.close']);
    const day = Number(new Date().toISOString().slice(0, 10).replaceAll('-', ''));
    for (const topic of ['order.close', 'pay.check']) await dq.push(topic, '1', '?delay=1h');
    // What failed earlier today is over: the notifiers know better.
    for (const [name, n] of [
      ['delivered', 95],
      ['retried', 50],
    ] as const)
      await dq.registry.addStats([{ topic: 'order.close', day, name, n }]);
    expect(await attention()).toMatchObject([
      {
        ...{ topic: 'pay.check', reasons: ['failing'], since: new Date(at + minute + 1).toISOString() },
        ...{ oldest: null, failure: { reason: 'timeout', status: null } },
      },
    ]);
  });

  it('the successes of notifiers without failures count, too', async () => {
    const notifiers = Array.from({ length: 4 }, () => new EndpointCalls());
    const { dq, attention } = await startWith(
      notifiers.map((one) => (asked) => one.failures(asked, at)),
      ['pay.check', 'order.close'],
    );
    const judge = (n: number, topic: string, reason: 'timeout' | null, times: number) => {
      for (let time = 0; time < times; time += 1)
        notifiers[n]?.of(topic, 'http://a', at)?.judged(reason, null, 1, at);
    };
    // One of 20 at the first notifier, and one of 320 together.
    judge(0, 'pay.check', 'timeout', 1);
    judge(0, 'pay.check', null, 19);
    for (const n of [1, 2, 3]) judge(n, 'pay.check', null, 100);
    for (const n of [0, 1, 2]) judge(n, 'order.close', 'timeout', 1);
    for (const topic of ['pay.check', 'order.close']) await dq.push(topic, '1', '?delay=1h');
    expect((await attention()).map(({ topic }) => topic)).toEqual(['order.close']);
  });

  it('failures are over a minute after the last one, where successes follow', async () => {
    const now = Date.now();
    const over = (topic: string, ago: number, failuresInRow = 0): TopicFailures => ({
      ...calls,
      ...{ topic, delivered: 60, failed: 40, failuresInRow },
      lastSuccessAt: failuresInRow > 0 ? now - 3 * minute : now,
      ...{ since: failuresInRow > 0 ? now - ago : null, lastFailuresAt: [now - ago] },
    });
    const topics = ['recovered', 'recent', 'failing'];
    const { dq, attention } = await startWith(
      [[over('recovered', 2 * minute), over('recent', 1_000), over('failing', 2 * minute, 1)]],
      topics,
    );
    for (const topic of topics) await dq.push(topic, '1', '?delay=1h');
    expect((await attention()).map(({ topic }) => topic).toSorted()).toEqual(['failing', 'recent']);
  });

  it('a job behind others is likely called at the pace of its topic', async () => {
    const { dq } = await startWith([[{ ...calls, delivered: 1 }], [{ ...calls, failed: 1 }]], ['pay.check']);
    for (const id of ['a', 'b', 'c']) await dq.push('pay.check', '1', `?id=${id}&delay=0`);
    const why = async (id: string) => (await dq.api('GET', `/v1/topics/pay.check/jobs/${id}`)).body.why;
    expect((await why('a')).likelyAt).toBeUndefined();
    const before = Date.now();
    const { ahead, likelyAt } = await why('c');
    expect(ahead).toBe(2);
    expect(Math.round((Date.parse(likelyAt) - before) / minute)).toBe(5);
  });

  it('failures in a row end with the window, where the topic has no jobs', async () => {
    const over = { ...calls, failuresInRow: 3, since: at, lastFailuresAt: [at, at, at] };
    const { dq, attention } = await startWith(
      [[over, { ...over, topic: 'order.close' }]],
      ['pay.check', 'order.close'],
    );
    const day = Number(new Date().toISOString().slice(0, 10).replaceAll('-', ''));
    await dq.registry.addStats([{ topic: 'pay.check', day, name: 'retried', n: 3 }]);
    await dq.push('order.close', '1', '?delay=1h');
    expect((await attention()).map(({ topic }) => topic)).toEqual(['order.close']);
  });

  it('where only a part of the attempts fails, no moment is its beginning', async () => {
    const some = {
      ...calls,
      delivered: 60,
      failed: 40,
      failuresInRow: 1,
      since: at,
      lastReason: 'rule',
    } as const;
    const { dq, attention } = await startWith([[some]], ['pay.check']);
    await dq.push('pay.check', '1', '?delay=1h');
    expect(await attention()).toMatchObject([{ topic: 'pay.check', reasons: ['failing'], since: null }]);
  });

  it('a topic is late by its oldest due job, and why it waits is that of the job', async () => {
    const { dq, attention } = await startWith([[]], ['slow.one', 'slow.two', 'held']);
    for (const topic of ['slow.one', 'held']) await dq.push(topic, '1', '?id=oldest&delay=0');
    await dq.push('slow.one', '1', '?id=newer&delay=0');
    await dq.api('POST', '/v1/topics/held/pause');
    expect(await attention()).toMatchObject([{ topic: 'held', reasons: ['paused'] }]);
    await dq.sqlite.owner.inspect((db) => db.prepare('UPDATE job SET due = due - ?').run(10 * minute));
    await dq.push('slow.two', '1', '?delay=0');
    const job = (await dq.api('GET', '/v1/topics/slow.one/jobs/oldest')).body;
    await until('the sums are made again', async () => (await attention()).length > 1);
    expect(await attention()).toMatchObject([
      {
        ...{ topic: 'slow.one', reasons: ['late'], since: job.dueAt },
        oldest: { id: 'oldest', dueAt: job.dueAt, why: 'at_concurrency', says: [full] },
      },
      { topic: 'held', reasons: ['paused'], oldest: { id: 'oldest', why: 'topic_paused', says: [] } },
    ]);
    expect(job.why).toMatchObject({ code: 'at_concurrency', reasons: [full] });
  });

  it('how late a topic is counts from the first attempt of its oldest waiting job, also of one that retries', async () => {
    const topic = 'slow.one';
    const retried = ['gone', 'retries'].map((id) => ({ id, since: 0, nextAt: at }));
    const { dq, attention } = await startWith([[{ ...calls, topic, failed: 1, retried }]], [topic]);
    await dq.push(topic, '1', '?id=retries&delay=0');
    const attempt = { ...failedAttempt, startedAt: Date.now(), latenessMs: 10 * minute };
    await dq.store.jobs.retry([{ ...(await reserveOne(dq)), delayMs: 60 * minute, attempt }]);
    await dq.push(topic, '1', '?id=next&delay=1m');
    await dq.api('POST', `/v1/topics/${topic}/pause`);
    const since = new Date(attempt.startedAt - attempt.latenessMs).toISOString();
    // Both that wait have been read.
    expect(await attention()).toMatchObject([
      { oldest: null, late: { id: 'retries', since, atLeast: false } },
    ]);
    await dq.push(topic, '1', '?id=other&delay=2m');
    await until('the sums are made again', async () => (await attention())[0]?.states.delayed === 3);
    expect(await attention()).toMatchObject([{ late: { id: 'retries', since, atLeast: true } }]);
  });

  it('held topics, busy ones, and those that the caller may not see, hide no late one', async () => {
    const others = Array.from({ length: limits.oldestMax }, (_, n) => `other.${n}`);
    const busy = Array.from({ length: contractLimits.attentionMax }, (_, n) => `busy.${n}`);
    const { dq } = await startWith([[]], ['slow.one', ...others, ...busy]);
    for (const topic of others) await dq.push(topic, '1', '?delay=0');
    await dq.push('slow.one', '1', '?id=late&delay=0');
    await dq.sqlite.owner.inspect((db) => db.prepare('UPDATE job SET due = due - ?').run(10 * minute));
    for (const topic of [...busy, ...busy]) await dq.push(topic, '1', '?delay=0');
    const late = { topic: 'slow.one', reasons: ['late'], oldest: { id: 'late' } };
    const some = await dq.call('GET', '/v1/summary', await tokenFor(dq, ['slow.*']));
    expect(some.body).toMatchObject({ attention: [late], attentionCount: 1 });
    const admin = await tokenFor(dq, ['*'], ['admin']);
    for (const topic of others) await dq.call('POST', `/v1/topics/${topic}/pause`, admin);
    const all = await dq.call('GET', '/v1/summary', await tokenFor(dq, ['*']));
    expect(all.body.attention[0]).toMatchObject(late);
  });

  it('a caller of few topics costs the store no names of other ones', async () => {
    const names: string[] = [];
    const dq = await startIntake({
      store: (store) => ({
        ...store,
        admin: new Proxy(store.admin, {
          get: (target, name: keyof typeof store.admin) => {
            const call = (target[name] as (...args: readonly unknown[]) => unknown).bind(target);
            return (...args: readonly unknown[]) => {
              if (name.startsWith('counts')) names.push(...(args.flat() as string[]));
              return call(...args);
            };
          },
        }),
      }),
    });
    const others = Array.from({ length: limits.oldestMax }, (_, n) => `other.${n}`);
    for (const topic of ['slow.one', ...others]) {
      await dq.api('POST', '/v1/topics', { topic, callbackUrl });
      await dq.push(topic, '1', '?delay=0');
    }
    const token = await tokenFor(dq, ['slow.*']);
    expect((await dq.call('GET', '/v1/summary', token)).status).toBe(200);
    expect(names).toEqual(['slow.one']);
  });

  it('a topic whose clients pull is listed where no client takes its due jobs', async () => {
    const { dq, attention } = await startWith([], []);
    for (const topic of ['pull.idle', 'pull.busy', 'pull.new'])
      await dq.api('POST', '/v1/topics', { topic, delivery: 'pull' });
    for (const topic of ['pull.idle', 'pull.busy', 'pull.busy']) await dq.push(topic, '1', '?delay=0');
    await dq.sqlite.owner.inspect((db) => db.prepare('UPDATE job SET due = due - ?').run(10 * minute));
    await dq.push('pull.new', '1', '?delay=0');
    await dq.api('POST', '/v1/topics/pull.busy/pull');
    expect(await attention()).toMatchObject([
      { topic: 'pull.idle', state: 'active', reasons: ['not_pulled'], oldest: { why: 'waits_for_pull' } },
    ]);
  });

  it('a topic without its broker, and one with an unreadable record, are listed with it', async () => {
    const { dq, attention } = await startWith([], ['torn', 'published']);
    for (const name of ['torn', 'published']) await dq.push(name, '1', '?delay=1h');
    const db = openDatabase(join(dq.dataDir, '../registry.db'), { waitMs: 2_000 });
    db.exec(`BEGIN; UPDATE registry SET revision = revision + 1;
      UPDATE topic SET settings = iif(name = 'torn', '{', json_set(settings, '$.delivery', 'mq', '$.target',
        json('{"broker":"gone","to":"orders"}'))), revision = (SELECT revision FROM registry); COMMIT`);
    db.close();
    await dq.topics.refresh();
    expect(await attention()).toMatchObject([
      { topic: 'torn', state: null, reasons: ['unreadable'] },
      { topic: 'published', state: 'active', reasons: ['unknown_broker'] },
    ]);
  });

  it('where no job is due, the next one is named', async () => {
    const { dq, attention } = await startWith([], ['held']);
    await dq.api('POST', '/v1/topics/held/pause');
    for (const id of ['second', 'first']) await dq.push('held', '1', `?id=${id}&delay=${id.length}m`);
    const { dueAt } = (await dq.api('GET', '/v1/topics/held/jobs/first')).body;
    expect(await attention()).toMatchObject([{ topic: 'held', oldest: null, next: { id: 'first', dueAt } }]);
  });

  it('a silent notifier hides no answer of the others', async () => {
    const failing = { ...calls, failed: 30, lastReason: 'timeout' as const };
    const dq = await startIntake({
      onSend: (message, answer) => {
        if (message.kind !== 'ask') return;
        const { call, waitMs = masterLimits.askMs } = message;
        const answers = [
          { process: 'n0', answer: [failing] },
          { process: 'n1', answer: null },
        ];
        // As the master: it waits so long for the silent one.
        setTimeout(() => answer({ kind: 'answers', call, answers }), waitMs);
      },
    });
    await dq.api('POST', '/v1/topics', { topic: 'pay.check', callbackUrl });
    await dq.push('pay.check', '1', '?delay=1h');
    expect((await dq.api('GET', '/v1/summary')).body.attention).toMatchObject([
      { topic: 'pay.check', reasons: ['failing'], failure: { reason: 'timeout' } },
    ]);
  });

  it('dead letters are named with the most frequent cause of those that are left, and its first death', async () => {
    // Its two last failures are of jobs that were requeued meanwhile.
    const later = {
      ...calls,
      topic: 'dead.one',
      failed: 2,
      failuresInRow: 2,
      lastReason: 'connect',
    } as const;
    const { dq, attention } = await startWith([[later]], ['dead.one']);
    await bury(dq, 'dead.one', ['1', '2']);
    const { groups } = (await dq.api('GET', '/v1/dead/groups')).body;
    expect(await attention()).toMatchObject([
      {
        ...{ topic: 'dead.one', reasons: ['dead_letters'], since: groups[0].firstAt },
        dead: { count: 2, deadReason: groups[0].deadReason, lastReason: 'status', status: 500 },
        failure: { reason: 'connect' },
      },
    ]);
  });
});
