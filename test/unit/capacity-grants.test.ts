// How the room of a notifier is divided among reserves that are under way at once.
import { describe, expect, it, vi } from 'vitest';
import type { ReservedJob } from '../../src/core/job.ts';
import { CapacityBase, LayeredCapacities } from '../../src/core/layered-capacities.ts';
import { CapacityGrants, type Free, isSpent, type Share } from '../../src/notifier/capacity-grants.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';

type Numbers = Readonly<Record<string, number>>;
const roomsOf = (numbers: Numbers) =>
  new Map(Object.entries(numbers).map(([name, room]) => [name, { room, leaseMs: 1 }]));
const noBase = new CapacityBase(new Map());
const free = (slots: number, others: number, topics: Numbers = {}, base = noBase): Free => ({
  slots,
  others: { room: others, leaseMs: 1 },
  topics: new LayeredCapacities(base, roomsOf(topics)),
});
const jobs = (topic: string, count: number) =>
  Array.from({ length: count }, () => ({ topic }) as ReservedJob);
const sizesOf = (share: Share | null) =>
  share && [
    share.slots,
    ...['a', 'b', 'c', 'd'].map((name) => (share.topics.get(name) ?? share.others).room),
  ];
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
    const share = new CapacityGrants().take(all, 250, false, 0);
    expect(numbers(share)).toEqual({ slots: 10, others: 5, a: 2, short: false });
    expect(share?.topics).toBe(all.topics);
  });

  it('of several are half of what is left, the last one undivided, and then none until one comes back', () => {
    const shares = new CapacityGrants();
    const take = () => shares.take(free(6, 5, { a: 2 }), 250, true, 0);
    const first = take();
    expect(numbers(first)).toEqual({ slots: 3, others: 3, a: 1, short: false });
    expect(numbers(take())).toEqual({ slots: 2, others: 1, a: 1, short: false });
    expect(numbers(take())).toEqual({ slots: 1, others: 1, a: 0, short: true });
    expect(take()).toBeNull();
    shares.end(first as Share);
    expect(numbers(take())).toEqual({ slots: 2, others: 2, a: 1, short: false });
  });

  it('copy no topic of the base', () => {
    const base = new CapacityBase(new Map([['b', { room: 0, leaseMs: 1 }], ...roomsOf({ c: 5, d: 5 })]));
    const looks = vi.spyOn(base.topics, 'keys');
    const entries = vi.spyOn(base.topics, 'entries');
    const shares = new CapacityGrants();
    const take = (over: Numbers) => shares.take(free(20, 8, over, base), 250, true, 0) as Share;
    const roomOf = ({ topics }: Share) => ['a', 'b', 'c', 'd'].map((name) => topics.get(name)?.room);
    expect(roomOf(take({ a: 2, d: 2 }))).toEqual([1, 0, 3, 1]);
    // The second does not name d: it has the capacity of the base, less what the first was promised.
    expect(roomOf(take({ a: 2 }))).toEqual([1, 0, 1, 2]);
    expect(looks.mock.calls.length + entries.mock.calls.length).toBe(0);
  });

  it('never exceed together what is free, whatever topics each one names', () => {
    let seed = 7;
    const draw = (below: number) => {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
      return (seed >>> 16) % below;
    };
    for (let round = 0; round < 100; round += 1) {
      const shares = new CapacityGrants();
      const named = { shares: new CapacityGrants(), taken: [] as Share[] };
      const others = 1 + draw(8);
      const rooms: Numbers = { a: draw(8), b: draw(8), d: draw(8) };
      // Some topics have no capacity in a base, as restricted ones; others are absent from it.
      const bases = [noBase, rooms, { a: 0, b: draw(8) }, { d: rooms['d'] as number }].map((base) =>
        base instanceof CapacityBase ? base : new CapacityBase(roomsOf(base)),
      );
      const taken: Share[] = [];
      for (let n = 0; n < 12; n += 1) {
        const base = bases[draw(bases.length)] as CapacityBase;
        // A topic whose room is that of the base, or of the others, need not be named.
        const over = Object.entries(rooms).filter(
          ([name, room]) => room !== (base.topics.get(name)?.room ?? others) || draw(2) === 0,
        );
        const asked = free(20, others, Object.fromEntries(over), base);
        const most = 1 + draw(9);
        const share = shares.take(asked, most, true, 0);
        const twin = named.shares.take(free(20, others, rooms), most, true, 0);
        expect(sizesOf(share)).toEqual(sizesOf(twin));
        if (share !== null && twin !== null) {
          taken.push(share);
          named.taken.push(twin);
        }
        if (taken.length > 0 && draw(3) === 0) {
          const which = draw(taken.length);
          shares.end(taken.splice(which, 1)[0] as Share);
          named.shares.end(named.taken.splice(which, 1)[0] as Share);
        }
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
    const shares = new CapacityGrants();
    const late = shares.take(free(4, 4), 250, true, 0) as Share;
    expect(shares.take(free(4, 1), 250, true, notifierLimits.shareMs - 1)).toBeNull();
    expect(numbers(shares.take(free(4, 1), 250, true, notifierLimits.shareMs))).toMatchObject({
      slots: 2,
      others: 1,
    });
    const brought = jobs('t', 3);
    expect(shares.fitting(late, brought, () => free(4, 3), notifierLimits.shareMs - 1)).toBeNull();
    // One is promised to the other, and one runs.
    expect(shares.fitting(late, brought, () => free(4, 3), notifierLimits.shareMs)?.size).toBe(2);
    expect(shares.fitting(late, brought, () => free(3, 3), notifierLimits.shareMs)?.size).toBe(1);
  });

  it('are spent where all of them was brought, or all of a topic', () => {
    const share = new CapacityGrants().take(free(20, 6, { a: 4 }), 250, true, 0) as Share;
    expect(isSpent(share, jobs('a', 1))).toBe(false);
    expect(isSpent(share, jobs('a', 2))).toBe(true);
    expect(isSpent(share, jobs('b', 2))).toBe(false);
    expect(isSpent(share, [...jobs('a', 1), ...jobs('b', 3)])).toBe(true);
    const whole = new CapacityGrants().take(free(1, 1), 250, false, 0) as Share;
    expect(isSpent(whole, jobs('a', 1))).toBe(false);
  });
});
