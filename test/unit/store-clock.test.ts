// Tests the storage clock of a process whose questions are answered late.
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { StoreClock } from '../../src/process/store-clock.ts';
import { systemSource, useTimeSource } from '../../src/runtime/time.ts';

/** wall clock at the start, epoch ms */
const startMs = 1_800_000_000_000;
let monotonicMs = 0;
let wallMs = startMs;
/** The storage clock minus the clock of this machine. */
let aheadMs = 0;
/** before and after the store reads its clock */
let [beforeMs, afterMs] = [0, 0];

const pass = (ms: number) => {
  monotonicMs += ms;
  wallMs += ms;
};
const storeNow = () => wallMs + aheadMs;

function clockOf() {
  const clock = new StoreClock(async () => {
    pass(beforeMs);
    const now = storeNow();
    pass(afterMs);
    return now;
  });
  const off = async () => (await clock.read()) - storeNow();
  return { clock, off };
}

beforeEach(() => {
  [monotonicMs, wallMs, aheadMs, beforeMs, afterMs] = [5_000, startMs, 0, 0, 0];
  useTimeSource({ ...systemSource, now: () => monotonicMs, wall: () => wallMs });
  onTestFinished(() => useTimeSource(null));
});

describe('store clock: an answer that took 32 s', () => {
  it.each([
    ['began before the store stood still', 0, 32_000],
    ['ended after it', 32_000, 0],
  ])('does not move the known time: it %s', async (_, before, after) => {
    aheadMs = 400_000;
    const { off } = clockOf();
    expect(await off()).toBe(0);
    [beforeMs, afterMs] = [before, after];
    expect(await off()).toBe(0);
  });

  it('as the first one leaves the clock of this machine in force', async () => {
    const { off } = clockOf();
    beforeMs = 32_000;
    expect(await off()).toBe(0);
  });

  it('corrects a known time that it does not allow, by at most half of it', async () => {
    const { off } = clockOf();
    expect(await off()).toBe(0);
    aheadMs = 400_000;
    beforeMs = 32_000;
    expect(Math.abs(await off())).toBe(16_000);
    beforeMs = 0;
    expect(await off()).toBe(0);
  });
});

it('store clock: a step of this machine during a question is followed by another question', async () => {
  let stepMs = 60_000;
  const clock = new StoreClock(async () => {
    const now = wallMs;
    wallMs += stepMs;
    stepMs = 0;
    return now;
  });
  expect((await clock.known()) - wallMs).toBe(-60_000);
  expect((await clock.known()) - wallMs).toBe(0);
});
