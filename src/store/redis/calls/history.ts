// History of the port, by scripts: read an ended job, forget old entries.

import type { EndedJob, JobKey } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import type { History, Partition } from '../../../ports/job-store.ts';
import { redisLimits } from '../limits.ts';
import { tidOf } from '../scripts/keys.ts';
import { readEnded, readEndedAttempts, wholeMs } from '../scripts/records.ts';
import type { Arg, Shards } from '../shard/shards.ts';
import { type DoneReply, inSteps } from './calls.ts';

export function historyCalls(shards: Shards): History {
  /** Entries at the front of a nearly full partition that the last steps spared. */
  const spared = new Map<Partition, number>();

  const forget = async (partition: Partition, ...args: readonly Arg[]) =>
    (await shards.run('historyForget', partition, args)) as DoneReply;

  /** Entries of any age, except ends of schedules that a process may look for. After those of the last step,
   *  because any number of them may stay; after the last entry it begins again. */
  const forgetEarly = async (partition: Partition, max: number, olderThanMs: number): Promise<DoneReply> => {
    const skip = spared.get(partition) ?? 0;
    const age = wholeMs(Math.min(olderThanMs, limits.tickHistoryMs));
    const reply = await forget(partition, max, age, skip);
    const [done, more] = reply;
    if (more > 0) spared.set(partition, skip + max - done);
    else spared.delete(partition);
    return reply;
  };

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
      let forgotten = 0;
      // The steps count the examined entries: a nearly full shard keeps some of them.
      const { more } = await inSteps(shards.partitions, bound, async (partition, n) => {
        const [done, left] = await (shards.isNearlyFull(partition)
          ? forgetEarly(partition, n, olderThanMs)
          : forget(partition, n, wholeMs(olderThanMs)));
        forgotten += done;
        return [left > 0 ? n : done, left];
      });
      // Topics without entries may now hold nothing at all.
      if (!more) for (const partition of shards.partitions) await restTopics(shards, partition);
      return { forgotten, more };
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
