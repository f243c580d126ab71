// Samples of attempts: what a notifier sends per second, and what dq-upkeep keeps of it.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { AttemptFeed } from '../../src/notifier/attempt-feed.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import type { ToMaster } from '../../src/process/messages.ts';
import type { AttemptSample } from '../../src/process/questions.ts';
import { AttemptRing } from '../../src/upkeep/attempt-ring.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';

const sample = (n: number, more: Partial<AttemptSample> = {}): AttemptSample => ({
  ...{ topic: 't', id: `j${n}`, version: n, attempt: 1, startedAt: n, durationMs: 5, latenessMs: 0 },
  ...{ outcome: 'delivered', reason: null, status: 200, replyExcerpt: '{}', detail: '' },
  ...{ origin: 'http://a', notifier: 'dq-notifier-0' },
  ...more,
});
const failed = { outcome: 'failed', reason: 'status', status: 500 } as const;

describe('attempt feed', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function feedOf(notifiers = 1) {
    const sent: ToMaster[] = [];
    let finish: (() => void) | null = null;
    const link = {
      sent: (message: ToMaster) => {
        sent.push(message);
        return new Promise<void>((resolve) => {
          finish = resolve;
        });
      },
    };
    const feed = new AttemptFeed(link, notifiers);
    const take = (topic: string, outcome: AttemptSample['outcome'], times: number) => {
      let taken = 0;
      for (let n = 0; n < times; n += 1) {
        if (!feed.takes(topic, outcome)) continue;
        feed.add(sample(n, { topic, outcome }));
        taken += 1;
      }
      return taken;
    };
    return { feed, sent, take, finish: () => finish?.() };
  }

  it('takes 20 failures and 5 successes per second and topic', async () => {
    const { take, sent, finish } = feedOf();
    expect([take('t', 'failed', 100), take('t', 'delivered', 100), take('u', 'delivered', 9)]).toEqual([
      20, 5, 5,
    ]);
    vi.advanceTimersByTime(1_000);
    expect(sent).toMatchObject([{ kind: 'attempts' }]);
    finish();
    await vi.advanceTimersByTimeAsync(0);
    expect(take('t', 'failed', 100)).toBe(20);
  });

  it('notifiers share the samples of a topic', () => {
    const { take } = feedOf(3);
    expect([take('t', 'failed', 100), take('t', 'delivered', 100)]).toEqual([7, 2]);
  });

  it('successes of many topics leave half of the samples to failures', () => {
    const { take } = feedOf();
    let taken = 0;
    for (let n = 0; n < 1_000; n += 1) taken += take(`t${n}`, 'delivered', 1);
    expect(taken).toBe(notifierLimits.samplesPerSecond / 2);
    for (let n = 0; n < 1_000; n += 1) taken += take(`f${n}`, 'failed', 1);
    expect(taken).toBe(notifierLimits.samplesPerSecond);
  });

  it('drops samples while the master does not read', async () => {
    const { take, sent, finish } = feedOf();
    for (let second = 0; second < 10; second += 1) {
      take('t', 'failed', 100);
      await vi.advanceTimersByTimeAsync(1_000);
    }
    expect(sent).toHaveLength(1);
    finish();
    await vi.advanceTimersByTimeAsync(0);
    take('t', 'failed', 1);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(sent).toHaveLength(2);
  });
});

describe('attempt ring', () => {
  const all = { topic: null, topics: ['*'], outcome: null, limit: 1_000 } as const;

  it('lists visible topics, newest first', () => {
    const ring = new AttemptRing(7);
    ring.add([sample(1), sample(3, { topic: 'u', ...failed }), sample(2)]);
    const ids = (asked: object) => ring.list({ ...all, ...asked }).attempts.map(({ id }) => id);
    expect(ring.list(all).since).toBe(7);
    expect(ids({})).toEqual(['j3', 'j2', 'j1']);
    expect(ids({ limit: 2 })).toEqual(['j3', 'j2']);
    expect(ids({ topics: ['t*'] })).toEqual(['j2', 'j1']);
    expect(ids({ topic: 'u' })).toEqual(['j3']);
    expect(ids({ topic: 'u', topics: ['t'] })).toEqual([]);
    expect(ids({ topic: 'absent' })).toEqual([]);
    expect(ids({ outcome: 'failed' })).toEqual(['j3']);
  });

  it('ignores an outcome that it does not know', () => {
    const ring = new AttemptRing(0);
    ring.add([sample(1, { outcome: 'later' as 'failed' }), sample(2)]);
    expect(ring.list(all).attempts.map(({ id }) => id)).toEqual(['j2']);
  });

  it('keeps 200 attempts of a topic, and failures beside many successes', () => {
    const ring = new AttemptRing(0);
    for (let n = 0; n < 150; n += 1) ring.add([sample(n, failed)]);
    for (let n = 150; n < 2_000; n += 1) ring.add([sample(n)]);
    const { attempts } = ring.list(all);
    expect(attempts).toHaveLength(upkeepLimits.samplesPerTopic);
    expect(attempts.filter(({ outcome }) => outcome === 'failed').map(({ id }) => id)[0]).toBe('j149');
    expect(attempts.filter(({ outcome }) => outcome === 'failed')).toHaveLength(100);
  });

  it('the topic without a sample for the longest time loses its oldest first', () => {
    const ring = new AttemptRing(0);
    const long = { replyExcerpt: 'x'.repeat(1_024), ...failed };
    ring.add([sample(0, { topic: 'quiet' }), sample(1, { topic: 'quiet' })]);
    const most = upkeepLimits.samplesBytes / 2_600;
    for (let n = 2; n < most; n += 1) ring.add([sample(n, { topic: `t${n % 100}`, ...long })]);
    const has = (topic: string) => ring.list({ ...all, topic }).attempts.length;
    for (let n = Math.ceil(most); has('quiet') === 2; n += 1) ring.add([sample(n, { topic: `u${n % 100}` })]);
    expect(has('quiet')).toBe(1);
    expect(ring.list({ ...all, topic: 'quiet' }).attempts.map(({ id }) => id)).toEqual(['j1']);
    expect(has('t2')).toBeGreaterThan(40);
  });
});
