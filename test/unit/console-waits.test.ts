import { describe, expect, it } from 'vitest';
import { waitsOf } from '../../src/console/web/backoff-waits.ts';
import { FieldErrors } from '../../src/core/errors.ts';
import { backoffMs } from '../../src/core/retry-policy.ts';
import { parseBackoff } from '../../src/core/topic/backoff.ts';

const unitMs = 500;
const exponential = { type: 'exponential', base: '10s', factor: 2, cap: '1h' };

describe('waits that the console draws', () => {
  it.each([
    '2n+1',
    '2n+2',
    '',
    null,
    15,
    [],
    ['15s', '3m'],
    ['0s', '3m'],
    ['15s', 'x'],
    ['15s', 3],
    ['11d'],
    ['-1s'],
    Array.from({ length: 50 }, () => '1s'),
    Array.from({ length: 51 }, () => '1s'),
    exponential,
    { ...exponential, factor: 0.5 },
    { ...exponential, factor: 101 },
    { ...exponential, factor: '2' },
    { ...exponential, base: '2h' },
    { ...exponential, base: '0s' },
    { ...exponential, more: 1 },
    { ...exponential, type: 'linear' },
    { type: 'exponential', base: '10s' },
    {},
  ])('%j: those of dq, in retry.unit; none where dq rejects it', (backoff) => {
    const parsed = parseBackoff(backoff, 'backoff', new FieldErrors());
    const expected =
      parsed === undefined ? null : [0, 1, 2, 3].map((failures) => backoffMs(parsed, failures, unitMs));
    expect(waitsOf({ backoff, maxAttempts: 5 }, unitMs)).toEqual(expected);
    expect(waitsOf({ backoff, maxAttempts: 1 }, unitMs)).toEqual(expected === null ? null : []);
  });
});
