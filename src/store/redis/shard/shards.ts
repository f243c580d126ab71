// One shard or several, as the calls of the port see them: partitions to run scripts on, and where among them a job may be.
// Owns what a question to all partitions means when some do not answer; knows no script.

import type { JobKey, Lease } from '../../../core/job.ts';
import { type Partition, type PushJob, StoreError } from '../../../ports/job-store.ts';
import type { ScriptName } from '../scripts/scripts.ts';

export type Arg = string | number | Buffer;

/** Where a job may be, by one list of shards. */
export interface Route {
  /** number of that list; a call that depends on it says it */
  readonly list: number;
  /** where it may live since an earlier list: to be looked at first, in this order, and before its home */
  readonly earlier: readonly Partition[];
  /** where it goes when it lives nowhere; null = no shard takes new ids */
  readonly home: Partition | null;
}

export interface Shards {
  /** Of every shard, in the same order in every process; those that are away are among them. */
  readonly partitions: readonly Partition[];
  /** storeLimits.recoverHoldMs, unless a test has less time */
  readonly recoverHoldMs: number;
  /** The raw reply: binary strings as buffers. Rejects with StoreError. */
  run(script: ScriptName, partition: Partition, args: readonly Arg[], list?: number): Promise<unknown>;
  /** Whether the bucket has any of these keys, by one plain command: who asks often, asks this first. Rejects with StoreError. */
  has(partition: Partition, ...keys: readonly string[]): Promise<boolean>;
  /** the shard of a partition, without what must not be shown */
  nameOf(partition: Partition): string;
  /** its shard is nearly full: see memory-watch.ts */
  isTight(partition: Partition): boolean;
  /** Another number after each moment in which its server may have lost data: cached content is invalid. */
  lossesOf(partition: Partition): number;
  routeOf(key: JobKey): Route;
  /** one per shard: where the id would be on it, whatever any list says */
  everywhere(key: JobKey): readonly Partition[];
  /** Where the lease was given out. */
  routeOfLease(lease: Lease): Route;
  /** The lease is over. */
  ended(lease: Lease): void;
  /** The job under another id, one whose home answers; null = there is none, or the id is its producer's. */
  elsewhere(job: PushJob): PushJob | null;
  /** A shard knows a newer list: reads it. Rejects when nobody can be asked for it. */
  refresh(): Promise<void>;
}

/** A question to every partition: what answered, and the names of the shards that did not. Rejects where none did. */
export async function askAll<T>(
  shards: Shards,
  ask: (partition: Partition) => Promise<T>,
): Promise<{ readonly answers: readonly T[]; readonly missing: readonly string[] }> {
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

/** As a member of an answer: absent where nothing is missing. */
export function namingMissing(missing: readonly string[]): { readonly missing?: readonly string[] } {
  return missing.length === 0 ? {} : { missing };
}

/** Asks where the job may be, one place after the other, until one has it. Where none has, one that did not answer may be the one:
 *  rejects. */
export async function lookUp<T>(
  shards: Shards,
  key: JobKey,
  ask: (partition: Partition, list: number) => Promise<T | null>,
): Promise<T | null> {
  for (let attempt = 1; ; attempt += 1) {
    const { list, earlier, home } = shards.routeOf(key);
    let failed: unknown = null;
    let stale = false;
    for (const partition of home === null ? earlier : [...earlier, home]) {
      try {
        const found = await ask(partition, list);
        if (found !== null) return found;
      } catch (error) {
        failed ??= error;
        stale ||= isStale(error);
      }
    }
    if (failed === null) return null;
    if (!stale || attempt === placingsMax) throw failed;
    await shards.refresh();
  }
}

/** How often a job is placed anew because a shard knows a newer list: lists change by hand. */
export const placingsMax = 3;

export const isStale = (error: unknown): boolean =>
  error instanceof StoreError && error.failure.code === 'stale_list';
