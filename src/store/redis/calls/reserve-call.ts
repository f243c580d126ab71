// reserve, spoken in its script: in mode `ring` while few topics have a room of their own, else from the topics that have ready
// jobs and room, by a copy of the rings. Owns the copies. Invariant: both ways deal the same jobs; a copy that a server has left
// behind delays a topic by redisLimits.redisRingCopyMs at most.

import { limits } from '../../../core/limits.ts';
import type { Partition, Reserved, ReserveRequest } from '../../../ports/job-store.ts';
import { redisLimits } from '../limits.ts';
import { readReserved } from '../scripts/records.ts';
import type { Arg, Shards } from '../shard/shards.ts';
import { type Listing, RingCopy } from './ring-copy.ts';

/** Kinds of answers (lua/reserve.lua). */
const someRemain = 1;
const setAside = 2;
const unnamedTopics = 3;
const olderThanKnown = 4;

interface Answer {
  readonly kind: number;
  /** of the named topics, by their number from 1, those that have left the known part of a ring */
  readonly gone: readonly (readonly [number: number, priority: number])[];
  /** topics behind the known turns */
  readonly news: readonly (readonly [priority: number, topic: string, turn: number])[];
  /** of the named topics, those that got a new turn, in its order */
  readonly served: readonly (readonly [number: number, priority: number, turn: number])[];
  readonly jobs: Reserved['jobs'];
  readonly now: Reserved['now'];
}

/** `roomsMax`: redisLimits.redisRoomsMax, unless a test has fewer topics. */
export function reserveCall(shards: Shards, roomsMax: number) {
  const copies = new Map<Partition, RingCopy>();

  const ask = async (bucket: Partition, request: ReserveRequest, mode: readonly Arg[]): Promise<Answer> => {
    const { owner, max, others, topics } = request;
    const [kind, gone, news, served, now = null, ...jobs] = (await shards.run('reserve', bucket, [
      ...[owner.instance, owner.incarnation, Math.min(max, limits.reserveMax), limits.reserveBytesMax],
      ...[others.room, Math.ceil(others.leaseMs), ...mode],
    ])) as [number, number[], (number | Buffer)[], number[], number?, ...unknown[]];
    const leaseMsOf = (topic: string) => (topics.get(topic) ?? others).leaseMs;
    return {
      kind,
      gone: sliced(gone, 2).map(([number, priority]) => [Number(number), Number(priority)]),
      news: sliced(news, 3).map(([priority, topic, turn]) => [Number(priority), String(topic), Number(turn)]),
      served: sliced(served, 3).map(([number, priority, turn]) => [
        ...([Number(number), Number(priority), Number(turn)] as const),
      ]),
      jobs: sliced(jobs, 6).map((job) =>
        readReserved(job as unknown as Parameters<typeof readReserved>[0], leaseMsOf),
      ),
      now,
    };
  };

  const fromRings = async (bucket: Partition, request: ReserveRequest): Promise<Reserved> => {
    const rooms = [...request.topics].flatMap(([topic, { room, leaseMs }]) => [
      ...[topic, room, Math.ceil(leaseMs), ''],
    ]);
    let answer = await ask(bucket, request, ['ring', ...rooms]);
    // Nothing was leased, because the next jobs were set aside; ask again at once.
    for (let again = 1; answer.kind === setAside && again < redisLimits.reservesAgainMax; again += 1)
      answer = await ask(bucket, request, ['ring', ...rooms]);
    const { kind, jobs, now } = answer;
    return { jobs, more: kind === someRemain || kind === setAside, now };
  };

  const copyOf = (bucket: Partition): RingCopy => {
    const known = copies.get(bucket);
    const losses = shards.lossesOf(bucket);
    if (known !== undefined && !known.isOld && known.losses === losses) return known;
    const copy = new RingCopy(losses);
    copies.set(bucket, copy);
    return copy;
  };

  const fromList = async (bucket: Partition, request: ReserveRequest): Promise<Reserved> => {
    let copy = copyOf(bucket);
    let setAsides = 0;
    /** the rings were read to their end, or often enough */
    let isKnown = false;
    for (let asked = 1; asked <= redisLimits.redisRingPiecesMax; asked += 1) {
      const listing = copy.list(request);
      const { kind, gone, news, served, jobs, now } = await ask(bucket, request, listArgs(listing, isKnown));
      if (kind === olderThanKnown) {
        copies.delete(bucket);
        copy = copyOf(bucket);
        isKnown = false;
        continue;
      }
      const nameOf = (number: number) => listing.named[number - 1]?.topic ?? '';
      // A full piece: there may be more topics behind it.
      const isFull = [0, 1, 2].map(
        (ring) => news.filter(([priority]) => priority === ring).length >= redisLimits.redisRingPiece,
      );
      for (const [priority, topic, turn] of news) copy.learn(priority, topic, turn);
      for (const [number, priority] of gone) copy.forget(priority, nameOf(number));
      // Others may stand between it and what is known: it is met behind them.
      for (const [number, priority, turn] of served)
        if (isFull[priority] || listing.cut[priority]) copy.forget(priority, nameOf(number));
        else copy.learn(priority, nameOf(number), turn);
      for (const { topic } of jobs) copy.served(topic);
      const isUnread = isFull.includes(true);
      const isCut = gone.length > 0 && listing.cut.includes(true);
      if (kind === unnamedTopics) {
        isKnown = !isUnread || asked + 1 === redisLimits.redisRingPiecesMax;
        continue;
      }
      setAsides += kind === setAside ? 1 : 0;
      if (kind === setAside && setAsides < redisLimits.reservesAgainMax) continue;
      // Those that were named may have gone, and others with room were not named.
      if (jobs.length === 0 && (isUnread || isCut)) continue;
      return { jobs, more: kind === someRemain || kind === setAside || isUnread || isCut, now };
    }
    return { jobs: [], more: true, now: null };
  };

  return (bucket: Partition, request: ReserveRequest): Promise<Reserved> => {
    if (isListed(request, roomsMax)) return fromList(bucket, request);
    if (copies.get(bucket)?.isOld === true) copies.delete(bucket);
    return fromRings(bucket, request);
  };
}

/** Whether the rings may hold many topics that the request has no room for. */
export function isListed({ topics }: ReserveRequest, roomsMax: number): boolean {
  return topics.size > roomsMax;
}

function listArgs({ named, known, cut }: Listing, isKnown: boolean): readonly Arg[] {
  return [
    isKnown ? 'listed' : 'look',
    ...known,
    ...cut.map((isEnough) => (isEnough ? 0 : redisLimits.redisRingPiece)),
    ...named.flatMap(({ topic, room, priority }) => [
      ...[topic, room.room, Math.ceil(room.leaseMs), priority ?? ''],
    ]),
  ];
}

function sliced(flat: readonly unknown[], length: number): unknown[][] {
  return Array.from({ length: flat.length / length }, (_, i) => flat.slice(length * i, length * (i + 1)));
}
