// Adapts the registry to MySQL: a row lock for all writers, and repetition of transactions where it is
// harmless.

import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import { limits } from '../../../core/limits.ts';
import { monotonicNow, random, sleep } from '../../../runtime/time.ts';
import { sqlLimits } from '../limits.ts';
import type { RegistryEngine } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { putRowsAtOnce } from '../tables/registry-series.ts';
import { addAtOnce } from '../tables/registry-stats.ts';
import { repetitionOf, toMysqlStoreError } from './mysql-failure.ts';

export function mysqlEngine(db: Kysely<RegistrySchema>): RegistryEngine {
  return {
    db,
    // A transaction reads the state of its first read: without the lock first, two could both find the
    // expected revision.
    lock: async (trx) => {
      await sql`SELECT revision FROM registry WHERE only = 1 FOR UPDATE`.execute(trx);
    },
    addStats: addAtOnce,
    putSeries: putRowsAtOnce,
    attempt,
    failureOf: toMysqlStoreError,
    close: () => db.destroy(),
  };
}

async function attempt<T>(work: () => Promise<T>): Promise<T> {
  const end = monotonicNow() + limits.registryBusyMs;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await work();
    } catch (error) {
      const repetition = repetitionOf(error);
      if (repetition === null || (repetition === 'once' && !isFirst) || monotonicNow() >= end) throw error;
      if (repetition === 'wait') await sleep(sqlLimits.registryBusyStepMs * (1 + random()));
    }
  }
}
