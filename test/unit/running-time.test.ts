// Of a pause, afterRunning counts one slice.
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { afterRunning } from '../../src/runtime/timeout.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('calls once after its time; refresh starts again, clear ends it', () => {
  let calls = 0;
  const timer = afterRunning(1_000, () => {
    calls += 1;
  });
  vi.advanceTimersByTime(999);
  timer.refresh();
  vi.advanceTimersByTime(999);
  expect(calls).toBe(0);
  vi.advanceTimersByTime(1);
  expect(calls).toBe(1);
  timer.refresh();
  expect(vi.getTimerCount()).toBe(0);
  const cleared = afterRunning(1_000, () => {
    calls += 1;
  });
  cleared.clear();
  cleared.refresh();
  vi.advanceTimersByTime(10_000);
  expect(calls).toBe(1);
});

it('a pause of any length is one slice', async () => {
  vi.useRealTimers();
  let isOver = false;
  const from = performance.now();
  const over = new Promise<void>((resolve) => {
    afterRunning(200, () => {
      isOver = true;
      resolve();
    });
  });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
  // Between two turns the timers that are due run.
  await turn();
  await turn();
  expect(isOver).toBe(false);
  await over;
  expect(performance.now() - from).toBeGreaterThan(550);
});
