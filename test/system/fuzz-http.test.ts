// Runs the HTTP fuzzer on a real daemon for a short time.
import { expect, it } from 'vitest';
import { fuzzConfig, fuzzHttp } from '../../scripts/fuzz-http.ts';
import { startDaemon } from '../support/daemon.ts';

it('fuzz: 1,000 random and damaged requests cause no failure and no death', async () => {
  const daemon = await startDaemon({ config: fuzzConfig });
  const report = await fuzzHttp(daemon.url, 3, 20_260_103, { requestsMin: 1_000, patienceMs: 3_000 });
  expect(report.failures).toEqual([]);
  // Without these replies the generator would not test the handlers.
  for (const status of [200, 201, 400, 404, 409])
    expect(report.statuses[status] ?? 0, `${status}`).toBeGreaterThan(0);
  expect(report.requests).toBeGreaterThanOrEqual(1_000);
  // An idle server has about 80 MiB; a leak of one body per request would add far more.
  expect(Math.max(...report.rssBytes)).toBeLessThan(400 * 2 ** 20);
  // Jobs of the fuzzer die, or are reserved while their topic is removed, and dq logs both.
  const held = 'notifier: jobs of an unknown topic are held';
  const errors = daemon
    .log('error')
    .filter(({ source, message }) => source !== 'dead jobs' && message !== held);
  expect(errors).toEqual([]);
  expect((await daemon.api('GET', '/livez')).status).toBe(200);
  expect(await daemon.stop()).toBe(0);
});
