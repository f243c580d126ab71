import { expect, it } from 'vitest';
import type { OpenLog } from '../../src/telemetry/log.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { SwitchedLog } from '../../src/telemetry/open-log.ts';

it('switched log: keeps the count of dropped lines', async () => {
  const counts = [3, 0];
  let finish: () => void = () => {};
  const logOf = (n: number): OpenLog => ({
    ...silentLog,
    reopen() {},
    close: () => new Promise((resolve) => (finish = resolve)),
    dropped: () => counts[n] as number,
  });
  const log = new SwitchedLog(logOf(0));
  expect(log.dropped()).toBe(3);
  log.switchTo(logOf(1));
  expect(log.dropped()).toBe(3);
  counts[0] = 4;
  expect(log.dropped()).toBe(4);
  finish();
  await Promise.resolve();
  await Promise.resolve();
  counts[1] = 2;
  expect(log.dropped()).toBe(6);
});
