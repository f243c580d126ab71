// The job store on Redis: the port over one to n shards, as the shard list names them. Owns the open shards,
// and remembers which shard gave out each lease. core/shard-list.ts decides where an id lives.
// Invariants: an id that lives on one shard is never stored on another, whatever is unavailable. A partition
// keeps its number while this process lives. An unavailable shard rejects its own calls and no others.

import type { JobKey, Lease } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import {
  forgottenSentence,
  idAt,
  noShards,
  placesOf,
  type ShardList,
  type ShardRecord,
} from '../../../core/shard-list.ts';
import type { Hint, Partition, PushJob, Store, StoreHealth } from '../../../ports/job-store.ts';
import { StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import { storeLimits } from '../../limits.ts';
import { adminCalls, type FileBackups } from '../calls/admin.ts';
import { alertCalls } from '../calls/alerts.ts';
import { deadCalls } from '../calls/dead.ts';
import { arrivalCalls, healingCalls } from '../calls/healing.ts';
import { healthOfAll } from '../calls/health.ts';
import { historyCalls } from '../calls/history.ts';
import { jobCalls } from '../calls/jobs.ts';
import { surveyCalls } from '../calls/surveys.ts';
import { Hints } from '../client/hints.ts';
import { redisLimits } from '../limits.ts';
import { type Bucket, bucketOf } from '../scripts/keys.ts';
import type { ScriptName } from '../scripts/scripts.ts';
import { ShardPolls, withPlainPolls } from './polling.ts';
import { newestListNumber, Shard, type ShardOptions } from './shard.ts';
import type { Arg, Route, Shards } from './shards.ts';

export interface RedisStoreOptions extends Omit<ShardOptions, 'url' | 'buckets' | 'shardId' | 'listNumber'> {
  /** Reads the shard list again and has it applied. Rejects when the registry does not answer. */
  readonly refresh: () => Promise<void>;
  /** why no shard is known: what the first shard list waits for */
  readonly whyUnknown?: () => StoreFailure;
  /** null: the registry is in MySQL */
  readonly backups?: FileBackups | null;
  /** whether this process listens to hints from the start, or from its first listener on: one more
   *  connection per shard */
  readonly hints: boolean;
  /** storeLimits.recoverHoldMs, unless a test has less time */
  readonly recoverHoldMs?: number;
  /** false: promote and reserve always run their scripts; for tests that compare the exact wait of promote */
  readonly plainPolls?: boolean;
  /** ms; never adjusted; default monotonicNow */
  readonly monotonic?: () => number;
  /** redisLimits.capacitiesMax, unless a test has fewer topics */
  readonly capacitiesMax?: number;
}

interface OpenShard {
  record: ShardRecord;
  /** its first partition; one per bucket follows */
  readonly base: Partition;
  readonly shard: Shard;
  hints: Hints | null;
  readonly polls: ShardPolls;
  starting: Promise<void>;
  /** the first attempt to connect has ended, with or without success */
  isStarted: boolean;
}

const lastingName = (shardId: string, bucket: Bucket): string => `${shardId}:${bucket}`;

export class RedisStore implements Shards {
  readonly #options: RedisStoreOptions;
  readonly recoverHoldMs: number;
  readonly store: Store;
  readonly #listeners = new Set<(hint: Hint) => void>();
  readonly #listListeners = new Set<(list: ShardList) => void>();
  /** by id, in the order of the list */
  #open: ReadonlyMap<string, OpenShard> = new Map();
  #list: ShardList = noShards;
  openPartitions: readonly Partition[] = [];
  #byPartition: ReadonlyMap<Partition, OpenShard> = new Map();
  /** Base of the next shard to open. Never reused: a late hint or lease must not match another shard's
   *  partition. */
  #nextBase = 0;
  /** With a journal, the places of all partitions that were ever open: a reply that arrives after its shard
   *  left the list still names changes. */
  readonly #places = new Map<Partition, string>();
  /** oldest first */
  readonly #leases = new Map<string, Partition>();
  /** number of our list when a newer one on a shard was last reported */
  #reportedAt: number | null = null;
  #started = false;
  #closed = false;
  readonly #closing = new Set<Promise<unknown>>();

  constructor(options: RedisStoreOptions) {
    this.#options = options;
    this.recoverHoldMs = options.recoverHoldMs ?? storeLimits.recoverHoldMs;
    const onHint = (listener: (hint: Hint) => void) => {
      this.#listeners.add(listener);
      for (const one of this.#open.values()) void this.#listen(one);
      return () => this.#listeners.delete(listener);
    };
    const jobs = jobCalls(this, { onHint }, options.capacitiesMax);
    this.store = {
      jobs:
        options.plainPolls === false ? jobs : withPlainPolls(jobs, (partition) => this.#pollsOf(partition)),
      dead: deadCalls(this),
      history: historyCalls(this),
      alerts: alertCalls(this),
      admin: {
        ...adminCalls(this, () => this.#knownShards, options.backups),
        health: () => this.#health(),
      },
      surveys: surveyCalls(this),
      ...(options.writer === undefined ? {} : { healing: healingCalls(this) }),
      arrivals: arrivalCalls(this),
      close: () => this.close(),
    };
  }

  /** Resolves after the first attempt to connect to each shard of the list, successful or not. */
  async start(): Promise<void> {
    this.#started = true;
    this.#openListed();
    await Promise.all([...this.#open.values()].map(({ starting }) => starting));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...[...this.#open.values()].map(closeShard), ...this.#closing]);
  }

  /** In force from the next call on. Ignores a list older than the one in force. */
  apply(list: ShardList): void {
    if (list.number < this.#list.number) return;
    this.#list = list;
    for (const listener of this.#listListeners) listener(list);
    if (this.#started) this.#openListed();
  }

  onList(listener: (list: ShardList) => void): void {
    this.#listListeners.add(listener);
    listener(this.#list);
  }

  get list(): ShardList {
    return this.#list;
  }

  /** null: no such shard, or it is not open yet */
  shard(id: string): Shard | null {
    return this.#open.get(id)?.shard ?? null;
  }

  get #shards(): readonly Shard[] {
    return [...this.#open.values()].map(({ shard }) => shard);
  }

  /** Throws StoreError while no shard is known. */
  get #knownShards(): readonly Shard[] {
    this.#requireKnown();
    return this.#shards;
  }

  /** The first shard that was reached and belongs to another store, with the reason; null = there is none. */
  get foreign(): string | null {
    const first = this.#shards.find(({ server }) => server.foreign !== null);
    return first === undefined ? null : `${first.name}: ${first.server.foreign}`;
  }

  /** INFO server, of every shard that answers. */
  async infos(): Promise<readonly string[]> {
    const shards = this.#shards.filter(({ isReady }) => isReady);
    const replies = await Promise.allSettled(shards.map((shard) => shard.command('INFO', 'server')));
    return replies.flatMap((reply) => (reply.status === 'fulfilled' ? [String(reply.value)] : []));
  }

  /** Opens shards that are new or have another address, and closes those that are no longer listed. */
  #openListed(): void {
    if (this.#closed) return;
    const open = new Map<string, OpenShard>();
    for (const record of this.#list.shards) {
      const known = this.#open.get(record.id);
      const isSame = known?.record.url === record.url && known.record.buckets === record.buckets;
      open.set(
        record.id,
        known !== undefined && isSame ? Object.assign(known, { record }) : this.#openShard(record),
      );
    }
    for (const [id, one] of this.#open) if (open.get(id) !== one) this.#closeLater(one);
    this.#open = open;
    const placed = [...open.values()].flatMap((one) =>
      one.shard.buckets.map((bucket) => [one.base + bucket, one] as const),
    );
    this.openPartitions = placed.map(([partition]) => partition);
    this.#byPartition = new Map(placed);
  }

  #openShard(record: ShardRecord): OpenShard {
    const base = this.#nextBase;
    this.#nextBase += record.buckets;
    const { id: shardId, url, buckets } = record;
    const { capacitiesMax, writer, monotonic } = this.#options;
    if (writer !== undefined)
      for (let bucket = 0; bucket < buckets; bucket += 1)
        this.#places.set(base + bucket, lastingName(shardId, bucket));
    const shard = new Shard({
      isListed: true,
      ...this.#options,
      shardId,
      url,
      buckets,
      listNumber: () => this.#list.number,
    });
    const polls = new ShardPolls(shard, capacitiesMax, monotonic);
    const isHeard = this.#options.hints || this.#listeners.size > 0;
    const one: OpenShard = {
      record,
      base,
      shard,
      polls,
      hints: null,
      isStarted: false,
      starting: Promise.resolve(),
    };
    one.starting = Promise.all([shard.start(), isHeard ? this.#listen(one) : null]).then(() => {
      one.isStarted = true;
    });
    return one;
  }

  /** Subscribes to the hints of a shard, once. Resolves after the first attempt. */
  async #listen(one: OpenShard): Promise<void> {
    if (one.hints !== null || this.#closed) return;
    const { title, log, hints: fromStart, connectTcp } = this.#options;
    const { url } = one.record;
    const partitions = one.shard.buckets;
    const hints = new Hints({ url, title, partitions, log, isLate: !fromStart, connectTcp });
    one.hints = hints;
    hints.onHint((hint, isPoll) => {
      // Without connection a poll fails, and the loops wait longer than redisPollMs after a failure.
      if (isPoll && !one.shard.isReady) return;
      if (hint.kind === 'ready' && !isPoll) one.polls.hintReady(hint.partition);
      for (const listener of this.#listeners) listener({ ...hint, partition: one.base + hint.partition });
    });
    await hints.start();
  }

  #closeLater(one: OpenShard): void {
    const closing = closeShard(one).finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  // ── Shards

  get partitions(): readonly Partition[] {
    this.#requireKnown();
    return this.openPartitions;
  }

  get whyUnknown(): StoreFailure | null {
    if (this.#open.size > 0) return null;
    return this.#options.whyUnknown?.() ?? { kind: 'not_stored', code: 'no_shard_list', why: listUnknown };
  }

  #requireKnown(): void {
    const why = this.whyUnknown;
    if (why !== null) throw new StoreError(why);
  }

  async run(script: ScriptName, partition: Partition, args: readonly Arg[], list = 0): Promise<unknown> {
    const one = await this.#startedAt(partition);
    return one.shard.run(script, partition - one.base, args, list);
  }

  async has(partition: Partition, ...keys: readonly string[]): Promise<boolean> {
    const one = await this.#startedAt(partition);
    return one.shard.has(partition - one.base, ...keys);
  }

  async #pollsOf(partition: Partition): Promise<readonly [polls: ShardPolls, bucket: Bucket]> {
    const one = await this.#startedAt(partition);
    return [one.polls, partition - one.base];
  }

  async #startedAt(partition: Partition): Promise<OpenShard> {
    const one = this.#byPartition.get(partition);
    // The shard was removed after the caller read the partitions.
    if (one === undefined) throw new StoreError({ kind: 'not_stored', code: 'no_such_shard' });
    // A list with a new shard is in force at once; its connection takes a moment.
    if (!one.isStarted) await one.starting;
    return one;
  }

  nameOf(partition: Partition): string {
    return this.#byPartition.get(partition)?.shard.name ?? '';
  }

  lastingNameOf(partition: Partition): string {
    const one = this.#byPartition.get(partition);
    return one === undefined ? '' : lastingName(one.record.id, partition - one.base);
  }

  placeOf(partition: Partition): string | null {
    return this.#places.get(partition) ?? null;
  }

  received(partition: Partition, number: number): void {
    const one = this.#byPartition.get(partition);
    one?.shard.received(partition - one.base, number);
  }

  isNearlyFull(partition: Partition): boolean {
    return this.#byPartition.get(partition)?.shard.isNearlyFull ?? false;
  }

  lossesOf(partition: Partition): number {
    return this.#byPartition.get(partition)?.shard.losses ?? 0;
  }

  routeOf(key: JobKey): Route {
    this.#requireKnown();
    const { home, earlier } = placesOf(this.#list, key);
    return {
      list: this.#list.number,
      home: home === null ? null : this.#placeOn(home, key),
      earlier: earlier.flatMap((id) => this.#placeOn(id, key) ?? []),
    };
  }

  idAt(partition: Partition, key: JobKey): string {
    this.#requireKnown();
    const one = this.#byPartition.get(partition);
    if (one === undefined) throw new StoreError({ kind: 'not_stored', code: 'no_such_shard' });
    return idAt(this.#list, one.record, partition - one.base, key);
  }

  everywhere(key: JobKey): readonly Partition[] {
    this.#requireKnown();
    return [...this.#open.keys()].flatMap((id) => this.#placeOn(id, key) ?? []);
  }

  #placeOn(id: string, key: JobKey): Partition | null {
    const one = this.#open.get(id);
    return one === undefined ? null : one.base + bucketOf(key, one.record.buckets);
  }

  routeOfLease(lease: Lease): Route {
    const partition = this.#leases.get(leaseName(lease));
    if (partition === undefined || !this.#byPartition.has(partition)) return this.routeOf(lease);
    return { list: this.#list.number, earlier: [], home: partition };
  }

  leased(partition: Partition, leases: readonly Lease[]): void {
    for (const lease of leases) this.#leases.set(leaseName(lease), partition);
    // Forget the oldest: some leases never see a finishing write.
    for (const name of this.#leases.keys()) {
      if (this.#leases.size <= redisLimits.leasesRememberedMax) break;
      this.#leases.delete(name);
    }
  }

  finished(lease: Lease): void {
    this.#leases.delete(leaseName(lease));
  }

  elsewhere(job: PushJob): PushJob | null {
    const { anotherId } = job;
    if (anotherId === undefined || !this.#list.shards.some((one) => one.active && this.#isReady(one.id)))
      return null;
    const failed = placesOf(this.#list, job).home;
    for (let draw = 0; draw < redisLimits.idDrawsMax; draw += 1) {
      const other = { ...job, id: anotherId() };
      const { home } = placesOf(this.#list, other);
      if (home !== null && home !== failed && this.#isReady(home)) return other;
    }
    return null;
  }

  #isReady(id: string): boolean {
    return this.#open.get(id)?.shard.isReady ?? false;
  }

  async refresh(): Promise<void> {
    const before = this.#list.number;
    try {
      await this.#options.refresh();
    } catch (error) {
      if (error instanceof StoreError) throw error;
      throw new StoreError({ kind: 'not_stored', code: 'stale_list' }, { cause: error });
    }
    const newest = this.#list.number === before ? await newestListNumber(this.#shards) : 0;
    if (newest <= this.#list.number || this.#reportedAt === before) return;
    this.#reportedAt = before;
    this.#options.log.error(forgottenSentence(newest, before));
  }

  /** Not ok while a shard knows a newer list than the registry has: that shard rejects every push. */
  async #health(): Promise<StoreHealth> {
    const health = await healthOfAll(this.#shards, this.whyUnknown);
    const newest = await newestListNumber(this.#shards);
    // Our list may only be a moment old.
    if (newest > this.#list.number)
      await this.#options.refresh().catch(() => {
        // The list stays as it is, and the sentence below reports that.
      });
    const { number } = this.#list;
    if (newest <= number) return health;
    const { durability, warnings } = health;
    return { ok: false, durability, warnings: [forgottenSentence(newest, number), ...warnings] };
  }
}

async function closeShard({ shard, hints }: OpenShard): Promise<void> {
  await Promise.all([hints?.close(limits.redisCloseMs), shard.close(limits.redisCloseMs)]);
}

const listUnknown = 'the shard list is not known yet';

const leaseName = ({ topic, id, token }: Lease) => `${topic}\0${id}\0${token}`;
