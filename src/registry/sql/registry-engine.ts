// What the registry leaves to the database under it. Everything else of the cold path is the same for all of them.

import type { Kysely, Transaction } from 'kysely';
import type { StatDelta } from '../../ports/registry.ts';
import type { RegistrySchema } from './schema/registry-schema.ts';

export interface RegistryEngine {
  readonly db: Kysely<RegistrySchema>;
  /** The first thing in every transaction that writes: from here to its end nobody else writes to the registry, and what it
   *  reads from here on is the present. */
  lock(trx: Transaction<RegistrySchema>): Promise<void>;
  /** In a transaction that has the lock; see Registry.addStats. */
  addStats(trx: Transaction<RegistrySchema>, deltas: readonly StatDelta[]): Promise<void>;
  /** Runs `work`, and again for a failure that surely changed nothing and may not come back. Bounded. */
  attempt<T>(work: () => Promise<T>): Promise<T>;
  /** The StoreError that a failure comes to; what is a programmer's mistake comes back as it is. */
  failureOf(error: unknown): unknown;
}
