import { describe, expect, it } from 'vitest';
import { MailRateLimit } from '../../src/mail/mail-rate-limit.ts';

const hourMs = 3_600_000;

/** Takes whatever may be had within so many ms; the times of it. */
function takeAll(quota: MailRateLimit, address: string, fromMs: number, toMs: number): number[] {
  const taken: number[] = [];
  for (let now = fromMs; ; ) {
    now = Math.max(now, quota.nextAt(address));
    if (now >= toMs) return taken;
    quota.take(address, now);
    taken.push(now);
  }
}

describe('MailRateLimit', () => {
  it('gives half of an hour at once, the rest spread, and never more in any hour', () => {
    const taken = takeAll(new MailRateLimit(120), 'a', 1_000, 1_000 + 5 * hourMs);
    expect(taken.filter((at) => at === 1_000)).toHaveLength(60);
    for (const from of taken) {
      const inHour = taken.filter((at) => at >= from && at < from + hourMs).length;
      expect(inHour).toBeLessThanOrEqual(120);
    }
    expect(taken.length).toBeGreaterThanOrEqual(60 + 5 * 60 - 1);
  });

  it('keeps one address from nothing that another has used up', () => {
    const quota = new MailRateLimit(10);
    takeAll(quota, 'a', 1, 2);
    expect(quota.nextAt('a')).toBeGreaterThan(2);
    expect(quota.nextAt('b')).toBeLessThanOrEqual(2);
  });

  it('is whole again after an hour without a letter', () => {
    const quota = new MailRateLimit(10);
    takeAll(quota, 'a', 1, 2);
    quota.take('b', 1 + hourMs);
    expect(takeAll(quota, 'a', 1 + hourMs, 2 + hourMs)).toHaveLength(5);
  });
});
