// Counts jobs and purges a topic. Counts come from memory: their cost does not depend on the number of jobs.

import type { LateJob } from '../../../core/incident.ts';
import type { StateCounts, StoreAdmin } from '../../../ports/job-store.ts';
import type { Statement } from '../../../runtime/database.ts';
import { dead, delayed, ready, reserved, type StateCode } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import { jobColumns, jobRowOf } from './job-rows.ts';
import { bulkStep, stepMax, type TransactionContext } from './transaction-context.ts';

/** `next`: the number after which the next page begins; null: this was the last page. */
export type CountsPage = Awaited<ReturnType<StoreAdmin['counts']>> & { readonly next: number | null };

export class JobCounts {
  readonly #tx: TransactionContext;
  readonly #oldestReady: Statement;
  readonly #oldestDelayed: Statement;
  readonly #ofTopic: Statement;

  constructor(tx: TransactionContext) {
    this.#tx = tx;
    // One index lookup per topic with ready jobs, taken from the tally. 1,000 single queries take ten times
    // as long. Each job is named from the index of its state: a million dead ones may be due before it.
    this.#oldestReady = tx.db.prepare(
      `WITH first AS MATERIALIZED (
         SELECT min((SELECT due FROM job WHERE state = 1 AND prio = tally.prio AND topic = tally.topic ORDER BY due LIMIT 1)) AS due,
           topic, prio
         FROM tally
         WHERE topic > ? AND topic <= ? AND state = 1 AND n > 0 AND topic NOT IN (SELECT value FROM json_each(?)))
       SELECT due, topic,
         (SELECT id FROM job INDEXED BY job_ready
          WHERE state = 1 AND prio = first.prio AND topic = first.topic AND due = first.due ORDER BY version LIMIT 1)
       FROM first WHERE due <= ?`,
      { returnArrays: true },
    );
    this.#oldestDelayed = tx.db.prepare(
      `SELECT due, topic, id
       FROM (SELECT due, topic, id FROM job INDEXED BY job_due WHERE state = 0 AND due <= ? ORDER BY due, version LIMIT ?)
       WHERE topic NOT IN (SELECT value FROM json_each(?)) ORDER BY due LIMIT 1`,
      { returnArrays: true },
    );
    this.#ofTopic = tx.db.prepare(
      `SELECT ${jobColumns} FROM job INDEXED BY job_topic WHERE topic = ? AND ended_at IS NULL LIMIT ?`,
      { returnArrays: true },
    );
  }

  /** Of all topics, or of one page: topics with numbers above `after`. A frame holds at most 100,000
   *  topics. */
  counts(
    held: readonly string[] = [],
    pulled: readonly string[] = [],
    after: number | null = null,
  ): CountsPage {
    const { counters, now } = this.#tx;
    const topics: [string, StateCounts][] = [];
    const from = after ?? -1;
    const max = after === null ? Number.POSITIVE_INFINITY : sqliteLimits.countsPageTopics;
    let end = from;
    let looked = 0;
    let isLast = true;
    for (const no of counters.topicNumbersAfter(from)) {
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
    const oldest = this.#oldest(from, end, held, pulled);
    // Object.fromEntries, not assignment: a topic may be called `constructor`.
    return {
      topics: Object.fromEntries(topics),
      oldestOverdueMs: oldest === null ? null : now - oldest.dueAt,
      oldest,
      next: isLast ? null : end,
    };
  }

  /** The job that has been due the longest: a ready one of the topics of a page, or a delayed one of any
   *  topic, which are sorted by due time only and belong to the first page. null: none is due. */
  #oldest(after: number, end: number, held: readonly string[], pulled: readonly string[]): LateJob | null {
    const { counters, now } = this.#tx;
    const numbersOf = (names: readonly string[]) =>
      JSON.stringify(names.map((name) => counters.topicNumber(name)).filter((no) => no !== undefined));
    const found = [this.#oldestReady.get(after, end, numbersOf([...held, ...pulled]), now)];
    if (after < 0 && (counters.head() ?? now + 1) <= now)
      found.push(this.#oldestDelayed.get(now, sqliteLimits.countsDelayed, numbersOf(held)));
    const [first] = (found as ([number, number, Uint8Array] | undefined)[])
      .filter((row) => row !== undefined)
      .sort(([a], [b]) => a - b);
    if (first === undefined) return null;
    const [dueAt, no, id] = first;
    return { topic: counters.topicName(no), id: Buffer.from(id).toString(), dueAt };
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
