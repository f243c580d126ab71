// How long suspects take, and what they leave to the others, on a clock that the test turns.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { PoisonIsolation } from '../../src/notifier/poison-isolation.ts';
import type { Held } from '../../src/notifier/settler.ts';

const held = (topic: string, strikes: number) => ({ job: { topic, strikes } }) as Held;
const suspect = held('suspect', limits.strikesAlone);

interface Scene {
  readonly suspects: number;
  /** of one suspect's call */
  readonly callMs: number;
  /** until what runs of the others has ended; null = there are no others */
  readonly othersMs: number | null;
}

/** What a notifier does with it. Answers the whole time, and how much of it others could be reserved. */
function play({ suspects, callMs, othersMs }: Scene) {
  const alone = new PoisonIsolation();
  const others = othersMs !== null;
  let [now, openMs, left, longest] = [0, 0, suspects, 0];
  let quietFrom: number | null = null;
  while (left > 0) {
    const before = alone.quiet;
    const seen = alone.skipped(now).has('suspect') ? [] : [suspect];
    const chosen = alone.choose(seen, others, now);
    if (chosen === null) {
      // Others flow until the recess is over.
      const pauseMs = alone.recessMs(now);
      if (quietFrom !== null) longest = Math.max(longest, now - quietFrom);
      quietFrom = null;
      if (!others) expect(pauseMs).toBe(0);
      openMs += pauseMs;
      now += pauseMs;
      continue;
    }
    if (!before) {
      quietFrom = now;
      now += othersMs ?? 0;
    }
    alone.called(now);
    now += callMs;
    left -= 1;
    alone.settled(now);
  }
  return { now, openMs, longest };
}

describe('suspects', () => {
  it('that nobody else waits for take their own time and no pause', () => {
    expect(play({ suspects: 10_000, callMs: 10, othersMs: null })).toMatchObject({ now: 100_000, openMs: 0 });
  });

  it.each([
    { callMs: 10, othersMs: 0 },
    { callMs: 10, othersMs: 50 },
    { callMs: 1, othersMs: 5_000 },
    { callMs: 700, othersMs: 20 },
  ])(
    'beside others take four times theirs at most, and leave half of the time: %j',
    ({ callMs, othersMs }) => {
      const { now, openMs, longest } = play({ suspects: 10_000, callMs, othersMs });
      expect(now).toBeLessThanOrEqual(10_000 * callMs * 4 + 4 * othersMs + notifierLimits.silenceMs);
      expect(openMs).toBeGreaterThanOrEqual(now / 2 - 2 * othersMs - notifierLimits.silenceMs - callMs);
      expect(longest).toBeLessThanOrEqual(othersMs + Math.max(othersMs, notifierLimits.silenceMs) + callMs);
    },
  );

  it('of other topics that come in a recess wait with them; in the next silence they are called', () => {
    const alone = new PoisonIsolation();
    expect(alone.choose([suspect], true, 0)).toBe(suspect);
    alone.called(0);
    alone.settled(500);
    expect([...alone.skipped(500)]).toEqual(['suspect']);
    expect(alone.choose([held('second', 3)], true, 600)).toBeNull();
    expect([...alone.skipped(700)].sort()).toEqual(['second', 'suspect']);
    expect(alone.recessMs(700)).toBe(300);
    expect([...alone.skipped(1_000)]).toEqual([]);
    expect(alone.choose([suspect], false, 1_000)).toBe(suspect);
  });

  it('that are gone when their silence has come leave the others what it took', () => {
    const alone = new PoisonIsolation();
    alone.choose([suspect], true, 0);
    alone.released();
    expect(alone.quiet).toBe(true);
    expect(alone.choose([], true, 100)).toBeNull();
    expect(alone.quiet).toBe(false);
    expect(alone.choose([suspect], true, 150)).toBeNull();
    expect(alone.recessMs(150)).toBe(50);
  });
});
