import { describe, expect, it } from 'vitest';
import { formatDuration, formatInstant, parseDuration, parseInstant } from '../../src/core/duration.ts';

const outcome = <T>(parsed: { ok: boolean; value?: T }) => (parsed.ok ? parsed.value : 'refused');

describe('parseDuration', () => {
  it.each([
    [0, 0],
    [1500, 1500],
    ['1500', 1500],
    ['500ms', 500],
    ['30s', 30_000],
    ['10m', 600_000],
    ['1h30m', 5_400_000],
    ['3d', 259_200_000],
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
    '1.5s',
    '1e3',
    '',
    ' 1s',
    '1 s',
    '1w',
    's',
    '10S',
    null,
    true,
    [],
    {},
  ])('refuses %j', (input) => {
    expect(outcome(parseDuration(input))).toBe('refused');
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

  it('reads the blank that a query makes of a plus, in a query only', () => {
    expect(outcome(parseInstant('2030-01-31T09:00:00 08:00', true))).toBe(Date.UTC(2030, 0, 31, 1));
    expect(outcome(parseInstant('2030-01-31T09:00:00 08:00'))).toBe('refused');
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
  ])('refuses %j', (input) => {
    expect(outcome(parseInstant(input))).toBe('refused');
  });
});
