import { expect, it } from 'vitest';
import { fuzzConfig, fuzzHttp } from '../../scripts/fuzz-http.ts';
import { startDaemon } from '../support/daemon.ts';

it('three seconds, and a thousand, of random and damaged requests: no failure, no death, no other error logged', {
  timeout: 180_000,
}, async () => {
  const daemon = await startDaemon({ config: fuzzConfig });
  const report = await fuzzHttp(daemon.url, 3, 20_260_103, 1_000);
  expect(report.failures).toEqual([]);
  // The generator reaches what is behind the door, or the silence above means nothing.
  for (const status of [200, 201, 400, 404, 409])
    expect(report.statuses[status], `${status}`).toBeGreaterThan(0);
  expect(report.requests).toBeGreaterThanOrEqual(1_000);
  // An idle server has some 80 MiB; what a leak of a body a request would leave is far more.
  expect(Math.max(...report.rssBytes)).toBeLessThan(400 * 2 ** 20);
  // Some of what it pushes dies, or is reserved as its topic goes, and is told of.
  const held = 'notifier: jobs of an unknown topic are held';
  const errors = daemon
    .log('error')
    .filter(({ source, message }) => source !== 'dead jobs' && message !== held);
  expect(errors).toEqual([]);
  expect((await daemon.api('GET', '/livez')).status).toBe(200);
  expect(await daemon.stop()).toBe(0);
});
