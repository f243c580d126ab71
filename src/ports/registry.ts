// The port of the cold path: topics, statistics, access tokens and the list of shards. Every value that passes is plain JSON, so
// that an embedded registry can be reached through the socket of its owner.
// Methods reject with StoreError: not_stored or unknown for writes, and for reads that found nobody to ask.
// Whatever grows with the number of topics comes in pages of bounded rows and bytes.

import type { ShardList } from '../core/shard-list.ts';
import type { TokenRecord } from '../core/token.ts';
import type { TopicSecret } from '../core/topic/secrets.ts';
import type { KnownTopic, Topic, TopicState } from '../core/topic/topic.ts';

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

/** A topic as the registry stores it: settings as JSON, secrets encrypted. Registry.read() makes a topic of it. */
export interface TopicRecord {
  readonly name: string;
  readonly state: string;
  readonly settings: string;
  readonly secrets: string;
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A place in the order of all changes: by revision, then by name. Everything up to it is known. */
export interface ChangePlace {
  readonly revision: number;
  /** null = every name of this revision */
  readonly name: string | null;
}

/** One page of the changes after a place, as of one moment. A topic that changes between two pages moves behind the last
 *  one, because its new revision is greater than any before; a deletion has a revision too. So whoever asks for page after
 *  page misses nothing, and may go on from any page later. */
export interface TopicChanges {
  /** of the registry at that moment */
  readonly revision: number;
  readonly topics: readonly TopicRecord[];
  readonly deleted: readonly { readonly name: string; readonly revision: number }[];
  /** where the next page begins; null = this was the last one, and everything up to `revision` is known */
  readonly next: ChangePlace | null;
}

/** What can be read of a stored topic, whatever of it is damaged. */
export interface TopicRemains {
  readonly revision: number;
  /** null = unreadable */
  readonly secrets: readonly TopicSecret[] | null;
}

export interface StatPage {
  readonly stats: readonly TopicStats[];
  /** the topic after which the next page begins; null = this was the last one */
  readonly next: string | null;
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

export type TurnOutcome =
  | { readonly kind: 'updated'; readonly revision: number }
  | { readonly kind: 'changed' | 'absent' };

export interface Registry {
  /** 16 hexadecimal digits, drawn once for each registry: whose topics the jobs of a Redis belong to. */
  id(): Promise<string>;
  /** At most sqlLimits.registryPageRows rows of sqlLimits.registryPageBytes. Every process asks this every registryLimits.registryPollMs; where
   *  nothing changed it is one indexed read. */
  changes(after: ChangePlace): Promise<TopicChanges>;
  /** Throws for a record that cannot be read: damaged, or written by a newer version. */
  read(record: TopicRecord): KnownTopic;
  /** Rejects with the code `unreadable_topic` for one that is stored and cannot be read. */
  get(topic: string): Promise<Topic | null>;
  /** For a topic whose get() is unreadable: what it takes to replace or remove it. */
  remains(topic: string): Promise<TopicRemains | null>;
  /** Compare-and-set of the state alone; the rest of the record stays as it is, readable or not. */
  turn(topic: string, state: TopicState, expectedRevision: number): Promise<TurnOutcome>;
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
   *  A call holds at most upkeepLimits.statsBatchMax. */
  addStats(deltas: readonly StatDelta[]): Promise<void>;
  /** of one topic, null where it has none; `day` is today's number */
  stats(topic: string, day: number): Promise<TopicStats | null>;
  /** of all that have any, by name, from the first one after `after` on */
  statsPage(after: string, day: number): Promise<StatPage>;
  /** since -1 = whatever there is. Every server asks this every registryLimits.registryPollMs. */
  tokens(since: number): Promise<TokenChanges>;
  /** `full`: there are limits.tokensMax. Not idempotent: repeated, it finds its own name. */
  createToken(token: TokenRecord): Promise<'created' | 'exists' | 'full'>;
  removeToken(name: string): Promise<'removed' | 'absent'>;
  /** since -1 = whatever there is. Every process that works on Redis asks this every registryLimits.registryPollMs. */
  shards(since: number): Promise<ShardChanges>;
  /** Compare-and-set of the whole list: changes nothing when its revision is another by now. */
  writeShards(list: ShardList, expectedRevision: number): Promise<'updated' | 'changed'>;
  /** Told, lossily, that something changed. Returns the unsubscribe. */
  onChange(listener: () => void): () => void;
  close(): Promise<void>;
}
