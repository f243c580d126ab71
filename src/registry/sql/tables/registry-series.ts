// Stores series: rows that no other process writes, so a write that is repeated replaces itself and counts
// nothing twice. Bounded: each write removes expired rows of some topics, in turn.

import { sql } from 'kysely';
import { everyTopic, seriesSteps } from '../../../core/series.ts';
import type { Registry, SeriesQuery, SeriesRow } from '../../../ports/registry.ts';
import { sqlLimits } from '../limits.ts';
import type { Db, RegistryAccess, Trx } from '../registry-engine.ts';

export function seriesVerbs(db: RegistryAccess) {
  return {
    putSeries: (rows, now, sweptTo) =>
      db.write(async (trx, engine) => {
        await engine.putSeries(trx, rows);
        return sweepSeries(trx, now, sweptTo);
      }),
    series: (query) => db.read((tables) => readSeries(tables, query)),
  } satisfies Partial<Registry>;
}

/** For a local database: bytes, because rows of base64 take a fourth more. One text for all rows, because
 *  SQLite keeps each text. */
export async function putRowsOneByOne(trx: Db, rows: readonly SeriesRow[]): Promise<void> {
  for (const row of rows)
    await sql`REPLACE INTO series (topic, step, at, instance, incarnation, packed)
      VALUES ${valuesOf(row, Buffer.from(row.packed, 'base64'))}`.execute(trx);
}

/** For a remote server: one round trip. */
export async function putRowsAtOnce(trx: Db, rows: readonly SeriesRow[]): Promise<void> {
  if (rows.length === 0) return;
  await sql`
    REPLACE INTO series (topic, step, at, instance, incarnation, packed)
    VALUES ${sql.join(rows.map((row) => valuesOf(row, row.packed)))}`.execute(trx);
}

function valuesOf({ topic, step, at, instance, incarnation }: SeriesRow, packed: string | Buffer) {
  return sql`(${topic}, ${step}, ${at}, ${instance}, ${incarnation}, ${packed})`;
}

/** The rows of all topics together are first in the order of topics. */
async function sweepSeries(trx: Trx, now: number, sweptTo: string): Promise<string> {
  let last = sweptTo;
  if (last === everyTopic) await removeExpired(trx, everyTopic, now);
  for (let left = sqlLimits.seriesSweptTopics; left > 0; left -= 1) {
    const next = await trx
      .selectFrom('series')
      .select('topic')
      .where('topic', '>', last)
      .orderBy('topic')
      .limit(1)
      .executeTakeFirst();
    if (next === undefined) return everyTopic;
    last = next.topic;
    await removeExpired(trx, last, now);
  }
  return last;
}

async function removeExpired(trx: Trx, topic: string, now: number): Promise<void> {
  for (const { seconds, keepAll, keepTopic } of seriesSteps)
    await trx
      .deleteFrom('series')
      .where('topic', '=', topic)
      .where('step', '=', seconds)
      .where('at', '<', now - (topic === everyTopic ? keepAll : keepTopic))
      .execute();
}

export async function removeSeries(trx: Db, topic: string): Promise<void> {
  await trx.deleteFrom('series').where('topic', '=', topic).execute();
}

const base64Of = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

/** One range of the primary key per topic. */
async function readSeries(db: Db, { topics, step, from, to }: SeriesQuery): Promise<readonly SeriesRow[]> {
  const found: SeriesRow[] = [];
  for (const topic of topics.slice(0, sqlLimits.seriesTopicsMax)) {
    const rows = await db
      .selectFrom('series')
      .selectAll()
      .where('topic', '=', topic)
      .where('step', '=', step)
      .where('at', '>=', from)
      .where('at', '<=', to)
      .orderBy('at', 'desc')
      .orderBy('instance', 'desc')
      .orderBy('incarnation', 'desc')
      .limit(sqlLimits.seriesRowsMax)
      .execute();
    for (const row of rows.reverse())
      found.push({ ...row, packed: typeof row.packed === 'string' ? row.packed : base64Of(row.packed) });
  }
  return found;
}
