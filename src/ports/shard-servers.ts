// The port of what is done to the servers that are shards, beside the jobs on them. An embedded store has none.

import type { ShardList } from '../core/shard-list.ts';

export type Identified =
  /** It is ours, or has been made so just now. */
  | ({ readonly kind: 'ours'; readonly id: string } & Pick<ShardHolds, 'jobs' | 'list'>)
  /** reason: why it can be no shard, the end of a sentence about it */
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'away'; readonly reason: string };

export interface ShardHolds {
  /** in any state, dead ones included */
  readonly jobs: number;
  /** owed, or being mailed */
  readonly alerts: number;
  /** number of the newest list of shards that it has heard of; 0 = of none */
  readonly list: number;
}

export interface ShardServers {
  /** The list that this process works by. */
  readonly list: ShardList;
  /** Asks a server whose it is, and makes it a shard of this registry where it is nobody's. */
  identify(url: string, buckets: number): Promise<Identified>;
  /** Has every partition of it hear of the list that this process works by: from then on nobody who places by an earlier one can put
   *  a job there. Answers what it holds at that moment. Rejects with StoreError when it does not answer. */
  announce(id: string): Promise<ShardHolds>;
  /** What it holds now. Rejects with StoreError when it does not answer. */
  holds(id: string): Promise<ShardHolds>;
  /** Whether it holds no job whose home, by the list that this process works by, is another shard; and none can come. Rejects with
   *  StoreError when it does not answer. */
  isSettled(id: string): Promise<boolean>;
  /** without what must not be shown */
  nameOf(url: string): string;
  /** how many buckets it gets where nobody says: 1, or a Cluster's */
  bucketsOf(url: string): number;
}
