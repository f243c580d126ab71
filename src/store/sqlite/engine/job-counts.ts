// Counts jobs and purges a topic. Counts come from memory: their cost does not depend on the number of jobs.

import { limits } from '../../../core/limits.ts';
import { priorityCodes } from '../../../core/stored-codes.ts';
import type { StateCounts, StoreAdmin } from '../../../ports/job-store.ts';
import type { Statement } from '../../../runtime/database.ts';
import { oldestByTopic } from '../../oldest-jobs.ts';
import { dead, delayed, ready, reserved, type StateCode } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import { asBuffer, jobColumns, jobRowOf } from './job-rows.ts';
import { bulkStep, stepMax, type TransactionContext } from './transaction-context.ts';

/** Where a page of counts begins: after a topic's number (null: past all), and after a due delayed job (null:
 *  past those of held topics). */
export interface CountsPlace {
  readonly topic: number | null;
  readonly delayed: readonly [due: number, version: number] | null;
}

/** `next` null: this was the last page. */
export type CountsPage = Awaited<ReturnType<StoreAdmin['counts']>> & { readonly next: CountsPlace | null };

export const firstCounts: CountsPlace = { topic: -1, delayed: [0, 0] };

type OldestRow = readonly [due: number, topic: number, id: Uint8Array];

export class JobCounts {
  readonly #tx: TransactionContext;
  readonly #oldestReady: Statement;
  readonly #oldestDelayed: Statement;
  readonly #delayedEnd: Statement;
  readonly #ofTopic: Statement;

  constructor(tx: TransactionContext) {
    this.#tx = tx;
    const dueDelayed = `FROM job INDEXED BY job_due
      WHERE state = 0 AND due >= :due AND due <= :now AND (due, version) > (:due, :version) ORDER BY due, version`;
    // One index lookup per topic with ready jobs, taken from the tally. 1,000 single queries take ten times
    // as long. Each job is named from the index of its state: a million dead ones may be due before it.
    this.#oldestReady = tx.db.prepare(
      `WITH head AS MATERIALIZED (
         SELECT (SELECT due FROM job WHERE state = 1 AND prio = tally.prio AND topic = tally.topic ORDER BY due LIMIT 1) AS due,
           topic, prio
         FROM tally
         WHERE topic > ? AND topic <= ? AND state = 1 AND n > 0 AND topic NOT IN (SELECT value FROM json_each(?))
         ORDER BY due NULLS LAST LIMIT ${limits.oldestMax * priorityCodes.length})
       SELECT due, topic,
         (SELECT id FROM job INDEXED BY job_ready
          WHERE state = 1 AND prio = head.prio AND topic = head.topic AND due = head.due ORDER BY version LIMIT 1)
       FROM head WHERE due <= ? ORDER BY due`,
      { returnArrays: true },
    );
    this.#oldestDelayed = tx.db.prepare(
      `SELECT min(due), topic, id
       FROM (SELECT due, topic, id ${dueDelayed} LIMIT ${sqliteLimits.countsDelayed})
       WHERE topic NOT IN (SELECT value FROM json_each(:held))
       GROUP BY topic ORDER BY min(due) LIMIT ${limits.oldestMax}`,
      { returnArrays: true },
    );
    this.#delayedEnd = tx.db.prepare(
      `SELECT due, version ${dueDelayed} LIMIT 1 OFFSET ${sqliteLimits.countsDelayed - 1}`,
      { returnArrays: true },
    );
    this.#ofTopic = tx.db.prepare(
      `SELECT ${jobColumns} FROM job INDEXED BY job_topic WHERE topic = ? AND ended_at IS NULL LIMIT ?`,
      { returnArrays: true },
    );
  }

  /** Of all topics, or of one page. A frame holds at most 100,000 topics. */
  counts(
    held: readonly string[] = [],
    pulled: readonly string[] = [],
    page: CountsPlace | null = null,
  ): CountsPage {
    const { counters, now } = this.#tx;
    const from = page ?? firstCounts;
    const topics: [string, StateCounts][] = [];
    const max = page === null ? Number.POSITIVE_INFINITY : sqliteLimits.countsPageTopics;
    let end = from.topic ?? Number.MAX_SAFE_INTEGER;
    let looked = 0;
    let isLast = true;
    for (const no of counters.topicNumbersAfter(end)) {
      // A topic without jobs costs little, but there may be many.
      if (topics.length >= max || looked >= 10 * max) {
        isLast = false;
        break;
      }
      looked += 1;
      end = no;
      const of = (state: StateCode) =>
        counters.countOf(no, 0, state) + counters.countOf(no, 1, state) + counters.countOf(no, 2, state);
      const counts = { delayed: of(delayed), ready: of(ready), reserved: of(reserved), dead: of(dead) };
      if (counts.delayed + counts.ready + counts.reserved + counts.dead > 0)
        topics.push([counters.topicName(no), counts]);
    }
    const numbersOf = (names: readonly string[]) =>
      JSON.stringify(names.map((name) => counters.topicNumber(name)).filter((no) => no !== undefined));
    const firstReady =
      from.topic === null ? [] : this.#oldestReady.all(from.topic, end, numbersOf([...held, ...pulled]), now);
    const [firstDelayed, delayedNext] = this.#delayedFrom(from.delayed, numbersOf(held));
    const oldest = oldestByTopic(
      [...(firstReady as unknown as OldestRow[]), ...firstDelayed].map(([dueAt, no, id]) => ({
        topic: counters.topicName(no),
        id: asBuffer(id).toString(),
        dueAt,
      })),
    );
    const topic = isLast ? null : end;
    // Object.fromEntries, not assignment: a topic may be called `constructor`.
    return {
      topics: Object.fromEntries(topics),
      oldestOverdueMs: oldest[0] === undefined ? null : now - oldest[0].dueAt,
      oldest,
      next: topic === null && delayedNext === null ? null : { topic, delayed: delayedNext },
    };
  }

  /** The oldest due delayed jobs of topics that are not held, of any page: they are sorted by due time only.
   *  And where the next page goes on. */
  #delayedFrom(
    place: CountsPlace['delayed'],
    held: string,
  ): readonly [readonly OldestRow[], CountsPlace['delayed']] {
    const { counters, now } = this.#tx;
    if (place === null || (counters.head() ?? now + 1) > now) return [[], null];
    const [due, version] = place;
    const range = { due, version, now };
    const found = this.#oldestDelayed.all({ ...range, held }) as unknown as OldestRow[];
    if (found.length > 0) return [found, null];
    return [[], (this.#delayedEnd.get(range) as CountsPlace['delayed'] | undefined) ?? null];
  }

  /** One step, as DeadPages.purge. */
  purgeTopic(topic: string, max: number): { readonly purged: number; readonly more: boolean } {
    const { counters, rows, now } = this.#tx;
    const no = counters.topicNumber(topic);
    if (no === undefined) return { purged: 0, more: false };
    const bound = stepMax(this.#tx, Math.min(max, sqliteLimits.bulkStepMax));
    const found = this.#ofTopic.all(no, bound + 1) as unknown[][];
    const purged = bulkStep(found.slice(0, bound), (columns) =>
      rows.end(jobRowOf(columns), { state: 'purged', at: now }),
    );
    return { purged, more: purged < found.length };
  }
}
