// Encodes the capacities of a notifier's topics: all of them once per connection, then only changes. 10,000
// capacities in every reserve would cost the owner more than the jobs. Both ends are in this file.
// Invariant: a reserve runs with exactly the requested capacities, or the owner answers that it does not know
// them (a new connection, a lost frame) and receives all of them.

import { isSameCapacity, LayeredCapacities, type TopicCapacities } from '../../../core/layered-capacities.ts';
import type { TopicCapacity } from '../../../ports/job-store.ts';
import type { RingViews } from '../engine/ring.ts';
import { sqliteLimits } from '../limits.ts';

export interface CapacityDelta {
  /** number of the table that the delta changes; 0: it is the whole table; `oneTime`: it is valid for one
   *  reserve, and the table stays unchanged */
  readonly base: number;
  /** number of the changed table */
  readonly number: number;
  /** null: the topic is not named any more */
  readonly capacities: readonly (readonly [topic: string, capacity: TopicCapacity | null])[];
}

/** As `base` and `number`. */
const oneTime = -1;

/** For a reserve of a few topics without capacity for others: between reserves that use the table, its
 *  difference to the table would be as large as the table. */
export function oneTimeDelta(topics: TopicCapacities): CapacityDelta {
  return { base: oneTime, number: oneTime, capacities: [...topics] };
}

/** At the client: what the owner knows. */
export class SentCapacities {
  #sent = LayeredCapacities.none;
  #base = 0;
  #number = 0;

  /** Compares only the upper layers where both reserves share a base. */
  deltaTo(topics: TopicCapacities): CapacityDelta {
    const wanted = LayeredCapacities.of(topics);
    const capacities: [string, TopicCapacity | null][] = [];
    for (const topic of wanted.changedSince(this.#sent)) {
      const capacity = wanted.get(topic);
      if (!isSameCapacity(this.#sent.get(topic), capacity)) capacities.push([topic, capacity ?? null]);
    }
    this.#sent = wanted;
    const base = this.#base;
    if (base === 0 || capacities.length > 0) this.#number += 1;
    this.#base = this.#number;
    return { base, number: this.#number, capacities };
  }

  /** The owner does not know the table: the next delta is the whole table. */
  forget(): void {
    this.#sent = LayeredCapacities.none;
    this.#base = 0;
  }
}

/** At the owner, for one connection. */
export class KnownCapacities {
  readonly #table = new Map<string, TopicCapacity>();
  #number = 0;
  #views: RingViews | null = null;

  /** Rings that skip topics without capacity in this table. `make` creates them. */
  views(make: () => RingViews): RingViews {
    this.#views ??= make();
    return this.#views;
  }

  /** The table after this delta, valid until the next call; null: unknown base. A repeat changes nothing. */
  with({ base, number, capacities }: CapacityDelta): ReadonlyMap<string, TopicCapacity> | null {
    if (base === oneTime) return mapOf(capacities);
    if (number === this.#number) return this.#table;
    if (base === 0) {
      this.#table.clear();
      this.#views = null;
    } else if (base !== this.#number || this.#table.size + capacities.length > sqliteLimits.capacityTableMax)
      return null;
    for (const [topic, capacity] of capacities) {
      if (capacity === null) this.#table.delete(topic);
      else this.#table.set(topic, capacity);
      // Removed topics get the default capacity.
      if (capacity === null || capacity.room > 0) this.#views?.gained(topic);
    }
    this.#number = number;
    return this.#table;
  }
}

function mapOf(capacities: CapacityDelta['capacities']): ReadonlyMap<string, TopicCapacity> {
  const all = new Map<string, TopicCapacity>();
  for (const [topic, capacity] of capacities) if (capacity !== null) all.set(topic, capacity);
  return all;
}
