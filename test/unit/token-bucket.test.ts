import { describe, expect, it } from 'vitest';
import { capacityAt, TokenBucket } from '../../src/notifier/token-bucket.ts';

/** Starts a call at every moment at which one may start; answers the moments. */
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
    '%d a second: never more than that and a burst in any span, and no less over a long one',
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
      expect(mostInSpan).toBeLessThanOrEqual(perSecond + capacityAt(perSecond));
      expect(all.length).toBeLessThanOrEqual(5 * perSecond + capacityAt(perSecond));
    },
  );

  it('begins full, gathers no more than its capacity, and no more for a clock that stands still', () => {
    const bucket = new TokenBucket(100, 1_000);
    expect(bucket.tokens(1_000)).toBe(10);
    expect(bucket.tokens(1_000_000)).toBe(10);
    for (let n = 0; n < 12; n += 1) bucket.take(1_000);
    expect(bucket.tokens(1_000)).toBe(-2);
    expect(bucket.tokens(1_030)).toBe(1);
  });

  it('tells when half of it is there', () => {
    const bucket = new TokenBucket(100, 0);
    expect(bucket.worthAt(0)).toBe(0);
    for (let n = 0; n < 10; n += 1) bucket.take(0);
    expect(bucket.worthAt(0)).toBe(50);
    expect(bucket.worthAt(20)).toBe(50);
    const slow = new TokenBucket(2, 0);
    slow.take(0);
    expect(slow.worthAt(0)).toBe(500);
  });

  it('gives nothing away when the rate changes', () => {
    expect(new TokenBucket(100, 0, 0.5).tokens(0)).toBe(0.5);
    expect(new TokenBucket(10, 0, 8).tokens(0)).toBe(1);
  });

  it('has the token of a call that did not start again, and no more than its capacity', () => {
    const bucket = new TokenBucket(10, 0);
    bucket.take(0);
    bucket.giveBack(10);
    expect(bucket.tokens(10)).toBe(1);
  });

  it('a share of nothing never has a token', () => {
    const none = new TokenBucket(0, 0);
    expect(none.tokens(1e9)).toBe(0);
    expect(none.worthAt(5)).toBe(Number.POSITIVE_INFINITY);
  });
});
