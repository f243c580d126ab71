// Runs the reserve script: in mode `ring` while at most capacitiesMax topics have their own capacity, else
// with the topics that have ready jobs and capacity, taken from a copy of the rings. Owns the copies.
// Invariants: both modes reserve the same jobs; an outdated copy delays a topic by at most
// redisLimits.ringCopyMs.

import { isPulled } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import { inBatches } from '../../../core/lists.ts';
import type { Partition, Reserved, ReserveRequest } from '../../../ports/job-store.ts';
import { redisLimits } from '../limits.ts';
import { readReserved } from '../scripts/records.ts';
import type { Arg, Shards } from '../shard/shards.ts';
import { type Listing, RingCopy } from './ring-copy.ts';

/** Kinds of replies (lua/reserve.lua). */
const someRemain = 1;
const quarantined = 2;
const unnamedTopics = 3;
const olderThanKnown = 4;
const atLeaseLimit = 5;
const heldByHealing = 6;

interface Answer {
  readonly kind: number;
  /** named topics, by their number from 1, that have left the known part of a ring */
  readonly gone: readonly (readonly [number: number, priority: number])[];
  /** topics after the known turns */
  readonly news: readonly (readonly [priority: number, topic: string, turn: number])[];
  /** named topics that got a new turn, in the order of the turns */
  readonly served: readonly (readonly [number: number, priority: number, turn: number])[];
  readonly jobs: Reserved['jobs'];
  readonly now: Reserved['now'];
  /** why none was reserved, as in Reserved */
  readonly why: Pick<Reserved, 'atLeaseLimit' | 'isHealing'>;
}

export class ReserveCalls {
  readonly #shards: Shards;
  readonly #capacitiesMax: number;
  readonly #copies = new Map<Partition, RingCopy>();

  constructor(shards: Shards, capacitiesMax: number) {
    this.#shards = shards;
    this.#capacitiesMax = capacitiesMax;
  }

  reserve(partition: Partition, request: ReserveRequest): Promise<Reserved> {
    if (hasManyTopics(request, this.#capacitiesMax)) return this.#fromList(partition, request);
    if (this.#copies.get(partition)?.isOld === true) this.#copies.delete(partition);
    return this.#fromRings(partition, request);
  }

  async #ask(partition: Partition, request: ReserveRequest, mode: readonly Arg[]): Promise<Answer> {
    const { owner, max, others, topics } = request;
    const [kind, gone, news, served, now = null, ...rest] = (await this.#shards.run('reserve', partition, [
      owner.instance,
      owner.incarnation,
      Math.min(max, limits.reserveMax),
      limits.reserveBytesMax,
      others.room,
      Math.ceil(others.leaseMs),
      ...mode,
    ])) as [number, number[], (number | Buffer)[], number[], number?, ...unknown[]];
    const isFull = kind === atLeaseLimit;
    const [named, text, ...apart] = (isFull ? [] : rest) as [(number | Buffer)[]?, Buffer?, ...Buffer[]];
    const topicsOf = new Map(
      inBatches(named ?? [], 2).map(([no, bytes]) => {
        const name = String(bytes);
        return [Number(no), { name, leaseMs: (topics.get(name) ?? others).leaseMs }];
      }),
    );
    return {
      kind,
      gone: inBatches(gone, 2).map(([number, priority]) => [Number(number), Number(priority)]),
      news: inBatches(news, 3).map(([priority, topic, turn]) => [
        Number(priority),
        String(topic),
        Number(turn),
      ]),
      served: inBatches(served, 3).map(([number, priority, turn]) => [
        ...([Number(number), Number(priority), Number(turn)] as const),
      ]),
      jobs: text === undefined ? [] : readReserved(text, apart, topicsOf, isPulled(owner)),
      now: isFull ? null : now,
      why: {
        ...(isFull && { atLeaseLimit: [...new Set(rest.map(String))] }),
        ...(kind === heldByHealing && { isHealing: true }),
      },
    };
  }

  async #fromRings(partition: Partition, request: ReserveRequest): Promise<Reserved> {
    const capacities = [...request.topics].flatMap(([topic, { room, leaseMs }]) => [
      topic,
      room,
      Math.ceil(leaseMs),
      '',
    ]);
    let answer = await this.#ask(partition, request, ['ring', ...capacities]);
    // The script reserved no job because it quarantined the next ones: run it again at once.
    for (let again = 1; answer.kind === quarantined && again < redisLimits.reservesAgainMax; again += 1)
      answer = await this.#ask(partition, request, ['ring', ...capacities]);
    const { kind, jobs, now, why } = answer;
    return { jobs, more: kind === someRemain || kind === quarantined, now, ...why };
  }

  #copyOf(partition: Partition): RingCopy {
    const known = this.#copies.get(partition);
    const losses = this.#shards.lossesOf(partition);
    if (known !== undefined && !known.isOld && known.losses === losses) return known;
    // Old copies go, also those of removed shards.
    for (const [each, { isOld }] of this.#copies) if (isOld) this.#copies.delete(each);
    const copy = new RingCopy(losses);
    this.#copies.set(partition, copy);
    return copy;
  }

  async #fromList(partition: Partition, request: ReserveRequest): Promise<Reserved> {
    let copy = this.#copyOf(partition);
    let quarantines = 0;
    /** the rings were read to their end, or ringPiecesMax times */
    let isKnown = false;
    for (let asked = 1; asked <= redisLimits.ringPiecesMax; asked += 1) {
      const listing = copy.list(request);
      const answer = await this.#ask(partition, request, listArgs(listing, isKnown));
      const { kind, gone, jobs, now, why } = answer;
      if (kind === olderThanKnown) {
        this.#copies.delete(partition);
        copy = this.#copyOf(partition);
        isKnown = false;
        continue;
      }
      const isUnread = follow(copy, listing, answer);
      const isCut = gone.length > 0 && listing.cut.includes(true);
      if (kind === unnamedTopics) {
        isKnown = !isUnread || asked + 1 === redisLimits.ringPiecesMax;
        continue;
      }
      quarantines += kind === quarantined ? 1 : 0;
      if (kind === quarantined && quarantines < redisLimits.reservesAgainMax) continue;
      // The named topics may be gone, and others with capacity were not named.
      if (jobs.length === 0 && (isUnread || isCut)) continue;
      return { jobs, more: kind === someRemain || kind === quarantined || isUnread || isCut, now, ...why };
    }
    return { jobs: [], more: true, now: null };
  }
}

/** Brings an answer into the copy. Returns whether there may be more topics than it named. */
function follow(copy: RingCopy, listing: Listing, { gone, news, served, jobs }: Answer): boolean {
  const nameOf = (number: number) => listing.named[number - 1]?.topic ?? '';
  // After a full piece there may be more topics.
  const isFull = [0, 1, 2].map(
    (ring) => news.filter(([priority]) => priority === ring).length >= redisLimits.ringPiece,
  );
  for (const [priority, topic, turn] of news) copy.learn(priority, topic, turn);
  for (const [number, priority] of gone) copy.forget(priority, nameOf(number));
  // Unknown topics may stand before it: a later piece brings it after them.
  for (const [number, priority, turn] of served)
    if (isFull[priority] || listing.cut[priority]) copy.forget(priority, nameOf(number));
    else copy.learn(priority, nameOf(number), turn);
  for (const { topic } of jobs) copy.served(topic);
  return isFull.includes(true);
}

/** Whether the request has capacities of too many topics to send them all. */
export function hasManyTopics({ topics }: ReserveRequest, capacitiesMax: number): boolean {
  return topics.size > capacitiesMax;
}

function listArgs({ named, known, cut }: Listing, isKnown: boolean): readonly Arg[] {
  return [
    isKnown ? 'listed' : 'look',
    ...known,
    ...cut.map((isEnough) => (isEnough ? 0 : redisLimits.ringPiece)),
    ...named.flatMap(({ topic, capacity: { room, leaseMs }, priority }) => [
      topic,
      room,
      Math.ceil(leaseMs),
      priority ?? '',
    ]),
  ];
}
