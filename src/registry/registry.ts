// The port of the cold path: topics, statistics, access tokens and the list of shards. Every value that passes is plain JSON, so
// that an embedded registry can be reached through the socket of its owner.
// Methods reject with StoreError: not_stored or unknown for writes, and for reads that found nobody to ask.

import type { ShardList } from '../core/shard-list.ts';
import type { TokenRecord } from '../core/token.ts';
import type { Topic } from '../core/topic.ts';

export const statNames = ['pushed', 'delivered', 'retried', 'dead', 'cancelled'] as const;
export type StatName = (typeof statNames)[number];

export interface StatDelta {
  readonly topic: string;
  /** yyyymmdd in `timezone` */
  readonly day: number;
  readonly name: StatName;
  readonly n: number;
}

export interface TopicStats {
  readonly topic: string;
  readonly total: Readonly<Record<StatName, number>>;
  readonly today: Readonly<Record<StatName, number>>;
}

export interface TopicChanges {
  /** of the registry: pass it as `since` the next time */
  readonly revision: number;
  /** changed after `since`, whole */
  readonly topics: readonly Topic[];
  /** names deleted after `since` */
  readonly deleted: readonly string[];
}

export interface TokenChanges {
  /** of the registry: pass it as `since` the next time */
  readonly revision: number;
  /** all there are, by name; null = nothing in the registry changed after `since` */
  readonly tokens: readonly TokenRecord[] | null;
}

export interface ShardChanges {
  /** of the last change of the list, 0 = none was ever written: pass it as `since`, or as what is expected */
  readonly revision: number;
  /** null = not changed after `since` */
  readonly list: ShardList | null;
}

/** A topic to be written; the registry gives revision and times. */
export type TopicDraft = Omit<Topic, 'revision' | 'createdAt' | 'updatedAt'>;

export interface Registry {
  /** 16 hexadecimal digits, drawn once for each registry: whose topics the jobs of a Redis belong to. */
  id(): Promise<string>;
  /** since 0 = everything. Every process asks this every limits.registryPollMs; it is one indexed read. */
  changes(since: number): Promise<TopicChanges>;
  get(topic: string): Promise<Topic | null>;
  create(
    draft: TopicDraft,
  ): Promise<{ readonly kind: 'created'; readonly topic: Topic } | { readonly kind: 'exists' }>;
  /** Compare-and-set: changes nothing when the topic's revision is another by now. */
  update(
    draft: TopicDraft,
    expectedRevision: number,
  ): Promise<
    | { readonly kind: 'updated'; readonly topic: Topic }
    | { readonly kind: 'changed' }
    | { readonly kind: 'absent' }
  >;
  remove(topic: string, expectedRevision: number): Promise<'removed' | 'changed' | 'absent'>;
  /** All of a call or nothing. Counters of topics that are not registered (any more) are dropped. Not idempotent.
   *  A call holds at most limits.statsBatchMax. */
  addStats(deltas: readonly StatDelta[]): Promise<void>;
  /** of one topic, or of all that have any; `day` is today's number */
  stats(topic: string | null, day: number): Promise<readonly TopicStats[]>;
  /** since -1 = whatever there is. Every server asks this every limits.registryPollMs. */
  tokens(since: number): Promise<TokenChanges>;
  /** `full`: there are limits.tokensMax. Not idempotent: repeated, it finds its own name. */
  createToken(token: TokenRecord): Promise<'created' | 'exists' | 'full'>;
  removeToken(name: string): Promise<'removed' | 'absent'>;
  /** since -1 = whatever there is. Every process that works on Redis asks this every limits.registryPollMs. */
  shards(since: number): Promise<ShardChanges>;
  /** Compare-and-set of the whole list: changes nothing when its revision is another by now. */
  writeShards(list: ShardList, expectedRevision: number): Promise<'updated' | 'changed'>;
  /** Told, lossily, that something changed. Returns the unsubscribe. */
  onChange(listener: () => void): () => void;
  close(): Promise<void>;
}
