import { expect, it } from 'vitest';
import { ClockWarnings, isNearlyFull } from '../../src/store/redis/client/server-watch.ts';

const name = 'redis://10.0.0.1:6379';
const sentence = (server: string, difference: string) =>
  `the clock of Redis at ${server} is ${difference} the clock of this machine: synchronise both (chrony, systemd-timesyncd)`;

it('clock warnings: more than 2 s ahead or behind, with server and difference', () => {
  const of = (aheadMs: number) => new ClockWarnings().of(name, [{ node: '', aheadMs }]);
  for (const near of [0, 1_999, -1_999, 2_000]) expect(of(near)).toEqual([]);
  expect(of(2_001)).toEqual([sentence(name, '2s ahead of')]);
  expect(of(-34_560_000_400)).toEqual([sentence(name, '400d behind')]);
});

it('clock warnings: name the differing nodes of a Cluster', () => {
  const warnings = new ClockWarnings().of(name, [
    { node: '10.0.0.1:7000', aheadMs: 5_000 },
    { node: '10.0.0.1:7001', aheadMs: 0 },
    { node: '10.0.0.1:7002', aheadMs: -65_000 },
  ]);
  expect(warnings).toEqual([
    sentence('10.0.0.1:7000', '5s ahead of'),
    sentence('10.0.0.1:7002', '1m5s behind'),
  ]);
});

it('clock warnings: a difference drifting around the limit is one warning', () => {
  const warnings = new ClockWarnings();
  const of = (aheadMs: number) => warnings.of(name, [{ node: '', aheadMs }]);
  for (const drift of [2_600, 1_900, 2_400, 3_100, 1_100 + 900])
    expect(of(drift)).toEqual([sentence(name, '3s ahead of')]);
  expect(of(999)).toEqual([]);
  expect(of(1_900)).toEqual([]);
  expect(of(60_000)).toEqual([sentence(name, '1m ahead of')]);
  expect(of(62_000)).toEqual([sentence(name, '1m2s ahead of')]);
});

const info = (used: number, max: number) =>
  `# Memory\r\nused_memory:${used}\r\nused_memory_rss:1\r\nmaxmemory:${max}\r\n`;

it.each([
  [899, 1_000, false],
  [901, 1_000, true],
  [2_000, 1_000, true],
  [2_000, 0, false],
])('memory: %d bytes of %d, nearly full %s', (used, max, full) => {
  expect(isNearlyFull(info(used, max))).toBe(full);
});

it('memory: a server without values in INFO is not full', () => {
  expect(isNearlyFull('')).toBe(false);
});
