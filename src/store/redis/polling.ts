// What the loops ask again and again while nothing happens: answered by one plain command instead of a script, which counts as
// half a dozen. Never decides anything: what may be due or ready is asked by its script, and the storage clock alone says what is
// due. Invariants: a plain answer delays nothing longer than limits.loopSleepMsMax, whatever the server's clock does; a ready hint
// makes the next question a script's.

import { limits } from '../../core/limits.ts';
import type { JobStore, Partition, Promoted, Recovered, ReserveRequest } from '../job-store.ts';
import { prefixOf } from './keys.ts';
import type { Shard } from './shard.ts';

const rings = ['a:0', 'a:1', 'a:2'];

/** The same store, asked so. */
export function withPlainPolls(jobs: JobStore, shard: Shard): JobStore {
  const due = new DuePoll(shard);
  const ready = new ReadyPoll(shard);
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
    return performance.now() - at >= limits.unleasedMs && (await isAnyLeased(bucket));
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
      const asked = await ready.worthAsking(bucket, request);
      if (asked === null) return { jobs: [], more: false };
      unleasedAt.delete(bucket);
      const answer = await jobs.reserve(bucket, asked);
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
  /** the last reserve brought something, or a hint came: ask at once */
  readonly #warm = new Set<Partition>();
  /** By bucket and number, for a moment: a server that lost data gives the numbers out anew, and nobody may hear of it here. */
  readonly #names = new Map<string, string>();
  #namesAt = Number.NEGATIVE_INFINITY;

  constructor(shard: Shard) {
    this.#shard = shard;
  }

  hinted(bucket: Partition): void {
    this.#warm.add(bucket);
  }

  told(bucket: Partition, jobs: number): void {
    if (jobs > 0) this.#warm.add(bucket);
    else this.#warm.delete(bucket);
  }

  /** null: nothing is ready. Of many rooms only those of topics that have ready jobs travel; a topic that gets its first
   *  meanwhile waits for the next question. */
  async worthAsking(bucket: Partition, request: ReserveRequest): Promise<ReserveRequest | null> {
    if (request.topics.size > limits.redisRoomsMax) return this.#narrowed(bucket, request);
    if (this.#warm.has(bucket)) return request;
    return (await this.#shard.has(bucket, ...rings)) ? request : null;
  }

  async #narrowed(bucket: Partition, request: ReserveRequest): Promise<ReserveRequest | null> {
    const replies = await Promise.all(
      rings.map((ring) => this.#shard.command('ZRANGE', `${prefixOf(bucket)}:${ring}`, 0, -1)),
    );
    const names = await this.#namesOf(bucket, [...new Set((replies as string[][]).flat())]);
    if (names.length === 0) return null;
    const topics = new Map(names.map((name) => [name, request.topics.get(name) ?? request.others]));
    return { ...request, others: { ...request.others, room: 0 }, topics };
  }

  async #namesOf(bucket: Partition, numbers: readonly string[]): Promise<readonly string[]> {
    if (performance.now() - this.#namesAt >= limits.loopSleepMsMax) {
      this.#names.clear();
      this.#namesAt = performance.now();
    }
    const unknown = numbers.filter((no) => !this.#names.has(`${bucket} ${no}`));
    if (unknown.length > 0) {
      const found = (await this.#shard.command('HMGET', `${prefixOf(bucket)}:T`, ...unknown)) as (
        | string
        | null
      )[];
      for (const [i, name] of found.entries())
        if (name !== null) this.#names.set(`${bucket} ${unknown[i]}`, name);
    }
    return numbers.flatMap((no) => this.#names.get(`${bucket} ${no}`) ?? []);
  }
}
