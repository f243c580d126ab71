// Implements the registry on MySQL for every process: connects on first use and again after every failure, so
// that a process starts and runs without MySQL. While MySQL is unavailable, writes and lookups fail within
// limits.mysqlCallMs, and the first reads of a process are answered from the copy in the data directory.
// Invariant: once MySQL has answered this process, the copy is not used again.

import { DqError, messageOf } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import { type MysqlServer, placeOf } from '../../../core/url/server-url.ts';
import {
  type ChangePlace,
  forwardedVerbs,
  type LeaderRow,
  type Registry,
  type RegistryVerb,
  type TopicChanges,
} from '../../../ports/registry.ts';
import { StoreError } from '../../../ports/store-error.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { within } from '../../../runtime/timeout.ts';
import type { KeptShards } from '../../shard-book.ts';
import type { SecretCipher } from '../keys/encryption.ts';
import { cipherFor, type KeyOptions, openCipher } from '../keys/registry-key.ts';
import { sqlLimits } from '../limits.ts';
import { type RegistryDb, registryOver } from '../registry-db.ts';
import { openRegistryId, type RegistryEngine } from '../registry-engine.ts';
import {
  RegistryCopy,
  type RegistrySnapshot,
  readSnapshot,
  readSnapshotTopics,
  type SnapshotHead,
} from '../registry-snapshot.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { giveUp, lead, readLeader } from '../tables/registry-leader.ts';
import { changesOf, numberOf } from '../tables/registry-shards.ts';
import { toToken } from '../tables/registry-tokens.ts';
import { type PageSize, pageSize, TopicPages } from '../tables/topic-pages.ts';
import { readTopic, toRecord } from '../tables/topic-row.ts';
import { checkMysql, kyselyOverMysql, migrateMysql, mysqlEngine } from './mysql-engine.ts';
import { MysqlConnections } from './mysql-pool.ts';

export interface MysqlRegistryOptions extends Omit<KeyOptions, 'isShared'> {
  readonly server: MysqlServer;
  /** path of the copy */
  readonly snapshotPath: string;
  /** this process writes the copy: one per instance */
  readonly keepsSnapshot: boolean;
  /** this process may create and migrate the schema */
  readonly migrates: boolean;
  /** of pages; tests pass less */
  readonly page?: Partial<PageSize>;
}

type ShardsRow = Pick<RegistrySnapshot, 'id' | 'shards'>;
type CopyTopics = NonNullable<Awaited<ReturnType<typeof readSnapshotTopics>>>;

export interface MysqlRegistry extends Registry, LeaderRow {
  /** Rejects with a DqError if MySQL answers and the registry is unusable: another key, another schema. An
   *  unavailable MySQL, or one slower than sqlLimits.mysqlStartMs, is accepted. */
  prove(): Promise<void>;
  /** The copy's shard list; null: none of this registry. Never rejects: the caller compares it with MySQL's
   *  answer. */
  keptShards(): Promise<KeptShards | null>;
}

/** Does not connect. */
export function mysqlRegistry(options: MysqlRegistryOptions): MysqlRegistry {
  const own = new OwnVerbs(options);
  return { ...forwardedVerbs((verb, args) => own.forward(verb, args)), ...own };
}

/** The connection, and the verbs that do more than ask MySQL. */
class OwnVerbs implements Omit<MysqlRegistry, RegistryVerb> {
  readonly #options: MysqlRegistryOptions;
  readonly #key: KeyOptions;
  /** for messages, without user and password */
  readonly #what: string;
  readonly #place: string;
  readonly #connections: MysqlConnections;
  readonly #engine: RegistryEngine;
  readonly #copy: RegistryCopy;
  readonly #listeners = new Set<() => void>();
  #db: RegistryDb | null = null;
  #opening: Promise<RegistryDb> | null = null;
  #startUntil: number | null = null;
  #copyState: Promise<RegistrySnapshot | null> | null = null;
  /** the next page of the copy */
  #nextCopyPage: { readonly copy: CopyTopics; readonly from: number; readonly place: ChangePlace } | null =
    null;
  #knownCipher: SecretCipher | null = null;
  #copyCipher: SecretCipher | null = null;
  #savedRevision = -1;
  /** of the copy */
  #savedShards: ShardsRow | null = null;
  #isSaved = true;
  #saving: Promise<void> | null = null;
  #closing: Promise<void> | null = null;

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
      shardsOf: (head, shards) => this.#newestShards(head, shards),
    });
  }

  async forward(verb: RegistryVerb, args: readonly unknown[]): Promise<unknown> {
    const ask = (await this.#open())[verb] as (...args: readonly unknown[]) => Promise<unknown>;
    return ask(...args);
  }

  // Fields, so that mysqlRegistry() can spread them.

  readonly prove: MysqlRegistry['prove'] = async () => {
    try {
      await within(sqlLimits.mysqlStartMs, this.#open(), noAnswer);
    } catch (error) {
      if (error instanceof StoreError && error.cause instanceof DqError) throw error.cause;
    }
  };

  readonly id: Registry['id'] = () =>
    this.#first(
      () => this.#run((db) => db.id()),
      ({ id }) => id,
    );

  readonly changes: Registry['changes'] = async (after) => {
    // A read that began with the copy ends with it: its pages are of one moment.
    if (this.#nextCopyPage?.place === after)
      return this.#copyPage(this.#nextCopyPage.copy, this.#nextCopyPage.from);
    const read = () => this.#readAndSave((db) => db.changes(after));
    if (after.revision > 0 || after.name !== null) return read();
    return this.#first(read, () => this.#firstCopyPage());
  };

  readonly read: Registry['read'] = (record) => readTopic(record, () => this.#cipher());

  readonly tokens: Registry['tokens'] = (since) => {
    const read = () => this.#run((db) => db.tokens(since));
    if (since >= 0) return read();
    return this.#first(read, ({ revision, tokens }) => ({ revision, tokens: tokens.map(toToken) }));
  };

  readonly shards: Registry['shards'] = (since) => {
    const read = () => this.#run((db) => db.shards(since));
    if (since >= 0) return read();
    return this.#first(read, (copy) => changesOf(copy.shards, since, this.#cipherOf(copy)));
  };

  readonly leader: LeaderRow['leader'] = () => this.#run((db) => db.with(readLeader));

  readonly lead: LeaderRow['lead'] = (process, leaseMs) =>
    this.#run((db) => db.with((tables) => lead(tables, process, leaseMs)));

  readonly giveUp: LeaderRow['giveUp'] = (process) =>
    this.#run((db) => db.with((tables) => giveUp(tables, process)));

  readonly keptShards: MysqlRegistry['keptShards'] = async () => {
    this.#copyState ??= this.#readCopy();
    const copy = await this.#copyState;
    try {
      if (copy?.shards === undefined || copy.id !== (await this.id())) return null;
      const { revision, list } = changesOf(copy.shards, -1, this.#cipherOf(copy));
      return list === null ? null : { revision, list };
    } catch {
      // The copy is unusable, or the registry's id is unknown.
      return null;
    }
  };

  /** Called after changes by this process; changes by others are found by polling. */
  readonly onChange: Registry['onChange'] = (listener) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Running calls have sqlLimits.mysqlGoodbyeMs to end. */
  readonly close: Registry['close'] = () => {
    this.#closing ??= (async () => {
      const ended = Promise.allSettled([this.#db?.close(), this.#saving]);
      await within(sqlLimits.mysqlGoodbyeMs, ended, noAnswer).catch(() => {
        // The connections are destroyed.
      });
      await this.#copy.close().catch(() => undefined);
      await this.#connections.close();
    })();
    return this.#closing;
  };

  async #run<T>(call: (db: RegistryDb) => Promise<T>): Promise<T> {
    return call(await this.#open());
  }

  /** Runs a read whose answer has the registry's revision, and updates the copy if it is new. */
  async #readAndSave(call: (db: RegistryDb) => Promise<TopicChanges>): Promise<TopicChanges> {
    const answer = await this.#run(call);
    if (this.#options.keepsSnapshot && answer.next === null && answer.revision !== this.#savedRevision)
      this.#save();
    return answer;
  }

  // Opening

  async #open(): Promise<RegistryDb> {
    if (this.#closing !== null) throw mysqlFailure('closed');
    if (this.#db !== null) return this.#db;
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = null;
    });
    return within(limits.mysqlCallMs, this.#opening, noAnswer);
  }

  async #connect(): Promise<RegistryDb> {
    try {
      const { db } = this.#engine;
      if (this.#options.migrates) await migrateMysql(db, this.#options.server, this.#what);
      else await checkMysql(db, this.#what);
      const cipher = await openCipher(this.#engine, this.#what, this.#key);
      this.#knownCipher = cipher;
      const id = await openRegistryId(this.#engine, this.#what);
      const opened = registryOver(this.#engine, cipher, id, this.#options.page);
      opened.onChange(() => {
        for (const listener of this.#listeners) listener();
      });
      this.#db = opened;
      return opened;
    } catch (error) {
      if (error instanceof DqError) throw mysqlFailure('refused', error);
      throw this.#engine.failureOf(error);
    }
  }

  // The copy in the data directory

  /** For the first read of a process: from MySQL within the start limit, otherwise from the copy. */
  async #first<T>(read: () => Promise<T>, readCopy: (copy: RegistrySnapshot) => T | Promise<T>): Promise<T> {
    if (this.#db !== null) return read();
    const answer = read();
    answer.catch(() => {
      // The caller may have answered from the copy by then.
    });
    this.#startUntil ??= monotonicNow() + sqlLimits.mysqlStartMs;
    this.#copyState ??= this.#readCopy();
    const copy = await this.#copyState;
    const leftMs = this.#startUntil - monotonicNow();
    try {
      const waitMs = leftMs > 0 ? leftMs : copy === null ? limits.mysqlCallMs : 0;
      return await within(waitMs, answer, noAnswer);
    } catch (error) {
      if (copy === null || this.#db !== null) throw error;
      return readCopy(copy);
    }
  }

  async #firstCopyPage(): Promise<TopicChanges> {
    const copy = await readSnapshotTopics(this.#options.snapshotPath, this.#place);
    if (copy === null) throw mysqlFailure('unreachable');
    return this.#copyPage(copy, 0);
  }

  /** The copy's topics in pages, as MySQL's: all at once would block the process. */
  #copyPage(copy: CopyTopics, from: number): TopicChanges {
    const { revision, topics } = copy;
    const end = from + sqlLimits.registryPageRows;
    const page = topics.slice(from, end);
    const last = page.at(-1);
    const place =
      end < topics.length && last !== undefined ? { revision: last.revision, name: last.name } : null;
    this.#nextCopyPage = place === null ? null : { copy, from: end, place };
    return { revision, topics: page.map(toRecord), deleted: [], next: place };
  }

  /** The cipher of the database, or of the copy. */
  #cipher(): SecretCipher {
    this.#knownCipher ??= this.#copyCipher;
    if (this.#knownCipher === null) throw mysqlFailure('unreachable');
    return this.#knownCipher;
  }

  #cipherOf({ keyCheck }: Pick<RegistrySnapshot, 'keyCheck'>): SecretCipher {
    return cipherFor(keyCheck, this.#what, this.#key);
  }

  async #readCopy(): Promise<RegistrySnapshot | null> {
    const { snapshotPath, warn } = this.#options;
    try {
      const copy = await readSnapshot(snapshotPath, this.#place);
      if (copy !== null) this.#copyCipher = cipherFor(copy.keyCheck, `its copy ${snapshotPath}`, this.#key);
      return copy;
    } catch (error) {
      warn(`cannot use the registry copy ${snapshotPath}: ${messageOf(error)}`);
      return null;
    }
  }

  /** One at a time; the next poll saves later changes. */
  #save(): void {
    const { snapshotPath, warn } = this.#options;
    this.#saving ??= (async () => {
      try {
        const revision = await this.#copy.follow();
        if (revision === null) return;
        this.#savedRevision = revision;
        this.#isSaved = true;
      } catch (error) {
        if (this.#isSaved) warn(`cannot write the registry copy ${snapshotPath}: ${messageOf(error)}`);
        this.#isSaved = false;
      } finally {
        this.#saving = null;
      }
    })();
  }

  /** A registry that went back has an older shard list than the copy: until it is repaired
   *  (registry/shard-book.ts) only the copy may have the newer one. */
  async #newestShards(
    head: SnapshotHead,
    shards: RegistrySnapshot['shards'],
  ): Promise<RegistrySnapshot['shards']> {
    const { id } = head;
    const before = this.#savedShards ?? (await this.#copyState);
    const isOlder =
      before?.id === id &&
      numberOf(before?.shards, this.#cipherOf(head)) > numberOf(shards, this.#cipherOf(head));
    this.#savedShards = { id, shards: isOlder ? before?.shards : shards };
    return this.#savedShards.shards;
  }
}

const noAnswer = () => mysqlFailure('timeout');

function mysqlFailure(code: string, cause?: unknown): StoreError {
  return new StoreError({ kind: 'not_stored', code }, { cause, where: 'MySQL' });
}
