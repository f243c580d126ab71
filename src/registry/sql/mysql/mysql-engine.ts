// What MySQL asks of the registry: one row as the lock of all writers, and transactions run again where that does no harm.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import { limits } from '../../../core/limits.ts';
import type { RegistryEngine } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';
import { addAtOnce } from '../tables/registry-stats.ts';
import { againOf, toMysqlStoreError } from './mysql-failure.ts';

export function mysqlEngine(db: Kysely<RegistrySchema>): RegistryEngine {
  return {
    db,
    // A transaction reads what was there when it read for the first time: without the lock in front, two could both find the
    // revision that they expect.
    lock: async (trx) => {
      await sql`SELECT revision FROM registry WHERE only = 1 FOR UPDATE`.execute(trx);
    },
    addStats: addAtOnce,
    attempt,
    failureOf: toMysqlStoreError,
  };
}

async function attempt<T>(work: () => Promise<T>): Promise<T> {
  const end = performance.now() + limits.registryBusyMs;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await work();
    } catch (error) {
      const again = againOf(error);
      if (again === null || (again === 'once' && !isFirst) || performance.now() >= end) throw error;
      if (again === 'wait') await sleep(limits.registryBusyStepMs * (1 + Math.random()));
    }
  }
}
