// How the room of a notifier is divided among reserves that are under way at once.
import { describe, expect, it } from 'vitest';
import type { ReservedJob } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import { type Free, isSpent, type Share, Shares } from '../../src/notifier/shares.ts';

const free = (slots: number, others: number, topics: Readonly<Record<string, number>> = {}): Free => ({
  slots,
  others: { room: others, leaseMs: 1 },
  topics: new Map(Object.entries(topics).map(([name, room]) => [name, { room, leaseMs: 1 }])),
});
const jobs = (topic: string, count: number) =>
  Array.from({ length: count }, () => ({ topic }) as ReservedJob);
const numbers = (share: Share | null) =>
  share && {
    slots: share.slots,
    others: share.others.room,
    a: share.topics.get('a')?.room,
    short: share.isShort,
  };

describe('shares', () => {
  it('of one partition are all there is, as it is', () => {
    const all = free(10, 5, { a: 2 });
    const share = new Shares().take(all, 250, false, 0);
    expect(numbers(share)).toEqual({ slots: 10, others: 5, a: 2, short: false });
    expect(share?.topics).toBe(all.topics);
  });

  it('of several are half of what is left, the last one undivided, and then none until one comes back', () => {
    const shares = new Shares();
    const take = () => shares.take(free(6, 5, { a: 2 }), 250, true, 0);
    const first = take();
    expect(numbers(first)).toEqual({ slots: 3, others: 3, a: 1, short: false });
    expect(numbers(take())).toEqual({ slots: 2, others: 1, a: 1, short: false });
    expect(numbers(take())).toEqual({ slots: 1, others: 1, a: 0, short: true });
    expect(take()).toBeNull();
    shares.end(first as Share);
    expect(numbers(take())).toEqual({ slots: 2, others: 2, a: 1, short: false });
  });

  it('never exceed together what is free, whatever topics each one names', () => {
    let seed = 7;
    const draw = (below: number) => {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
      return (seed >>> 8) % below;
    };
    for (let round = 0; round < 300; round += 1) {
      const shares = new Shares();
      const others = 1 + draw(8);
      const rooms = { a: draw(8), b: draw(8) };
      const taken: Share[] = [];
      for (let n = 0; n < 12; n += 1) {
        // A topic whose room is that of the others need not be named.
        const named = Object.entries(rooms).filter(([, room]) => room !== others || draw(2) === 0);
        const share = shares.take(free(20, others, Object.fromEntries(named)), 1 + draw(9), true, 0);
        if (share !== null) taken.push(share);
        if (taken.length > 0 && draw(3) === 0) shares.end(taken.splice(draw(taken.length), 1)[0] as Share);
        const sum = (of: (share: Share) => number) => taken.reduce((total, each) => total + of(each), 0);
        expect(sum(({ slots }) => slots)).toBeLessThanOrEqual(20);
        for (const [name, room] of [...Object.entries(rooms), ['c', others] as const])
          expect(
            sum((each) => Math.min(each.slots, (each.topics.get(name) ?? each.others).room)),
          ).toBeLessThanOrEqual(room);
      }
    }
  });

  it('are kept for a while; what comes later than that has the room that is left', () => {
    const shares = new Shares();
    const late = shares.take(free(4, 4), 250, true, 0) as Share;
    expect(shares.take(free(4, 1), 250, true, limits.shareMs - 1)).toBeNull();
    expect(numbers(shares.take(free(4, 1), 250, true, limits.shareMs))).toMatchObject({
      slots: 2,
      others: 1,
    });
    const brought = jobs('t', 3);
    expect(shares.fitting(late, brought, () => free(4, 3), limits.shareMs - 1)).toBeNull();
    // One is promised to the other, and one runs.
    expect(shares.fitting(late, brought, () => free(4, 3), limits.shareMs)?.size).toBe(2);
    expect(shares.fitting(late, brought, () => free(3, 3), limits.shareMs)?.size).toBe(1);
  });

  it('are spent where all of them was brought, or all of a topic', () => {
    const share = new Shares().take(free(20, 6, { a: 4 }), 250, true, 0) as Share;
    expect(isSpent(share, jobs('a', 1))).toBe(false);
    expect(isSpent(share, jobs('a', 2))).toBe(true);
    expect(isSpent(share, jobs('b', 2))).toBe(false);
    expect(isSpent(share, [...jobs('a', 1), ...jobs('b', 3)])).toBe(true);
    const whole = new Shares().take(free(1, 1), 250, false, 0) as Share;
    expect(isSpent(whole, jobs('a', 1))).toBe(false);
  });
});
