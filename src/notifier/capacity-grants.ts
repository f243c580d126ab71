// Divides the free capacity of a notifier among the partitions that it asks at the same time. The jobs that
// one reserve may bring are granted to it until its answer.
// Invariants: running calls and grants together never exceed the slots, nor the capacity of a topic; a
// partition that does not answer keeps its grant from the others for notifierLimits.grantMs and no longer.
//
// Each reserve is granted half of the rest, not all: others that ask in the same moment get something, also
// where the first one never answers. A reserve that uses up its grant asks again at once, so halves cost
// one more call and no time. A single partition is granted everything.

import type { ReservedJob } from '../core/job.ts';
import { LayeredCapacities, type TopicCapacity } from '../core/layered-capacities.ts';
import { notifierLimits } from './limits.ts';

/** The capacity of a notifier beside its running calls. */
export interface FreeCapacity {
  readonly slots: number;
  /** of each topic that `topics` does not name */
  readonly others: TopicCapacity;
  readonly topics: LayeredCapacities;
}

export interface CapacityGrant extends FreeCapacity {
  /** the rest is left to other partitions */
  readonly isDivided: boolean;
  /** other grants hold capacity that this reserve could have used */
  readonly isShort: boolean;
  /** monotonicNow() from which on its capacity is free for others */
  readonly keptUntil: number;
}

export class CapacityGrants {
  readonly #open = new Set<CapacityGrant>();
  /** open ones from before topicsChanged() */
  readonly #outdated = new Set<CapacityGrant>();

  /** Reserves without an answer, late ones too. */
  get open(): number {
    return this.#open.size;
  }

  /** null: everything is granted to others. `slotsMax`: of one reserve. `isDivided`: others may ask
   *  meanwhile. */
  grant(free: FreeCapacity, slotsMax: number, isDivided: boolean, nowMs: number): CapacityGrant | null {
    const left = this.#left(free, nowMs);
    if (left.slots <= 0 || left.others.room < Math.min(1, free.others.room)) return null;
    const grant: CapacityGrant = {
      slots: Math.min(slotsMax, isDivided ? halfOf(left.slots) : left.slots),
      others: isDivided ? halved(left.others) : left.others,
      topics: isDivided ? halvedOf(left.topics) : left.topics,
      isDivided,
      isShort: left !== free && isShort(left, free),
      keptUntil: nowMs + notifierLimits.grantMs,
    };
    this.#open.add(grant);
    return grant;
  }

  /** A topic came, changed or went, or its capacity fell otherwise than by its calls. */
  topicsChanged(): void {
    for (const grant of this.#open) this.#outdated.add(grant);
  }

  /** The reserve was answered, or has failed. */
  end(grant: CapacityGrant): void {
    this.#open.delete(grant);
    this.#outdated.delete(grant);
  }

  /** The jobs of an answer that there is capacity for; null: all. A late answer may find its capacity
   *  granted to others. After such a change a topic may have less capacity than when it was granted, or than
   *  an unknown one. */
  fitting(
    grant: CapacityGrant,
    jobs: readonly ReservedJob[],
    freeNow: () => FreeCapacity,
    nowMs: number,
  ): ReadonlySet<ReservedJob> | null {
    const mayBeGranted = grant.isDivided && nowMs >= grant.keptUntil;
    if (jobs.length === 0 || (!mayBeGranted && !this.#outdated.has(grant))) return null;
    // Its own part is free for it.
    this.#open.delete(grant);
    const left = this.#left(freeNow(), nowMs);
    const counts = new Map<string, number>();
    const fitting = new Set<ReservedJob>();
    for (const job of jobs) {
      const before = counts.get(job.topic) ?? 0;
      if (fitting.size >= left.slots || before >= capacityOf(left, job.topic).room) continue;
      counts.set(job.topic, before + 1);
      fitting.add(job);
    }
    return fitting;
  }

  /** Free capacity less the grants that are kept. */
  #left(free: FreeCapacity, nowMs: number): FreeCapacity {
    const kept = [...this.#open].filter(({ keptUntil }) => nowMs < keptUntil);
    if (kept.length === 0) return free;
    const less = (room: number, of: (grant: CapacityGrant) => number) =>
      kept.reduce((left, grant) => Math.max(0, left - Math.min(grant.slots, of(grant))), room);
    const lessOf = (
      { room, leaseMs }: TopicCapacity,
      of: (grant: CapacityGrant) => TopicCapacity,
    ): TopicCapacity => ({ room: less(room, (grant) => of(grant).room), leaseMs });
    const { base, over } = free.topics;
    // A base topic that no over-layer names has in each grant the part of its size, or the capacity of
    // others.
    const parts = new Map(
      [...base.sizes].map((size) => [
        size,
        less(size, ({ topics, others }) => (topics.base === base ? topics.partOf(size) : others.room)),
      ]),
    );
    const names = new Set(over.keys());
    // Where the over-layer alone has capacity, the names of the grants do not matter.
    if (free.others.room > 0 || base.topics.size > 0)
      for (const { topics } of kept) for (const name of topics.namesBeside(base)) names.add(name);
    return {
      slots: free.slots - kept.reduce((sum, { slots }) => sum + slots, 0),
      others: lessOf(free.others, ({ others }) => others),
      topics: new LayeredCapacities(
        base,
        new Map(
          [...names].map((name) => [
            name,
            lessOf(capacityOf(free, name), (grant) => capacityOf(grant, name)),
          ]),
        ),
        parts,
      ),
    };
  }
}

/** The answer used up its part of the free slots, or of some topic: more jobs may be ready. */
export function isUsedUp(grant: CapacityGrant, jobs: readonly ReservedJob[]): boolean {
  if (!grant.isDivided) return false;
  if (jobs.length >= grant.slots) return true;
  const counts = new Map<string, number>();
  for (const { topic } of jobs) counts.set(topic, (counts.get(topic) ?? 0) + 1);
  return [...counts].some(([topic, n]) => n >= capacityOf(grant, topic).room);
}

function halvedOf(topics: LayeredCapacities): LayeredCapacities {
  const { base } = topics;
  const over = new Map([...topics.over].map(([name, capacity]) => [name, halved(capacity)]));
  return new LayeredCapacities(
    base,
    over,
    new Map([...base.sizes].map((size) => [size, halfOf(topics.partOf(size))])),
  );
}

/** Whether a topic with capacity has nothing left. Counts every size of the base, although an over-layer
 *  may name all topics of that size. */
function isShort(left: FreeCapacity, free: FreeCapacity): boolean {
  for (const size of free.topics.base.sizes) if (left.topics.partOf(size) <= 0) return true;
  for (const [name, { room }] of left.topics.over)
    if (room <= 0 && capacityOf(free, name).room > 0) return true;
  return false;
}

const capacityOf = (free: FreeCapacity, topic: string): TopicCapacity =>
  free.topics.get(topic) ?? free.others;
const halfOf = (n: number) => Math.ceil(n / 2);
const halved = ({ room, leaseMs }: TopicCapacity): TopicCapacity => ({ room: halfOf(room), leaseMs });
