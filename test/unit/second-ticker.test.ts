// Tests the beat of a process: everything that waits for it wakes together, and it leaves no timer.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SecondTicker } from '../../src/runtime/second-ticker.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

it('calls everything that waits at one moment, once a second', async () => {
  const ticker = new SecondTicker();
  const times: number[] = [];
  const note = () => void times.push(performance.now());
  const stop = ticker.each(note);
  ticker.once(() => note());
  await vi.advanceTimersByTimeAsync(300);
  ticker.once(() => note());
  const cancel = ticker.once(() => expect.fail('it was cancelled'));
  cancel();
  await vi.advanceTimersByTimeAsync(3_000 - 300);
  stop();
  const moments = [...new Set(times)];
  expect(times.length).toBe(moments.length + 2);
  expect(moments.slice(1).map((at, i) => at - (moments[i] ?? 0))).toEqual([1_000, 1_000]);
  expect(vi.getTimerCount()).toBe(0);
});

it('beats once a second where each timer is early, as those of Node are', async () => {
  const { setTimeout } = globalThis;
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(((done: () => void, ms: number) =>
    setTimeout(done, ms - 2)) as typeof setTimeout);
  const ticker = new SecondTicker();
  const times: number[] = [];
  const stop = ticker.each(() => void times.push(performance.now()));
  await vi.advanceTimersByTimeAsync(10_000);
  stop();
  expect(times.slice(1).map((at, i) => Math.round((at - (times[i] ?? 0)) / 1_000))).toEqual(Array(9).fill(1));
});

it('leaves no timer where all that waited was cancelled', () => {
  const ticker = new SecondTicker();
  const cancels = [ticker.once(() => {}), ticker.once(() => {}), ticker.each(() => {})];
  expect(vi.getTimerCount()).toBe(1);
  for (const cancel of cancels) cancel();
  expect(vi.getTimerCount()).toBe(0);
});
