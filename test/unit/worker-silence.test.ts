import { expect, it } from 'vitest';
import { masterLimits } from '../../src/master/limits.ts';
import { silentTicksOf, WorkerSilence } from '../../src/master/workers/worker-process.ts';

it('worker silence: is reported after its ticks, once', () => {
  const silence = new WorkerSilence('notifier');
  const silent = Array.from({ length: 2 * masterLimits.silentTicks }, () => silence.tick());
  expect(silent.indexOf(true)).toBe(masterLimits.silentTicks - 1);
  expect(silent.filter(Boolean)).toHaveLength(1);
});

it('worker silence: a message restarts the count', () => {
  const silence = new WorkerSilence('server');
  for (let round = 0; round < 5; round += 1) {
    for (let n = 1; n < masterLimits.silentTicks; n += 1) expect(silence.tick()).toBe(false);
    silence.end();
  }
});

it('worker silence: dq-store has more time', () => {
  expect([silentTicksOf('notifier'), silentTicksOf('store')]).toEqual([
    masterLimits.silentTicks,
    masterLimits.silentStoreTicks,
  ]);
});
