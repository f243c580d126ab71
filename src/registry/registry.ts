// The port of the cold path: topics, statistics and access tokens (shards join them). Every value that passes is plain JSON, so
// that an embedded registry can be reached through the socket of its owner.
// Methods reject with StoreError: not_stored or unknown for writes, and for reads that found nobody to ask.

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

/** A topic to be written; the registry gives revision and times. */
export type TopicDraft = Omit<Topic, 'revision' | 'createdAt' | 'updatedAt'>;

export interface Registry {
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
  /** Told, lossily, that something changed. Returns the unsubscribe. */
  onChange(listener: () => void): () => void;
  close(): Promise<void>;
}
