// The port of shards as servers: whose they are and what they hold. An embedded store has no shards.

import type { ShardList, ShardRecord } from '../core/shard-list.ts';

export type Identified =
  /** It belongs to this registry, perhaps since this call. */
  | ({ readonly kind: 'ours'; readonly id: string } & Pick<ShardHolds, 'jobs' | 'list'>)
  /** refused: it cannot be a shard; away: it does not work. reason: the end of a sentence about it */
  | NotOurs;

/** code: as StoreFailure has it */
export type NotOurs = ({ readonly kind: 'refused' } | { readonly kind: 'away' }) & {
  readonly code: string;
  readonly reason: string;
};

export interface ShardHolds {
  /** in any state, dead ones included */
  readonly jobs: number;
  /** owed, or being mailed */
  readonly alerts: number;
  /** number of the newest shard list that it knows; 0 = none */
  readonly list: number;
  /** A move of a jobs.db is open here: a late put of a job is recognized by the entries of its ends. */
  readonly isArrival: boolean;
}

/** How a server is doing; of a Cluster: the sums of its masters, and the largest latency. */
export interface ShardInfo {
  readonly version: string;
  /** memory in use, and the most that it may use; null = no limit */
  readonly usedBytes: number;
  readonly maxBytes: number | null;
  /** maxmemory-policy; null = its configuration cannot be read */
  readonly eviction: string | null;
  /** what of its data survives: see durability; `snapshots`, `memory`: without an append-only file */
  readonly persistence: 'always' | 'everysec' | 'no' | 'snapshots' | 'memory' | 'unknown';
  /** one sentence, as in StoreHealth */
  readonly durability: string;
  readonly warnings: readonly string[];
  readonly clients: number;
  readonly opsPerSecond: number;
  /** from the call to the answer */
  readonly latencyMs: number;
  /** masters that answered */
  readonly nodes: number;
  readonly quarantined: number;
}

export interface ShardServers {
  /** The shard list of this process. */
  readonly list: ShardList;
  /** The listener receives each list that comes into force, and the current one at once. */
  onList(listener: (list: ShardList) => void): void;
  /** Reads the owner of a server and claims a free one for this registry. */
  identify(url: string, buckets: number): Promise<Identified>;
  /** Why the shard cannot be used at this address; null = it can. Writes nothing. */
  whyNotAt(
    shard: Pick<ShardRecord, 'id' | 'buckets'>,
    url: string,
  ): Promise<Pick<NotOurs, 'kind' | 'reason'> | null>;
  /** Sends the number of this process's shard list to every partition of the shard: from then on it rejects
   *  pushes placed by an earlier list. Returns its contents at that moment. Rejects with StoreError when the
   *  shard does not answer. */
  announce(id: string): Promise<ShardHolds>;
  /** The current contents. Rejects with StoreError when the shard does not answer. */
  holds(id: string): Promise<ShardHolds>;
  /** Why the shard does not work or rejects pushes: the words of StoreHealth.warnings after its address;
   *  null = it works. */
  trouble(id: string): Promise<string | null>;
  /** One INFO and one CONFIG GET. Rejects with StoreError when the shard does not answer. */
  info(id: string): Promise<ShardInfo>;
  /** true = by the shard list of this process, the shard holds no job with another home and cannot get one.
   *  Rejects with StoreError when the shard does not answer. */
  isCleared(id: string): Promise<boolean>;
  /** the address without its login */
  nameOf(url: string): string;
  /** default number of buckets: 1, or that of a Cluster */
  bucketsOf(url: string): number;
}
