// Defines what the registry needs from its database, where SQLite and MySQL differ, and how its verbs use it:
// a change and its revision are one transaction, so readers see a change whole or not at all.

import type { DatabaseConnection, Driver, Kysely, Transaction } from 'kysely';
import { DqError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { isChange, type SeriesRow, type StatDelta } from '../../ports/registry.ts';
import { StoreError } from '../../ports/store-error.ts';
import { monotonicNow, randomBytes, sleep } from '../../runtime/time.ts';
import type { RegistrySchema } from './schema/registry-schema.ts';

export type Db = Kysely<RegistrySchema>;
export type Trx = Transaction<RegistrySchema>;

export interface RegistryEngine {
  readonly db: Db;
  /** First call in every writing transaction: until its end no other process writes to the registry, and
   *  reads see the current state. */
  lock(trx: Trx): Promise<void>;
  /** In a transaction that holds the lock; see Registry.addStats. */
  addStats(trx: Trx, deltas: readonly StatDelta[]): Promise<void>;
  /** In a transaction that holds the lock; see Registry.putSeries. */
  putSeries(trx: Trx, rows: readonly SeriesRow[]): Promise<void>;
  /** Runs `work`, and repeats it after a failure that surely changed nothing and may be temporary.
   *  Bounded. */
  attempt<T>(work: () => Promise<T>): Promise<T>;
  /** The StoreError of a database failure; returns other errors (bugs) unchanged. */
  failureOf(error: unknown): unknown;
  /** Called once, after the last call. */
  close(): Promise<void>;
}

/** Rejects the writing transactions of an engine while it is closed. */
export class RegistryGate {
  #isClosed = false;

  over(engine: RegistryEngine): RegistryEngine {
    return {
      ...engine,
      lock: async (trx) => {
        if (this.#isClosed)
          throw new StoreError({ kind: 'not_stored', code: 'registry_moves', why: movesText });
        await engine.lock(trx);
      },
    };
  }

  /** Resolves when no write runs any more: the connection of `db` has one transaction at a time. */
  async close(db: Db): Promise<void> {
    this.#isClosed = true;
    await db.transaction().execute(async () => {});
  }

  open(): void {
    this.#isClosed = false;
  }
}

const movesText = 'the registry moves to MySQL; try again in some seconds';

/** COMMIT failed: the cause tells whether the transaction took place. */
export class CommitError extends Error {
  constructor(cause: unknown) {
    super('cannot commit the transaction', { cause });
    this.name = 'CommitError';
  }
}

/** A driver that reports a failed COMMIT as CommitError, and no failed ROLLBACK: the transaction is over, by
 *  the database or with its connection, and the error before it is the one to report. */
export function strictly(driver: Driver): Driver {
  const commit = driver.commitTransaction.bind(driver);
  const rollback = driver.rollbackTransaction.bind(driver);
  return Object.assign(driver, {
    commitTransaction: (connection: DatabaseConnection) =>
      commit(connection).catch((error: unknown) => {
        throw new CommitError(error);
      }),
    rollbackTransaction: (connection: DatabaseConnection) => rollback(connection).catch(() => undefined),
  });
}

/** Runs `work`, again for up to limits.registryBusyMs while it fails and `pauseOf` gives the ms until then.
 *  It gives null for a failure that may have changed something, or that stays. */
export async function repeated<T>(
  work: () => Promise<T>,
  pauseOf: (error: unknown, isFirst: boolean) => number | null,
): Promise<T> {
  const end = monotonicNow() + limits.registryBusyMs;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await work();
    } catch (error) {
      const pauseMs = pauseOf(error, isFirst);
      if (pauseMs === null || monotonicNow() >= end) throw error;
      if (pauseMs > 0) await sleep(pauseMs);
    }
  }
}

/** The calls of one registry on its database. Every call rejects with the engine's StoreError. */
export class RegistryAccess {
  readonly #engine: RegistryEngine;
  readonly #listeners = new Set<() => void>();
  readonly #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | null = null;

  constructor(engine: RegistryEngine) {
    this.#engine = engine;
  }

  /** Runs statements that need no common transaction. */
  async read<T>(work: (db: Db) => Promise<T>): Promise<T> {
    if (this.#closing !== null) throw new StoreError({ kind: 'not_stored', code: 'closed' });
    const running = this.#engine.attempt(() => work(this.#engine.db));
    this.#running.add(running);
    try {
      return await running;
    } catch (error) {
      throw this.#engine.failureOf(error);
    } finally {
      this.#running.delete(running);
    }
  }

  /** Reads in one transaction; `found` null: the registry still has the revision `since`, the answer to
   *  nearly every poll. */
  readSince<T>(
    since: number,
    work: (trx: Trx) => Promise<T>,
  ): Promise<{ readonly revision: number; readonly found: T | null }> {
    return this.read(async (db) => {
      const { revision } = await headOf(db);
      if (revision === since) return { revision, found: null };
      return db
        .transaction()
        .setAccessMode('read only')
        .execute(async (trx) => ({ revision: (await headOf(trx)).revision, found: await work(trx) }));
    });
  }

  /** Writes what no cache holds. */
  write<T>(work: (trx: Trx, engine: RegistryEngine) => Promise<T>): Promise<T> {
    return this.read((db) => this.#locked(db, work));
  }

  /** As write, after a read without the lock. null: that read has found nothing to write, the usual answer to
   *  a call that every instance makes each second. */
  writeIf<T>(isNeeded: (db: Db) => Promise<boolean>, work: (trx: Trx) => Promise<T>): Promise<T | null> {
    return this.read(async (db) => ((await isNeeded(db)) ? this.#locked(db, work) : null));
  }

  #locked<T>(db: Db, work: (trx: Trx, engine: RegistryEngine) => Promise<T>): Promise<T> {
    return db.transaction().execute(async (trx) => {
      await this.#engine.lock(trx);
      return work(trx, this.#engine);
    });
  }

  /** Writes, draws a revision and calls the listeners if the outcome is a change. `draw`: draws the revision
   *  at once, for work that stores it. */
  async change<T>(work: (trx: Trx, draw: () => Promise<number>) => Promise<T>): Promise<T> {
    const outcome = await this.write(async (trx) => {
      let isDrawn = false;
      const found = await work(trx, () => {
        isDrawn = true;
        return nextRevision(trx);
      });
      if (isChange(found) && !isDrawn) await nextRevision(trx);
      return found;
    });
    if (isChange(outcome)) for (const listener of this.#listeners) listener();
    return outcome;
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
}

/** `keyCheck`: a text that the key of the secrets encrypted; null: there is no key yet. */
export async function headOf(db: Db) {
  const columns = ['revision', 'key_check as keyCheck'] as const;
  return db.selectFrom('registry').select(columns).executeTakeFirstOrThrow();
}

async function nextRevision(trx: Trx): Promise<number> {
  await trx
    .updateTable('registry')
    .set((eb) => ({ revision: eb('revision', '+', 1) }))
    .execute();
  return (await headOf(trx)).revision;
}

/** The random id of the registry, which the ownership marker of each of its Redis servers repeats. Drawn
 *  here, not by a schema statement: a replica might draw another value. Creates a missing id. Idempotent,
 *  also in two processes at once. Rejects with a DqError for an invalid id. */
export async function openRegistryId(
  { db, lock }: Pick<RegistryEngine, 'db' | 'lock'>,
  what: string,
): Promise<string> {
  const id =
    (await findRegistryId(db)) ??
    (await db.transaction().execute(async (trx) => {
      await lock(trx);
      const found = await findRegistryId(trx);
      if (found !== null) return found;
      const made = randomBytes(8).toString('hex');
      await trx.insertInto('registry_id').values({ only: 1, id: made }).execute();
      return made;
    }));
  if (/^[0-9a-f]{16}$/.test(id)) return id;
  throw new DqError('unavailable', `${what} has an invalid id: registry_id must hold 16 hexadecimal digits`);
}

/** null: no id yet. */
export async function findRegistryId(db: Db): Promise<string | null> {
  return (await db.selectFrom('registry_id').select('id').executeTakeFirst())?.id ?? null;
}
