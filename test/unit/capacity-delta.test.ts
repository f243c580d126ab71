// Tests that the owner reserves with exactly the requested capacities, or reports an unknown base.
import { describe, expect, it, vi } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import { CapacityBase, LayeredCapacities } from '../../src/core/layered-capacities.ts';
import type { TopicCapacity } from '../../src/ports/job-store.ts';
import { sqliteLimits } from '../../src/store/sqlite/limits.ts';
import { KnownCapacities, oneTimeDelta, SentCapacities } from '../../src/store/sqlite/wire/capacity-delta.ts';

const room = (n: number): TopicCapacity => ({ room: n, leaseMs: 70_000 });
const capacities = (of: Record<string, number>) =>
  new Map(Object.entries(of).map(([topic, n]) => [topic, room(n)]));

describe('capacity delta', () => {
  it('sends the whole table once, then changes', () => {
    const [sent, known] = [new SentCapacities(), new KnownCapacities()];
    const send = (of: Record<string, number>) => {
      const delta = sent.deltaTo(capacities(of));
      return [known.with(delta), delta.capacities.map(([topic]) => topic)];
    };
    expect(send({ a: 1, b: 2, c: 3 })).toEqual([capacities({ a: 1, b: 2, c: 3 }), ['a', 'b', 'c']]);
    expect(send({ a: 1, b: 2, c: 3 })).toEqual([capacities({ a: 1, b: 2, c: 3 }), []]);
    expect(send({ a: 1, b: 5, d: 4 })).toEqual([capacities({ a: 1, b: 5, d: 4 }), ['b', 'd', 'c']]);
    expect(send({})).toEqual([capacities({}), ['a', 'b', 'd']]);
    expect(send({ a: 1 })).toEqual([capacities({ a: 1 }), ['a']]);
  });

  it('a repeated delta, as after a repeated transaction, changes nothing', () => {
    const [sent, known] = [new SentCapacities(), new KnownCapacities()];
    known.with(sent.deltaTo(capacities({ a: 1 })));
    const delta = sent.deltaTo(capacities({ b: 2 }));
    expect(known.with(delta)).toEqual(capacities({ b: 2 }));
    expect(known.with(delta)).toEqual(capacities({ b: 2 }));
  });

  it('is unknown to another owner, and after a lost change, until resent', () => {
    const sent = new SentCapacities();
    let known = new KnownCapacities();
    const send = (of: Record<string, number>) => known.with(sent.deltaTo(capacities(of)));
    send({ a: 1 });
    known = new KnownCapacities();
    expect(send({ a: 1 })).toBeNull();
    expect(send({ a: 1, b: 2 })).toBeNull();
    sent.forget();
    expect(send({ a: 1, b: 2 })).toEqual(capacities({ a: 1, b: 2 }));
    sent.deltaTo(capacities({ a: 9 }));
    expect(send({ a: 9, c: 1 })).toBeNull();
    sent.forget();
    expect(send({ a: 9 })).toEqual(capacities({ a: 9 }));
  });

  it('a one-time delta changes no table', () => {
    const [sent, known] = [new SentCapacities(), new KnownCapacities()];
    expect(known.with(oneTimeDelta(capacities({ z: 1 })))).toEqual(capacities({ z: 1 }));
    known.with(sent.deltaTo(capacities({ a: 1, b: 2 })));
    expect(known.with(oneTimeDelta(capacities({ b: 1 })))).toEqual(capacities({ b: 1 }));
    expect(known.with(oneTimeDelta(capacities({})))).toEqual(capacities({}));
    const delta = sent.deltaTo(capacities({ a: 1, b: 3 }));
    expect(delta.capacities).toHaveLength(1);
    expect(known.with(delta)).toEqual(capacities({ a: 1, b: 3 }));
  });

  it('a topic that leaves the upper layer gets the base capacity', () => {
    const [sent, known] = [new SentCapacities(), new KnownCapacities()];
    const base = new CapacityBase(capacities({ closed: 0, open: 5 }));
    const send = (over: Record<string, number>) => {
      const delta = sent.deltaTo(new LayeredCapacities(base, capacities(over)));
      return [known.with(delta), delta.capacities.map(([topic]) => topic)];
    };
    expect(send({})).toEqual([capacities({ closed: 0, open: 5 }), ['closed', 'open']]);
    const over = { closed: 1, open: 0, fresh: 2 };
    expect(send(over)).toEqual([capacities(over), ['closed', 'open', 'fresh']]);
    expect(send({ open: 0 })).toEqual([capacities({ closed: 0, open: 0 }), ['closed', 'fresh']]);
    expect(send({})).toEqual([capacities({ closed: 0, open: 5 }), ['open']]);
  });

  it('layers: the owner has the requested capacities through any change', () => {
    const seeded = new Dice(7);
    const dice = (n: number) => seeded.below(n);
    const some = () =>
      capacities(
        Object.fromEntries(['a', 'b', 'c', 'd', 'e'].filter(() => dice(2) === 0).map((t) => [t, dice(3)])),
      );
    for (let round = 0; round < 200; round += 1) {
      const sent = new SentCapacities();
      let known = new KnownCapacities();
      let base = new CapacityBase(some());
      for (let step = 0; step < 30; step += 1) {
        if (dice(6) === 0) base = new CapacityBase(some());
        const over = some();
        const asked = dice(8) === 0 ? over : new LayeredCapacities(base, over);
        if (dice(10) === 0) known = new KnownCapacities();
        // A lost frame.
        if (dice(10) === 0) sent.deltaTo(new LayeredCapacities(base, some()));
        let at = known.with(sent.deltaTo(asked));
        if (at === null) {
          sent.forget();
          at = known.with(sent.deltaTo(asked));
        }
        expect(new Map(at ?? [])).toEqual(new Map(asked));
      }
    }
  });

  it('a base that was sent is not compared again', () => {
    const sent = new SentCapacities();
    const base = new CapacityBase(capacities({ a: 0, b: 0 }));
    sent.deltaTo(new LayeredCapacities(base, new Map()));
    const looks = [vi.spyOn(base.topics, 'keys'), vi.spyOn(base.topics, 'entries')];
    expect(sent.deltaTo(new LayeredCapacities(base, capacities({ a: 1 }))).capacities).toEqual([
      ['a', room(1)],
    ]);
    expect(sent.deltaTo(new LayeredCapacities(base, new Map())).capacities).toEqual([['a', room(0)]]);
    expect(looks.flatMap(({ mock }) => mock.calls)).toEqual([]);
  });

  it('a client that only adds is bounded', () => {
    const known = new KnownCapacities();
    const step = Array.from({ length: 50_000 }, (_, n) => n);
    let tables = 0;
    const send = (base: number) =>
      known.with({
        base,
        number: base + 1,
        capacities: step.map((n) => [`${base} ${n}`, room(1)] as const),
      });
    while (tables < 10 && send(tables) !== null) tables += 1;
    expect(tables * step.length).toBe(sqliteLimits.capacityTableMax);
  });
});
