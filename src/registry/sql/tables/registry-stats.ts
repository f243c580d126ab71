// Stores the statistics of topics: counters only grow. An unregistered topic has none, so counters that
// arrive after a deletion are dropped.

import { sql } from 'kysely';
import { type StatName, statNames } from '../../../core/series.ts';
import type { Registry, StatDelta, StatPage, TopicStats } from '../../../ports/registry.ts';
import type { Db, RegistryAccess } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

/** `rowsMax`: of a page */
export function statVerbs(db: RegistryAccess, rowsMax: number) {
  return {
    addStats: (deltas) => db.write((trx, engine) => engine.addStats(trx, deltas)),
    stats: (topic, day) =>
      db.read(async (tables) => {
        const rows = await tables.selectFrom('topic_stat').selectAll().where('topic', '=', topic).execute();
        return statsOf(rows, day)[0] ?? null;
      }),
    statsPage: (after, day) => db.read((tables) => readStatPage(tables, after, day, rowsMax)),
  } satisfies Partial<Registry>;
}

/** For a local database: update, then insert if there was no row; the caller's lock covers both. As raw SQL:
 *  building the query takes four times as long as running it, in the process that also serves the job store.
 *  One text for all, because SQLite keeps each text. */
export async function addOneByOne(trx: Db, deltas: readonly StatDelta[]): Promise<void> {
  for (const delta of deltas) await addStat(trx, delta);
}

/** For a remote server: one round trip for all. Single statements exceeded limits.mysqlCallMs from 5 ms
 *  latency on, were repeated forever, and blocked all other writers. Uses syntax common to MySQL and MariaDB:
 *  VALUES() is deprecated in MySQL, its successor unknown to MariaDB. `today` before `day`: assignments run
 *  from left to right. */
export async function addAtOnce(trx: Db, deltas: readonly StatDelta[]): Promise<void> {
  if (deltas.length === 0) return;
  const rows = deltas.map(
    ({ topic, name, day, n }) => sql`SELECT ${topic} AS topic, ${name} AS name, ${day} AS day, ${n} AS n`,
  );
  await sql`
    INSERT INTO topic_stat (topic, name, total, day, today)
    SELECT topic.name, fresh.name, fresh.n, fresh.day, fresh.n
    FROM (${sql.join(rows, sql` UNION ALL `)}) AS fresh JOIN topic ON topic.name = fresh.topic
    ON DUPLICATE KEY UPDATE
      total = topic_stat.total + fresh.n,
      today = CASE WHEN topic_stat.day = fresh.day THEN topic_stat.today + fresh.n
        WHEN topic_stat.day < fresh.day THEN fresh.n ELSE topic_stat.today END,
      day = GREATEST(topic_stat.day, fresh.day)`.execute(trx);
}

async function addStat(trx: Db, { topic, name, day, n }: StatDelta): Promise<void> {
  const { numAffectedRows } = await sql`
    UPDATE topic_stat
    SET total = total + ${n},
      today = CASE WHEN day = ${day} THEN today + ${n} WHEN day < ${day} THEN ${n} ELSE today END,
      day = CASE WHEN day < ${day} THEN ${day} ELSE day END
    WHERE topic = ${topic} AND name = ${name}`.execute(trx);
  if (numAffectedRows !== undefined && numAffectedRows > 0n) return;
  const registered = await trx
    .selectFrom('topic')
    .select('name')
    .where('name', '=', topic)
    .executeTakeFirst();
  if (registered !== undefined)
    await trx.insertInto('topic_stat').values({ topic, name, day, total: n, today: n }).execute();
}

export async function removeStats(trx: Db, topic: string): Promise<void> {
  await trx.deleteFrom('topic_stat').where('topic', '=', topic).execute();
}

/** At most `rowsMax` rows; a page ends with a complete topic, which has at most one row per name. */
async function readStatPage(db: Db, after: string, day: number, rowsMax: number): Promise<StatPage> {
  const max = Math.max(rowsMax, statNames.length + 1);
  const rows = await db
    .selectFrom('topic_stat')
    .selectAll()
    .where('topic', '>', after)
    .orderBy('topic')
    .limit(max)
    .execute();
  if (rows.length < max) return { stats: statsOf(rows, day), next: null };
  const cut = rows.at(-1)?.topic;
  const stats = statsOf(
    rows.filter(({ topic }) => topic !== cut),
    day,
  );
  return { stats, next: stats.at(-1)?.topic ?? null };
}

function statsOf(rows: readonly RegistrySchema['topic_stat'][], day: number): TopicStats[] {
  const found = new Map<string, { total: Record<StatName, number>; today: Record<StatName, number> }>();
  for (const row of rows) {
    const counts = found.get(row.topic) ?? { total: zeros(), today: zeros() };
    found.set(row.topic, counts);
    counts.total[row.name as StatName] = row.total;
    if (row.day === day) counts.today[row.name as StatName] = row.today;
  }
  return [...found].map(([name, counts]) => ({ topic: name, ...counts }));
}

function zeros(): Record<StatName, number> {
  return Object.fromEntries(statNames.map((name) => [name, 0])) as Record<StatName, number>;
}
