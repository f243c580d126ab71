// The times of --since and --until.
import { expect, it } from 'vitest';
import { timeOf } from '../../src/cli/flags.ts';

const now = new Date(2030, 2, 1, 9, 30).getTime();

it.each([
  ['today', new Date(2030, 2, 1)],
  ['Yesterday', new Date(2030, 1, 28)],
  ['24h', new Date(now - 86_400_000)],
  ['1h30m', new Date(now - 5_400_000)],
  ['2030-01-31', new Date(2030, 0, 31)],
  ['2030-01-31T09:00', new Date(2030, 0, 31, 9)],
  ['2030-01-31 09:00:05', new Date(2030, 0, 31, 9, 0, 5)],
  ['2030-01-31T09:00:00+08:00', new Date('2030-01-31T01:00:00Z')],
  ['1893456000000', new Date('2030-01-01T00:00:00Z')],
] as const)('%s', (text, at) => {
  expect(timeOf(text, now)).toBe(at.getTime());
});

it.each(['noon', '', 'tomorrow', '2030-02-30', '2030-01-31T25:00', '24', '1893456000', '-1h'])(
  '%s is not a time',
  (text) => {
    expect(timeOf(text, now)).toBeNull();
  },
);
