// Tests how long isolated jobs take, and the time left for others. The test sets the clock.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { PoisonIsolation } from '../../src/notifier/poison-isolation.ts';
import type { Held } from '../../src/notifier/settler.ts';

const held = (topic: string, strikes: number) => ({ job: { topic, strikes } }) as Held;
const candidate = held('strikes', limits.strikesIsolated);

interface Scene {
  readonly candidates: number;
  /** of the call of one candidate */
  readonly callMs: number;
  /** until the running calls of others have ended; null = no others run */
  readonly othersMs: number | null;
}

/** Acts as the notifier. Returns the whole time, the part open to others, and the longest isolation, in
 *  ms. */
function play({ candidates, callMs, othersMs }: Scene) {
  const isolation = new PoisonIsolation();
  const others = othersMs !== null;
  let [now, openMs, left, longest] = [0, 0, candidates, 0];
  let activeFrom: number | null = null;
  while (left > 0) {
    const before = isolation.isActive;
    const seen = isolation.skipped(now).has('strikes') ? [] : [candidate];
    const chosen = isolation.choose(seen, others, now);
    if (chosen === null) {
      // Others run until the pause is over.
      const pauseMs = isolation.pauseMs(now);
      if (activeFrom !== null) longest = Math.max(longest, now - activeFrom);
      activeFrom = null;
      if (!others) expect(pauseMs).toBe(0);
      openMs += pauseMs;
      now += pauseMs;
      continue;
    }
    if (!before) {
      activeFrom = now;
      now += othersMs ?? 0;
    }
    isolation.called(now);
    now += callMs;
    left -= 1;
    isolation.settled(now);
  }
  return { now, openMs, longest };
}

describe('poison isolation', () => {
  it('without other jobs: there is no pause', () => {
    expect(play({ candidates: 10_000, callMs: 10, othersMs: null })).toMatchObject({
      now: 100_000,
      openMs: 0,
    });
  });

  it.each([
    { callMs: 10, othersMs: 0 },
    { callMs: 10, othersMs: 50 },
    { callMs: 1, othersMs: 5_000 },
    { callMs: 700, othersMs: 20 },
  ])('beside other jobs: takes at most four times its own time: %j', ({ callMs, othersMs }) => {
    const { now, openMs, longest } = play({ candidates: 10_000, callMs, othersMs });
    expect(now).toBeLessThanOrEqual(10_000 * callMs * 4 + 4 * othersMs + notifierLimits.isolationMs);
    expect(openMs).toBeGreaterThanOrEqual(now / 2 - 2 * othersMs - notifierLimits.isolationMs - callMs);
    expect(longest).toBeLessThanOrEqual(othersMs + Math.max(othersMs, notifierLimits.isolationMs) + callMs);
  });

  it('candidates of other topics wait for the end of the pause', () => {
    const isolation = new PoisonIsolation();
    expect(isolation.choose([candidate], true, 0)).toBe(candidate);
    isolation.called(0);
    isolation.settled(500);
    expect([...isolation.skipped(500)]).toEqual(['strikes']);
    expect(isolation.choose([held('second', 3)], true, 600)).toBeNull();
    expect([...isolation.skipped(700)].sort()).toEqual(['second', 'strikes']);
    expect(isolation.pauseMs(700)).toBe(300);
    expect([...isolation.skipped(1_000)]).toEqual([]);
    expect(isolation.choose([candidate], false, 1_000)).toBe(candidate);
  });

  it('a candidate that is gone ends the isolation and starts the pause', () => {
    const isolation = new PoisonIsolation();
    isolation.choose([candidate], true, 0);
    isolation.released();
    expect(isolation.isActive).toBe(true);
    expect(isolation.choose([], true, 100)).toBeNull();
    expect(isolation.isActive).toBe(false);
    expect(isolation.choose([candidate], true, 150)).toBeNull();
    expect(isolation.pauseMs(150)).toBe(50);
  });
});
