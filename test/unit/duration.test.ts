// Tests the notations of durations and instants.
import { describe, expect, it } from 'vitest';
import { formatDuration, formatInstant, parseDuration, parseInstant } from '../../src/core/duration.ts';

const outcome = <T>(parsed: { ok: boolean; value?: T }) => (parsed.ok ? parsed.value : 'rejected');

describe('parseDuration', () => {
  it.each([
    [0, 0],
    ['0', 0],
    ['0s', 0],
    ['500ms', 500],
    ['30s', 30_000],
    ['10m', 600_000],
    ['1h30m', 5_400_000],
    ['3d', 259_200_000],
    ['30 s', 30_000],
    ['250 milliseconds', 250],
    ['45sec', 45_000],
    ['1 second', 1_000],
    ['30min', 1_800_000],
    ['30 mins', 1_800_000],
    ['1 minute', 60_000],
    ['2 hours', 7_200_000],
    ['2hrs', 7_200_000],
    ['1 day 2 hours', 93_600_000],
    ['PT30M', 1_800_000],
    ['PT0S', 0],
    ['P1D', 86_400_000],
    ['P1DT2H3M4S', 93_784_000],
  ])('reads %j', (input, ms) => {
    expect(parseDuration(input)).toEqual({ ok: true, value: ms });
  });

  it.each([
    -1,
    1.5,
    Number.NaN,
    1e300,
    '-1s',
    '+1s',
    '1e3',
    '',
    ' 1s',
    '1s ',
    '1  s',
    's',
    '30分',
    '00',
    'P',
    'PT',
    'P1H',
    'PT1D',
    '1s'.repeat(101),
    `${'9'.repeat(12)}d${'9'.repeat(12)}d`,
    null,
    true,
    [],
    {},
  ])('rejects %j', (input) => {
    expect(outcome(parseDuration(input))).toBe('rejected');
  });

  it.each([
    [30, '30 has no unit; write "30s" or "30ms"'],
    ['30', '"30" has no unit; write 30s or 30ms'],
    ['1m30', '"1m30" ends with a number without unit; write 1m30s or 1m30ms'],
    ['30M', 'unit "M" is ambiguous; write 30m for minutes, or days for months'],
    ['30S', 'unknown unit "S"; write 30s'],
    ['2 Hours', 'unknown unit "Hours"; write 2hours'],
    ['1w', 'unknown unit "w"; write ms, s, m, h or d'],
    ['1h 3 fortnights', 'unknown unit "fortnights"; write ms, s, m, h or d'],
    ['1.5h', '"1.5h" has a fraction; write whole numbers, such as 1h30m or 500ms'],
    [
      'P1M',
      '"P1M" is not supported; of ISO 8601, write whole days, hours, minutes and seconds, such as P1DT12H',
    ],
  ])('names what is wrong with %j', (input, message) => {
    expect(parseDuration(input)).toEqual({ ok: false, message });
  });

  it('reads back what formatDuration writes', () => {
    for (const ms of [0, 1, 999, 1_000, 61_001, 5_400_000, 90_061_001]) {
      expect(parseDuration(formatDuration(ms))).toEqual({ ok: true, value: ms });
    }
  });
});

describe('parseInstant', () => {
  it.each([
    ['2030-01-31T09:00:00+08:00', '2030-01-31T01:00:00.000Z'],
    ['2030-01-31T09:00:00Z', '2030-01-31T09:00:00.000Z'],
    ['2030-01-31T09:00Z', '2030-01-31T09:00:00.000Z'],
    ['2030-01-31T09:00:00.12Z', '2030-01-31T09:00:00.120Z'],
    ['2030-01-31T09:00:00.1234Z', '2030-01-31T09:00:00.124Z'],
    [1_900_000_000_000, '2030-03-17T17:46:40.000Z'],
    ['1900000000000', '2030-03-17T17:46:40.000Z'],
  ])('reads %j', (input, text) => {
    expect(formatInstant(Number(outcome(parseInstant(input))))).toBe(text);
  });

  it('instant: a blank stands for a plus in a query only', () => {
    expect(outcome(parseInstant('2030-01-31T09:00:00 08:00', true))).toBe(Date.UTC(2030, 0, 31, 1));
    expect(outcome(parseInstant('2030-01-31T09:00:00 08:00'))).toBe('rejected');
  });

  it.each([
    '1900000000',
    1_900_000_000,
    '2030-02-30T00:00:00Z',
    '2030-01-31',
    '2030-01-31T09:00:00',
    'tomorrow',
    '',
    null,
    -1,
    1.5,
  ])('rejects %j', (input) => {
    expect(outcome(parseInstant(input))).toBe('rejected');
  });
});
