// The job store on several shards: the same calls as on one (jobs.ts …), over the partitions of all. Owns which shards are open,
// by the list of shards as this process knows it; where a job may be (core/shard-list.ts decides it); and where each lease was
// given out.
// Invariants: an id that lives on one shard is never stored on another one, whatever is away; partitions keep their numbers
// while this process lives; a shard that is away refuses its own calls and no other's.

import type { JobKey, Lease } from '../../../core/job.ts';
import { noShards, placesOf, type ShardList, type ShardRecord } from '../../../core/shard-list.ts';
import {
  type Hint,
  type JobStore,
  type Partition,
  type PushJob,
  type Store,
  StoreError,
  type StoreHealth,
} from '../../../ports/job-store.ts';
import { storeLimits } from '../../limits.ts';
import { adminCalls, healthOfAll } from '../calls/admin.ts';
import { jobCalls } from '../calls/jobs.ts';
import { alertCalls, deadCalls, historyCalls } from '../calls/outcomes.ts';
import { redisLimits } from '../limits.ts';
import { bucketOf } from '../scripts/keys.ts';
import type { ScriptName } from '../scripts/scripts.ts';
import { openRedisStore, type RedisStore, type RedisStoreOptions } from './redis-store.ts';
import type { Shard } from './shard.ts';
import { forgottenSentence, newestHeard } from './shard-list-conflict.ts';
import type { Arg, Route, Shards } from './shards.ts';

export interface ShardedOptions
  extends Omit<RedisStoreOptions, 'url' | 'buckets' | 'shardId' | 'isListed' | 'listNumber'> {
  /** Reads the list of shards anew and has it applied; rejects when nobody can be asked. */
  readonly refresh: () => Promise<void>;
  /** what the first list waits for; null = it is not known */
  readonly whyNone?: () => string | null;
}

interface Open {
  record: ShardRecord;
  /** of its first partition; its buckets follow */
  readonly base: Partition;
  readonly redis: RedisStore;
  readonly starting: Promise<void>;
  /** the first attempt to connect has ended, whatever came of it */
  isStarted: boolean;
}

export class ShardedStore implements Shards {
  readonly #options: ShardedOptions;
  readonly recoverHoldMs: number;
  readonly store: Store;
  readonly #listeners = new Set<(hint: Hint) => void>();
  /** by id, in the order of the list */
  #open: ReadonlyMap<string, Open> = new Map();
  #list: ShardList = noShards;
  partitions: readonly Partition[] = [];
  #byPartition: ReadonlyMap<Partition, Open> = new Map();
  /** base of the next shard that is opened; never one twice, so that no late hint or lease is taken for another shard's */
  #nextBase = 0;
  /** oldest first */
  readonly #leases = new Map<string, Partition>();
  /** number of the list of which was said that the shards know a newer one */
  #saidForgotten: number | null = null;
  #started = false;
  #closed = false;
  readonly #ending = new Set<Promise<unknown>>();

  constructor(options: ShardedOptions) {
    this.#options = options;
    this.recoverHoldMs = options.recoverHoldMs ?? storeLimits.recoverHoldMs;
    const onHint = (listener: (hint: Hint) => void) => {
      this.#listeners.add(listener);
      return () => this.#listeners.delete(listener);
    };
    this.store = {
      jobs: { ...jobCalls(this, { onHint }), ...this.#partitionCalls() },
      dead: deadCalls(this),
      history: historyCalls(this),
      alerts: alertCalls(this),
      admin: { ...adminCalls(this, () => this.#shards), health: () => this.#health() },
      close: () => this.close(),
    };
  }

  /** Resolves after the first attempt to connect to each shard of the list, whatever came of it. */
  async start(): Promise<void> {
    this.#started = true;
    this.#apply();
    await Promise.all([...this.#open.values()].map(({ starting }) => starting));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...[...this.#open.values()].map(({ redis }) => redis.close()), ...this.#ending]);
  }

  /** In force from the next call on. An older list than the one in force is none. */
  apply(list: ShardList): void {
    if (list.number < this.#list.number) return;
    this.#list = list;
    if (this.#started) this.#apply();
  }

  get list(): ShardList {
    return this.#list;
  }

  /** null: no such shard */
  shard(id: string): Shard | null {
    return this.#open.get(id)?.redis.shard ?? null;
  }

  get #shards(): readonly Shard[] {
    return [...this.#open.values()].map(({ redis }) => redis.shard);
  }

  /** Of a server that was reached and is not ours: which, and why; null = there is none. */
  get foreign(): string | null {
    const first = this.#shards.find(({ foreign }) => foreign !== null);
    return first === undefined ? null : `${first.name}: ${first.foreign}`;
  }

  /** of every server that answers: its part of INFO about itself */
  async infos(): Promise<readonly string[]> {
    const shards = this.#shards.filter(({ isReady }) => isReady);
    const replies = await Promise.allSettled(shards.map((shard) => shard.command('INFO', 'server')));
    return replies.flatMap((reply) => (reply.status === 'fulfilled' ? [String(reply.value)] : []));
  }

  #apply(): void {
    if (this.#closed) return;
    const open = new Map<string, Open>();
    for (const record of this.#list.shards) {
      const known = this.#open.get(record.id);
      const same = known?.record.url === record.url && known.record.buckets === record.buckets;
      open.set(
        record.id,
        known !== undefined && same ? Object.assign(known, { record }) : this.#openOne(record),
      );
    }
    for (const [id, one] of this.#open) if (open.get(id)?.redis !== one.redis) this.#end(one);
    this.#open = open;
    this.partitions = [...open.values()].flatMap(({ base, redis }) =>
      redis.shard.partitions.map((n) => base + n),
    );
    this.#byPartition = new Map(
      [...open.values()].flatMap((one) => one.redis.shard.partitions.map((n) => [one.base + n, one])),
    );
  }

  #openOne(record: ShardRecord): Open {
    const base = this.#nextBase;
    this.#nextBase += record.buckets;
    const { id: shardId, url, buckets } = record;
    const redis = openRedisStore({
      ...this.#options,
      shardId,
      url,
      buckets,
      isListed: true,
      listNumber: () => this.#list.number,
    });
    redis.store.jobs.onHint((hint) => {
      for (const listener of this.#listeners) listener({ ...hint, partition: base + hint.partition });
    });
    const one: Open = { record, base, redis, isStarted: false, starting: redis.start() };
    void one.starting.then(() => {
      one.isStarted = true;
    });
    return one;
  }

  /** What concerns one partition is its shard's. */
  #partitionCalls(): Pick<JobStore, 'promote' | 'reserve' | 'recover' | 'recoverOwners' | 'releaseUnheld'> {
    const its = async (partition: Partition) => {
      const one = await this.#startedAt(partition);
      return [one.redis.store.jobs, partition - one.base] as const;
    };
    return {
      promote: async (partition, max) => {
        const [jobs, bucket] = await its(partition);
        return jobs.promote(bucket, max);
      },
      reserve: async (partition, request) => {
        const [jobs, bucket] = await its(partition);
        const answer = await jobs.reserve(bucket, request);
        this.#leased(partition, answer.jobs);
        return answer;
      },
      recover: async (partition, max) => {
        const [jobs, bucket] = await its(partition);
        return jobs.recover(bucket, max);
      },
      recoverOwners: async (partition, ...which) => {
        const [jobs, bucket] = await its(partition);
        return jobs.recoverOwners(bucket, ...which);
      },
      releaseUnheld: async (partition, ...whose) => {
        const [jobs, bucket] = await its(partition);
        return jobs.releaseUnheld(bucket, ...whose);
      },
    };
  }

  #end(one: Open): void {
    const ending = one.redis.close().finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  // ── Shards

  async run(script: ScriptName, partition: Partition, args: readonly Arg[], list = 0): Promise<unknown> {
    const one = await this.#startedAt(partition);
    return one.redis.shard.run(script, partition - one.base, args, list);
  }

  async has(partition: Partition, ...keys: readonly string[]): Promise<boolean> {
    const one = await this.#startedAt(partition);
    return one.redis.shard.has(partition - one.base, ...keys);
  }

  async #startedAt(partition: Partition): Promise<Open> {
    const one = this.#byPartition.get(partition);
    // It was removed while somebody still thought of it.
    if (one === undefined) throw new StoreError({ kind: 'not_stored', code: 'no_such_shard' });
    // A list that names a new shard is in force at once; its connection takes a moment.
    if (!one.isStarted) await one.starting;
    return one;
  }

  nameOf(partition: Partition): string {
    return this.#byPartition.get(partition)?.redis.shard.name ?? '';
  }

  isTight(partition: Partition): boolean {
    return this.#byPartition.get(partition)?.redis.shard.isTight() ?? false;
  }

  lossesOf(partition: Partition): number {
    return this.#byPartition.get(partition)?.redis.shard.lossesOf() ?? 0;
  }

  routeOf(key: JobKey): Route {
    const { home, earlier } = placesOf(this.#list, key);
    return {
      list: this.#list.number,
      home: home === null ? null : this.#placeOn(home, key),
      earlier: earlier.flatMap((id) => this.#placeOn(id, key) ?? []),
    };
  }

  everywhere(key: JobKey): readonly Partition[] {
    return [...this.#open.keys()].flatMap((id) => this.#placeOn(id, key) ?? []);
  }

  #placeOn(id: string, key: JobKey): Partition | null {
    const one = this.#open.get(id);
    return one === undefined ? null : one.base + bucketOf(key, one.record.buckets);
  }

  /** As long as this process knows it: by its list alone it could look where the job is no more. */
  routeOfLease(lease: Lease): Route {
    const partition = this.#leases.get(leaseName(lease));
    if (partition === undefined || !this.#byPartition.has(partition)) return this.routeOf(lease);
    return { list: this.#list.number, earlier: [], home: partition };
  }

  #leased(partition: Partition, leases: readonly Lease[]): void {
    for (const lease of leases) this.#leases.set(leaseName(lease), partition);
    // Leases that nobody ever finishes.
    for (const name of this.#leases.keys()) {
      if (this.#leases.size <= redisLimits.leasesRememberedMax) break;
      this.#leases.delete(name);
    }
  }

  ended(lease: Lease): void {
    this.#leases.delete(leaseName(lease));
  }

  elsewhere(job: PushJob): PushJob | null {
    const { anotherId } = job;
    if (anotherId === undefined || !this.#list.shards.some((one) => one.active && this.#answers(one.id)))
      return null;
    const failed = placesOf(this.#list, job).home;
    for (let draw = 0; draw < redisLimits.idDrawsMax; draw += 1) {
      const other = { ...job, id: anotherId() };
      const { home } = placesOf(this.#list, other);
      if (home !== null && home !== failed && this.#answers(home)) return other;
    }
    return null;
  }

  #answers(id: string): boolean {
    return this.#open.get(id)?.redis.shard.isReady ?? false;
  }

  async refresh(): Promise<void> {
    const before = this.#list.number;
    try {
      await this.#options.refresh();
    } catch (error) {
      if (error instanceof StoreError) throw error;
      throw new StoreError({ kind: 'not_stored', code: 'stale_list' }, { cause: error });
    }
    const heard = this.#list.number === before ? await newestHeard(this.#shards) : 0;
    if (heard <= this.#list.number || this.#saidForgotten === before) return;
    this.#saidForgotten = before;
    this.#options.log.error(forgottenSentence(heard, before));
  }

  /** Where shards have heard of a newer list than can be had, they refuse every push: nothing here is well. */
  async #health(): Promise<StoreHealth> {
    const health = await healthOfAll(this.#shards, this.#options.whyNone);
    const heard = await newestHeard(this.#shards);
    // It may be the list of a moment ago.
    if (heard > this.#list.number)
      await this.#options.refresh().catch(() => {
        // Then it is not known, and the pushes are refused all the same.
      });
    const { number } = this.#list;
    if (heard <= number) return health;
    const { durability, warnings } = health;
    return { ok: false, durability, warnings: [forgottenSentence(heard, number), ...warnings] };
  }
}

const leaseName = ({ topic, id, token }: Lease) => `${topic}\0${id}\0${token}`;
