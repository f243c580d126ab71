// Tests the waits between attempts: backoff, Retry-After, jitter.
import { describe, expect, it } from 'vitest';
import { FieldErrors } from '../../src/core/errors.ts';
import { limits } from '../../src/core/limits.ts';
import { retryAfterMs, retryDelayMs } from '../../src/core/retry-policy.ts';
import type { Backoff } from '../../src/core/topic/backoff.ts';
import { topicFields } from '../../src/core/topic/fields.ts';

const never = () => 0;
const waits = (backoff: Backoff, count: number, unitMs = 60_000) =>
  Array.from({ length: count }, (_, n) => retryDelayMs({ backoff, jitter: 0 }, n, unitMs, never));

describe('retryDelayMs', () => {
  it('2n+1: waits 1, 3, 5, 7 units', () => {
    expect(waits({ type: 'odd' }, 4)).toEqual([60_000, 180_000, 300_000, 420_000]);
    expect(waits({ type: 'odd' }, 3, 10)).toEqual([10, 30, 50]);
  });

  it('ladder: step by step, the last repeats', () => {
    expect(waits({ type: 'ladder', stepsMs: [15_000, 3, 600_000] }, 5)).toEqual([
      15_000, 3, 600_000, 600_000, 600_000,
    ]);
  });

  it('exponential: grows by the factor up to the cap, always finite', () => {
    const backoff: Backoff = { type: 'exponential', baseMs: 10_000, factor: 2, capMs: 60_000 };
    expect(waits(backoff, 5)).toEqual([10_000, 20_000, 40_000, 60_000, 60_000]);
    expect(retryDelayMs({ backoff, jitter: 0 }, 100_000, 1, never)).toBe(60_000);
    expect(waits({ ...backoff, factor: 1.5, baseMs: 3 }, 3)).toEqual([3, 5, 7]);
  });

  it('Retry-After: counts only when it is longer', () => {
    const policy = { backoff: { type: 'odd' }, jitter: 0 } as const;
    expect(retryDelayMs(policy, 0, 1_000, never, 999)).toBe(1_000);
    expect(retryDelayMs(policy, 0, 1_000, never, 7_000)).toBe(7_000);
  });

  it('jitter: adds at most its share of the longer wait', () => {
    const policy = { backoff: { type: 'odd' }, jitter: 0.5 } as const;
    expect(retryDelayMs(policy, 0, 1_000, () => 0)).toBe(1_000);
    expect(retryDelayMs(policy, 0, 1_000, () => 0.5)).toBe(1_250);
    expect(retryDelayMs(policy, 0, 1_000, () => 0.999_999)).toBe(1_500);
    expect(retryDelayMs(policy, 0, 1_000, () => 0.5, 4_000)).toBe(5_000);
    expect(retryDelayMs({ ...policy, jitter: 0.1 }, 0, 3, () => 0.1)).toBe(4);
  });
});

describe('retryAfterMs', () => {
  const now = Date.UTC(2026, 0, 1);
  const day = limits.retryAfterMsMax;

  it.each([
    ['120', null, 120_000],
    [' 7 ', null, 7_000],
    ['0', null, 0],
    ['86400', null, day],
    ['86401', null, day],
    ['99999999999999999999999', null, day],
    [`1${'0'.repeat(400)}`, null, day],
    ['Thu, 01 Jan 2026 00:01:00 GMT', null, 60_000],
    ['Thursday, 01-Jan-26 00:01:00 GMT', null, 60_000],
    ['Thu Jan  1 00:01:00 2026', null, 60_000],
    ['Thu, 01 Jan 2026 00:00:00 GMT', null, 0],
    ['Fri, 01 Jan 2038 00:00:00 GMT', null, day],
    // the receiver's clock is an hour behind; its own Date counts
    ['Wed, 31 Dec 2025 23:01:00 GMT', 'Wed, 31 Dec 2025 23:00:00 GMT', 60_000],
    ['Thu, 01 Jan 2026 00:01:00 GMT', 'no date', 60_000],
    ['120', 'Wed, 31 Dec 2025 23:00:00 GMT', 120_000],
  ])('%j with Date %j requests %i ms', (value, date, ms) => {
    expect(retryAfterMs(value, date, now)).toBe(ms);
  });

  it.each([
    null,
    '',
    '-1',
    '+1',
    '1.5',
    '1e3',
    '0x10',
    'soon',
    '1, 2',
    '2030-01-01T00:00:00Z',
    'Wed, 31 Dec 2025 23:59:59 GMT',
    'Thu, 01 Jan 2026 00:01:00',
    'Thu, 01 Jan 2026 00:01:00 +0800',
    'Thu, 99 Jan 2026 00:01:00 GMT',
    'Thu, 01 Foo 2026 00:01:00 GMT',
  ])('%j is ignored', (value) => {
    expect(retryAfterMs(value, null, now)).toBeNull();
  });
});

describe('a configured backoff', () => {
  const { parse, print } = topicFields.backoff;

  function parseBackoff(input: unknown) {
    const errors = new FieldErrors();
    const value = parse(input, 'backoff', errors, {
      refusesUrl: () => null,
      brokers: new Map(),
      hooks: new Set<string>(),
      historyMs: 86_400_000,
    });
    return { value, message: errors.error()?.message };
  }

  it.each([
    ['2n+1', { type: 'odd' }],
    [['15s', '3m', '1500ms'], { type: 'ladder', stepsMs: [15_000, 180_000, 1_500] }],
    [['10d'], { type: 'ladder', stepsMs: [864_000_000] }],
    [Array(50).fill('1s'), { type: 'ladder', stepsMs: Array(50).fill(1_000) }],
    [
      { type: 'exponential', base: '10s', factor: 2, cap: '1h' },
      { type: 'exponential', baseMs: 10_000, factor: 2, capMs: 3_600_000 },
    ],
  ])('%j: printing it and parsing that returns the same', (input, backoff) => {
    expect(parseBackoff(input)).toEqual({ value: backoff });
    expect(parseBackoff(JSON.parse(JSON.stringify(print?.(backoff as Backoff))))).toEqual({ value: backoff });
  });

  it('prints the notation of the manual', () => {
    expect(print?.({ type: 'odd' })).toBe('2n+1');
    expect(print?.({ type: 'ladder', stepsMs: [15_000, 180_000] })).toEqual(['15s', '3m']);
    expect(print?.({ type: 'exponential', baseMs: 10_000, factor: 2, capMs: 3_600_000 })).toEqual({
      ...{ type: 'exponential', base: '10s', factor: 2, cap: '1h' },
    });
  });

  const exponential = { type: 'exponential', base: '10s', factor: 2, cap: '1h' };
  it.each([
    [null, /"2n\+1"/],
    ['3n+1', /"2n\+1"/],
    [5, /"2n\+1"/],
    [[], /1 to 50/],
    [Array(51).fill('1s'), /1 to 50/],
    [['1s', '-1s'], /backoff\[1\]/],
    [['1s', null], /backoff\[1\]/],
    [['1s', 30], /backoff\[1\]: 30 has no unit/],
    [['1s', '10d1ms'], /backoff\[1\]: .*10d/],
    [{}, /"type":"exponential"/],
    [{ ...exponential, type: 'linear' }, /"type":"exponential"/],
    [{ ...exponential, max: 1 }, /backoff\.max: unknown member/],
    [{ ...exponential, base: '0s' }, /backoff\.base: .*1ms/],
    [{ ...exponential, base: undefined }, /backoff\.base/],
    [{ ...exponential, cap: '11d' }, /backoff\.cap/],
    [{ ...exponential, cap: '9s' }, /backoff\.cap/],
    [{ ...exponential, factor: 0.9 }, /backoff\.factor/],
    [{ ...exponential, factor: 101 }, /backoff\.factor/],
    [{ ...exponential, factor: undefined }, /backoff\.factor: .*not nothing/],
    [{ ...exponential, factor: '2' }, /backoff\.factor/],
    [{ ...exponential, factor: Number.NaN }, /backoff\.factor/],
  ])('%j is rejected', (input, message) => {
    expect(parseBackoff(input)).toEqual({ message: expect.stringMatching(message) });
  });
});
