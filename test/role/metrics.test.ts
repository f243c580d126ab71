import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { createNotifier } from '../../src/notifier/notifier.ts';
import { MetricTally } from '../../src/telemetry/metric-tally.ts';
import type { MetricReport } from '../../src/telemetry/metrics.ts';
import { createTimer } from '../../src/timer/timer.ts';
import { StoreMetrics } from '../../src/upkeep/store-metrics.ts';
import { createUpkeep } from '../../src/upkeep/upkeep.ts';
import { testDirectory } from '../support/directory.ts';
import { adminToken, bearer, startIntake, type TestIntake } from '../support/intake.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';
import { ids, owner, type Rig, startRig } from './rig.ts';

/** `name{values}` → number, summed over all reports so far. */
function watch(take: () => MetricReport | null): () => ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  return () => {
    const report = take();
    for (const [name, labels, n] of report?.counts ?? []) {
      const key = [name, ...labels].join(' ');
      sums.set(key, (sums.get(key) ?? 0) + n);
    }
    for (const [name, buckets] of report?.histograms ?? [])
      sums.set(name, (sums.get(name) ?? 0) + buckets.reduce((a, b) => a + b));
    for (const [name, series] of report?.gauges ?? []) {
      for (const key of [...sums.keys()]) if (key === name || key.startsWith(`${name} `)) sums.delete(key);
      for (const [labels, value] of series) sums.set([name, ...labels].join(' '), value);
    }
    return sums;
  };
}

async function startUpkeep(rig: Rig) {
  const logDir = testDirectory();
  const health = { everyMs: 20, afterMs: 60_000, lateMs: 60_000, crashWindowMs: 60_000 };
  await rig.run(createUpkeep(rig.context({ config: { logDir, dataDir: logDir } }), { health }));
}

describe('the intake', () => {
  it('counts pushes by outcome, items of a batch singly, replies by status', async () => {
    const intake = await startIntake();
    const numbers = watch(intake.metrics);
    await intake.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:1/' });
    numbers();
    await intake.push('t', '1', '?id=a&delay=1h');
    await intake.push('t', '2', '?id=a&delay=1h');
    await intake.push('t', '3', '?id=a&mode=keep');
    await intake.push('t', '4', '?id=a&mode=reject');
    await intake.push('absent', '5');
    await intake.push('t', '{', '?id=b');
    await intake.api('POST', '/v1/jobs', [
      { topic: 't', id: 'c', delay: '1h', body: 1 },
      { topic: 'absent', body: 2 },
    ]);
    await intake.api('DELETE', '/v1/topics/t/jobs/nothing');
    expect(Object.fromEntries(numbers())).toMatchObject({
      ...{ 'dq_pushes_total stored': 2, 'dq_pushes_total replaced': 1, 'dq_pushes_total kept': 1 },
      ...{ 'dq_pushes_total refused': 4, 'dq_http_requests_total 4xx': 4 },
      // Pushes that reached the store. The creation of the topic counts in dq_http_requests_total too.
      dq_push_seconds: 5,
    });
  });

  it('counts rejected and unknown pushes', async () => {
    const answers = [
      { kind: 'not_stored', code: 'disk_full' },
      { kind: 'unknown', code: 'no_answer' },
    ] as const;
    let n = 0;
    const intake = await startIntake({
      store: (store) => ({
        ...store,
        jobs: Object.assign(Object.create(store.jobs), { push: async () => [answers[n++]] }),
      }),
    });
    const numbers = watch(intake.metrics);
    await intake.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:1/' });
    await intake.push('t', '1');
    await intake.push('t', '2');
    expect(Object.fromEntries(numbers())).toMatchObject({
      'dq_pushes_total not_stored': 1,
      'dq_pushes_total unknown': 1,
      'dq_http_requests_total 5xx': 2,
    });
  });
});

describe('GET /metrics', () => {
  const text = '# HELP x y\n# TYPE x gauge\nx 1\n';
  const withMaster = () =>
    startIntake({
      onSend: (message, answer) => {
        if (message.kind === 'scrape') answer({ kind: 'scrape', call: message.call, text });
      },
    });
  const scrape = (intake: TestIntake, token: string) =>
    fetch(`${intake.url}/metrics`, { headers: bearer(token) });

  it('returns the text of the master unchanged', async () => {
    const intake = await withMaster();
    const reply = await scrape(intake, adminToken);
    expect(reply.status).toBe(200);
    expect(reply.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(await reply.text()).toBe(text);
  });

  it('needs the scope read for every topic', async () => {
    const intake = await withMaster();
    const make = async (name: string, scopes: readonly string[], topics?: readonly string[]) =>
      (
        await intake.call('POST', '/v1/tokens', {
          headers: { 'content-type': 'application/json', ...bearer(adminToken) },
          body: JSON.stringify({ name, scopes, ...(topics === undefined ? {} : { topics }) }),
        })
      ).body.token as string;
    const tokens = [
      await make('all', ['read']),
      await make('some', ['read'], ['order.*']),
      await make('pusher', ['push']),
    ];
    const statuses = await Promise.all(tokens.map(async (token) => (await scrape(intake, token)).status));
    expect(statuses).toEqual([200, 403, 403]);
    expect((await fetch(`${intake.url}/metrics`)).status).toBe(401);
  });

  it('is 503 when the master does not answer', async () => {
    const time = useJumpingTime();
    const intake = await startIntake();
    const reply = await time.outlast(scrape(intake, adminToken));
    expect(reply.status).toBe(503);
    expect(await reply.json()).toMatchObject({ code: 'unavailable', detail: 'master: no answer; try again' });
  });
});

describe('a notifier', () => {
  it('counts attempts by verdict and reason, their duration and lateness', async () => {
    const rig = await startRig();
    const numbers = watch(rig.metrics);
    const sink = await startSink((arrival, response) =>
      status(
        arrival.attempt === 1 && arrival.id === 'a0' ? 500 : arrival.id === 'b' ? 410 : 200,
        {},
        'x',
      )(arrival, response),
    );
    await rig.topic('t', sink.url, { timeoutMs: 60_000 });
    await rig.pushAll('t', [...ids('a', 5), 'b']);
    await rig.run(createNotifier(rig.context()));
    await rig.run(createTimer(rig.context()));
    await until('all are settled', () => rig.counted('t', 'delivered') + rig.counted('t', 'dead') === 6);
    expect(Object.fromEntries(numbers())).toEqual({
      ...{ 'dq_attempts_total ack none': 5, 'dq_attempts_total retry status': 1 },
      ...{ 'dq_attempts_total bury status': 1, dq_callback_seconds: 7, dq_delivery_lateness_seconds: 7 },
      dq_jobs_promoted_total: 1,
    });
  });

  it('counts lost leases and released jobs', async () => {
    const rig = await startRig();
    const numbers = watch(rig.metrics);
    const sink = await startSink(() => {});
    await rig.topic('t', sink.url, { timeoutMs: 60_000 });
    await rig.pushAll('t', ['a', 'b']);
    const notifier = await rig.run(createNotifier(rig.context()));
    await until('both are called', () => sink.open().length === 2);
    await rig.store.jobs.cancel([{ topic: 't', id: 'a' }]);
    sink.finish(sink.arrivals.find(({ id }) => id === 'a'));
    await until('the loss is counted', () => numbers().get('dq_leases_lost_total ack') === 1);
    await notifier.drain(0);
    expect(numbers().get('dq_jobs_released_total')).toBe(1);
  });

  it('counts isolated jobs', async () => {
    const rig = await startRig();
    const numbers = watch(rig.metrics);
    const sink = await startSink();
    await rig.topic('t', sink.url, { timeoutMs: 60_000 });
    await rig.push('t', 'a');
    for (let strike = 1; strike <= limits.strikesIsolated; strike += 1) {
      await rig.reserve(1, owner(strike));
      await rig.store.jobs.recoverOwners(0, 7, { dead: strike }, 10);
    }
    await rig.run(createNotifier(rig.context()));
    await until('it is delivered', () => rig.counted('t', 'delivered') === 1);
    expect(numbers().get('dq_strikes_alone_total')).toBe(1);
  });
});

describe('upkeep', () => {
  it('counts recovered leases and the fifth strike', async () => {
    const rig = await startRig();
    const numbers = watch(rig.metrics);
    await rig.pushAll('t', ['a', 'b']);
    for (let strike = 1; strike < limits.strikesPoison; strike += 1) {
      await rig.reserve(1, owner(strike));
      await rig.store.jobs.recoverOwners(0, 7, { dead: strike }, 10);
    }
    await rig.reserve(2, owner(99));
    await startUpkeep(rig);
    rig.tell({ kind: 'owner_dead', incarnation: 99 });
    await until('both are recovered', () => numbers().get('dq_leases_recovered_total') === 2);
    expect(numbers().get('dq_strikes_poisoned_total')).toBe(1);
  });

  it('reports stored jobs, the age of the oldest due job, and the store', async () => {
    const rig = await startRig();
    const numbers = watch(rig.metrics);
    await rig.topic('t', 'http://127.0.0.1:1/');
    await rig.topic('held', 'http://127.0.0.1:1/', { state: 'paused' });
    await rig.pushAll('t', ['a', 'b'], { when: { delayMs: 60_000 } });
    await rig.push('held', 'c');
    await rig.push('unknown', 'd');
    await startUpkeep(rig);
    await until('the numbers are reported', () => numbers().get('dq_jobs delayed') === 2);
    expect(Object.fromEntries(numbers())).toMatchObject({
      ...{ 'dq_jobs ready': 2, 'dq_jobs dead': 0, 'dq_topic_jobs t delayed': 2 },
      ...{ 'dq_topic_jobs held ready': 1, 'dq_topic_jobs _other ready': 1, dq_jobs_orphaned: 1 },
      ...{ dq_oldest_overdue_seconds: 0, dq_store_up: 1 },
    });
    await rig.push('t', 'now');
    await until('it is late', () => (numbers().get('dq_oldest_overdue_seconds') ?? 0) > 0);
  });

  it('counts the events of topics from the counters of all processes', async () => {
    const rig = await startRig();
    const numbers = watch(rig.metrics);
    await rig.topic('t', 'http://127.0.0.1:1/');
    await startUpkeep(rig);
    const day = 20300131;
    rig.tell({
      kind: 'counters',
      deltas: [
        { topic: 't', day, name: 'pushed', n: 3 },
        { topic: 'gone', day, name: 'dead', n: 2 },
      ],
    });
    expect(Object.fromEntries(numbers())).toMatchObject({
      'dq_topic_events_total t pushed': 3,
      'dq_topic_events_total _other dead': 2,
    });
  });

  it('drops the series of a deleted topic; a new registration starts at 0', async () => {
    const rig = await startRig();
    for (const name of ['stays', 'goes']) await rig.topic(name, 'http://127.0.0.1:1/');
    const tally = new MetricTally();
    const metrics = new StoreMetrics(rig.topics, rig.context().metrics);
    const count = () =>
      metrics.counted(
        ['stays', 'goes'].map((topic) => ({ topic, day: 20300131, name: 'pushed' as const, n: 1 })),
      );
    const sums = () => {
      tally.addReport(rig.metrics() ?? { keeps: [], counts: [], histograms: [], gauges: [] });
      const family = tally.families().find(({ name }) => name === 'dq_topic_events_total');
      const pushed = (family?.values ?? []).filter(({ labels }) => labels['event'] === 'pushed');
      return Object.fromEntries(pushed.map(({ labels, value }) => [labels['topic'], value]));
    };
    count();
    expect(sums()).toEqual({ stays: 1, goes: 1, _other: 0 });
    const known = await rig.registry.get('goes');
    await rig.registry.remove('goes', known?.revision ?? 0);
    await rig.topics.refresh();
    // Counts nothing: the regular look at the store drops the series.
    metrics.stored({}, null);
    expect(sums()).toEqual({ stays: 1, _other: 0 });
    count();
    expect(sums()).toEqual({ stays: 2, _other: 1 });
    await rig.topic('goes', 'http://127.0.0.1:1/');
    count();
    expect(sums()).toEqual({ stays: 3, goes: 1, _other: 1 });
  });

  it('the topics registered first have their own series', async () => {
    const rig = await startRig();
    for (const name of ['z', 'y', 'a']) await rig.topic(name, 'http://127.0.0.1:1/');
    const numbers = watch(rig.metrics);
    const metrics = new StoreMetrics(rig.topics, rig.context().metrics, 2);
    const pushed = () => {
      metrics.counted(
        ['z', 'y', 'a'].map((topic) => ({ topic, day: 20300131, name: 'pushed' as const, n: 1 })),
      );
      return Object.fromEntries(numbers());
    };
    expect(pushed()).toEqual({
      'dq_topic_events_total z pushed': 1,
      'dq_topic_events_total y pushed': 1,
      'dq_topic_events_total _other pushed': 1,
    });
    const first = await rig.registry.get('z');
    await rig.registry.remove('z', first?.revision ?? 0);
    await rig.topics.refresh();
    expect(pushed()).toEqual({
      ...{ 'dq_topic_events_total z pushed': 1, 'dq_topic_events_total y pushed': 2 },
      ...{ 'dq_topic_events_total _other pushed': 2, 'dq_topic_events_total a pushed': 1 },
    });
  });
});
