// History of the port, by scripts: read an ended job, forget old entries.

import type { EndedJob, JobKey } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import type { History, Partition } from '../../../ports/job-store.ts';
import { redisLimits } from '../limits.ts';
import { tidOf } from '../scripts/keys.ts';
import { readEnded, readEndedAttempts } from '../scripts/records.ts';
import { wholeMs } from '../scripts/times.ts';
import type { Shards } from '../shard/shards.ts';
import { type DoneReply, inSteps } from './calls.ts';

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
        // A shard outside the id's route may be unavailable.
        if (each.status === 'rejected' && isOnRoute(shards, key, places[i])) throw each.reason;
        if (each.status === 'rejected' || each.value === null) continue;
        if (latest === null || each.value.endedAt > latest.endedAt) latest = each.value;
      }
      return latest;
    },
    async forget(olderThanMs, max) {
      const bound = Math.min(max, limits.forgetMax);
      const { done, more } = await inSteps(shards.partitions, bound, async (partition, n) => {
        // A nearly full shard forgets every entry.
        const age = shards.isNearlyFull(partition) ? Number.MIN_SAFE_INTEGER : wholeMs(olderThanMs);
        return (await shards.run('historyForget', partition, [n, age])) as DoneReply;
      });
      // Topics without entries may now hold nothing at all.
      if (!more) for (const partition of shards.partitions) await restTopics(shards, partition);
      return { forgotten: done, more };
    },
  };
}

/** In bounded steps; topics that come into use meanwhile wait for the next call. */
async function restTopics(shards: Shards, partition: Partition): Promise<void> {
  for (let before = 0; before >= 0; ) {
    const reply = await shards.run('restTopics', partition, [before, redisLimits.stepMax]);
    [before] = reply as [number, number];
  }
}

function isOnRoute(shards: Shards, key: JobKey, partition: Partition | undefined): boolean {
  const { earlier, home } = shards.routeOf(key);
  return partition === home || earlier.some((one) => one === partition);
}
