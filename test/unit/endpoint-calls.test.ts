// What a notifier counts for the endpoints, and how the counts of topics and notifiers are merged.
import { describe, expect, it } from 'vitest';
import { contractLimits } from '../../src/contract/api/limits.ts';
import {
  durationAt,
  durationGroups,
  groupOf,
  mergeEndpoints,
  mergeFailures,
} from '../../src/core/endpoint.ts';
import { limits } from '../../src/core/limits.ts';
import { EndpointCalls, TopicCalls } from '../../src/notifier/endpoint-calls.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';

const minute = 60_000;
const start = 1_000 * minute;

describe('endpoint', () => {
  it('the counts cover the last 5 minutes', () => {
    const calls = new TopicCalls('t', 'http://a');
    calls.judged(null, null, 40, start);
    calls.judged('timeout', null, 3_000, start + minute);
    expect(calls.part(start + minute, false)).toMatchObject({
      ...{ origin: 'http://a', topics: ['t'], delivered: 1, failed: 1, inFlight: 0 },
      ...{ lastSuccessAt: start, lastFailureAt: start + minute, lastReason: 'timeout' },
    });
    expect(calls.part(start + 5 * minute, false)).toMatchObject({ delivered: 0, failed: 1 });
    calls.judged(null, null, 40, start + 30 * minute);
    expect(calls.part(start + 30 * minute, true)).toMatchObject({
      ...{ delivered: 1, failed: 0, isProbing: true, lastFailureAt: start + minute },
    });
  });

  it('topics and notifiers of one origin are one endpoint', () => {
    const [a, b, other] = [
      new TopicCalls('a', 'http://x'),
      new TopicCalls('b', 'http://x'),
      new TopicCalls('c', 'http://y'),
    ];
    a.judged('connect', null, 1, start);
    a.judged('status', null, 1, start + 2);
    b.judged(null, null, 90, start + 1);
    b.running = 3;
    const parts = [a, b, other, b].map((calls) => calls.part(start + 5, calls === a));
    const [x, y] = mergeEndpoints(parts);
    expect(x).toMatchObject({
      ...{ origin: 'http://x', topics: ['a', 'b'], inFlight: 6, isProbing: true },
      ...{
        ...{ lastSuccessAt: start + 1, lastFailureAt: start + 2, lastReason: 'status', delivered: 2 },
        failed: 2,
      },
    });
    expect(y).toMatchObject({ lastSuccessAt: null, lastFailureAt: null, lastReason: null, delivered: 0 });
  });

  it('a percentile lies within its group', () => {
    const durations = durationGroups.map(() => 0);
    const at = (share: number, longestMs = 10_000) => durationAt(share, { durations, longestMs });
    expect(at(0.95)).toBeNull();
    for (const ms of [...Array.from({ length: 95 }, () => 80), ...Array.from({ length: 5 }, () => 2_500)])
      durations[groupOf(ms)] = (durations[groupOf(ms)] ?? 0) + 1;
    expect(at(0.5)).toBeGreaterThan(70);
    expect(at(0.95)).toBe(100);
    expect(at(0.96)).toBeGreaterThan(2_000);
    expect(at(1, 2_500), 'not more than the longest').toBe(2_500);
    expect(groupOf(1e9)).toBe(durationGroups.length - 1);
  });

  it('failures in a row are those after the last success of any notifier', () => {
    const [a, b, c] = [0, 1, 2].map(() => new TopicCalls('t', 'http://a')) as [
      TopicCalls,
      TopicCalls,
      TopicCalls,
    ];
    const merged = () => mergeFailures([a, b, c].map((calls) => calls.failures(start + 10))).get('t');
    a.judged('connect', null, 1, start);
    a.judged('connect', null, 1, start + 1);
    b.judged('status', 502, 1, start + 2);
    expect(merged()).toMatchObject({ failuresInRow: 3, since: start, lastReason: 'status', lastStatus: 502 });
    c.judged(null, null, 1, start + 3);
    expect(merged()).toMatchObject({
      ...{ delivered: 1, failed: 3, failuresInRow: 0, since: null, lastSuccessAt: start + 3 },
    });
    a.judged('timeout', null, 1, start + 4);
    expect(merged()).toMatchObject({ failuresInRow: 1, since: start + 4, lastReason: 'timeout' });
    c.judged('connect', null, 1, start + 5);
    b.judged('connect', null, 1, start + 6);
    expect(merged()).toMatchObject({ failuresInRow: 3, since: start + 4 });
    for (const at of [7, 8]) a.judged('connect', null, 1, start + at);
    expect(merged(), 'the first ones after the success may be unlisted').toMatchObject({ since: start + 3 });
    expect(notifierLimits.lastFailuresKept).toBeGreaterThanOrEqual(contractLimits.failingInRow);
  });

  it('names the oldest jobs that retry, until they end, also where successes of others follow', () => {
    const [a, b] = [0, 1].map(() => new TopicCalls('t', 'http://a')) as [TopicCalls, TopicCalls];
    const merged = () =>
      mergeFailures([a, b].map((calls) => calls.failures(start)))
        .get('t')
        ?.retried?.map(({ id, since }) => [id, since]);
    const job = (id: string, failures: number) => ({
      id,
      failures,
      dueAt: start + Number(id),
      acceptedAt: start - 9,
    });
    for (const id of ['5', '3', '4']) a.retried(job(id, 0), start + minute, start);
    a.judged(null, null, 1, start);
    expect(merged()).toEqual([
      ['3', start + 3],
      ['4', start + 4],
      ['5', start + 5],
    ]);
    // A later attempt by another notifier, which knows only when the job was pushed.
    b.retried(job('4', 1), start + minute, start);
    b.retried(job('6', 0), start + minute, start);
    expect(merged()).toEqual([
      ['4', start - 9],
      ['3', start + 3],
      ['5', start + 5],
      ['6', start + 6],
    ]);
    for (const calls of [a, b]) calls.ended('4');
    a.ended('3');
    expect(merged()).toEqual([
      ['5', start + 5],
      ['6', start + 6],
    ]);
    // Its next attempt is long over: another notifier made it.
    a.retried(job('7', 0), start + 2 * minute, start + minute + limits.retriedKeptMs);
    expect(merged()).toEqual([
      ['6', start + 6],
      ['7', start + 7],
    ]);
  });

  it('asked by name, a notifier says that a topic has no failures', () => {
    const all = new EndpointCalls();
    for (const topic of ['a.well', 'b.well']) all.of(topic, 'http://a', start)?.judged(null, null, 1, start);
    const topics = ['a.*'];
    expect(all.failures({ topics }, start)).toEqual([]);
    expect(all.failures({ topics, names: ['a.well', 'a.other', 'b.well'] }, start)).toMatchObject([
      { topic: 'a.well', delivered: 1, failed: 0, lastSuccessAt: start },
    ]);
  });

  it('an endpoint that is asked by its origin is in the answer beside many newer ones', () => {
    const all = new EndpointCalls();
    all.of('rare', 'http://rare', start)?.judged(null, null, 1, start);
    for (let n = 0; n < 2 * notifierLimits.endpointsMax; n += 1)
      all.of(`t${n}`, `http://o${n}`, start)?.judged(null, null, 1, start + 1);
    const parts = (origins?: readonly string[]) =>
      all.parts(
        origins,
        () => true,
        () => false,
        start + 2,
      );
    expect(parts()).toHaveLength(notifierLimits.endpointsMax);
    expect(parts(['http://rare', 'http://none'])).toMatchObject([
      { origin: 'http://rare', lastSuccessAt: start },
    ]);
  });

  it('a changed origin begins at zero', () => {
    const all = new EndpointCalls();
    all.of('t', 'http://a', start)?.judged(null, null, 1, start);
    expect(all.of('t', 'http://a', start)?.lastAt).toBe(start);
    expect(all.of('t', 'http://b', start)?.lastAt).toBe(0);
  });

  it('a bounded number of topics is counted; idle ones make space', () => {
    const all = new EndpointCalls();
    const most = notifierLimits.endpointTopicsKept;
    for (let n = 0; n < most; n += 1) all.of(`t${n}`, 'http://a', start)?.judged(null, null, 1, start);
    expect(all.of('late', 'http://a', start)).toBeNull();
    expect([...all.all()]).toHaveLength(most);
    const later = start + 6 * minute;
    expect(all.of('late', 'http://a', later)).not.toBeNull();
    expect([...all.all()]).toHaveLength(most);
  });
});
