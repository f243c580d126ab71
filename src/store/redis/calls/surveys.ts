// Surveys of the port, by scripts: pieces with rests, on all shards at a time. Owns the queue of surveys of
// this process, and the cursor of a scan.

import type { FoundJob } from '../../../core/job.ts';
import { inBatches } from '../../../core/lists.ts';
import { deadReasonCodes, stateCodes } from '../../../core/stored-codes.ts';
import { horizonEndsMs } from '../../../core/survey.ts';
import type { Partition, Scan, ScanFilter, Surveys } from '../../../ports/job-store.ts';
import { StoreError } from '../../../ports/store-error.ts';
import { storeLimits } from '../../limits.ts';
import type { Place } from '../../pages.ts';
import { DeadGrouping, SurveyPace, SurveyQueue } from '../../surveys.ts';
import { redisLimits } from '../limits.ts';
import { tidOf } from '../scripts/keys.ts';
import { type FoundReply, readAttempts, readFound } from '../scripts/records.ts';
import { type Arg, askAll, lookUp, namingMissing, type Shards } from '../shard/shards.ts';

export function surveyCalls(shards: Shards): Surveys {
  const queue = new SurveyQueue();
  return {
    position: (key) =>
      lookUp(shards, key, async (partition, list) => {
        const args = [key.topic, tidOf(key.id)];
        const rank = (await shards.run('position', partition, args, list)) as number;
        // A job that is here and not ready is in no other place.
        return rank === -2 ? null : { ahead: rank < 0 ? null : Math.min(rank, storeLimits.positionMax) };
      }).then((found) => found?.ahead ?? null),

    scan: (filter, limit, cursor, budgetMs) => queue.run(() => scan(shards, filter, limit, cursor, budgetMs)),

    horizon: (topics) =>
      queue.run(async () => {
        const counts = [...horizonEndsMs, 0].map(() => 0);
        const { missing } = await askLanes(shards, async (partitions) => {
          const pace = new SurveyPace();
          for (const partition of partitions)
            for await (const reply of horizonPieces(shards, partition, topics)) {
              for (const [i, count] of reply.entries()) counts[i] = (counts[i] ?? 0) + count;
              await pace.restOrGiveUp();
            }
        });
        return { counts, ...namingMissing(missing) };
      }),

    deadGroups: (topics, selection = {}) =>
      queue.run(async () => {
        const grouping = new DeadGrouping(selection);
        let isWhole = true;
        const { missing } = await askLanes(shards, async (partitions) => {
          const pace = new SurveyPace();
          const most = Math.ceil(storeLimits.groupedDeadMax / partitions.length);
          for (const partition of partitions)
            isWhole = (await groupDead(shards, partition, topics, most, grouping, pace)) && isWhole;
        });
        return { ...grouping.result(isWhole && missing.length === 0), ...namingMissing(missing) };
      }),
  };
}

type Lane = readonly Partition[];

/** The partitions of each shard. They share a server, so a survey visits them one after the other. */
function lanesOf(shards: Shards): readonly Lane[] {
  const lanes = new Map<string, Partition[]>();
  for (const partition of shards.partitions) {
    const name = shards.nameOf(partition);
    const lane = lanes.get(name);
    if (lane === undefined) lanes.set(name, [partition]);
    else lane.push(partition);
  }
  return [...lanes.values()];
}

/** As askAll, with one question for each shard. */
function askLanes<T>(shards: Shards, ask: (lane: Lane, index: number) => Promise<T>) {
  const lanes = lanesOf(shards);
  const partitions = lanes.map(([first]) => first as Partition);
  const nameOf = (partition: Partition) => shards.nameOf(partition);
  return askAll({ partitions, nameOf }, (first) => {
    const index = partitions.indexOf(first);
    return ask(lanes[index] ?? [], index);
  });
}

// Scan

/** Where the scan of a lane goes on: index of its partition, cursor of HSCAN; null: at the end. */
type LanePlace = { readonly at: number; readonly cursor: string } | null;
type ScanReply = readonly [cursor: Buffer, examined: number, jobs: number, ...FoundReply[]];

async function scan(
  shards: Shards,
  filter: ScanFilter,
  limit: number,
  cursor: string | null,
  budgetMs: number,
): Promise<Scan> {
  const lanes = lanesOf(shards);
  const { places, of } = cursor === null ? startOf(lanes) : readCursor(cursor, lanes.length);
  const found = new Map<string, FoundJob>();
  const sizes = lanes.map(() => 0);
  let jobs = 0;
  const { missing } = await askLanes(shards, async (lane, index) => {
    const pace = new SurveyPace(budgetMs);
    let place = places[index] ?? null;
    // A shard that does not answer is missing from this page, and the scan goes on without it.
    places[index] = null;
    while (place !== null) {
      const partition = lane[place.at];
      if (partition === undefined) break;
      const reply = (await shards.run('scan', partition, scanArgs(place.cursor, filter))) as ScanReply;
      const [next, examined, size, ...matches] = reply;
      jobs += examined;
      sizes[index] = size * lane.length;
      // HSCAN may return a job twice.
      for (const job of matches.map(readFound)) found.set(`${job.topic}\0${job.id}`, job);
      place = nextPlace(place, next.toString(), lane);
      if (pace.isOver || found.size >= limit) break;
      await pace.rest();
    }
    places[index] = place;
  });
  const all = of ?? sizes.reduce((sum, size) => sum + size, 0);
  const isAtEnd = places.every((place) => place === null);
  return {
    items: [...found.values()],
    nextCursor: isAtEnd ? null : writeCursor(places, all),
    scanned: { jobs, of: all },
    ...namingMissing(missing),
  };
}

function scanArgs(cursor: string, filter: ScanFilter): readonly Arg[] {
  const { topics, state, idPrefix = '', body, since = 0, until = Number.MAX_SAFE_INTEGER } = filter;
  const part = body === undefined ? '' : Buffer.from(body, 'base64');
  const code = state === undefined ? '' : stateCodes.indexOf(state);
  // No topic has an empty name: an empty list matches nothing.
  const names = topics === undefined ? [] : topics.length === 0 ? [''] : topics;
  return [cursor, redisLimits.scanPiece, idPrefix, part, code, Math.max(0, since), until, ...names];
}

function nextPlace({ at }: { readonly at: number }, cursor: string, lane: Lane): LanePlace {
  if (cursor !== '0') return { at, cursor };
  return at + 1 < lane.length ? { at: at + 1, cursor: '0' } : null;
}

function startOf(lanes: readonly Lane[]): { places: LanePlace[]; of: number | null } {
  return { places: lanes.map(() => ({ at: 0, cursor: '0' })), of: null };
}

const writeCursor = (places: readonly LanePlace[], of: number) =>
  [of, ...places.map((place) => (place === null ? '-' : `${place.at}:${place.cursor}`))].join('.');

/** Throws StoreError for an invalid cursor, and for one of another number of shards. */
function readCursor(cursor: string, lanes: number): { places: LanePlace[]; of: number } {
  const [of = '', ...texts] = cursor.split('.');
  const isValid = /^\d{1,16}$/.test(of) && texts.every((text) => /^(-|\d{1,5}:\d{1,20})$/.test(text));
  if (!isValid || texts.length !== lanes) throw new StoreError({ kind: 'not_stored', code: 'bad_cursor' });
  const places = texts.map((text): LanePlace => {
    const [at = '', from = ''] = text.split(':');
    return text === '-' ? null : { at: Number(at), cursor: from };
  });
  return { places, of: Number(of) };
}

// Horizon

async function* horizonPieces(shards: Shards, partition: Partition, topics: readonly string[] | null) {
  const piece = redisLimits.horizonPiece;
  const ends = [horizonEndsMs.length, ...horizonEndsMs];
  const ask = async (skipped: number, names: readonly string[]) => {
    const reply = await shards.run('horizon', partition, [skipped, piece, ...ends, ...names]);
    const [more, ...counts] = reply as [number, ...number[]];
    return { more: more === 1, counts };
  };
  if (topics === null)
    for (let skipped = 0, more = true; more; skipped += piece) {
      const answer = await ask(skipped, []);
      yield answer.counts;
      more = answer.more;
    }
  else for (const names of inBatches(topics, piece)) yield (await ask(0, names)).counts;
}

// Dead letters

type LastReply = readonly [topic: Buffer, deadAt: number, reason: number, last: Buffer];

/** Adds at most `most` dead letters of a partition, newest first; returns whether these were all. */
async function groupDead(
  shards: Shards,
  partition: Partition,
  topics: readonly string[] | null,
  most: number,
  grouping: DeadGrouping,
  pace: SurveyPace,
): Promise<boolean> {
  if (topics?.length === 0) return true;
  const names = topics === null ? null : new Set(topics);
  const topic = topics?.length === 1 ? (topics[0] ?? '') : '';
  let place: Place | null = grouping.start;
  for (let left = most; place !== null && left > 0; ) {
    const args = [topic, place.at, place.version, Math.min(left, redisLimits.deadPiece)];
    const reply = (await shards.run('deadLast', partition, args)) as [number, number, number, ...LastReply[]];
    const [now, at, version, ...letters] = reply;
    for (const [its, deadAt, code, attempt] of letters) {
      const name = its.toString();
      const deadReason = deadReasonCodes[code] ?? 'attempts_exhausted';
      const last = readAttempts(attempt).at(-1) ?? null;
      if (names === null || names.has(name)) grouping.add({ topic: name, deadAt, deadReason, last }, now);
    }
    left -= redisLimits.deadPiece;
    place = at < 0 || grouping.isPast(at) ? null : { at, version };
    await pace.restOrGiveUp();
  }
  return place === null;
}
