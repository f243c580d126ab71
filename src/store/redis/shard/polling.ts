// Answers what the loops ask while nothing happens, by one plain command instead of a script, which counts as
// six. Never decides anything: promote and reserve run their scripts whenever a job may be due or ready.
// Invariants: a plain answer delays a job by at most limits.loopSleepMsMax, whatever the server's clock does.
// After a ready hint the next reserve runs its script.

import { limits } from '../../../core/limits.ts';
import type {
  JobStore,
  Partition,
  Promoted,
  Recovered,
  ReserveRequest,
  Unheld,
} from '../../../ports/job-store.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { hasManyTopics } from '../calls/reserve-call.ts';
import { redisLimits } from '../limits.ts';
import { type Bucket, prefixOf } from '../scripts/keys.ts';
import type { Shard } from './shard.ts';

/** The same calls, with a plain command first. `pollsOf`: the polls of a partition's shard, and the bucket
 *  there. */
export function withPlainPolls(
  jobs: JobStore,
  pollsOf: (partition: Partition) => Promise<readonly [polls: ShardPolls, bucket: Bucket]>,
): JobStore {
  return {
    ...jobs,
    async promote(partition, max) {
      const [polls, bucket] = await pollsOf(partition);
      return (await polls.nothingDue(bucket)) ?? jobs.promote(partition, max);
    },
    async recover(partition, max) {
      const [polls, bucket] = await pollsOf(partition);
      return (await polls.mayHaveExpired(bucket)) ? jobs.recover(partition, max) : noneRecovered;
    },
    async recoverOwners(partition, ...which) {
      const [polls, bucket] = await pollsOf(partition);
      return (await polls.hasLeases(bucket)) ? jobs.recoverOwners(partition, ...which) : noneRecovered;
    },
    async releaseUnheld(partition, ...whose) {
      const [polls, bucket] = await pollsOf(partition);
      return (await polls.hasLeases(bucket)) ? jobs.releaseUnheld(partition, ...whose) : noneUnheld;
    },
    async reserve(partition, request) {
      const [polls, bucket] = await pollsOf(partition);
      if (!(await polls.mayHaveReady(bucket, request))) return { jobs: [], more: false, now: null };
      polls.reserving(bucket);
      const answer = await jobs.reserve(partition, request);
      polls.reserved(bucket, answer.jobs.length);
      return answer;
    },
  };
}

const noneUnheld: Unheld = { released: 0, left: 0, last: 0 };
const noneRecovered: Recovered = { returned: 0, poisoned: [], more: false };
const rings = ['a:0', 'a:1', 'a:2'];

/** The plain questions to one shard, and what this process knows from their answers. */
export class ShardPolls {
  readonly #shard: Shard;
  readonly #capacitiesMax: number;
  readonly #monotonic: () => number;
  /** storage clock minus monotonic clock, and when it was measured */
  #clock = { offset: 0, at: Number.NEGATIVE_INFINITY };
  /** Buckets whose last reserve returned jobs, or that got a ready hint since: their next reserve runs its
   *  script. */
  readonly #warm = new Set<Bucket>();
  /** by bucket: monotonic time when it had no lease */
  readonly #unleasedAt = new Map<Bucket, number>();
  /** by bucket: monotonic time when it had no lease of a pulled job */
  readonly #unpulledAt = new Map<Bucket, number>();

  constructor(
    shard: Shard,
    capacitiesMax: number = redisLimits.capacitiesMax,
    monotonic: () => number = monotonicNow,
  ) {
    this.#shard = shard;
    this.#capacitiesMax = capacitiesMax;
    this.#monotonic = monotonic;
  }

  /** null: run promote. */
  async nothingDue(bucket: Bucket): Promise<Promoted | null> {
    const key = `${prefixOf(bucket)}:d`;
    const head = (await this.#shard.command('ZRANGE', key, 0, 0, 'WITHSCORES')) as string[];
    if (head.length === 0) return { moved: 0, waitMs: null };
    if (this.#shard.isCluster) return null;
    const waitMs = Number(head[1]) - (await this.#storageNow());
    // When a job is due within redisPollMs, the script decides.
    return waitMs > limits.redisPollMs ? { moved: 0, waitMs: waitMs - limits.redisPollMs } : null;
  }

  async #storageNow(): Promise<number> {
    if (this.#monotonic() - this.#clock.at >= limits.loopSleepMsMax) {
      const now = await this.#shard.now();
      const at = this.#monotonic();
      this.#clock = { offset: now - at, at };
    }
    return this.#clock.offset + this.#monotonic();
  }

  async hasLeases(bucket: Bucket): Promise<boolean> {
    const at = this.#monotonic();
    const has = await this.#shard.has(bucket, 'l');
    if (has) this.#unleasedAt.delete(bucket);
    else this.#unleasedAt.set(bucket, at);
    return has;
  }

  /** A lease given out since its set was last found empty has not expired, or only just now. */
  async mayHaveExpired(bucket: Bucket): Promise<boolean> {
    const at = this.#monotonic();
    const unpulledMs = this.#shard.isCluster ? redisLimits.unpulledClusterMs : redisLimits.unpulledMs;
    const sets = [
      { key: 'l', emptyAt: this.#unleasedAt, ms: redisLimits.unleasedMs },
      { key: 'k', emptyAt: this.#unpulledAt, ms: unpulledMs },
    ].filter(({ emptyAt, ms }) => at - (emptyAt.get(bucket) ?? Number.NEGATIVE_INFINITY) >= ms);
    if (sets.length === 0) return false;
    const has = await this.#shard.has(bucket, ...sets.map(({ key }) => key));
    if (!has) for (const { emptyAt } of sets) emptyAt.set(bucket, at);
    return has;
  }

  /** With more than capacitiesMax topics: always true, because the script then answers from what changed. */
  async mayHaveReady(bucket: Bucket, request: ReserveRequest): Promise<boolean> {
    if (hasManyTopics(request, this.#capacitiesMax) || this.#warm.has(bucket)) return true;
    return this.#shard.has(bucket, ...rings);
  }

  reserving(bucket: Bucket): void {
    this.#unleasedAt.delete(bucket);
    this.#unpulledAt.delete(bucket);
  }

  reserved(bucket: Bucket, jobs: number): void {
    if (jobs > 0) this.#warm.add(bucket);
    else this.#warm.delete(bucket);
  }

  hintReady(bucket: Bucket): void {
    this.#warm.add(bucket);
  }
}
