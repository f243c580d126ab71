// Examines whether the buckets of a shard keep every invariant, in bounded pieces (lua/examine.lua) between
// other calls. Each piece judges whole jobs in one step, so a job that moves meanwhile is never reported. The
// result is kept in Redis, because another process may read it than the one that examines.

import { messageOf } from '../../../core/errors.ts';
import { inBatches } from '../../../core/lists.ts';
import type { Examination, LongWork, Problem } from '../../../ports/job-store.ts';
import { monotonicNow, sleep, wallNow } from '../../../runtime/time.ts';
import { storeLimits } from '../../limits.ts';
import { redisLimits } from '../limits.ts';
import { type Bucket, idOf, prefixOf } from '../scripts/keys.ts';
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

/** The reply of a piece: next cursor, and what it found. */
type Piece<R extends readonly unknown[]> = readonly [cursor: Buffer, ...R];

/** Runs one step of a script in its pieces, with pauses. `onPiece`: called after each piece. Rejects with
 *  StoreError. */
async function inPieces<R extends readonly unknown[]>(
  run: (cursor: string) => Promise<unknown>,
  take: (found: R) => void,
  onPiece: () => Promise<void>,
): Promise<void> {
  let cursor = '0';
  do {
    const [next, ...found] = (await run(cursor)) as Piece<R>;
    cursor = next.toString();
    take(found);
    await onPiece();
    await sleep(redisLimits.examinationPauseMs);
  } while (cursor !== '0');
}

/** Puts entries back that sets and hashes have lost (lua/relink.lua): names before jobs, jobs before the
 *  heads of their queues. Returns how many. */
async function relink(shard: Shard, onPiece: () => Promise<void>): Promise<number> {
  let count = 0;
  for (const bucket of shard.buckets)
    for (const step of ['t', 'T', 'j', 'd', 'topics'])
      await inPieces<readonly [done: number]>(
        (cursor) => shard.run('relink', bucket, [step, cursor, redisLimits.relinkedLeaseMs]),
        ([done]) => {
          count += done;
        },
        onPiece,
      );
  return count;
}

async function examine(shard: Shard, onPiece: () => Promise<void>): Promise<Examination> {
  const found = problems.map(() => ({ count: 0, examples: [] as string[] }));
  let jobs = 0;
  const take = ([seen, ...wrong]: readonly [seen: number, ...unknown[]]) => {
    jobs += seen;
    for (const [number, topic, tid] of inBatches(wrong, 3)) {
      const entry = found[number as number];
      if (entry === undefined) continue;
      entry.count += 1;
      if (entry.examples.length < storeLimits.fsckExamples)
        entry.examples.push(exampleOf(topic as Buffer, tid as Buffer));
    }
  };
  for (const bucket of shard.buckets)
    for (const step of await stepsOf(shard, bucket))
      await inPieces((cursor) => shard.run('examine', bucket, [step, cursor]), take, onPiece);
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

/** Merges the examinations of all shards into one. */
export async function readAll(records: readonly ExaminationRecord[]): Promise<LongWork<Examination>> {
  const all = await Promise.all(records.map((record) => record.read()));
  const running = all.find(({ kind }) => kind === 'running');
  const unfinished = running ?? all.find(({ kind }) => kind !== 'done');
  if (unfinished !== undefined) return unfinished;
  const done = all.filter((one) => one.kind === 'done');
  if (done.length === 0) return { kind: 'none' };
  const relinked = done.flatMap(({ result }) => result.relinked ?? []);
  const problems = new Map<string, Problem>();
  for (const problem of done.flatMap(({ result }) => result.problems)) {
    const name = `${problem.invariant} ${problem.what}`;
    const known = problems.get(name);
    const examples = [...(known?.examples ?? []), ...problem.examples].slice(0, storeLimits.fsckExamples);
    problems.set(name, { ...problem, count: (known?.count ?? 0) + problem.count, examples });
  }
  return {
    kind: 'done',
    startedAt: Math.min(...done.map(({ startedAt }) => startedAt)),
    endedAt: Math.max(...done.map(({ endedAt }) => endedAt)),
    result: {
      jobs: done.reduce((sum, { result }) => sum + result.jobs, 0),
      problems: [...problems.values()],
      ...(relinked.length === 0 ? {} : { relinked: relinked.reduce((sum, n) => sum + n, 0) }),
    },
  };
}

/** The examination of one shard. Its record expires when the process that runs it dies. */
export class ExaminationRecord {
  readonly #shard: Shard;
  readonly #key: string;

  constructor(shard: Shard) {
    this.#shard = shard;
    this.#key = `${prefixOf(0)}:fsck`;
  }

  async start(relinks: boolean): Promise<void> {
    const startedAt = wallNow();
    await this.#write({ kind: 'running', startedAt }, redisLimits.examinationBeatMs);
    void this.#work(startedAt, relinks);
  }

  async read(): Promise<LongWork<Examination>> {
    const text = (await this.#shard.command('GET', this.#key)) as string | null;
    return text === null ? { kind: 'none' } : (JSON.parse(text) as LongWork<Examination>);
  }

  async #work(startedAt: number, relinks: boolean): Promise<void> {
    let beatAt = monotonicNow();
    const onPiece = async () => {
      if (monotonicNow() < beatAt + redisLimits.examinationBeatMs / 4) return;
      beatAt = monotonicNow();
      await this.#write({ kind: 'running', startedAt }, redisLimits.examinationBeatMs);
    };
    let ended: LongWork<Examination>;
    try {
      const relinked = relinks ? { relinked: await relink(this.#shard, onPiece) } : {};
      const result = { ...(await examine(this.#shard, onPiece)), ...relinked };
      ended = { kind: 'done', startedAt, endedAt: wallNow(), result };
    } catch (error) {
      ended = { kind: 'failed', startedAt, endedAt: wallNow(), reason: messageOf(error) };
    }
    try {
      await this.#write(ended, redisLimits.examinationKeptMs);
    } catch {
      // Redis is unavailable: the `running` record expires, and fsck then answers `none`.
    }
  }

  async #write(state: LongWork<Examination>, forMs: number): Promise<void> {
    await this.#shard.command('SET', this.#key, JSON.stringify(state), 'PX', forMs);
  }
}
