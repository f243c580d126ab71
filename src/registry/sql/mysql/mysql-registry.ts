// The registry in MySQL, as every process has it: connected when it is first asked, and again after every failure, so that a
// process starts and lives without it. Owns what an unreachable MySQL means: writes and lookups fail within
// limits.mysqlCallMs; the first questions of a process are answered from the copy in the data directory. Invariant: once
// MySQL has answered this process, nothing old is ever given for new.

import { DqError, reasonOf } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import type { ShardList } from '../../../core/shard-list.ts';
import type { TokenRecord } from '../../../core/token.ts';
import type { KnownTopic, TopicState } from '../../../core/topic/topic.ts';
import { type MysqlServer, placeOf } from '../../../core/url/mysql-url.ts';
import { StoreError } from '../../../ports/job-store.ts';
import type {
  ChangePlace,
  Registry,
  ShardChanges,
  StatDelta,
  TokenChanges,
  TopicChanges,
  TopicDraft,
  TopicRecord,
} from '../../../ports/registry.ts';
import type { KeptShards } from '../../shard-book.ts';
import type { Sealer } from '../keys/encryption.ts';
import { type KeyOptions, openSealer, sealerFor } from '../keys/registry-key.ts';
import { holdsPlainHeaders } from '../keys/stored-headers.ts';
import { sqlLimits } from '../limits.ts';
import { RegistryCopy } from '../registry-copy.ts';
import { RegistryDb } from '../registry-db.ts';
import type { RegistryEngine } from '../registry-engine.ts';
import {
  type RegistrySnapshot,
  readSnapshot,
  readSnapshotTopics,
  type SnapshotHead,
} from '../registry-snapshot.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { openRegistryId } from '../tables/registry-id.ts';
import { changesOf, numberOf } from '../tables/registry-shards.ts';
import { toToken } from '../tables/registry-tokens.ts';
import { type PageSize, pageSize, TopicPages } from '../tables/topic-pages.ts';
import { readTopic, toRecord } from '../tables/topic-row.ts';
import { kyselyOverMysql } from './mysql-dialect.ts';
import { mysqlEngine } from './mysql-engine.ts';
import { checkMysql, migrateMysql } from './mysql-migrate.ts';
import { MysqlConnections } from './mysql-pool.ts';

export interface MysqlRegistryOptions extends Omit<KeyOptions, 'isShared'> {
  readonly server: MysqlServer;
  /** where the copy lies */
  readonly snapshotPath: string;
  /** this process writes the copy: one of an instance */
  readonly keepsSnapshot: boolean;
  /** this process may make the schema, or bring it up to date */
  readonly migrates: boolean;
  /** of pages, unless a test has few topics */
  readonly page?: Partial<PageSize>;
}

type ShardsRow = Pick<RegistrySnapshot, 'id' | 'shards'>;
type KeptTopics = NonNullable<Awaited<ReturnType<typeof readSnapshotTopics>>>;

export class MysqlRegistry implements Registry {
  readonly #options: MysqlRegistryOptions;
  readonly #key: KeyOptions;
  /** names it in messages, without user and password */
  readonly #what: string;
  readonly #place: string;
  readonly #connections: MysqlConnections;
  readonly #engine: RegistryEngine;
  readonly #copy: RegistryCopy;
  readonly #listeners = new Set<() => void>();
  #db: RegistryDb | null = null;
  #opening: Promise<RegistryDb> | null = null;
  #startUntil: number | null = null;
  #kept: Promise<RegistrySnapshot | null> | null = null;
  /** the page of the copy that is asked for next */
  #keptNext: { readonly kept: KeptTopics; readonly from: number; readonly place: ChangePlace } | null = null;
  #knownSealer: Sealer | null = null;
  #keptSealer: Sealer | null = null;
  #savedRevision = -1;
  /** of the copy */
  #savedShards: ShardsRow | null = null;
  #isSaving = true;
  #saving: Promise<void> | null = null;
  #closing: Promise<void> | null = null;

  /** Connects to nothing yet. */
  constructor(options: MysqlRegistryOptions) {
    this.#options = options;
    this.#key = { keyPath: options.keyPath, warn: options.warn, isShared: true };
    this.#place = placeOf(options.server);
    this.#what = `the registry in MySQL ${this.#place}`;
    this.#connections = new MysqlConnections(options.server);
    this.#engine = mysqlEngine(kyselyOverMysql<RegistrySchema>(this.#connections, limits.mysqlCallMs));
    this.#copy = new RegistryCopy({
      path: options.snapshotPath,
      of: this.#place,
      db: this.#engine.db,
      pages: new TopicPages(pageSize(options.page)),
      sealerOf: (head) => this.#sealerOf(head),
      shardsOf: (head, shards) => this.#newestShards(head, shards),
    });
  }

  /** Rejects with a DqError when MySQL answers and this registry cannot be worked with: another key, another schema. A MySQL that
   *  is away, or slower than sqlLimits.mysqlStartMs, is no reason. */
  async prove(): Promise<void> {
    try {
      await within(this.#open(), sqlLimits.mysqlStartMs);
    } catch (error) {
      if (error instanceof StoreError && error.cause instanceof DqError) throw error.cause;
    }
  }

  id(): Promise<string> {
    return this.#first(
      () => this.#ask((db) => db.id()),
      ({ id }) => {
        if (id === undefined) throw new StoreError({ kind: 'not_stored', code: 'unreachable' });
        return id;
      },
    );
  }

  async changes(after: ChangePlace): Promise<TopicChanges> {
    // What has begun with the copy ends with it: its pages are of one moment.
    if (this.#keptNext?.place === after) return this.#keptPage(this.#keptNext.kept, this.#keptNext.from);
    const ask = () => this.#noting((db) => db.changes(after));
    if (after.revision > 0 || after.name !== null) return ask();
    return this.#first(ask, () => this.#firstKeptPage());
  }

  read(record: TopicRecord): KnownTopic {
    return readTopic(record, () => this.#sealer());
  }

  tokens(since: number): Promise<TokenChanges> {
    if (since >= 0) return this.#ask((db) => db.tokens(since));
    return this.#first(
      () => this.#ask((db) => db.tokens(since)),
      ({ revision, tokens }) => ({ revision, tokens: tokens.map(toToken) }),
    );
  }

  shards(since: number): Promise<ShardChanges> {
    if (since >= 0) return this.#ask((db) => db.shards(since));
    return this.#first(
      () => this.#ask((db) => db.shards(since)),
      ({ keyCheck, shards }) => changesOf(shards, since, this.#sealerOf({ keyCheck })),
    );
  }

  /** Those of the copy; null = there is none of this registry. Never rejects: who asks has an answer of MySQL to compare. */
  async keptShards(): Promise<KeptShards | null> {
    this.#kept ??= this.#readKept();
    const kept = await this.#kept;
    try {
      if (kept?.shards === undefined || kept.id !== (await this.id())) return null;
      const { revision, list } = changesOf(kept.shards, -1, this.#sealerOf(kept));
      return list === null ? null : { revision, list };
    } catch {
      // The copy says nothing that could be used, or which registry it is cannot be found out.
      return null;
    }
  }

  writeShards(list: ShardList, expectedRevision: number) {
    return this.#ask((db) => db.writeShards(list, expectedRevision));
  }

  get(topic: string) {
    return this.#ask((db) => db.get(topic));
  }

  remains(topic: string) {
    return this.#ask((db) => db.remains(topic));
  }

  turn(topic: string, state: TopicState, expectedRevision: number) {
    return this.#ask((db) => db.turn(topic, state, expectedRevision));
  }

  create(draft: TopicDraft) {
    return this.#ask((db) => db.create(draft));
  }

  update(draft: TopicDraft, expectedRevision: number) {
    return this.#ask((db) => db.update(draft, expectedRevision));
  }

  remove(topic: string, expectedRevision: number) {
    return this.#ask((db) => db.remove(topic, expectedRevision));
  }

  addStats(deltas: readonly StatDelta[]) {
    return this.#ask((db) => db.addStats(deltas));
  }

  stats(topic: string, day: number) {
    return this.#ask((db) => db.stats(topic, day));
  }

  statsPage(after: string, day: number) {
    return this.#ask((db) => db.statsPage(after, day));
  }

  createToken(token: TokenRecord) {
    return this.#ask((db) => db.createToken(token));
  }

  removeToken(name: string) {
    return this.#ask((db) => db.removeToken(name));
  }

  /** Told of what this process changed; what others did is found by asking. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** What runs has sqlLimits.mysqlGoodbyeMs to end. */
  close(): Promise<void> {
    this.#closing ??= (async () => {
      const ended = Promise.allSettled([this.#db?.close(), this.#saving]);
      await within(ended, sqlLimits.mysqlGoodbyeMs).catch(() => {
        // It is hung up on.
      });
      await this.#copy.close().catch(() => undefined);
      await this.#connections.close();
    })();
    return this.#closing;
  }

  async #ask<T>(question: (db: RegistryDb) => Promise<T>): Promise<T> {
    return question(await this.#open());
  }

  /** A question whose answer tells the registry's revision: the copy follows it. */
  async #noting(question: (db: RegistryDb) => Promise<TopicChanges>): Promise<TopicChanges> {
    const answer = await this.#ask(question);
    if (this.#options.keepsSnapshot && answer.next === null && answer.revision !== this.#savedRevision)
      this.#save();
    return answer;
  }

  // ── opening

  async #open(): Promise<RegistryDb> {
    if (this.#closing !== null) throw new StoreError({ kind: 'not_stored', code: 'closed' });
    if (this.#db !== null) return this.#db;
    this.#opening ??= this.#make().finally(() => {
      this.#opening = null;
    });
    return within(this.#opening, limits.mysqlCallMs);
  }

  async #make(): Promise<RegistryDb> {
    try {
      const { db } = this.#engine;
      if (this.#options.migrates) await migrateMysql(db, this.#options.server, this.#what);
      else await checkMysql(db, this.#what);
      const sealer = await openSealer(this.#engine, this.#what, this.#key);
      this.#knownSealer = sealer;
      const id = await openRegistryId(this.#engine, this.#what);
      await this.#warnOfPlainHeaders();
      const opened = new RegistryDb(this.#engine, sealer, id, this.#options.page);
      opened.onChange(() => {
        for (const listener of this.#listeners) listener();
      });
      this.#db = opened;
      return opened;
    } catch (error) {
      if (error instanceof DqError)
        throw new StoreError({ kind: 'not_stored', code: 'refused' }, { cause: error });
      throw this.#engine.failureOf(error);
    }
  }

  /** Not encrypted here: the callbacks of an instance of an earlier version would go without them. */
  async #warnOfPlainHeaders(): Promise<void> {
    const { keepsSnapshot, warn } = this.#options;
    if (!keepsSnapshot || !(await holdsPlainHeaders(this.#engine.db))) return;
    warn(
      `${this.#what} holds headers of topics in the clear; when every instance has this version, run dq migrate --encrypt-headers`,
    );
  }

  // ── the copy in the data directory

  /** For a process that knows nothing yet: within the time of a start from MySQL, else from the copy. */
  async #first<T>(ask: () => Promise<T>, read: (kept: RegistrySnapshot) => T | Promise<T>): Promise<T> {
    if (this.#db !== null) return ask();
    const asked = ask();
    asked.catch(() => {
      // Whoever does not wait for it has another answer.
    });
    this.#startUntil ??= performance.now() + sqlLimits.mysqlStartMs;
    this.#kept ??= this.#readKept();
    const kept = await this.#kept;
    const leftMs = this.#startUntil - performance.now();
    try {
      return await within(asked, leftMs > 0 ? leftMs : kept === null ? limits.mysqlCallMs : 0);
    } catch (error) {
      if (kept === null || this.#db !== null) throw error;
      return read(kept);
    }
  }

  async #firstKeptPage(): Promise<TopicChanges> {
    const kept = await readSnapshotTopics(this.#options.snapshotPath, this.#place);
    if (kept === null) throw new StoreError({ kind: 'not_stored', code: 'unreachable' });
    return this.#keptPage(kept, 0);
  }

  /** The copy's topics in pages, as MySQL's: all of them in one step would hold the process up. */
  #keptPage(kept: KeptTopics, from: number): TopicChanges {
    const { revision, topics } = kept;
    const end = from + sqlLimits.registryPageRows;
    const page = topics.slice(from, end);
    const last = page.at(-1);
    const place =
      end < topics.length && last !== undefined ? { revision: last.revision, name: last.name } : null;
    this.#keptNext = place === null ? null : { kept, from: end, place };
    return { revision, topics: page.map(toRecord), deleted: [], next: place };
  }

  /** That of the database, or of the copy whose topics were read. */
  #sealer(): Sealer {
    this.#knownSealer ??= this.#keptSealer;
    if (this.#knownSealer === null) throw new StoreError({ kind: 'not_stored', code: 'unreachable' });
    return this.#knownSealer;
  }

  #sealerOf({ keyCheck }: Pick<RegistrySnapshot, 'keyCheck'>): Sealer {
    return sealerFor(keyCheck, this.#what, this.#key);
  }

  async #readKept(): Promise<RegistrySnapshot | null> {
    const { snapshotPath, warn } = this.#options;
    try {
      const kept = await readSnapshot(snapshotPath, this.#place);
      if (kept !== null) this.#keptSealer = sealerFor(kept.keyCheck, `its copy ${snapshotPath}`, this.#key);
      return kept;
    } catch (error) {
      warn(`the copy of the registry ${snapshotPath} cannot be used: ${reasonOf(error)}`);
      return null;
    }
  }

  /** Once at a time; the next poll sees to what has changed meanwhile. */
  #save(): void {
    const { snapshotPath, warn } = this.#options;
    this.#saving ??= (async () => {
      try {
        const revision = await this.#copy.follow();
        if (revision === null) return;
        this.#savedRevision = revision;
        this.#isSaving = true;
      } catch (error) {
        if (this.#isSaving)
          warn(`the copy of the registry ${snapshotPath} cannot be written: ${reasonOf(error)}`);
        this.#isSaving = false;
      } finally {
        this.#saving = null;
      }
    })();
  }

  /** A registry that has gone back says an older list than the copy had: until it is mended (registry/shard-book.ts) the copy alone
   *  may know the newer one. */
  async #newestShards(
    head: SnapshotHead,
    shards: RegistrySnapshot['shards'],
  ): Promise<RegistrySnapshot['shards']> {
    const { id } = head;
    const before = this.#savedShards ?? (await this.#kept);
    const isOlder =
      before?.id === id &&
      numberOf(before?.shards, this.#sealerOf(head)) > numberOf(shards, this.#sealerOf(head));
    this.#savedShards = { id, shards: isOlder ? before?.shards : shards };
    return this.#savedShards.shards;
  }
}

/** Waits so long for what goes on by itself. */
async function within<T>(work: Promise<T>, waitMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new StoreError({ kind: 'not_stored', code: 'timeout' })), waitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
