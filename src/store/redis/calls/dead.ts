// Dead letters of the port, by scripts: list, requeue, purge, expire.

import { limits } from '../../../core/limits.ts';
import { grouped, inBatches } from '../../../core/lists.ts';
import type { DeadFilter, DeadLetter, DeadLetters, OnChanged, Partition } from '../../../ports/job-store.ts';
import { numberOf, type StepFilter, stepOf } from '../../batches.ts';
import { byDeath, mergedPage, newest, placeOf } from '../../pages.ts';
import { redisLimits } from '../limits.ts';
import { tidOf } from '../scripts/keys.ts';
import { readStateRecord, readWhole, type WholeReply, wholeMs } from '../scripts/records.ts';
import { type Arg, askAll, knowAllOf, namingMissing, type Shards } from '../shard/shards.ts';
import { bulkStep, inSteps } from './calls.ts';

export function deadCalls(shards: Shards): DeadLetters {
  const inBulk = (
    script: 'deadRequeue' | 'deadPurge',
    filter: DeadFilter,
    max: number,
    onChanged: OnChanged | undefined,
  ) => {
    // By partition, the bound of the first step. A job that dies again between two steps has a higher number,
    // and no later step takes it.
    const bounds = new Map<Partition, number>();
    return inSteps(piecesOf(shards, filter, max), Math.min(max, limits.bulkMax), async ([place, its], n) => {
      const step = stepOf(its, shards.lastingNameOf(place));
      const args = [n, ...filterArgs({ ...step, below: bounds.get(place) ?? step.below })];
      const reply = await bulkStep<readonly [number, number, below: number]>(
        shards,
        script,
        place,
        args,
        onChanged,
      );
      bounds.set(place, reply[2]);
      return reply;
    });
  };
  return {
    async list({ before, ...filter }, limit, cursor) {
      const from = placeOf(cursor, newest);
      await knowAllOf(shards, before);
      const { answers, missing } = await askAll(shards, async (partition) => {
        const args = [limit, limits.reserveBytesMax, from.at, from.version, ...filterArgs(filter)];
        const reply = await shards.run('deadList', partition, args);
        const [more, ...found] = reply as [number, ...WholeReply[]];
        const last = found.at(-1);
        // Left out of their page, because there may be many later deaths.
        const below = numberOf(before, shards.lastingNameOf(partition)) ?? Number.POSITIVE_INFINITY;
        const items = found
          .filter(([, , , , stateRecord]) => readStateRecord(stateRecord).token < below)
          .map(readWhole)
          .map(({ body, extension, ...letter }) => letter);
        return { items, edge: more === 1 && last !== undefined ? byDeath.place(readWhole(last)) : null };
      });
      return {
        ...mergedPage<DeadLetter>(answers, byDeath, limit),
        ...namingMissing(missing),
      };
    },
    async requeue(filter, max, onChanged) {
      const { done, more } = await inBulk('deadRequeue', filter, max, onChanged);
      return { requeued: done, more };
    },
    async purge(filter, max, onChanged) {
      const { done, more } = await inBulk('deadPurge', filter, max, onChanged);
      return { purged: done, more };
    },
    async expire(olderThanMs, max, onChanged) {
      const bound = Math.min(max, limits.expireMax);
      const { done, more } = await inSteps(shards.partitions, bound, (partition, n) =>
        bulkStep(shards, 'deadExpire', partition, [n, wholeMs(olderThanMs)], onChanged),
      );
      return { expired: done, more };
    },
  };
}

/** The filter of each partition. Ids go to the partitions that may hold them, at most stepMax per
 *  script: it looks up each one, and 10,000 at each step blocked Redis for 1.4 s. With more ids than `max`,
 *  each partition gets all ids: the oldest are only known among all of them. */
function piecesOf(
  shards: Shards,
  filter: DeadFilter,
  max: number,
): readonly (readonly [partition: Partition, filter: DeadFilter])[] {
  const { topic, ids } = filter;
  if (topic === undefined || ids === undefined || ids.length > max)
    return shards.partitions.map((partition) => [partition, filter]);
  const places = ids.flatMap((id) =>
    shards.everywhere({ topic, id }).map((partition) => ({ partition, id })),
  );
  return [...grouped(places, ({ partition }) => partition)].flatMap(([partition, its]) =>
    inBatches(its, redisLimits.stepMax).map(
      (batch) => [partition, { ...filter, ids: batch.map(({ id }) => id) }] as const,
    ),
  );
}

function filterArgs(filter: StepFilter): readonly Arg[] {
  const { topic, since = 0, until = Number.MAX_SAFE_INTEGER, ids, below = -1 } = filter;
  if (ids !== undefined && topic === undefined) throw new Error('a filter with ids needs a topic');
  const range = [topic ?? '', Math.max(0, since), until, below];
  return ids === undefined ? [...range, -1] : [...range, ids.length, ...ids.map(tidOf)];
}
