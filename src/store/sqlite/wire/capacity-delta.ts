// The rooms of a notifier's topics, told once per connection and then by what has changed: 10,000 of them in every reserve would
// cost the owner more than the jobs. Both ends stand here. Invariant: a reserve runs with exactly the rooms that it was asked
// with, or the owner says that it does not know them (a new connection, a lost frame) and is told all of them.

import { isSameCapacity, LayeredCapacities, type TopicCapacities } from '../../../core/layered-capacities.ts';
import type { TopicCapacity } from '../../../ports/job-store.ts';
import type { RingViews } from '../engine/ring.ts';
import { sqliteLimits } from '../limits.ts';

export interface RoomChanges {
  /** of the table that they change; 0 = of none, they are all there are; `aside` = they are all there are for one reserve, and the
   *  table stays as it is */
  readonly base: number;
  /** of the table with them */
  readonly number: number;
  /** null = the topic is not named any more */
  readonly rooms: readonly (readonly [topic: string, room: TopicCapacity | null])[];
}

/** As `base` and `number`. An owner of an earlier version has no table of this number: it answers that it does not know the rooms. */
const aside = -1;

/** Few rooms, of a reserve without room for others. Asked for between requests with the table, their difference to it would be as
 *  large as the table. */
export function roomsAside(topics: TopicCapacities): RoomChanges {
  return { base: aside, number: aside, rooms: [...topics] };
}

/** At the client: what the owner has been told. */
export class RoomsSent {
  #rooms = LayeredCapacities.none;
  #base = 0;
  #number = 0;

  /** Looks at the over-layers alone where both reserves share a base. */
  changesTo(topics: TopicCapacities): RoomChanges {
    const asked = LayeredCapacities.of(topics);
    const rooms: [string, TopicCapacity | null][] = [];
    for (const topic of asked.changedSince(this.#rooms)) {
      const room = asked.get(topic);
      if (!isSameCapacity(this.#rooms.get(topic), room)) rooms.push([topic, room ?? null]);
    }
    this.#rooms = asked;
    const base = this.#base;
    if (base === 0 || rooms.length > 0) this.#number += 1;
    this.#base = this.#number;
    return { base, number: this.#number, rooms };
  }

  /** The owner does not know them: all of them are told the next time. */
  forget(): void {
    this.#rooms = LayeredCapacities.none;
    this.#base = 0;
  }
}

/** At the owner, for one connection. */
export class RoomsKnown {
  readonly #rooms = new Map<string, TopicCapacity>();
  #number = 0;
  #views: RingViews | null = null;

  /** The rings past the topics without room, for a reserve with these rooms. `make`: those of the ledger that serves it. */
  views(make: () => RingViews): RingViews {
    this.#views ??= make();
    return this.#views;
  }

  /** The rooms with these changes, until the next call; null: they change a table that is not here. A repeat changes nothing. */
  with({ base, number, rooms }: RoomChanges): ReadonlyMap<string, TopicCapacity> | null {
    if (base === aside) return onlyThese(rooms);
    if (number === this.#number) return this.#rooms;
    if (base === 0) {
      this.#rooms.clear();
      this.#views = null;
    } else if (base !== this.#number || this.#rooms.size + rooms.length > sqliteLimits.roomTableMax)
      return null;
    for (const [topic, room] of rooms) {
      if (room === null) this.#rooms.delete(topic);
      else this.#rooms.set(topic, room);
      // Removed topics get the default capacity.
      if (room === null || room.room > 0) this.#views?.gained(topic);
    }
    this.#number = number;
    return this.#rooms;
  }
}

function onlyThese(rooms: RoomChanges['rooms']): ReadonlyMap<string, TopicCapacity> {
  const all = new Map<string, TopicCapacity>();
  for (const [topic, room] of rooms) if (room !== null) all.set(topic, room);
  return all;
}
