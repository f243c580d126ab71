import { expect, it } from 'vitest';
import { hasNews } from '../../src/core/restore-news.ts';

const begun = Date.parse('2026-01-01T00:00:00Z');
const shipped = {
  kind: 'shipped',
  state: 'done',
  begunAt: new Date(begun).toISOString(),
  put: 0,
  removed: 0,
};

it.each([
  ['a comparison that found nothing', {}, 0, false],
  ['one that put jobs', { put: 1 }, 0, true],
  ['one that removed jobs', { removed: 1 }, 0, true],
  ['one that failed', { state: 'failed' }, 0, true],
  ['one that has just begun', { state: 'open' }, 59_000, false],
  ['one that waits', { state: 'open' }, 61_000, true],
  ['an old one that found nothing', {}, 61_000, false],
  ['a healing', { kind: 'heal' }, 0, true],
])('hasNews: %s', (_name, given, later, expected) => {
  expect(hasNews({ ...shipped, ...given }, begun + later)).toBe(expected);
});
