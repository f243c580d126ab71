// The port of the cold path: topics, statistics, series, access tokens, console sessions and the shard list.
// registryVerbs says of each verb what the processes that forward it need.
// All values are plain JSON, so that they can pass the socket of an embedded registry's owner. Methods reject
// with StoreError: not_stored or unknown for writes, not_stored for reads of an unavailable registry. Lists
// that grow with the number of topics come in pages of bounded rows and bytes.

import type { AuditEntry, AuditFilter } from '../core/audit.ts';
import type { Owner } from '../core/job.ts';
import type {
  OperationCheckpoint,
  OperationLease,
  OperationRecord,
  OperationWork,
} from '../core/operation.ts';
import type { DueTick, ScheduleRecord, StoredSchedule, TickEnd } from '../core/schedule.ts';
import type { StatName } from '../core/series.ts';
import type { SessionRecord, SignInLink } from '../core/session.ts';
import type { ShardList } from '../core/shard-list.ts';
import type { TokenRecord, TokenUse } from '../core/token.ts';
import type { OutcomeField, OutcomeProblem, OutcomeTopics } from '../core/topic/outcome-topics.ts';
import type { TopicSecret } from '../core/topic/secrets.ts';
import type { KnownTopic, Topic, TopicState } from '../core/topic/topic.ts';

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

/** A stored topic: settings as JSON, secrets encrypted. Registry.read() turns it into a topic. */
export interface TopicRecord {
  readonly name: string;
  readonly state: string;
  readonly settings: string;
  readonly secrets: string;
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A place in the order of all changes, by revision, then by name. */
export interface ChangePlace {
  readonly revision: number;
  /** null = every name of this revision */
  readonly name: string | null;
}

/** One page of the changes after a place, read at one moment. A topic that changes between two pages moves
 *  behind the last page, because its new revision is the highest; a deletion has a revision too. So a reader
 *  of all pages misses nothing, and can continue from any page later. */
export interface TopicChanges {
  /** of the registry at that moment */
  readonly revision: number;
  readonly topics: readonly TopicRecord[];
  readonly deleted: readonly { readonly name: string; readonly revision: number }[];
  /** where the next page begins; null = the reader knows everything up to `revision` */
  readonly next: ChangePlace | null;
}

/** The readable part of a damaged stored topic. */
export interface TopicRemains extends OutcomeTopics {
  readonly revision: number;
  /** null = unreadable */
  readonly secrets: readonly TopicSecret[] | null;
}

export interface StatPage {
  readonly stats: readonly TopicStats[];
  /** the topic after which the next page begins; null = last page */
  readonly next: string | null;
}

interface TokenChanges {
  /** of the registry: the `since` of the next call */
  readonly revision: number;
  /** all tokens by name; null = the registry did not change after `since` */
  readonly tokens: readonly TokenRecord[] | null;
}

interface SessionChanges {
  /** of the registry: the `since` of the next call */
  readonly revision: number;
  /** all sessions by the time of their sign-in, ended ones too; null = the registry did not change after
   *  `since` */
  readonly sessions: readonly SessionRecord[] | null;
}

export interface AuditPage {
  /** newest first */
  readonly items: readonly AuditEntry[];
  /** the `before` of the next page, which may exist although this one is short; null = last page */
  readonly next: string | null;
}

export interface ShardChanges {
  /** of the last change of the list, 0 = never written: the next `since` or `expectedRevision` */
  readonly revision: number;
  /** null = not changed after `since` */
  readonly list: ShardList | null;
}

/** What one dq-upkeep recorded of one topic in one step. Rows of the same topic and step add up. */
export interface SeriesRow {
  /** everyTopic = all topics together */
  readonly topic: string;
  /** seconds, of seriesSteps */
  readonly step: number;
  /** epoch seconds of its beginning */
  readonly at: number;
  readonly instance: number;
  /** of the dq-upkeep that wrote it */
  readonly incarnation: number;
  /** packFacts() */
  readonly packed: string;
}

export interface SeriesQuery {
  /** at most sqlLimits.seriesTopicsMax */
  readonly topics: readonly string[];
  readonly step: number;
  /** epoch seconds, both included */
  readonly from: number;
  readonly to: number;
}

/** A topic that names another one in onDone or onDead. */
export interface NamingTopic {
  readonly topic: string;
  readonly field: OutcomeField;
}

/** Of a draft whose onDone or onDead cannot be stored. */
export interface BadOutcome {
  readonly kind: 'bad_outcome';
  readonly problem: OutcomeProblem;
}

/** A topic to write; the registry sets revision and times. */
export type TopicDraft = Omit<Topic, 'revision' | 'createdAt' | 'updatedAt'>;

type TurnOutcome =
  | { readonly kind: 'updated'; readonly revision: number }
  | { readonly kind: 'changed' | 'absent' };

export interface Registry {
  /** 16 random hexadecimal digits per registry. A Redis belongs to one registry id. */
  id(): Promise<string>;
  /** At most sqlLimits.registryPageRows rows and sqlLimits.registryPageBytes. Every process calls it each
   *  registryLimits.registryPollMs; without a change it is one indexed read. */
  changes(after: ChangePlace): Promise<TopicChanges>;
  /** Throws for a damaged record. */
  read(record: TopicRecord): KnownTopic;
  /** null = no such topic. Rejects with the code `unreadable_topic` for a damaged one. */
  get(topic: string): Promise<Topic | null>;
  /** The parts of an unreadable topic that replacing or removing it needs, and the ends of its jobs. */
  remains(topic: string): Promise<TopicRemains | null>;
  /** Compare-and-set of the state. The rest of the record stays unchanged, readable or not. */
  turn(topic: string, state: TopicState, expectedRevision: number): Promise<TurnOutcome>;
  create(
    draft: TopicDraft,
  ): Promise<{ readonly kind: 'created'; readonly topic: Topic } | { readonly kind: 'exists' } | BadOutcome>;
  /** Compare-and-set: changes nothing when the topic has another revision. */
  update(
    draft: TopicDraft,
    expectedRevision: number,
  ): Promise<
    | { readonly kind: 'updated'; readonly topic: Topic }
    | { readonly kind: 'changed' }
    | { readonly kind: 'absent' }
    | BadOutcome
  >;
  /** in_use: another topic names it in onDone or onDead */
  remove(topic: string, expectedRevision: number): Promise<'removed' | 'changed' | 'absent' | 'in_use'>;
  /** Why create or update would reject these; null: they would not. `topic`: '' = a draft without a name */
  outcomeProblem(draft: Pick<TopicDraft, 'topic' | OutcomeField>): Promise<OutcomeProblem | null>;
  /** A topic that names this one; null: none does. */
  namedBy(topic: string): Promise<NamingTopic | null>;
  /** Adds all deltas of a call or none; drops those of unknown topics. Not idempotent. At most
   *  upkeepLimits.statsBatchMax. */
  addStats(deltas: readonly StatDelta[]): Promise<void>;
  /** Of one topic, null without statistics; `day`: the number of today. */
  stats(topic: string, day: number): Promise<TopicStats | null>;
  /** Of all topics with statistics, by name, after `after`. */
  statsPage(after: string, day: number): Promise<StatPage>;
  /** Writes rows, or replaces those of the same topic, step, time and writer: a repeat does no harm. At most
   *  upkeepLimits.seriesBatchMax. In the same transaction removes expired rows, by `now` (epoch seconds), of
   *  the next sqlLimits.seriesSweptTopics topics after `sweptTo`; returns the last of them, '' after the
   *  last topic. */
  putSeries(rows: readonly SeriesRow[], now: number, sweptTo: string): Promise<string>;
  /** The newest sqlLimits.seriesRowsMax rows of each topic, by topic, time and incarnation. */
  series(query: SeriesQuery): Promise<readonly SeriesRow[]>;
  /** since -1 = always returns the list. Every server calls it each registryLimits.registryPollMs. */
  tokens(since: number): Promise<TokenChanges>;
  /** `full`: the registry has limits.tokensMax tokens. Not idempotent: a repeat finds its own name. */
  createToken(token: TokenRecord): Promise<'created' | 'exists' | 'full'>;
  removeToken(name: string): Promise<'removed' | 'absent'>;
  /** Records uses; never moves a time back, and ignores unknown tokens. Changes no revision. At most
   *  registryLimits.tokenUsesMax. */
  useTokens(uses: readonly TokenUse[]): Promise<void>;
  /** since -1 = always returns the list. The console calls it each registryLimits.registryPollMs. */
  sessions(since: number): Promise<SessionChanges>;
  /** Drops sessions that have ended; with limits.sessionsMax also the one unused for longest. Not
   *  idempotent. */
  createSession(session: SessionRecord): Promise<'created'>;
  /** Records a use. `absent`: no such session, or a later use is recorded. */
  useSession(id: string, usedAt: number): Promise<'updated' | 'absent'>;
  /** null = all sessions */
  removeSessions(id: string | null): Promise<'removed' | 'absent'>;
  /** Drops links that have ended before `now`; with limits.signInLinksMax also the one that ends first. */
  createSignInLink(link: SignInLink, now: number): Promise<'created'>;
  /** Removes the link and returns it: each works once. null = unknown, used, or ended before `now`. */
  takeSignInLink(digest: string, now: number): Promise<SignInLink | null>;
  /** `full`: limits.operationsOpenMax are open. Drops the oldest ended operations. */
  createOperation(record: OperationRecord, work: OperationWork): Promise<'created' | 'full'>;
  /** newest first, at most limits.operationsKept */
  operations(): Promise<readonly OperationRecord[]>;
  operation(id: string): Promise<OperationRecord | null>;
  /** Takes the lease of the oldest open operation that no process works on; null: there is none. `holder`:
   *  `<instance>.<incarnation>`. A lost answer costs the rest of the lease. `except`: ids of those that the
   *  caller works on, whatever its clock says about their leases. */
  claimOperation(
    holder: string,
    now: number,
    leaseUntil: number,
    except?: readonly string[],
  ): Promise<OperationLease | null>;
  /** Stores the results of the lease with this token. `stopped`: stored, and an operator stopped the
   *  operation. `lost`: another process has it; nothing was stored. A repeat is harmless. */
  checkpointOperation(
    token: number,
    checkpoint: OperationCheckpoint,
  ): Promise<'updated' | 'stopped' | 'lost'>;
  /** Returns the operation; an ended one stays as it is. null = absent. */
  stopOperation(id: string, now: number): Promise<OperationRecord | null>;
  /** By name, after `after`; [] only where none follows. Long records make it fewer than `limit`. */
  schedules(after: string, limit: number): Promise<readonly StoredSchedule[]>;
  schedule(name: string): Promise<StoredSchedule | null>;
  /** `full`: limits.schedulesMax exist. Not idempotent: a repeat finds its own name. */
  createSchedule(record: ScheduleRecord, nextAt: number | null): Promise<'created' | 'exists' | 'full'>;
  /** Compare-and-set: changes nothing when the stored revision is not the one before that of `record`. An
   *  instant that is due at `now` or claimed, or whose times are unchanged, stays the next one with its claim
   *  (see changedTimes). `nextAt`: of the new times, at `now`. `full`: limits.earlierTimesMax. */
  updateSchedule(
    record: ScheduleRecord,
    nextAt: number | null,
    now: number,
  ): Promise<'updated' | 'changed' | 'absent' | 'full'>;
  /** `revision`: removes no other one; undefined = any. */
  removeSchedule(name: string, revision?: number): Promise<'removed' | 'changed' | 'absent'>;
  /** Claims instants that are due, the earliest first. A lost answer costs the time of the claims. */
  claimSchedules(now: number, until: number, max: number): Promise<readonly DueTick[]>;
  /** Changes nothing of an instant that has ended, or that was claimed again. Of a schedule that was changed
   *  after the claim it frees the claim only: the next one has the new times. A repeat changes nothing. */
  endTicks(ends: readonly TickEnd[]): Promise<void>;
  /** At most limits.auditBatchMax. A repeat changes nothing. */
  addAudit(entries: readonly AuditEntry[]): Promise<void>;
  /** `before`: an id, exclusive; null = from the newest. Examines at most sqlLimits.auditScanMax entries, of
   *  the topic where the filter names one. */
  audit(filter: AuditFilter, before: string | null, limit: number): Promise<AuditPage>;
  /** Removes entries before this id, and those beyond limits.auditMax; at most sqlLimits.auditTrimMax per
   *  call. A repeat is harmless. */
  trimAudit(before: string): Promise<{ readonly more: boolean }>;
  /** since -1 = always returns the list. Every process on Redis calls it each
   *  registryLimits.registryPollMs. */
  shards(since: number): Promise<ShardChanges>;
  /** Compare-and-set of the whole list: changes nothing when it has another revision. */
  writeShards(list: ShardList, expectedRevision: number): Promise<'updated' | 'changed'>;
  /** Calls the listener after changes; calls can be lost. Returns the unsubscribe. */
  onChange(listener: () => void): () => void;
  /** How often caches read it again (ms); absent: registryLimits.registryPollMs. Longer where every change is
   *  announced to onChange, also those that were missed while the connection was lost. */
  readonly pollMs?: number;
  close(): Promise<void>;
}

export interface VerbRule {
  /** It may change what caches hold: then the registry has a new revision. */
  readonly changes: boolean;
  /** A repeat is harmless, so a client may send the call again after a lost connection. */
  readonly again: boolean;
  /** It returns nothing, which JSON would turn into null. */
  readonly isVoid?: boolean;
}

/** The verbs that a process may forward to the registry of another one. */
export const registryVerbs = {
  id: { changes: false, again: true },
  changes: { changes: false, again: true },
  get: { changes: false, again: true },
  remains: { changes: false, again: true },
  create: { changes: true, again: false },
  update: { changes: true, again: false },
  turn: { changes: true, again: false },
  remove: { changes: true, again: false },
  outcomeProblem: { changes: false, again: true },
  namedBy: { changes: false, again: true },
  addStats: { changes: false, again: false, isVoid: true },
  stats: { changes: false, again: true },
  statsPage: { changes: false, again: true },
  putSeries: { changes: false, again: true },
  series: { changes: false, again: true },
  tokens: { changes: false, again: true },
  createToken: { changes: true, again: false },
  removeToken: { changes: true, again: false },
  useTokens: { changes: false, again: true, isVoid: true },
  sessions: { changes: false, again: true },
  createSession: { changes: true, again: false },
  useSession: { changes: true, again: true },
  removeSessions: { changes: true, again: true },
  createSignInLink: { changes: false, again: false },
  takeSignInLink: { changes: false, again: false },
  createOperation: { changes: false, again: false },
  operations: { changes: false, again: true },
  operation: { changes: false, again: true },
  claimOperation: { changes: false, again: false },
  checkpointOperation: { changes: false, again: true },
  stopOperation: { changes: false, again: true },
  schedules: { changes: false, again: true },
  schedule: { changes: false, again: true },
  createSchedule: { changes: false, again: false },
  updateSchedule: { changes: false, again: false },
  removeSchedule: { changes: false, again: false },
  claimSchedules: { changes: false, again: false },
  endTicks: { changes: false, again: true, isVoid: true },
  addAudit: { changes: false, again: true, isVoid: true },
  audit: { changes: false, again: true },
  trimAudit: { changes: false, again: true },
  shards: { changes: false, again: true },
  writeShards: { changes: true, again: false },
} as const satisfies Readonly<Partial<Record<keyof Registry, VerbRule>>>;
export type RegistryVerb = keyof typeof registryVerbs;
export type RegistryVerbs = Pick<Registry, RegistryVerb>;

/** Implements every verb by `call`. */
export function forwardedVerbs(
  call: (verb: RegistryVerb, args: readonly unknown[]) => Promise<unknown>,
): RegistryVerbs {
  const verbs = Object.keys(registryVerbs) as RegistryVerb[];
  return Object.fromEntries(
    verbs.map((verb) => [verb, (...args: readonly unknown[]) => call(verb, args)]),
  ) as unknown as RegistryVerbs;
}

const changes: readonly unknown[] = ['created', 'updated', 'removed'];

/** Whether a verb that may change something did: by its outcome, or by the kind of it. */
export function isChange(outcome: unknown): boolean {
  const { kind = outcome } = Object(outcome) as { readonly kind?: unknown };
  return changes.includes(kind);
}

/** The leader of the instances that were started with `standby`: the one instance that calls jobs. It leads
 *  as long as one of its processes renews its time. */
export interface Leader {
  /** number of the instance; 0: none yet */
  readonly instance: number;
  /** ms by the clock of the registry; 0 or less: its time has ended */
  readonly leftMs: number;
}

export interface LeaderRow {
  leader(): Promise<Leader>;
  /** Makes the instance of this process the leader for `leaseMs` more, unless the time of another one runs.
   *  Returns the leader. A repeat does no harm. Rejects with StoreError. */
  lead(process: Owner, leaseMs: number): Promise<Leader>;
  /** This process calls jobs no more. Ends the time of its instance, unless another process of the instance
   *  has renewed it; never ends that of a successor. A repeat does no harm. Rejects with StoreError. */
  giveUp(process: Owner): Promise<void>;
}
