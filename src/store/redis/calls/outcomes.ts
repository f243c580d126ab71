// Dead letters, history and alerts of the port, spoken in scripts.

import type { EndedJob, JobKey, Version } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import {
  type AlertEntry,
  type AlertOutbox,
  type DeadFilter,
  type DeadLetter,
  type DeadLetters,
  type History,
  type Partition,
  StoreError,
} from '../../../ports/job-store.ts';
import { inBatches, type StepFilter } from '../../batches.ts';
import { isEarlier, mergedPage, newest, type Place, placeOf } from '../../pages.ts';
import { redisLimits } from '../limits.ts';
import { tidOf } from '../scripts/keys.ts';
import {
  alertCodes,
  readAlert,
  readEnded,
  readEndedAttempts,
  readWhole,
  type WholeReply,
} from '../scripts/records.ts';
import { wholeMs } from '../scripts/times.ts';
import { type Arg, askAll, namingMissing, type Shards } from '../shard/shards.ts';
import { inSteps } from './calls.ts';

const byDeath = (item: { deadAt: number | null; version: number }): Place => ({
  at: item.deadAt ?? 0,
  version: item.version,
});
const isCount = (reply: unknown) => reply as readonly [done: number, more: number];

export function deadCalls(shards: Shards): DeadLetters {
  const inBulk = (script: 'deadRequeue' | 'deadPurge', filter: DeadFilter, max: number) => {
    // Each bucket draws versions of its own. A job that dies again between two steps has a new one, and no later step takes it.
    const versionMax = new Map<Partition, number>();
    return inSteps(piecesOf(shards, filter, max), Math.min(max, limits.bulkMax), async ([place, its], n) => {
      const args = [n, ...filterArgs({ ...its, versionMax: versionMax.get(place) })];
      const [done, more, last] = (await shards.run(script, place, args)) as [number, number, number];
      if (!versionMax.has(place)) versionMax.set(place, last);
      return [done, more];
    });
  };
  return {
    async list(filter, limit, cursor) {
      const from = placeOf(cursor, newest);
      const { answers, missing } = await askAll(shards, async (bucket) => {
        const args = [limit, limits.reserveBytesMax, from.at, from.version, ...filterArgs(filter)];
        const [more, ...found] = (await shards.run('deadList', bucket, args)) as [number, ...WholeReply[]];
        const items = found.map(readWhole).map(({ body, ...letter }) => letter);
        const last = items.at(-1);
        return { items, edge: more === 1 && last !== undefined ? byDeath(last) : null };
      });
      return {
        ...mergedPage<DeadLetter>(answers, byDeath, isEarlier, limit),
        ...namingMissing(missing),
      };
    },
    async requeue(filter, max) {
      const { done, more } = await inBulk('deadRequeue', filter, max);
      return { requeued: done, more };
    },
    async purge(filter, max) {
      const { done, more } = await inBulk('deadPurge', filter, max);
      return { purged: done, more };
    },
    async expire(olderThanMs, max) {
      const { done, more } = await inSteps(
        shards.partitions,
        Math.min(max, limits.expireMax),
        async (bucket, n) => isCount(await shards.run('deadExpire', bucket, [n, wholeMs(olderThanMs)])),
      );
      return { expired: done, more };
    },
  };
}

/** What is to be asked where. Of ids each partition is told those that it may hold, and so many at a time: a script looks up every one
 *  that it is told, and 10,000 at each step kept everybody else waiting for 1.4 s. All at once where not all of them are wanted: which
 *  are the oldest is known of all or of none. */
function piecesOf(
  shards: Shards,
  filter: DeadFilter,
  max: number,
): readonly (readonly [partition: Partition, filter: DeadFilter])[] {
  const { topic, ids } = filter;
  if (topic === undefined || ids === undefined || ids.length > max)
    return shards.partitions.map((partition) => [partition, filter]);
  const idsIn = new Map<Partition, string[]>();
  for (const id of ids)
    for (const partition of shards.everywhere({ topic, id })) {
      const list = idsIn.get(partition);
      if (list === undefined) idsIn.set(partition, [id]);
      else list.push(id);
    }
  return [...idsIn].flatMap(([partition, its]) =>
    inBatches(its, redisLimits.redisStepMax).map((batch) => [partition, { ...filter, ids: batch }] as const),
  );
}

function filterArgs(filter: StepFilter): readonly Arg[] {
  const { topic, since = 0, until = Number.MAX_SAFE_INTEGER, ids, versionMax = -1 } = filter;
  if (ids !== undefined && topic === undefined) throw new Error('a filter by ids names no topic');
  const range = [topic ?? '', Math.max(0, since), until, versionMax];
  return ids === undefined ? [...range, -1] : [...range, ids.length, ...ids.map(tidOf)];
}

export function historyCalls(shards: Shards): History {
  return {
    async get(key) {
      const places = shards.everywhere(key);
      const args = [key.topic, tidOf(key.id)];
      const found = await Promise.allSettled(
        places.map(async (partition): Promise<EndedJob | null> => {
          const reply = await shards.run('historyGet', partition, args);
          const [record, attempts] = reply as [Buffer?, Buffer?];
          if (record === undefined || attempts === undefined) return null;
          return { ...readEnded(key, record), attempts: readEndedAttempts(record, attempts) };
        }),
      );
      let latest: EndedJob | null = null;
      for (const [i, each] of found.entries()) {
        // A shard that the id has no business on may be away.
        if (each.status === 'rejected' && isPlaceOf(shards, key, places[i])) throw each.reason;
        if (each.status === 'rejected' || each.value === null) continue;
        if (latest === null || each.value.endedAt > latest.endedAt) latest = each.value;
      }
      return latest;
    },
    async forget(olderThanMs, max) {
      const bound = Math.min(max, limits.forgetMax);
      const { done, more } = await inSteps(shards.partitions, bound, async (bucket, n) => {
        // Nearly full: everything goes.
        const age = shards.isTight(bucket) ? Number.MIN_SAFE_INTEGER : wholeMs(olderThanMs);
        return isCount(await shards.run('historyForget', bucket, [n, age]));
      });
      // What has no ends any more holds nothing: who removes them is who knows.
      if (!more) for (const bucket of shards.partitions) await restTopics(shards, bucket);
      return { forgotten: done, more };
    },
  };
}

/** Piece by piece; topics that come into use meanwhile wait for the next round. */
async function restTopics(shards: Shards, bucket: Partition): Promise<void> {
  for (let before = 0; before >= 0; ) {
    const reply = await shards.run('restTopics', bucket, [before, redisLimits.redisStepMax]);
    [before] = reply as [number, number];
  }
}

function isPlaceOf(shards: Shards, key: JobKey, partition: Partition | undefined): boolean {
  const { earlier, home } = shards.routeOf(key);
  return partition === home || earlier.some((one) => one === partition);
}

export function alertCalls(shards: Shards): AlertOutbox {
  /** Where the versions lie that are claimed here: two shards may have given one version to two jobs. */
  const claims = new Map<Version, Partition>();
  /** undefined: not claimed here, or in a partition that is no more: its shard has another address now, and other numbers with it. */
  const placeOfClaim = (version: Version): Partition | undefined => {
    const place = claims.get(version);
    return place !== undefined && shards.partitions.includes(place) ? place : undefined;
  };
  const settleIn = async (partition: Partition, versions: readonly Version[], code: number) => {
    for (let at = 0; at < versions.length; at += redisLimits.redisStepMax)
      await shards.run('alertSettle', partition, [
        code,
        ...versions.slice(at, at + redisLimits.redisStepMax),
      ]);
  };
  const claimIn = async (partition: Partition, topic: string, claimMs: number, max: number) => {
    const args = [topic, Math.ceil(claimMs), max];
    const reply = (await shards.run('alertClaim', partition, args)) as (number | Buffer)[];
    const entries: AlertEntry[] = [];
    for (let i = 0; i < reply.length; i += 2) {
      const version = reply[i] as number;
      const other = placeOfClaim(version);
      if (other !== undefined && other !== partition) {
        // Settling by number would end the other one's: it comes back after that.
        await settleIn(partition, [version], alertCodes.indexOf('owed'));
        continue;
      }
      claims.set(version, partition);
      // What was claimed just now is claimed, whatever its time.
      entries.push(readAlert(topic, version, reply[i + 1] as Buffer, 0));
    }
    return { entries, all: reply.length / 2 < max };
  };
  return {
    async due(windowMs) {
      const { answers } = await askAll(shards, async (partition): Promise<[DueReply[], Buffer[]]> => {
        if (!(await shards.has(partition, 'o', 'oc', 'ot'))) return [[], []];
        return (await shards.run('alertDue', partition, [windowMs])) as [DueReply[], Buffer[]];
      });
      // A mail tells of a topic, wherever its jobs lie.
      const told = new Set(answers.flatMap(([, topics]) => topics.map(String)));
      const owed = answers.flatMap(([topics]) => topics).sort(([, aAt, a], [, bAt, b]) => aAt - bAt || a - b);
      const names = new Set(owed.map(([topic]) => topic.toString()));
      return [...names].filter((name) => !told.has(name));
    },
    async claim(topic, claimMs, max) {
      const claimed: AlertEntry[] = [];
      let failed: StoreError | null = null;
      for (const partition of shards.partitions) {
        try {
          for (let all = false; !all && claimed.length < max; ) {
            const want = Math.min(max - claimed.length, redisLimits.redisStepMax);
            const found = await claimIn(partition, topic, claimMs, want);
            claimed.push(...found.entries);
            all = found.all || found.entries.length === 0;
          }
        } catch (error) {
          if (!(error instanceof StoreError)) throw error;
          failed ??= error;
        }
      }
      if (failed !== null && claimed.length === 0) throw failed;
      return claimed;
    },
    async settle(versions, as) {
      const ofPartition = new Map<Partition, Version[]>();
      for (const version of versions) {
        const claim = placeOfClaim(version);
        for (const partition of claim === undefined ? shards.partitions : [claim]) {
          const list = ofPartition.get(partition);
          if (list === undefined) ofPartition.set(partition, [version]);
          else list.push(version);
        }
      }
      await Promise.all(
        [...ofPartition].map(async ([partition, list]) => {
          await settleIn(partition, list, alertCodes.indexOf(as));
          for (const version of list) claims.delete(version);
        }),
      );
    },
    async list(limit, cursor) {
      const from = placeOf(cursor, newest);
      const { answers, missing } = await askAll(shards, async (partition) => {
        const reply = await shards.run('alertList', partition, [limit, from.at, from.version]);
        const [now, more, ...found] = reply as [number, number, ...AlertReply[]];
        const items = found.map(([topic, version, record]) =>
          readAlert(topic.toString(), version, record, now),
        );
        const last = items.at(-1);
        return { items, edge: more === 1 && last !== undefined ? byDeath(last) : null };
      });
      return { ...mergedPage<AlertEntry>(answers, byDeath, isEarlier, limit), ...namingMissing(missing) };
    },
  };
}

type DueReply = readonly [topic: Buffer, deadAt: number, version: number];
type AlertReply = readonly [topic: Buffer, version: number, record: Buffer];
