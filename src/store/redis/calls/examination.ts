// Examines whether the buckets of a shard keep every invariant, in bounded pieces (lua/examine.lua) between
// other calls. Each piece judges whole jobs in one step, so a job that moves meanwhile is never reported.

import type { Examination, Problem } from '../../../ports/job-store.ts';
import { sleep } from '../../../runtime/time.ts';
import { storeLimits } from '../../limits.ts';
import { redisLimits } from '../limits.ts';
import { type Bucket, idOf } from '../scripts/keys.ts';
import type { Shard } from '../shard/shard.ts';

/** in the order of their numbers in lua/examine.lua */
const problems: readonly Pick<Problem, 'invariant' | 'what'>[] = [
  { invariant: 'I1', what: 'jobs in the wrong set for their state' },
  { invariant: 'I1', what: 'jobs without a body' },
  { invariant: 'numbers', what: 'jobs of a topic without a name' },
  { invariant: 'numbers', what: 'versions or tokens above the counter' },
  { invariant: 'I5', what: 'dead letters without an alert' },
  { invariant: 'I3', what: 'ids with both a live job and a history entry' },
  { invariant: 'I3', what: 'state records without a job' },
  { invariant: 'I3', what: 'bodies without a job' },
  { invariant: 'I3', what: 'attempts without a job' },
  { invariant: 'counts', what: 'history entries outside their index, or index entries without one' },
  { invariant: 'I5', what: 'alerts in the wrong set for their state' },
  { invariant: 'I5', what: 'settled alerts without a dead letter' },
  { invariant: 'counts', what: 'set members without their job' },
  { invariant: 'counts', what: 'heads or turns that differ from their queues' },
  { invariant: 'I1', what: 'unreadable records' },
  { invariant: 'I1', what: 'quarantined records or set members' },
  { invariant: 'numbers', what: 'topics whose name leads to no number, or to another one' },
];

/** Puts entries back that sets and hashes have lost (lua/relink.lua): names before jobs, jobs before the
 *  heads of their queues. Returns how many. As examine. */
export async function relink(shard: Shard, onPiece: () => Promise<void>): Promise<number> {
  let count = 0;
  for (const bucket of shard.buckets) {
    for (const step of ['t', 'T', 'j', 'd', 'topics']) {
      let cursor = '0';
      do {
        const args = [step, cursor, redisLimits.relinkedLeaseMs];
        const [next, done] = (await shard.run('relink', bucket, args)) as [Buffer, number];
        cursor = next.toString();
        count += done;
        await onPiece();
        await sleep(redisLimits.examinationPauseMs);
      } while (cursor !== '0');
    }
  }
  return count;
}

/** `onPiece`: called after each piece. Rejects with StoreError. */
export async function examine(shard: Shard, onPiece: () => Promise<void>): Promise<Examination> {
  const found = problems.map(() => ({ count: 0, examples: [] as string[] }));
  let jobs = 0;
  for (const bucket of shard.buckets) {
    for (const step of await stepsOf(shard, bucket)) {
      let cursor = '0';
      do {
        const reply = (await shard.run('examine', bucket, [step, cursor])) as [Buffer, number, ...unknown[]];
        const [next, seen, ...wrong] = reply;
        cursor = next.toString();
        jobs += seen;
        for (let i = 0; i < wrong.length; i += 3) {
          const entry = found[wrong[i] as number];
          if (entry === undefined) continue;
          entry.count += 1;
          if (entry.examples.length < storeLimits.fsckExamples)
            entry.examples.push(exampleOf(wrong[i + 1] as Buffer, wrong[i + 2] as Buffer));
        }
        await onPiece();
        await sleep(redisLimits.examinationPauseMs);
      } while (cursor !== '0');
    }
  }
  const named = problems.map((problem, i) => ({ ...problem, ...(found[i] ?? { count: 0, examples: [] }) }));
  return { jobs, problems: named.filter(({ count }) => count > 0) };
}

async function stepsOf(shard: Shard, bucket: Bucket): Promise<readonly string[]> {
  const [, numbers] = (await shard.run('examine', bucket, ['count', '0'])) as [Buffer, number[]];
  const perTopic = numbers.flatMap((no) =>
    ['d', 'r:0', 'r:1', 'r:2', 'x', 'y', 'ow'].map((set) => `${set}:${no}`),
  );
  return [...['j', 'm', 'b', 'p', 'h', 'o', 'q', 'topics', 'l', 'k', 'x', 'e', 'oa', 'os'], ...perTopic];
}

/** topic/id; without an id, the text that the script returns instead */
export function exampleOf(topic: Buffer, tid: Buffer): string {
  const isId = tid.length > 0 && (tid[0] as number) <= 1;
  return `${topic}/${isId ? idOf(tid) : tid}`;
}
