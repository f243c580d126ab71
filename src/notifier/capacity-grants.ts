// How the room of a notifier is divided among the partitions that it asks at the same time. What one reserve may bring is promised
// to it until it is answered; nobody else is told of it meanwhile.
// Invariants: what runs and what is promised never exceed the slots, nor the room of a topic; a partition that does not answer
// keeps its promise from the others for notifierLimits.shareMs and no longer.
//
// Each reserve is promised half of what is left, not all: then the others, asked in the same moment, have something to ask with, also
// where the first one stands still. Who has had its whole share asks again at once, so halves cost a further call and no time.
// With one partition there is nobody to divide with, and it is told all there is.

import type { ReservedJob } from '../core/job.ts';
import { LayeredCapacities, type TopicCapacity } from '../core/layered-capacities.ts';
import { notifierLimits } from './limits.ts';

/** What a notifier has room for beside the calls that run. */
export interface Free {
  readonly slots: number;
  readonly others: TopicCapacity;
  readonly topics: LayeredCapacities;
}

export interface Share extends Free {
  /** it is not all that was free */
  readonly isDivided: boolean;
  /** of another partition's promise there is something that this one could have used */
  readonly isShort: boolean;
  /** performance.now() from which on its room is no longer kept for it */
  readonly keptUntil: number;
}

export class CapacityGrants {
  readonly #underWay = new Set<Share>();

  /** Reserves without an answer, late ones too. */
  get underWay(): number {
    return this.#underWay.size;
  }

  /** null: all there is has been promised to others. `slotsMax`: of one reserve. `divided`: others may ask meanwhile. */
  take(free: Free, slotsMax: number, divided: boolean, nowMs: number): Share | null {
    const left = this.#left(free, nowMs);
    if (left.slots <= 0 || left.others.room < Math.min(1, free.others.room)) return null;
    const share: Share = {
      slots: Math.min(slotsMax, divided ? halfOf(left.slots) : left.slots),
      others: divided ? halved(left.others) : left.others,
      topics: divided ? halvedOf(left.topics) : left.topics,
      isDivided: divided,
      isShort: left !== free && isShort(left, free),
      keptUntil: nowMs + notifierLimits.shareMs,
    };
    this.#underWay.add(share);
    return share;
  }

  /** It has been answered, or never will be. */
  end(share: Share): void {
    this.#underWay.delete(share);
  }

  /** What of it has room; null: all. Less than all where the room was given to others before it came. */
  fitting(
    share: Share,
    jobs: readonly ReservedJob[],
    freeNow: () => Free,
    nowMs: number,
  ): ReadonlySet<ReservedJob> | null {
    if (!share.isDivided || nowMs < share.keptUntil) return null;
    const free = freeNow();
    const left = this.#left(free, nowMs);
    const brought = new Map<string, number>();
    const fitting = new Set<ReservedJob>();
    for (const job of jobs) {
      const before = brought.get(job.topic) ?? 0;
      if (fitting.size >= left.slots || before >= roomOf(left, job.topic).room) continue;
      brought.set(job.topic, before + 1);
      fitting.add(job);
    }
    return fitting;
  }

  /** Less what is promised. */
  #left(free: Free, nowMs: number): Free {
    const promised = [...this.#underWay].filter(({ keptUntil }) => nowMs < keptUntil);
    if (promised.length === 0) return free;
    const less = (room: number, of: (share: Share) => number) =>
      promised.reduce((left, share) => Math.max(0, left - Math.min(share.slots, of(share))), room);
    const lessOf = (
      { room, leaseMs }: TopicCapacity,
      of: (share: Share) => TopicCapacity,
    ): TopicCapacity => ({
      ...{ room: less(room, (share) => of(share).room), leaseMs },
    });
    const { base, over } = free.topics;
    // A topic of the base that no over-layer names has in each share the part of its size, or that of others.
    const parts = new Map(
      [...base.sizes].map((size) => [
        size,
        less(size, ({ topics, others }) => (topics.base === base ? topics.partOf(size) : others.room)),
      ]),
    );
    const names = new Set(over.keys());
    // Where nothing but the over-layer has room, the names of the shares are of no use.
    if (free.others.room > 0 || base.topics.size > 0)
      for (const { topics } of promised) for (const name of topics.namesBeside(base)) names.add(name);
    return {
      slots: free.slots - promised.reduce((sum, { slots }) => sum + slots, 0),
      others: lessOf(free.others, ({ others }) => others),
      topics: new LayeredCapacities(
        base,
        new Map([...names].map((name) => [name, lessOf(roomOf(free, name), (share) => roomOf(share, name))])),
        parts,
      ),
    };
  }
}

/** It brought all that its part of what was free allowed, of everything or of some topic: there may be more. */
export function isSpent(share: Share, jobs: readonly ReservedJob[]): boolean {
  if (!share.isDivided) return false;
  if (jobs.length >= share.slots) return true;
  const brought = new Map<string, number>();
  for (const { topic } of jobs) brought.set(topic, (brought.get(topic) ?? 0) + 1);
  return [...brought].some(([topic, n]) => n >= roomOf(share, topic).room);
}

function halvedOf(topics: LayeredCapacities): LayeredCapacities {
  const { base } = topics;
  const over = new Map([...topics.over].map(([name, room]) => [name, halved(room)]));
  return new LayeredCapacities(
    base,
    over,
    new Map([...base.sizes].map((size) => [size, halfOf(topics.partOf(size))])),
  );
}

/** Of a topic that has room none is left. All topics of a size count where the base has one: an over-layer may name it. */
function isShort(left: Free, free: Free): boolean {
  for (const size of free.topics.base.sizes) if (left.topics.partOf(size) <= 0) return true;
  for (const [name, { room }] of left.topics.over) if (room <= 0 && roomOf(free, name).room > 0) return true;
  return false;
}

const roomOf = (free: Free, topic: string): TopicCapacity => free.topics.get(topic) ?? free.others;
const halfOf = (n: number) => Math.ceil(n / 2);
const halved = ({ room, leaseMs }: TopicCapacity): TopicCapacity => ({ room: halfOf(room), leaseMs });
