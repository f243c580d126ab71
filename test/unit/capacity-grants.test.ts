// How the free capacity of a notifier is divided among simultaneous reserves.
import { describe, expect, it, vi } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import type { ReservedJob } from '../../src/core/job.ts';
import { CapacityBase, LayeredCapacities } from '../../src/core/layered-capacities.ts';
import {
  type CapacityGrant,
  CapacityGrants,
  type FreeCapacity,
  isUsedUp,
} from '../../src/notifier/capacity-grants.ts';
import { notifierLimits } from '../../src/notifier/limits.ts';

type Numbers = Readonly<Record<string, number>>;
const capacitiesOf = (numbers: Numbers) =>
  new Map(Object.entries(numbers).map(([name, room]) => [name, { room, leaseMs: 1 }]));
const noBase = new CapacityBase(new Map());
const free = (slots: number, others: number, topics: Numbers = {}, base = noBase): FreeCapacity => ({
  slots,
  others: { room: others, leaseMs: 1 },
  topics: new LayeredCapacities(base, capacitiesOf(topics)),
});
const jobs = (topic: string, count: number) =>
  Array.from({ length: count }, () => ({ topic }) as ReservedJob);
const sizesOf = (grant: CapacityGrant | null) =>
  grant && [
    grant.slots,
    ...['a', 'b', 'c', 'd'].map((name) => (grant.topics.get(name) ?? grant.others).room),
  ];
const numbers = (grant: CapacityGrant | null) =>
  grant && {
    slots: grant.slots,
    others: grant.others.room,
    a: grant.topics.get('a')?.room,
    short: grant.isShort,
  };

describe('capacity grants', () => {
  it('a single partition is granted everything', () => {
    const all = free(10, 5, { a: 2 });
    const grant = new CapacityGrants().grant(all, 250, false, 0);
    expect(numbers(grant)).toEqual({ slots: 10, others: 5, a: 2, short: false });
    expect(grant?.topics).toBe(all.topics);
  });

  it('each of several partitions is granted half of the rest', () => {
    const grants = new CapacityGrants();
    const take = () => grants.grant(free(6, 5, { a: 2 }), 250, true, 0);
    const first = take();
    expect(numbers(first)).toEqual({ slots: 3, others: 3, a: 1, short: false });
    expect(numbers(take())).toEqual({ slots: 2, others: 1, a: 1, short: false });
    expect(numbers(take())).toEqual({ slots: 1, others: 1, a: 0, short: true });
    expect(take()).toBeNull();
    grants.end(first as CapacityGrant);
    expect(numbers(take())).toEqual({ slots: 2, others: 2, a: 1, short: false });
  });

  it('copies no topic of the base', () => {
    const base = new CapacityBase(new Map([['b', { room: 0, leaseMs: 1 }], ...capacitiesOf({ c: 5, d: 5 })]));
    const looks = vi.spyOn(base.topics, 'keys');
    const entries = vi.spyOn(base.topics, 'entries');
    const grants = new CapacityGrants();
    const take = (over: Numbers) => grants.grant(free(20, 8, over, base), 250, true, 0) as CapacityGrant;
    const capacitiesIn = ({ topics }: CapacityGrant) =>
      ['a', 'b', 'c', 'd'].map((name) => topics.get(name)?.room);
    expect(capacitiesIn(take({ a: 2, d: 2 }))).toEqual([1, 0, 3, 1]);
    // The second request does not name d: it has the base capacity less the first one's promise.
    expect(capacitiesIn(take({ a: 2 }))).toEqual([1, 0, 1, 2]);
    expect(looks.mock.calls.length + entries.mock.calls.length).toBe(0);
  });

  it('grants together never exceed the free capacity', () => {
    const dice = new Dice(7);
    const draw = (below: number) => dice.below(below);
    for (let round = 0; round < 100; round += 1) {
      const grants = new CapacityGrants();
      const named = { grants: new CapacityGrants(), taken: [] as CapacityGrant[] };
      const others = 1 + draw(8);
      const capacities: Numbers = { a: draw(8), b: draw(8), d: draw(8) };
      // Some topics have no capacity in a base, as restricted ones; others are absent from it.
      const bases = [noBase, capacities, { a: 0, b: draw(8) }, { d: capacities['d'] as number }].map(
        (base) => (base instanceof CapacityBase ? base : new CapacityBase(capacitiesOf(base))),
      );
      const taken: CapacityGrant[] = [];
      for (let n = 0; n < 12; n += 1) {
        const base = bases[draw(bases.length)] as CapacityBase;
        // A topic with the base capacity, or that of the others, need not be named.
        const over = Object.entries(capacities).filter(
          ([name, room]) => room !== (base.topics.get(name)?.room ?? others) || draw(2) === 0,
        );
        const asked = free(20, others, Object.fromEntries(over), base);
        const most = 1 + draw(9);
        const grant = grants.grant(asked, most, true, 0);
        const twin = named.grants.grant(free(20, others, capacities), most, true, 0);
        expect(sizesOf(grant)).toEqual(sizesOf(twin));
        if (grant !== null && twin !== null) {
          taken.push(grant);
          named.taken.push(twin);
        }
        if (taken.length > 0 && draw(3) === 0) {
          const which = draw(taken.length);
          grants.end(taken.splice(which, 1)[0] as CapacityGrant);
          named.grants.end(named.taken.splice(which, 1)[0] as CapacityGrant);
        }
        const sum = (of: (grant: CapacityGrant) => number) =>
          taken.reduce((total, each) => total + of(each), 0);
        expect(sum(({ slots }) => slots)).toBeLessThanOrEqual(20);
        for (const [name, room] of [...Object.entries(capacities), ['c', others] as const])
          expect(
            sum((each) => Math.min(each.slots, (each.topics.get(name) ?? each.others).room)),
          ).toBeLessThanOrEqual(room);
      }
    }
  });

  it('a late answer gets the capacity that is left', () => {
    const grants = new CapacityGrants();
    const late = grants.grant(free(4, 4), 250, true, 0) as CapacityGrant;
    expect(grants.grant(free(4, 1), 250, true, notifierLimits.grantMs - 1)).toBeNull();
    expect(numbers(grants.grant(free(4, 1), 250, true, notifierLimits.grantMs))).toMatchObject({
      slots: 2,
      others: 1,
    });
    const brought = jobs('t', 3);
    expect(grants.fitting(late, brought, () => free(4, 3), notifierLimits.grantMs - 1)).toBeNull();
    // One is promised to the other, and one runs.
    expect(grants.fitting(late, brought, () => free(4, 3), notifierLimits.grantMs)?.size).toBe(2);
    expect(grants.fitting(late, brought, () => free(3, 3), notifierLimits.grantMs)?.size).toBe(1);
  });

  it('a grant is used up by all of its slots, or by all of a topic', () => {
    const grant = new CapacityGrants().grant(free(20, 6, { a: 4 }), 250, true, 0) as CapacityGrant;
    expect(isUsedUp(grant, jobs('a', 1))).toBe(false);
    expect(isUsedUp(grant, jobs('a', 2))).toBe(true);
    expect(isUsedUp(grant, jobs('b', 2))).toBe(false);
    expect(isUsedUp(grant, [...jobs('a', 1), ...jobs('b', 3)])).toBe(true);
    const whole = new CapacityGrants().grant(free(1, 1), 250, false, 0) as CapacityGrant;
    expect(isUsedUp(whole, jobs('a', 1))).toBe(false);
  });
});
