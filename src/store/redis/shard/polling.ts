// What the loops ask again and again while nothing happens: answered by one plain command instead of a script, which counts as
// half a dozen. Never decides anything: what may be due or ready is asked by its script, and the storage clock alone says what is
// due. Invariants: a plain answer delays nothing longer than limits.loopSleepMsMax, whatever the server's clock does; a ready hint
// makes the next question a script's.

import { limits } from '../../../core/limits.ts';
import type { JobStore, Partition, Promoted, Recovered, ReserveRequest } from '../../../ports/job-store.ts';
import { isListed } from '../calls/reserve-call.ts';
import { redisLimits } from '../limits.ts';
import { prefixOf } from '../scripts/keys.ts';
import type { Shard } from './shard.ts';

const rings = ['a:0', 'a:1', 'a:2'];

/** The same store, asked so. */
export function withPlainPolls(
  jobs: JobStore,
  shard: Shard,
  roomsMax: number = redisLimits.redisRoomsMax,
): JobStore {
  const due = new DuePoll(shard);
  const ready = new ReadyPoll(shard, roomsMax);
  jobs.onHint((hint) => {
    if (hint.kind === 'ready') ready.hinted(hint.partition);
  });
  /** performance.now() when the bucket had no lease */
  const unleasedAt = new Map<Partition, number>();
  const isAnyLeased = async (bucket: Partition) => {
    const at = performance.now();
    const isAny = await shard.has(bucket, 'l');
    if (isAny) unleasedAt.delete(bucket);
    else unleasedAt.set(bucket, at);
    return isAny;
  };
  // None that was given out since has run out, or just now.
  const isAnyOver = async (bucket: Partition) => {
    const at = unleasedAt.get(bucket) ?? Number.NEGATIVE_INFINITY;
    return performance.now() - at >= redisLimits.unleasedMs && (await isAnyLeased(bucket));
  };
  return {
    ...jobs,
    async promote(bucket, max) {
      return (await due.nothingDue(bucket)) ?? jobs.promote(bucket, max);
    },
    async recover(bucket, max) {
      return (await isAnyOver(bucket)) ? jobs.recover(bucket, max) : nobody;
    },
    async recoverOwners(bucket, ...which) {
      return (await isAnyLeased(bucket)) ? jobs.recoverOwners(bucket, ...which) : nobody;
    },
    async releaseUnheld(bucket, ...whose) {
      return (await isAnyLeased(bucket)) ? jobs.releaseUnheld(bucket, ...whose) : 0;
    },
    async reserve(bucket, request) {
      if (!(await ready.isWorthAsking(bucket, request))) return { jobs: [], more: false, now: null };
      unleasedAt.delete(bucket);
      const answer = await jobs.reserve(bucket, request);
      ready.told(bucket, answer.jobs.length);
      return answer;
    },
  };
}

const nobody: Recovered = { returned: 0, poisoned: [], more: false };

class DuePoll {
  readonly #shard: Shard;
  /** storage clock minus performance.now(), and when that was found out */
  #clock = { offset: 0, at: Number.NEGATIVE_INFINITY };

  constructor(shard: Shard) {
    this.#shard = shard;
  }

  /** null: ask promote. */
  async nothingDue(bucket: Partition): Promise<Promoted | null> {
    const key = `${prefixOf(bucket)}:d`;
    const head = (await this.#shard.command('ZRANGE', key, 0, 0, 'WITHSCORES')) as string[];
    if (head.length === 0) return { moved: 0, waitMs: null };
    if (this.#shard.isCluster) return null;
    const waitMs = Number(head[1]) - (await this.#storageNow());
    // What is nearly due is the script's to judge.
    return waitMs > limits.redisPollMs ? { moved: 0, waitMs: waitMs - limits.redisPollMs } : null;
  }

  async #storageNow(): Promise<number> {
    if (performance.now() - this.#clock.at >= limits.loopSleepMsMax) {
      const [seconds, micros] = (await this.#shard.command('TIME')) as [string, string];
      const at = performance.now();
      this.#clock = { offset: Number(seconds) * 1_000 + Number(micros) / 1_000 - at, at };
    }
    return this.#clock.offset + performance.now();
  }
}

class ReadyPoll {
  readonly #shard: Shard;
  readonly #roomsMax: number;
  /** the last reserve brought something, or a hint came: ask at once */
  readonly #warm = new Set<Partition>();

  constructor(shard: Shard, roomsMax: number) {
    this.#shard = shard;
    this.#roomsMax = roomsMax;
  }

  hinted(bucket: Partition): void {
    this.#warm.add(bucket);
  }

  told(bucket: Partition, jobs: number): void {
    if (jobs > 0) this.#warm.add(bucket);
    else this.#warm.delete(bucket);
  }

  /** Whether the script is to be asked. It answers a caller with many rooms from what has changed: there nothing is saved. */
  async isWorthAsking(bucket: Partition, request: ReserveRequest): Promise<boolean> {
    if (isListed(request, this.#roomsMax) || this.#warm.has(bucket)) return true;
    return this.#shard.has(bucket, ...rings);
  }
}
