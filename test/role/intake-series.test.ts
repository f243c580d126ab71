// GET /v1/series and /v1/series/topics: columns over time for the topics of the caller.

import { describe, expect, it } from 'vitest';
import { apiLimits } from '../../src/api/limits.ts';
import { contractLimits } from '../../src/contract/api/limits.ts';
import { addReason, addTime, noFacts, packFacts, reasonKey, stepStart } from '../../src/core/series.ts';
import { startIntake, type TestIntake, tokenFor } from '../support/intake.ts';
import { until } from '../support/until.ts';

const now = Date.UTC(2030, 0, 31, 8, 4, 30);
const minute = stepStart(now / 1_000, 60);

interface Event {
  readonly topic: string;
  readonly minutesAgo: number;
  readonly step?: number;
  readonly pushed?: number;
  readonly delivered?: number;
  readonly timeouts?: number;
  readonly incarnation?: number;
  readonly isComplete?: boolean;
  readonly ready?: number;
  /** ms, of one call */
  readonly took?: number;
}

function rowOf({ topic, minutesAgo, step = 60, incarnation = 1, ...event }: Event) {
  const facts = noFacts();
  facts.counts.pushed = event.pushed ?? 0;
  facts.counts.delivered = event.delivered ?? 0;
  facts.isComplete = event.isComplete ?? true;
  if (event.timeouts !== undefined) addReason(facts, reasonKey('timeout', null), event.timeouts);
  if (event.delivered !== undefined) addTime(facts.lateness, 41);
  if (event.took !== undefined) addTime(facts.duration, event.took);
  if (event.ready !== undefined)
    facts.stored = { delayed: 0, ready: event.ready, reserved: 0, dead: 0, oldestOverdueMs: 7 };
  const at = stepStart(minute - minutesAgo * 60, step);
  return { topic, step, at, instance: 1, incarnation, packed: packFacts(facts) };
}

/** The process has read the clock of the store. */
async function knowsTime(dq: TestIntake): Promise<TestIntake> {
  await until('the clock is known', async () => (await dq.api('GET', '/v1/me')).body.now.startsWith('2030'));
  return dq;
}

async function start(events: readonly Event[] = []): Promise<TestIntake> {
  const dq = await knowsTime(await startIntake({ clock: () => now }));
  for (const topic of ['order.close', 'bill.send'])
    await dq.api('POST', '/v1/topics', { topic, callbackUrl: 'http://127.0.0.1:9/' });
  await dq.registry.putSeries(events.map(rowOf), minute, 'z');
  return dq;
}

describe('GET /v1/series', () => {
  it('adds up the writers of a step; a step without a row is null, and one being written is absent', async () => {
    const dq = await start([
      { topic: '', minutesAgo: 4, pushed: 3, delivered: 2, ready: 5 },
      { topic: '', minutesAgo: 2, pushed: 1, timeouts: 2 },
      { topic: '', minutesAgo: 2, pushed: 10, incarnation: 2, ready: 0 },
    ]);
    const { status, body } = await dq.api('GET', '/v1/series?from=5m');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      topic: null,
      step: 60,
      at: [5, 4, 3, 2, 1].map((ago) => (minute - ago * 60) * 1_000),
      ...{ unfinished: false, pushed: [null, 3, null, 11, null], delivered: [null, 2, null, 0, null] },
      ...{ failed: [null, 0, null, 2, null] },
      lateness: { p50: [null, 36, null, null, null], max: [null, 41, null, null, null] },
      states: { ready: [null, 5, null, 0, null] },
      oldestOverdueMs: [null, 7, null, 7, null],
      reasons: [{ reason: 'timeout', status: null, total: 2, counts: [null, 0, null, 2, null] }],
      totals: { pushed: 14, failed: 2, recordedSteps: 2, lateness: { p99: 41, max: 41 } },
    });
  });

  it('a topic without events has zeros where every topic is recorded, else null', async () => {
    const dq = await start([
      { topic: '', minutesAgo: 3, pushed: 3 },
      { topic: '', minutesAgo: 2, pushed: 3, isComplete: false },
      { topic: 'order.close', minutesAgo: 1, pushed: 8 },
    ]);
    const { body } = await dq.api('GET', '/v1/series?topic=order.close&from=3m');
    expect(body.topic).toBe('order.close');
    expect(body.pushed).toEqual([0, null, 8]);
  });

  it('the last step is unfinished where it is recorded', async () => {
    const dq = await start([{ topic: '', minutesAgo: 0, step: 7_200, pushed: 3 }]);
    const { body } = await dq.api('GET', '/v1/series?from=720h');
    expect(body).toMatchObject({ step: 7_200, unfinished: true });
    expect(body.at).toHaveLength(361);
    expect(body.pushed.at(-1)).toBe(3);
  });

  it('the step is the finest that is kept for the range', async () => {
    const dq = await start();
    const stepOf = async (query: string) => (await dq.api('GET', `/v1/series?${query}`)).body.step;
    expect(await stepOf('from=24h')).toBe(60);
    expect(await stepOf('from=25h')).toBe(600);
    expect(await stepOf('from=8d')).toBe(7_200);
    expect(await stepOf('topic=bill.send&from=3h')).toBe(60);
    expect(await stepOf('topic=bill.send&from=6h')).toBe(600);
    expect(await stepOf('from=1h&step=10m')).toBe(600);
    expect(await stepOf(`from=${now - 3_600_000}&to=${now - 60_000}`)).toBe(60);
  });

  it('rejects too many points, wrong times, and an unknown topic', async () => {
    const dq = await start();
    const codeOf = async (query: string) => {
      const { status, body } = await dq.api('GET', `/v1/series?${query}`);
      return [status, body.errors?.[0]?.field ?? body.code];
    };
    expect(await codeOf('from=2d&step=1m')).toEqual([400, 'from']);
    expect(await codeOf('from=400d')).toEqual([400, 'from']);
    expect(await codeOf('from=yesterday')).toEqual([400, 'from']);
    expect(await codeOf(`from=${now}&to=${now - 1_000}`)).toEqual([400, 'from']);
    expect(await codeOf('to=soon')).toEqual([400, 'to']);
    expect(await codeOf('step=5m')).toEqual([400, 'step']);
    expect(await codeOf('topic=nope')).toEqual([404, 'topic_not_found']);
  });

  it('a caller of some topics sees those only', async () => {
    const dq = await start([{ topic: '', minutesAgo: 1, pushed: 3 }]);
    const some = await tokenFor(dq, ['order.*']);
    expect((await dq.call('GET', '/v1/series', some)).status).toBe(403);
    expect((await dq.call('GET', '/v1/series?topic=bill.send', some)).status).toBe(403);
    expect((await dq.call('GET', '/v1/series?topic=order.close', some)).status).toBe(200);
    expect((await dq.call('GET', '/v1/series/topics?names=order.close,bill.send', some)).status).toBe(403);
    expect((await dq.call('GET', '/v1/series/topics?names=order.close', some)).status).toBe(200);
  });

  it('many viewers share one read of the registry', async () => {
    let reads = 0;
    const dq = await startIntake({
      clock: () => now,
      registry: (registry) =>
        Object.assign(Object.create(registry), {
          series: (query: Parameters<typeof registry.series>[0]) => {
            reads += 1;
            return registry.series(query);
          },
        }),
    });
    await knowsTime(dq);
    const from = performance.now();
    await Promise.all(Array.from({ length: 20 }, () => dq.api('GET', '/v1/series')));
    // One, and one more for each time after which a busy machine has found the answer too old.
    const tooOld = Math.floor((performance.now() - from) / apiLimits.answerKeptMs);
    expect(reads).toBeGreaterThan(0);
    expect(reads).toBeLessThanOrEqual(1 + tooOld);
  });
});

it('GET /v1/series/topics: deliveries of the last day, a column per topic', async () => {
  const dq = await start([
    { topic: '', minutesAgo: 0, step: 7_200 },
    { topic: '', minutesAgo: 120, step: 7_200 },
    { topic: 'order.close', minutesAgo: 120, step: 7_200, delivered: 9, timeouts: 1, took: 2_500 },
  ]);
  const { body } = await dq.api('GET', '/v1/series/topics?names=order.close,bill.send');
  expect(body.step).toBe(7_200);
  expect(body.at).toHaveLength(13);
  expect(body.topics.map(({ topic }: { topic: string }) => topic)).toEqual(['order.close', 'bill.send']);
  expect(body.topics[0].delivered.slice(-3)).toEqual([null, 9, 0]);
  expect(body.topics[0].failed.slice(-3)).toEqual([null, 1, 0]);
  expect(body.topics[0].durationP95.slice(-3)).toEqual([null, expect.any(Number), null]);
  expect(body.topics[0].durationP95.at(-2)).toBeLessThanOrEqual(2_500);
  expect(body.topics[0].durationP95.at(-2)).toBeGreaterThan(1_000);
  expect(body.topics[1].delivered.slice(-3)).toEqual([null, 0, 0]);
  const many = Array.from({ length: contractLimits.sparksMax + 1 }, (_, n) => `t${n}`).join(',');
  expect((await dq.api('GET', `/v1/series/topics?names=${many}`)).status).toBe(400);
  expect((await dq.api('GET', '/v1/series/topics?names=,')).status).toBe(400);
});
