// The rooms as the owner has them against the rooms that were asked with: the same, or the owner says that it does not know.
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import type { Room } from '../../src/store/job-store.ts';
import { RoomsKnown, RoomsSent, roomsAside } from '../../src/store/sqlite/room-table.ts';

const room = (n: number): Room => ({ room: n, leaseMs: 70_000 });
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
    expect(told * step.length).toBe(limits.roomTableMax);
  });
});
