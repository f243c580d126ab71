import { expect, it } from 'vitest';
import { isNearlyFull } from '../../src/store/redis/client/server-watch.ts';

const info = (used: number, max: number) =>
  `# Memory\r\nused_memory:${used}\r\nused_memory_rss:1\r\nmaxmemory:${max}\r\n`;

it.each([
  [899, 1_000, false],
  [901, 1_000, true],
  [2_000, 1_000, true],
  [2_000, 0, false],
])('%d bytes of %d: nearly full %s', (used, max, full) => {
  expect(isNearlyFull(info(used, max))).toBe(full);
});

it('a server without values in INFO is not full', () => {
  expect(isNearlyFull('')).toBe(false);
});
