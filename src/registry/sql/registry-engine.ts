// Defines what the registry needs from its database; everything else is the same for SQLite and MySQL.

import type { Kysely, Transaction } from 'kysely';
import type { SeriesRow, StatDelta } from '../../ports/registry.ts';
import type { RegistrySchema } from './schema/registry-schema.ts';

export interface RegistryEngine {
  readonly db: Kysely<RegistrySchema>;
  /** First call in every writing transaction: until its end no other process writes to the registry, and
   *  reads see the current state. */
  lock(trx: Transaction<RegistrySchema>): Promise<void>;
  /** In a transaction that holds the lock; see Registry.addStats. */
  addStats(trx: Transaction<RegistrySchema>, deltas: readonly StatDelta[]): Promise<void>;
  /** In a transaction that holds the lock; see Registry.putSeries. */
  putSeries(trx: Transaction<RegistrySchema>, rows: readonly SeriesRow[]): Promise<void>;
  /** Runs `work`, and repeats it after a failure that surely changed nothing and may be temporary.
   *  Bounded. */
  attempt<T>(work: () => Promise<T>): Promise<T>;
  /** The StoreError of a database failure; returns other errors (bugs) unchanged. */
  failureOf(error: unknown): unknown;
  /** Called once, after the last call. */
  close(): Promise<void>;
}

/** COMMIT failed: the cause tells whether the transaction took place. */
export class CommitError extends Error {
  constructor(cause: unknown) {
    super('cannot commit the transaction', { cause });
    this.name = 'CommitError';
  }
}
