// Reads and writes the row of the leader (ports/registry.ts), by the clock of MySQL alone.
// Invariants: the row is free only when no process that leads is left, or their time has ended. Each
// statement is a transaction of its own: a process that stands still keeps no lock that a successor needs.

import { type Kysely, sql } from 'kysely';
import type { Owner } from '../../../core/job.ts';
import type { Leader } from '../../../ports/registry.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

const now = sql<number>`CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)`;

/** One statement takes the row, so of two instances one wins. A time further ahead than `leaseMs` is from
 *  before a step of the clock. The process is noted first: a sibling that gives up meanwhile finds it. */
export async function lead(
  db: Kysely<RegistrySchema>,
  { instance, incarnation }: Owner,
  leaseMs: number,
): Promise<Leader> {
  const before = await readLeader(db);
  if (before.instance !== instance && before.leftMs > 0 && before.leftMs <= leaseMs) return before;
  const noted = await sql`INSERT INTO leader_process (instance, incarnation, until)
    VALUES (${instance}, ${incarnation}, ${now} + ${leaseMs})
    ON DUPLICATE KEY UPDATE until = ${now} + ${leaseMs}`.execute(db);
  // A new process removes those that died.
  if (noted.numAffectedRows === 1n) await sql`DELETE FROM leader_process WHERE until <= ${now}`.execute(db);
  await sql`UPDATE leader SET until = ${now} + ${leaseMs}, instance = ${instance}
    WHERE only = 1 AND (instance = ${instance} OR until <= ${now} OR until > ${now} + ${leaseMs})`.execute(
    db,
  );
  return readLeader(db);
}

export async function giveUp(db: Kysely<RegistrySchema>, { instance, incarnation }: Owner): Promise<void> {
  await sql`DELETE FROM leader_process WHERE instance = ${instance} AND incarnation = ${incarnation}`.execute(
    db,
  );
  await sql`UPDATE leader SET until = ${now} WHERE only = 1 AND instance = ${instance} AND until > ${now}
    AND NOT EXISTS (SELECT 1 FROM leader_process WHERE instance = ${instance} AND until > ${now})`.execute(
    db,
  );
}

export async function readLeader(db: Kysely<RegistrySchema>): Promise<Leader> {
  const { rows } = await sql<{ instance: number; left_ms: number }>`
    SELECT instance, until - ${now} AS left_ms FROM leader WHERE only = 1`.execute(db);
  const [row] = rows;
  return { instance: Number(row?.instance ?? 0), leftMs: Number(row?.left_ms ?? 0) };
}
