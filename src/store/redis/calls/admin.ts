// Administration of the port: counts, purge, clock, moments, backup and fsck.

import type { LateJob } from '../../../core/incident.ts';
import { limits } from '../../../core/limits.ts';
import { inBatches } from '../../../core/lists.ts';
import type { Counts, StateCounts, StoreAdmin } from '../../../ports/job-store.ts';
import { StoreError, shardsAway } from '../../../ports/store-error.ts';
import { oldestByTopic } from '../../pages.ts';
import { redisLimits } from '../limits.ts';
import { idOf } from '../scripts/keys.ts';
import type { Shard } from '../shard/shard.ts';
import { type Answered, askAll, namingMissing, type Shards } from '../shard/shards.ts';
import { bulkStep, inSteps } from './calls.ts';
import { ExaminationRecord, readAll } from './examination.ts';

type CountsReply = readonly [topic: Buffer, delayed: number, ready: number, reserved: number, dead: number];
type BucketCounts = readonly [
  now: number,
  oldest: readonly (readonly [dueAt: number, topic: Buffer, tid: Buffer])[],
  ...CountsReply[],
];

/** Of dq-store, which owns registry.db, and a jobs.db whose jobs have not moved. */
export type FileBackups = Pick<StoreAdmin, 'startBackup' | 'backup'>;

/** All but health, which also depends on the shard list. `members`: the open shards at this moment; throws
 *  StoreError while no shard is known */
export function adminCalls(
  shards: Shards,
  members: () => readonly Shard[],
  backups: FileBackups | null = null,
): Omit<StoreAdmin, 'health'> {
  const records = () => members().map((shard) => new ExaminationRecord(shard));
  return {
    counts: async (held = [], pulled = []) => {
      const args = [limits.oldestMax, held.length, ...held, ...pulled];
      return sumOf([await askAll(shards, (partition) => shards.run('counts', partition, args))]);
    },
    async countsOf(topics) {
      const answered: Answered<unknown>[] = [];
      for (const some of inBatches(topics, redisLimits.countsPiece)) {
        const args = [limits.oldestMax, ...some];
        answered.push(await askAll(shards, (partition) => shards.run('countsOf', partition, args)));
      }
      return sumOf(answered);
    },
    async purgeTopic(topic, max, onChanged) {
      const bound = Math.min(max, limits.bulkMax);
      const { done, more } = await inSteps(shards.partitions, bound, (partition, n) =>
        bulkStep(shards, 'purgeTopic', partition, [topic, n], onChanged),
      );
      return { purged: done, more };
    },
    async clock() {
      const shards = members();
      const shard = shards.find(({ isReady }) => isReady) ?? (shards[0] as Shard);
      return Math.floor(await shard.now());
    },
    async moment() {
      // The list may have a shard more, which others push to.
      await shards.refresh();
      const { answers, missing } = await askAll(
        shards,
        async (partition) =>
          [shards.lastingNameOf(partition), Number(await shards.run('moment', partition, []))] as const,
      );
      if (missing.length > 0) throw new StoreError(shardsAway(missing));
      return Object.fromEntries(answers);
    },
    startBackup: async (directory) => backups?.startBackup(directory) ?? 'started',
    backup: async () => backups?.backup() ?? { kind: 'none' },
    async startFsck(how) {
      const all = records();
      if ((await readAll(all)).kind === 'running') return 'busy';
      await Promise.all(all.map((record) => record.start(how === 'relinks')));
      return 'started';
    },
    fsck: async () => readAll(records()),
  };
}

/** Of the answers of all buckets. */
function sumOf(answered: readonly Answered<unknown>[]): Counts {
  const replies = answered.flatMap(({ answers }) => answers);
  const missing = [...new Set(answered.flatMap((one) => one.missing))];
  const topics = new Map<string, StateCounts>();
  let oldestOverdueMs: number | null = null;
  const oldest: LateJob[] = [];
  for (const [now, overdue, ...found] of replies as BucketCounts[]) {
    for (const [dueAt, topic, tid] of overdue) {
      oldestOverdueMs = Math.max(oldestOverdueMs ?? 0, now - dueAt);
      oldest.push({ topic: topic.toString(), id: idOf(tid), dueAt });
    }
    for (const [topic, delayed, ready, reserved, dead] of found) {
      const name = topic.toString();
      const sum = topics.get(name) ?? { delayed: 0, ready: 0, reserved: 0, dead: 0 };
      topics.set(name, {
        delayed: sum.delayed + delayed,
        ready: sum.ready + ready,
        reserved: sum.reserved + reserved,
        dead: sum.dead + dead,
      });
    }
  }
  // fromEntries, because assignment would fail for a topic named `__proto__`.
  return {
    topics: Object.fromEntries(topics),
    oldestOverdueMs,
    oldest: oldestByTopic(oldest),
    ...namingMissing(missing),
  };
}
