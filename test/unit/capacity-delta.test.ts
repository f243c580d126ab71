// The rooms as the owner has them against the rooms that were asked with: the same, or the owner says that it does not know.
import { describe, expect, it, vi } from 'vitest';
import { CapacityBase, LayeredCapacities } from '../../src/core/layered-capacities.ts';
import type { TopicCapacity } from '../../src/ports/job-store.ts';
import { sqliteLimits } from '../../src/store/sqlite/limits.ts';
import { RoomsKnown, RoomsSent, roomsAside } from '../../src/store/sqlite/wire/capacity-delta.ts';

const room = (n: number): TopicCapacity => ({ room: n, leaseMs: 70_000 });
const rooms = (of: Record<string, number>) =>
  new Map(Object.entries(of).map(([topic, n]) => [topic, room(n)]));

describe('rooms', () => {
  it('are told whole once, then by what changed', () => {
    const [sent, known] = [new RoomsSent(), new RoomsKnown()];
    const tell = (of: Record<string, number>) => {
      const changes = sent.changesTo(rooms(of));
      return [known.with(changes), changes.rooms.map(([topic]) => topic)];
    };
    expect(tell({ a: 1, b: 2, c: 3 })).toEqual([rooms({ a: 1, b: 2, c: 3 }), ['a', 'b', 'c']]);
    expect(tell({ a: 1, b: 2, c: 3 })).toEqual([rooms({ a: 1, b: 2, c: 3 }), []]);
    expect(tell({ a: 1, b: 5, d: 4 })).toEqual([rooms({ a: 1, b: 5, d: 4 }), ['b', 'd', 'c']]);
    expect(tell({})).toEqual([rooms({}), ['a', 'b', 'd']]);
    expect(tell({ a: 1 })).toEqual([rooms({ a: 1 }), ['a']]);
  });

  it('that are told twice, as a transaction that is run again does, are the same', () => {
    const [sent, known] = [new RoomsSent(), new RoomsKnown()];
    known.with(sent.changesTo(rooms({ a: 1 })));
    const changes = sent.changesTo(rooms({ b: 2 }));
    expect(known.with(changes)).toEqual(rooms({ b: 2 }));
    expect(known.with(changes)).toEqual(rooms({ b: 2 }));
  });

  it('are unknown to another owner, and after a change that never arrived, until all are told', () => {
    const sent = new RoomsSent();
    let known = new RoomsKnown();
    const tell = (of: Record<string, number>) => known.with(sent.changesTo(rooms(of)));
    tell({ a: 1 });
    known = new RoomsKnown();
    expect(tell({ a: 1 })).toBeNull();
    expect(tell({ a: 1, b: 2 })).toBeNull();
    sent.forget();
    expect(tell({ a: 1, b: 2 })).toEqual(rooms({ a: 1, b: 2 }));
    sent.changesTo(rooms({ a: 9 }));
    expect(tell({ a: 9, c: 1 })).toBeNull();
    sent.forget();
    expect(tell({ a: 9 })).toEqual(rooms({ a: 9 }));
  });

  it('of one reserve change no table', () => {
    const [sent, known] = [new RoomsSent(), new RoomsKnown()];
    expect(known.with(roomsAside(rooms({ z: 1 })))).toEqual(rooms({ z: 1 }));
    known.with(sent.changesTo(rooms({ a: 1, b: 2 })));
    expect(known.with(roomsAside(rooms({ b: 1 })))).toEqual(rooms({ b: 1 }));
    expect(known.with(roomsAside(rooms({})))).toEqual(rooms({}));
    const changes = sent.changesTo(rooms({ a: 1, b: 3 }));
    expect(changes.rooms).toHaveLength(1);
    expect(known.with(changes)).toEqual(rooms({ a: 1, b: 3 }));
  });

  it('of a topic that leaves the over-layer are those of the base again', () => {
    const [sent, known] = [new RoomsSent(), new RoomsKnown()];
    const base = new CapacityBase(rooms({ closed: 0, open: 5 }));
    const tell = (over: Record<string, number>) => {
      const changes = sent.changesTo(new LayeredCapacities(base, rooms(over)));
      return [known.with(changes), changes.rooms.map(([topic]) => topic)];
    };
    expect(tell({})).toEqual([rooms({ closed: 0, open: 5 }), ['closed', 'open']]);
    const over = { closed: 1, open: 0, fresh: 2 };
    expect(tell(over)).toEqual([rooms(over), ['closed', 'open', 'fresh']]);
    expect(tell({ open: 0 })).toEqual([rooms({ closed: 0, open: 0 }), ['closed', 'fresh']]);
    expect(tell({})).toEqual([rooms({ closed: 0, open: 5 }), ['open']]);
  });

  it('in layers are those that were asked with, whatever base, over-layer and owner follow', () => {
    const dice = (n: number) => Math.floor(Math.random() * n);
    const some = () =>
      rooms(
        Object.fromEntries(['a', 'b', 'c', 'd', 'e'].filter(() => dice(2) === 0).map((t) => [t, dice(3)])),
      );
    for (let round = 0; round < 200; round += 1) {
      const sent = new RoomsSent();
      let known = new RoomsKnown();
      let base = new CapacityBase(some());
      for (let step = 0; step < 30; step += 1) {
        if (dice(6) === 0) base = new CapacityBase(some());
        const over = some();
        const asked = dice(8) === 0 ? over : new LayeredCapacities(base, over);
        if (dice(10) === 0) known = new RoomsKnown();
        // A frame that is lost.
        if (dice(10) === 0) sent.changesTo(new LayeredCapacities(base, some()));
        let at = known.with(sent.changesTo(asked));
        if (at === null) {
          sent.forget();
          at = known.with(sent.changesTo(asked));
        }
        expect(new Map(at ?? [])).toEqual(new Map(asked));
      }
    }
  });

  it('of a base that was told are not looked at again', () => {
    const sent = new RoomsSent();
    const base = new CapacityBase(rooms({ a: 0, b: 0 }));
    sent.changesTo(new LayeredCapacities(base, new Map()));
    const looks = [vi.spyOn(base.topics, 'keys'), vi.spyOn(base.topics, 'entries')];
    expect(sent.changesTo(new LayeredCapacities(base, rooms({ a: 1 }))).rooms).toEqual([['a', room(1)]]);
    expect(sent.changesTo(new LayeredCapacities(base, new Map())).rooms).toEqual([['a', room(0)]]);
    expect(looks.flatMap(({ mock }) => mock.calls)).toEqual([]);
  });

  it('of a client that only adds are not kept without end', () => {
    const known = new RoomsKnown();
    const step = Array.from({ length: 50_000 }, (_, n) => n);
    let told = 0;
    const tell = (base: number) =>
      known.with({
        base,
        number: base + 1,
        rooms: step.map((n) => [`${base} ${n}`, room(1)] as const),
      });
    while (told < 10 && tell(told) !== null) told += 1;
    expect(told * step.length).toBe(sqliteLimits.roomTableMax);
  });
});
