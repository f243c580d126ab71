// Implements the registry over a database: topics with compare-and-set, deletions, statistics, series, access
// tokens, console sessions, operations, the audit log, the shard list. A change and its revision are one
// transaction; readers see a change whole or not at all. One implementation for all dialects: statements use
// what SQLite and MySQL share.

import { dirname, join } from 'node:path';
import type { Kysely, Transaction } from 'kysely';
import type { AuditEntry, AuditFilter } from '../../core/audit.ts';
import { DqError } from '../../core/errors.ts';
import type {
  OperationCheckpoint,
  OperationLease,
  OperationRecord,
  OperationWork,
} from '../../core/operation.ts';
import type { DueTick, ScheduleRecord, StoredSchedule, TickEnd } from '../../core/schedule-record.ts';
import type { SessionRecord, SignInLink } from '../../core/session.ts';
import type { ShardList } from '../../core/shard-list.ts';
import type { TokenRecord, TokenUse } from '../../core/token.ts';
import { topicNamePattern } from '../../core/topic/fields.ts';
import type { KnownTopic, Topic, TopicState } from '../../core/topic/topic.ts';
import type {
  AuditPage,
  ChangePlace,
  Registry,
  SeriesQuery,
  SeriesRow,
  SessionChanges,
  ShardChanges,
  StatDelta,
  StatPage,
  TokenChanges,
  TopicChanges,
  TopicDraft,
  TopicRecord,
  TopicRemains,
  TopicStats,
  TurnOutcome,
} from '../../ports/registry.ts';
import { StoreError } from '../../ports/store-error.ts';
import { wallNow } from '../../runtime/time.ts';
import type { SecretCipher } from './keys/encryption.ts';
import { sqlLimits } from './limits.ts';
import type { RegistryEngine } from './registry-engine.ts';
import type { RegistrySchema } from './schema/registry-schema.ts';
import { openRegistryFile, type RegistryFileOptions, RegistryRejected } from './sqlite/registry-file.ts';
import { type RegistryEvents, RegistryGuard } from './sqlite/registry-guard.ts';
import { deleteAudit, insertAudit, readAudit } from './tables/registry-audit.ts';
import { findRegistryId } from './tables/registry-id.ts';
import {
  claim,
  hasClaimable,
  insertOperation,
  markStopped,
  readOperation,
  readOperations,
  writeCheckpoint,
} from './tables/registry-operations.ts';
import {
  claimDue,
  deleteSchedule,
  endTicks,
  hasDue,
  insertSchedule,
  readSchedule,
  readSchedules,
  updateSchedule,
} from './tables/registry-schedules.ts';
import { readSeries, removeSeries, sweepSeries } from './tables/registry-series.ts';
import {
  deleteSessions,
  insertLink,
  insertSession,
  readSessions,
  takeLink,
  updateUse,
} from './tables/registry-sessions.ts';
import { putShards, readShards, revisionOfShards } from './tables/registry-shards.ts';
import { readStatPage, readStats, removeStats } from './tables/registry-stats.ts';
import { deleteToken, insertToken, readTokens, updateTokenUses } from './tables/registry-tokens.ts';
import { type PageSize, pageSize, TopicPages } from './tables/topic-pages.ts';
import { readTopic, secretsOf, toColumns, toTopic } from './tables/topic-row.ts';

/** Opens or creates registry.db and its key file (`secret.key` beside it). Rejects with a one-sentence
 *  DqError. */
export async function openRegistryDb(
  path: string,
  options: Partial<RegistryFileOptions & { readonly page: Partial<PageSize> }> = {},
): Promise<Registry> {
  const { engine, cipher, id } = await openRegistryFile(path, withDefaults(path, options));
  return new RegistryDb(engine, cipher, id, options.page);
}

export interface ServedRegistry {
  readonly registry: Registry;
  /** Why the registry rejects every call, with the remedy; null: it does not. */
  damage(): string | null;
}

/** As openRegistryDb, for the process that serves the file: damage that it meets later is a state.
 *  `servesRejected`: a file that every start rejects is this state, too. */
export async function openServedRegistry(
  path: string,
  options: Partial<RegistryFileOptions> &
    RegistryEvents & {
      /** a failed open is a state of the registry, unless the disk is the reason */
      readonly servesRejected: boolean;
      readonly isDiskUsable?: () => boolean;
    },
): Promise<ServedRegistry> {
  const its = withDefaults(path, options);
  const guard = new RegistryGuard({ path, keyPath: its.keyPath }, options);
  const damage = () => guard.damage;
  try {
    const { engine, cipher, id } = await openRegistryFile(path, its);
    return { registry: new RegistryDb(guard.over(engine), cipher, id), damage };
  } catch (error) {
    if (!options.servesRejected || !(error instanceof DqError)) throw error;
    const isRejected = error instanceof RegistryRejected;
    if (!isRejected && options.isDiskUsable?.() === false) throw error;
    const engine = guard.overNone(error.message, isRejected ? undefined : sqlLimits.registryAgainMs);
    return { registry: new RegistryDb(engine, null, ''), damage };
  }
}

function withDefaults(path: string, options: Partial<RegistryFileOptions>): RegistryFileOptions {
  const { keyPath = join(dirname(path), 'secret.key'), warn = () => {}, mustExist = false } = options;
  return { keyPath, warn, mustExist };
}

type Db = Kysely<RegistrySchema>;
type Trx = Transaction<RegistrySchema>;

export class RegistryDb implements Registry {
  readonly #engine: RegistryEngine;
  readonly #openedCipher: SecretCipher | null;
  readonly #id: string;
  readonly #pages: TopicPages;
  readonly #pageRows: number;
  readonly #listeners = new Set<() => void>();
  readonly #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | null = null;

  /** `cipher`: null = the engine rejects every call. `size`: of a page; tests pass less */
  constructor(engine: RegistryEngine, cipher: SecretCipher | null, id: string, size: Partial<PageSize> = {}) {
    const page = pageSize(size);
    this.#pages = new TopicPages(page);
    this.#pageRows = page.rows;
    this.#engine = engine;
    this.#openedCipher = cipher;
    this.#id = id;
  }

  get #db(): Db {
    return this.#engine.db;
  }

  get #cipher(): SecretCipher {
    if (this.#openedCipher === null) throw new Error('the registry is not open');
    return this.#openedCipher;
  }

  id(): Promise<string> {
    return this.#attempt(async () => this.#id);
  }

  changes(after: ChangePlace): Promise<TopicChanges> {
    return this.#attempt(async () => {
      const revision = await revisionOf(this.#db);
      // The answer to nearly every poll.
      if (revision === after.revision && after.name === null)
        return { revision, topics: [], deleted: [], next: null };
      return this.#db
        .transaction()
        .setAccessMode('read only')
        .execute(async (trx) => this.#pages.read(trx, after, await revisionOf(trx)));
    });
  }

  read(record: TopicRecord): KnownTopic {
    return readTopic(record, () => this.#cipher);
  }

  get(topic: string): Promise<Topic | null> {
    return this.#attempt(async () => {
      const row = await find(this.#db, topic);
      return row === null ? null : toTopic(row, this.#cipher);
    });
  }

  remains(topic: string): Promise<TopicRemains | null> {
    return this.#attempt(async () => {
      const row = await find(this.#db, topic);
      if (row === null) return null;
      let secrets: TopicRemains['secrets'] = null;
      try {
        secrets = secretsOf(row, this.#cipher);
      } catch {
        // Unreadable secrets are a valid answer.
      }
      return { revision: row.revision, secrets };
    });
  }

  turn(topic: string, state: TopicState, expectedRevision: number): Promise<TurnOutcome> {
    return this.#change(async (trx) => {
      const kind = judge(await find(trx, topic), expectedRevision);
      if (kind !== null) return { kind };
      const revision = await nextRevision(trx);
      const row = { state, revision, updated_at: wallNow() };
      await trx.updateTable('topic').set(row).where('name', '=', topic).execute();
      return { kind: 'updated' as const, revision };
    });
  }

  async create(
    draft: TopicDraft,
  ): Promise<{ readonly kind: 'created'; readonly topic: Topic } | { readonly kind: 'exists' }> {
    return this.#change(async (trx) => {
      if ((await find(trx, draft.topic)) !== null) return { kind: 'exists' };
      const revision = await nextRevision(trx);
      const now = wallNow();
      const row = {
        name: draft.topic,
        ...toColumns(draft, this.#cipher),
        revision,
        created_at: now,
        updated_at: now,
      };
      await trx.insertInto('topic').values(row).execute();
      await trx.deleteFrom('topic_tombstone').where('name', '=', draft.topic).execute();
      return { kind: 'created', topic: toTopic(row, this.#cipher) };
    });
  }

  async update(
    draft: TopicDraft,
    expectedRevision: number,
  ): Promise<
    | { readonly kind: 'updated'; readonly topic: Topic }
    | { readonly kind: 'changed' }
    | { readonly kind: 'absent' }
  > {
    return this.#change(async (trx) => {
      const old = await find(trx, draft.topic);
      if (old === null) return { kind: 'absent' };
      if (old.revision !== expectedRevision) return { kind: 'changed' };
      const revision = await nextRevision(trx);
      const row = { ...toColumns(draft, this.#cipher), revision, updated_at: wallNow() };
      await trx.updateTable('topic').set(row).where('name', '=', draft.topic).execute();
      return {
        kind: 'updated',
        topic: toTopic({ name: draft.topic, ...row, created_at: old.created_at }, this.#cipher),
      };
    });
  }

  async remove(topic: string, expectedRevision: number): Promise<'removed' | 'changed' | 'absent'> {
    const { kind } = await this.#change(async (trx) => {
      const kind = judge(await find(trx, topic), expectedRevision);
      if (kind !== null) return { kind };
      const revision = await nextRevision(trx);
      await trx.deleteFrom('topic').where('name', '=', topic).execute();
      await trx.insertInto('topic_tombstone').values({ name: topic, revision }).execute();
      await removeStats(trx, topic);
      await removeSeries(trx, topic);
      return { kind: 'removed' as const };
    });
    return kind;
  }

  addStats(deltas: readonly StatDelta[]): Promise<void> {
    return this.#attempt(() => this.#writing((trx) => this.#engine.addStats(trx, deltas)));
  }

  stats(topic: string, day: number): Promise<TopicStats | null> {
    return this.#attempt(() => readStats(this.#db, topic, day));
  }

  statsPage(after: string, day: number): Promise<StatPage> {
    return this.#attempt(() => readStatPage(this.#db, after, day, this.#pageRows));
  }

  putSeries(rows: readonly SeriesRow[], now: number, sweptTo: string): Promise<string> {
    return this.#attempt(() =>
      this.#writing(async (trx) => {
        await this.#engine.putSeries(trx, rows);
        return sweepSeries(trx, now, sweptTo);
      }),
    );
  }

  series(query: SeriesQuery): Promise<readonly SeriesRow[]> {
    return this.#attempt(() => readSeries(this.#db, query));
  }

  tokens(since: number): Promise<TokenChanges> {
    return this.#attempt(async () => {
      const revision = await revisionOf(this.#db);
      if (revision === since) return { revision, tokens: null };
      return this.#db
        .transaction()
        .setAccessMode('read only')
        .execute(async (trx) => ({ revision: await revisionOf(trx), tokens: await readTokens(trx) }));
    });
  }

  async createToken(token: TokenRecord): Promise<'created' | 'exists' | 'full'> {
    const { kind } = await this.#change(async (trx) => {
      const outcome = await insertToken(trx, token);
      if (outcome === 'created') await nextRevision(trx);
      return { kind: outcome };
    });
    return kind;
  }

  async removeToken(name: string): Promise<'removed' | 'absent'> {
    const { kind } = await this.#change(async (trx) => {
      const outcome = await deleteToken(trx, name);
      if (outcome === 'removed') await nextRevision(trx);
      return { kind: outcome };
    });
    return kind;
  }

  async useTokens(uses: readonly TokenUse[]): Promise<void> {
    await this.#attempt(() => this.#writing((trx) => updateTokenUses(trx, uses)));
  }

  sessions(since: number): Promise<SessionChanges> {
    return this.#attempt(async () => {
      const revision = await revisionOf(this.#db);
      if (revision === since) return { revision, sessions: null };
      return this.#db
        .transaction()
        .setAccessMode('read only')
        .execute(async (trx) => ({ revision: await revisionOf(trx), sessions: await readSessions(trx) }));
    });
  }

  async createSession(session: SessionRecord): Promise<'created'> {
    await this.#change(async (trx) => {
      await insertSession(trx, session);
      await nextRevision(trx);
      return { kind: 'created' };
    });
    return 'created';
  }

  async useSession(id: string, usedAt: number): Promise<'updated' | 'absent'> {
    const { kind } = await this.#change(async (trx) => {
      const outcome = await updateUse(trx, id, usedAt);
      if (outcome === 'updated') await nextRevision(trx);
      return { kind: outcome };
    });
    return kind;
  }

  async removeSessions(id: string | null): Promise<'removed' | 'absent'> {
    const { kind } = await this.#change(async (trx) => {
      const outcome = await deleteSessions(trx, id);
      if (outcome === 'removed') await nextRevision(trx);
      return { kind: outcome };
    });
    return kind;
  }

  async createSignInLink(link: SignInLink, now: number): Promise<'created'> {
    await this.#attempt(() => this.#writing((trx) => insertLink(trx, link, now)));
    return 'created';
  }

  takeSignInLink(digest: string, now: number): Promise<SignInLink | null> {
    return this.#attempt(() => this.#writing((trx) => takeLink(trx, digest, now)));
  }

  createOperation(record: OperationRecord, work: OperationWork): Promise<'created' | 'full'> {
    return this.#attempt(() => this.#writing((trx) => insertOperation(trx, record, work)));
  }

  operations(): Promise<readonly OperationRecord[]> {
    return this.#attempt(() => readOperations(this.#db));
  }

  operation(id: string): Promise<OperationRecord | null> {
    return this.#attempt(() => readOperation(this.#db, id));
  }

  claimOperation(holder: string, now: number, leaseUntil: number): Promise<OperationLease | null> {
    return this.#attempt(async () => {
      // Every dq-upkeep asks each second: nearly always this read without a lock answers.
      if (!(await hasClaimable(this.#db, holder, now, leaseUntil))) return null;
      return this.#writing((trx) => claim(trx, holder, now, leaseUntil));
    });
  }

  schedules(after: string, limit: number): Promise<readonly StoredSchedule[]> {
    return this.#attempt(() => readSchedules(this.#db, after, limit));
  }

  schedule(name: string): Promise<StoredSchedule | null> {
    return this.#attempt(() => readSchedule(this.#db, name));
  }

  createSchedule(record: ScheduleRecord, nextAt: number | null): Promise<'created' | 'exists' | 'full'> {
    return this.#attempt(() => this.#writing((trx) => insertSchedule(trx, record, nextAt)));
  }

  updateSchedule(
    record: ScheduleRecord,
    nextAt: number | null,
    now: number,
  ): Promise<'updated' | 'changed' | 'absent' | 'full'> {
    return this.#attempt(() => this.#writing((trx) => updateSchedule(trx, record, nextAt, now)));
  }

  removeSchedule(name: string): Promise<'removed' | 'absent'> {
    return this.#attempt(() => this.#writing((trx) => deleteSchedule(trx, name)));
  }

  claimSchedules(now: number, until: number, max: number): Promise<readonly DueTick[]> {
    return this.#attempt(async () => {
      // Every dq-upkeep asks each second: nearly always this read without a lock answers.
      if (!(await hasDue(this.#db, now, until))) return [];
      return this.#writing((trx) => claimDue(trx, now, until, max));
    });
  }

  endTicks(ends: readonly TickEnd[]): Promise<void> {
    if (ends.length === 0) return Promise.resolve();
    return this.#attempt(() => this.#writing((trx) => endTicks(trx, ends)));
  }

  checkpointOperation(
    token: number,
    checkpoint: OperationCheckpoint,
  ): Promise<'updated' | 'stopped' | 'lost'> {
    return this.#attempt(() => this.#writing((trx) => writeCheckpoint(trx, token, checkpoint)));
  }

  stopOperation(id: string, now: number): Promise<OperationRecord | null> {
    return this.#attempt(() => this.#writing((trx) => markStopped(trx, id, now)));
  }

  addAudit(entries: readonly AuditEntry[]): Promise<void> {
    return this.#attempt(() => this.#writing((trx) => insertAudit(trx, entries)));
  }

  audit(filter: AuditFilter, before: string | null, limit: number): Promise<AuditPage> {
    return this.#attempt(() => readAudit(this.#db, filter, before, limit));
  }

  trimAudit(before: string): Promise<{ readonly more: boolean }> {
    return this.#attempt(() => this.#writing((trx) => deleteAudit(trx, before)));
  }

  shards(since: number): Promise<ShardChanges> {
    return this.#attempt(() => readShards(this.#db, since, this.#cipher));
  }

  async writeShards(list: ShardList, expectedRevision: number): Promise<'updated' | 'changed'> {
    const { kind } = await this.#change(async (trx) => {
      // Another database has replaced ours: this process's list does not belong to it.
      if ((await findRegistryId(trx)) !== this.#id)
        throw new StoreError({ kind: 'not_stored', code: 'another_registry' });
      if ((await revisionOfShards(trx)) !== expectedRevision) return { kind: 'changed' as const };
      await putShards(trx, list, await nextRevision(trx), this.#cipher);
      return { kind: 'updated' as const };
    });
    return kind;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Rejects new calls, waits for running ones. */
  close(): Promise<void> {
    this.#closing ??= Promise.allSettled(this.#running).then(() => this.#engine.close());
    return this.#closing;
  }

  /** Writes, and notifies the listeners if something changed. */
  async #change<T extends { readonly kind: string }>(work: (trx: Trx) => Promise<T>): Promise<T> {
    const outcome = await this.#attempt(() => this.#writing(work));
    if (['created', 'updated', 'removed'].includes(outcome.kind))
      for (const listener of this.#listeners) listener();
    return outcome;
  }

  /** Of tables that only one kind of database has; without a transaction. */
  with<T>(work: (db: Db) => Promise<T>): Promise<T> {
    return this.#attempt(() => work(this.#db));
  }

  #writing<T>(work: (trx: Trx) => Promise<T>): Promise<T> {
    return this.#db.transaction().execute(async (trx) => {
      await this.#engine.lock(trx);
      return work(trx);
    });
  }

  async #attempt<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing !== null) throw new StoreError({ kind: 'not_stored', code: 'closed' });
    const running = this.#engine.attempt(work);
    this.#running.add(running);
    try {
      return await running;
    } catch (error) {
      throw this.#engine.failureOf(error);
    } finally {
      this.#running.delete(running);
    }
  }
}

async function find(db: Db, name: string): Promise<RegistrySchema['topic'] | null> {
  // SQLite would cut a name at a NUL and find another topic.
  if (!topicNamePattern.test(name)) return null;
  return (await db.selectFrom('topic').selectAll().where('name', '=', name).executeTakeFirst()) ?? null;
}

/** null: the row that a compare-and-set expects. */
function judge(row: RegistrySchema['topic'] | null, expectedRevision: number): 'absent' | 'changed' | null {
  if (row === null) return 'absent';
  return row.revision === expectedRevision ? null : 'changed';
}

async function revisionOf(db: Db): Promise<number> {
  const { revision } = await db.selectFrom('registry').select('revision').executeTakeFirstOrThrow();
  return revision;
}

async function nextRevision(trx: Trx): Promise<number> {
  await trx
    .updateTable('registry')
    .set((eb) => ({ revision: eb('revision', '+', 1) }))
    .execute();
  return revisionOf(trx);
}
