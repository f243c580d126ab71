// Tests the rate limit of a topic.
import { describe, expect, it } from 'vitest';
import { bucketCapacity, TokenBucket } from '../../src/notifier/topic-rates.ts';

/** Starts a call as soon as one may start. Returns the times of the starts. */
function starts(bucket: TokenBucket, toMs: number, stepMs: number): number[] {
  const all: number[] = [];
  for (let now = 0; now <= toMs; now += stepMs)
    while (bucket.tokens(now) >= 1) {
      bucket.take(now);
      all.push(now);
    }
  return all;
}

describe('token bucket', () => {
  it.each([1, 2, 3, 7, 10, 19, 64, 1_000, 99_999])(
    'at %d a second: starts at most rate and burst in any second',
    (perSecond) => {
      const all = starts(new TokenBucket(perSecond, 0), 5_000, 0.5);
      expect(all.length).toBeGreaterThanOrEqual(5 * perSecond);
      const span = 1_000;
      let from = 0;
      let mostInSpan = 0;
      for (const [n, at] of all.entries()) {
        while (at - (all[from] ?? 0) >= span) from += 1;
        mostInSpan = Math.max(mostInSpan, n - from + 1);
      }
      expect(mostInSpan).toBeLessThanOrEqual(perSecond + bucketCapacity(perSecond));
      expect(all.length).toBeLessThanOrEqual(5 * perSecond + bucketCapacity(perSecond));
    },
  );

  it('starts full and gathers at most its capacity', () => {
    const bucket = new TokenBucket(100, 1_000);
    expect(bucket.tokens(1_000)).toBe(10);
    expect(bucket.tokens(1_000_000)).toBe(10);
    for (let n = 0; n < 12; n += 1) bucket.take(1_000);
    expect(bucket.tokens(1_000)).toBe(-2);
    expect(bucket.tokens(1_030)).toBe(1);
  });

  it('knows when half of its capacity is full', () => {
    const bucket = new TokenBucket(100, 0);
    expect(bucket.worthAt(0)).toBe(0);
    for (let n = 0; n < 10; n += 1) bucket.take(0);
    expect(bucket.worthAt(0)).toBe(50);
    expect(bucket.worthAt(20)).toBe(50);
    expect([bucket.waitMs(0), bucket.waitMs(4), bucket.waitMs(10)]).toEqual([10, 6, 0]);
    const slow = new TokenBucket(2, 0);
    slow.take(0);
    expect(slow.worthAt(0)).toBe(500);
  });

  it('adds no tokens when the rate changes', () => {
    expect(new TokenBucket(100, 0, 0.5).tokens(0)).toBe(0.5);
    expect(new TokenBucket(10, 0, 8).tokens(0)).toBe(1);
  });

  it('accepts the token of a call that did not start', () => {
    const bucket = new TokenBucket(10, 0);
    bucket.take(0);
    bucket.putBack(10);
    expect(bucket.tokens(10)).toBe(1);
  });

  it('without a rate share it never has a token', () => {
    const none = new TokenBucket(0, 0);
    expect(none.tokens(1e9)).toBe(0);
    expect(none.worthAt(5)).toBe(Number.POSITIVE_INFINITY);
    expect(none.waitMs(5)).toBe(Number.POSITIVE_INFINITY);
  });
});
