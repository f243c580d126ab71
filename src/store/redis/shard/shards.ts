// What the calls of the port see of the shards: partitions to run scripts on, and where among them a job may
// live. Defines what a question to all partitions answers when some do not reply. Knows no script.

import type { JobKey, Lease, Moment } from '../../../core/job.ts';
import type { Partition, PushJob } from '../../../ports/job-store.ts';
import { StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import type { ScriptName } from '../scripts/scripts.ts';

export type Arg = string | number | Buffer;

/** Where a job may live, by one shard list. */
export interface Route {
  /** number of that list, sent with each call that depends on it */
  readonly list: number;
  /** where it may live since an earlier list: visited first, in this order */
  readonly earlier: readonly Partition[];
  /** where it is stored if it lives nowhere; visited last; null = no shard takes new ids */
  readonly home: Partition | null;
}

export interface Shards {
  /** Of every shard, unavailable ones included, in the same order in every process. Throws StoreError while
   *  no shard is known: an answer of none would say that there are no jobs. */
  readonly partitions: readonly Partition[];
  /** The same, and empty while no shard is known: for loops that work on each partition by itself. */
  readonly openPartitions: readonly Partition[];
  /** Why no shard is known; null = some are. */
  readonly whyUnknown: StoreFailure | null;
  /** ms */
  readonly recoverHoldMs: number;
  /** The raw reply: binary strings as buffers. Rejects with StoreError. */
  run(script: ScriptName, partition: Partition, args: readonly Arg[], list?: number): Promise<unknown>;
  /** The partition returned this number of a change of this process; ignores those it knows. */
  received(partition: Partition, number: number): void;
  /** Whether the bucket has any of these keys, by one plain command: cheaper than a script. Rejects with
   *  StoreError. */
  has(partition: Partition, ...keys: readonly string[]): Promise<boolean>;
  /** address of the partition's shard, without secrets */
  nameOf(partition: Partition): string;
  /** `<shard id>:<bucket>`: its name in moments; empty: its shard left the list */
  lastingNameOf(partition: Partition): string;
  /** the same, where changes are named for a journal; null: they are not */
  placeOf(partition: Partition): string | null;
  /** its shard is nearly full: see server-watch.ts */
  isNearlyFull(partition: Partition): boolean;
  /** Changes after each moment in which the shard may have lost data: cached content is then invalid. */
  lossesOf(partition: Partition): number;
  /** Throws StoreError while no shard is known. */
  routeOf(key: JobKey): Route;
  /** The id, with a suffix where there are several partitions, so that look-ups find it in this one. Throws
   *  as routeOf. */
  idAt(partition: Partition, key: JobKey): string;
  /** One per shard: where the id would live on it, by no list. Throws StoreError while no shard is known. */
  everywhere(key: JobKey): readonly Partition[];
  /** To the shard that gave out the lease, if remembered: the list alone could miss the job. Throws as
   *  routeOf. */
  routeOfLease(lease: Lease): Route;
  /** The partition gave out these leases. */
  leased(partition: Partition, leases: readonly Lease[]): void;
  /** The lease has ended. */
  finished(lease: Lease): void;
  /** The job under another id, whose home answers; null = no such id, or the producer chose the id. */
  elsewhere(job: PushJob): PushJob | null;
  /** Reads the shard list again, after a shard named a newer one. Rejects if the registry does not answer. */
  refresh(): Promise<void>;
}

/** `missing`: names of the shards without an answer. */
export interface Answered<T> {
  readonly answers: readonly T[];
  readonly missing: readonly string[];
}

/** Asks every partition. Rejects when no shard answers. */
export async function askAll<T>(
  shards: Pick<Shards, 'partitions' | 'nameOf'>,
  ask: (partition: Partition) => Promise<T>,
): Promise<Answered<T>> {
  const { partitions } = shards;
  const settled = await Promise.allSettled(partitions.map(ask));
  const answers: T[] = [];
  const missing = new Set<string>();
  let first: unknown;
  for (const [i, each] of settled.entries()) {
    if (each.status === 'fulfilled') answers.push(each.value);
    else if (!(each.reason instanceof StoreError)) throw each.reason;
    else {
      first ??= each.reason;
      missing.add(shards.nameOf(partitions[i] as Partition));
    }
  }
  if (answers.length === 0 && first !== undefined) throw first;
  return { answers, missing: [...missing] };
}

/** Reads the shard list again if it lacks a partition of the moment: the list was changed before it, or the
 *  shard was removed since. */
export async function knowAllOf(shards: Shards, moment: Moment | undefined): Promise<void> {
  if (moment === undefined) return;
  const known = new Set(shards.partitions.map((partition) => shards.lastingNameOf(partition)));
  if (Object.keys(moment).some((name) => !known.has(name))) await shards.refresh();
}

/** As a member of an answer: absent when no shard is missing. */
export function namingMissing(missing: readonly string[]): { readonly missing?: readonly string[] } {
  return missing.length === 0 ? {} : { missing };
}

/** Asks one place of the job's route after the other until one has the job; null = none has it. Rejects when
 *  none has it and a place did not answer. */
export async function lookUp<T>(
  shards: Shards,
  key: JobKey,
  ask: (partition: Partition, list: number) => Promise<T | null>,
): Promise<T | null> {
  for (let attempt = 1; ; attempt += 1) {
    const { list, earlier, home } = shards.routeOf(key);
    let failed: unknown = null;
    let isListStale = false;
    for (const partition of home === null ? earlier : [...earlier, home]) {
      try {
        const found = await ask(partition, list);
        if (found !== null) return found;
      } catch (error) {
        failed ??= error;
        isListStale ||= isStale(error);
      }
    }
    if (failed === null) return null;
    if (!isListStale || attempt === placingsMax) throw failed;
    await shards.refresh();
  }
}

/** Attempts to place a job while shards name newer lists. Operators change lists by hand, so 3 are enough. */
export const placingsMax = 3;

const isStale = (error: unknown): boolean =>
  error instanceof StoreError && error.failure.code === 'stale_list';
