// Reads and writes the row of the leader (ports/leadership.ts), by the clock of MySQL alone.

import { type Kysely, sql } from 'kysely';
import type { Leader } from '../../../ports/leadership.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

const now = sql<number>`CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)`;

/** One statement, so of two instances one wins. A time further ahead than `leaseMs` is from before a step of
 *  the clock. */
export async function lead(db: Kysely<RegistrySchema>, instance: number, leaseMs: number): Promise<Leader> {
  await sql`UPDATE leader SET until = ${now} + ${leaseMs}, instance = ${instance}
    WHERE only = 1 AND (instance = ${instance} OR until <= ${now} OR until > ${now} + ${leaseMs})`.execute(
    db,
  );
  return readLeader(db);
}

export async function readLeader(db: Kysely<RegistrySchema>): Promise<Leader> {
  const { rows } = await sql<{ instance: number; left_ms: number }>`
    SELECT instance, until - ${now} AS left_ms FROM leader WHERE only = 1`.execute(db);
  const [row] = rows;
  return { instance: Number(row?.instance ?? 0), leftMs: Number(row?.left_ms ?? 0) };
}
