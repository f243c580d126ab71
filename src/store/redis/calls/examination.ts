// Asks whether a bucket keeps every invariant, piece by piece (lua/examine.lua), while everybody goes on working. Each piece is
// one moment in which whole jobs are judged, so what moves meanwhile is never called wrong.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Examination, Partition, Problem } from '../../../ports/job-store.ts';
import { storeLimits } from '../../limits.ts';
import { redisLimits } from '../limits.ts';
import { idOf } from '../scripts/keys.ts';
import type { Shard } from '../shard/shard.ts';

/** By their numbers in lua/examine.lua. */
const problems: readonly Pick<Problem, 'invariant' | 'what'>[] = [
  { invariant: 'I1', what: 'jobs that are not in the one place of their state' },
  { invariant: 'I1', what: 'jobs without a body' },
  { invariant: 'numbers', what: 'jobs of a topic without a name' },
  { invariant: 'numbers', what: 'versions or tokens that have not been drawn yet' },
  { invariant: 'I5', what: 'dead letters that no alert was owed for' },
  { invariant: 'I3', what: 'ids that have a job and an end' },
  { invariant: 'I3', what: 'happenings without a job' },
  { invariant: 'I3', what: 'bodies without a job' },
  { invariant: 'I3', what: 'attempts without a job' },
  { invariant: 'counts', what: 'ends that are not in their order, or nothing' },
  { invariant: 'I5', what: 'alerts that are not in the place of their state' },
  { invariant: 'I5', what: 'settled alerts without a dead letter' },
  { invariant: 'counts', what: 'places without their job' },
  { invariant: 'counts', what: 'heads and turns that are not what their queues say' },
  { invariant: 'I1', what: 'records that cannot be read' },
  { invariant: 'I1', what: 'records or places that were set aside' },
];

/** `onPiece`: told after each piece. Rejects with StoreError. */
export async function examine(shard: Shard, onPiece: () => Promise<void>): Promise<Examination> {
  const found = problems.map(() => ({ count: 0, examples: [] as string[] }));
  let jobs = 0;
  for (const bucket of shard.partitions) {
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

async function stepsOf(shard: Shard, bucket: Partition): Promise<readonly string[]> {
  const [, numbers] = (await shard.run('examine', bucket, ['count', '0'])) as [Buffer, number[]];
  const perTopic = numbers.flatMap((no) =>
    ['d', 'r:0', 'r:1', 'r:2', 'x', 'y', 'ow'].map((set) => `${set}:${no}`),
  );
  return [...['j', 'm', 'b', 'p', 'h', 'o', 'q', 'topics', 'l', 'x', 'e', 'oa', 'os'], ...perTopic];
}

/** topic/id; where there is no id, what the script calls it. */
export function exampleOf(topic: Buffer, tid: Buffer): string {
  const isId = tid.length > 0 && (tid[0] as number) <= 1;
  return `${topic}/${isId ? idOf(tid) : tid}`;
}
