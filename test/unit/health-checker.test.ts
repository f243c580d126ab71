// Tests how the lateness of jobs is asked for.
import { expect, it, onTestFinished, vi } from 'vitest';
import { silentLog } from '../../src/telemetry/log.ts';
import { HealthChecker, type HealthCheckerOptions } from '../../src/upkeep/health-checker.ts';
import { until } from '../support/until.ts';

type Counts = HealthCheckerOptions['admin']['counts'];

it('lateness: the work of a check grows with the number of topics, not with its square', async () => {
  const names = Array.from({ length: 2_000 }, (_, i) => `t${i}`);
  const one = { delayed: 0, ready: 1, reserved: 0, dead: 0 };
  const topics = Object.fromEntries(names.map((name) => [name, one]));
  let asked = 0;
  const counts: Counts = async () => {
    asked += 1;
    return { topics, oldestOverdueMs: null, oldest: [] };
  };
  const isPulled = (name: string) => Number(name.slice(1)) % 2 === 0;
  const times = { everyMs: 1, afterMs: 0, lateMs: 60_000, crashWindowMs: 60_000 };
  const checker = new HealthChecker({
    admin: { counts, health: async () => ({ ok: true, durability: '', warnings: [] }) },
    topics: { get: (name: string) => ({ state: 'active', delivery: isPulled(name) ? 'pull' : 'http' }) },
    incidents: { open: () => [], begin: async () => {}, end: async () => {} },
    metrics: { judged: () => {}, stored: () => {} },
    series: { stored: () => {} },
    ...{ partitions: () => 1, log: silentLog, times, pullLateMs: Number.POSITIVE_INFINITY },
  } as unknown as HealthCheckerOptions);
  let compared = 0;
  const includes = Array.prototype.includes;
  const spy = vi.spyOn(Array.prototype, 'includes').mockImplementation(function (this: unknown[], ...args) {
    if (this.length >= names.length / 4) compared += this.length;
    return includes.apply(this, args);
  });
  onTestFinished(() => spy.mockRestore());
  onTestFinished(() => checker.drain(2_000));
  await checker.start();
  await until('some checks', () => asked >= 5);
  expect(compared).toBeLessThan(names.length);
});
