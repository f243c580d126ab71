// Counts jobs and purges a topic. Counts come from memory: their cost does not depend on the number of jobs.

import { limits } from '../../../core/limits.ts';
import { priorityCodes } from '../../../core/stored-codes.ts';
import type { Counts, StateCounts } from '../../../ports/job-store.ts';
import { type Database, rowsBy } from '../../../runtime/database.ts';
import { oldestByTopic } from '../../pages.ts';
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
export type CountsPage = Counts & { readonly next: CountsPlace | null };

export const firstCounts: CountsPlace = { topic: -1, delayed: [0, 0] };

type OldestRow = readonly [due: number, topic: number, id: Uint8Array];

type DelayedRows = readonly [readonly OldestRow[], next: CountsPlace['delayed']];

const statementsOf = (db: Database) => {
  const dueDelayed = `FROM job INDEXED BY job_due
    WHERE state = 0 AND due >= :due AND due <= :now AND (due, version) > (:due, :version) ORDER BY due, version`;
  // One index lookup per topic with ready jobs, taken from the tally. 1,000 single queries take ten times
  // as long. Each job is named from the index of its state: a million dead ones may be due before it.
  const oldestReady = (which: string) =>
    rowsBy(
      db,
      `WITH head AS MATERIALIZED (
         SELECT (SELECT due FROM job WHERE state = 1 AND prio = tally.prio AND topic = tally.topic ORDER BY due LIMIT 1) AS due,
           topic, prio
         FROM tally
         WHERE ${which} AND state = 1 AND n > 0
         ORDER BY due NULLS LAST LIMIT ${limits.oldestMax * priorityCodes.length})
       SELECT due, topic,
         (SELECT id FROM job INDEXED BY job_ready
          WHERE state = 1 AND prio = head.prio AND topic = head.topic AND due = head.due ORDER BY version LIMIT 1)
       FROM head WHERE due <= :now ORDER BY due`,
    );
  const listed = 'IN (SELECT value FROM json_each(:topics))';
  return {
    oldestReady: oldestReady(`topic > :from AND topic <= :end AND topic NOT ${listed}`),
    oldestReadyOf: oldestReady(`topic ${listed}`),
    oldestDelayed: rowsBy(
      db,
      `SELECT min(due), topic, id
       FROM (SELECT due, topic, id ${dueDelayed} LIMIT ${sqliteLimits.countsDelayed})
       WHERE (topic ${listed}) = :isListed
       GROUP BY topic ORDER BY min(due) LIMIT ${limits.oldestMax}`,
    ),
    delayedEnd: rowsBy(
      db,
      `SELECT due, version ${dueDelayed} LIMIT 1 OFFSET ${sqliteLimits.countsDelayed - 1}`,
    ),
    ofTopic: rowsBy(
      db,
      `SELECT ${jobColumns} FROM job INDEXED BY job_topic WHERE topic = ? AND ended_at IS NULL LIMIT ?`,
    ),
  };
};

export class JobCounts {
  readonly #tx: TransactionContext;
  readonly #sql: ReturnType<typeof statementsOf>;
  /** Up to this place each due delayed job is of these topics. No later one comes before it: a job that is
   *  due when it is stored is ready. */
  #walked: { readonly topics: string; readonly place: readonly [due: number, version: number] } | null = null;

  constructor(tx: TransactionContext) {
    this.#tx = tx;
    this.#sql = statementsOf(tx.db);
  }

  /** Of all topics, or of one page. A frame holds at most 100,000 topics. */
  counts(
    held: readonly string[] = [],
    pulled: readonly string[] = [],
    page: CountsPlace | null = null,
  ): CountsPage {
    const { counters, now } = this.#tx;
    const from = page ?? firstCounts;
    const topics: (readonly [string, StateCounts])[] = [];
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
      topics.push(...this.#countsOf(no));
    }
    const notReady = this.#numbersOf([...held, ...pulled]);
    const firstReady =
      from.topic === null ? [] : this.#sql.oldestReady.all({ from: from.topic, end, topics: notReady, now });
    const firstDelayed = this.#delayedFrom(from.delayed, { topics: this.#numbersOf(held), isListed: 0 });
    return this.#pageOf(topics, firstReady, firstDelayed, isLast ? null : end);
  }

  /** Of these topics alone. `place`: of the page before */
  countsOf(topics: readonly string[], place: CountsPlace = firstCounts): CountsPage {
    const { counters, now } = this.#tx;
    const listed = this.#numbersOf(topics);
    const isFirst = place.topic !== null;
    const numbers = isFirst ? topics.map((topic) => counters.topicNumber(topic)) : [];
    const counts = numbers.flatMap((no) => (no === undefined ? [] : this.#countsOf(no)));
    const firstReady = isFirst ? this.#sql.oldestReadyOf.all({ topics: listed, now }) : [];
    const isDelayed = !isFirst || counts.some(([, { delayed }]) => delayed > 0);
    const firstDelayed = this.#delayedFrom(isDelayed ? place.delayed : null, { topics: listed, isListed: 1 });
    return this.#pageOf(counts, firstReady, firstDelayed, null);
  }

  #numbersOf(names: readonly string[]): string {
    const { counters } = this.#tx;
    return JSON.stringify(names.map((name) => counters.topicNumber(name)).filter((no) => no !== undefined));
  }

  /** Empty for a topic without jobs. */
  #countsOf(no: number): readonly (readonly [topic: string, StateCounts])[] {
    const { counters } = this.#tx;
    const of = (state: StateCode) =>
      priorityCodes.reduce((sum, _, prio) => sum + counters.countOf(no, prio, state), 0);
    const counts = { delayed: of(delayed), ready: of(ready), reserved: of(reserved), dead: of(dead) };
    const isEmpty = counts.delayed + counts.ready + counts.reserved + counts.dead === 0;
    return isEmpty ? [] : [[counters.topicName(no), counts]];
  }

  #pageOf(
    topics: readonly (readonly [topic: string, StateCounts])[],
    firstReady: readonly unknown[],
    [firstDelayed, delayedNext]: DelayedRows,
    topic: number | null,
  ): CountsPage {
    const { counters, now } = this.#tx;
    const oldest = oldestByTopic(
      [...(firstReady as readonly OldestRow[]), ...firstDelayed].map(([dueAt, no, id]) => ({
        topic: counters.topicName(no),
        id: asBuffer(id).toString(),
        dueAt,
      })),
    );
    // Object.fromEntries, not assignment: a topic may be called `constructor`.
    return {
      topics: Object.fromEntries(topics),
      oldestOverdueMs: oldest[0] === undefined ? null : now - oldest[0].dueAt,
      oldest,
      next: topic === null && delayedNext === null ? null : { topic, delayed: delayedNext },
    };
  }

  /** The oldest due delayed jobs of the listed topics, or of all others, of any page: they are sorted by due
   *  time only. And where the next page goes on. */
  #delayedFrom(
    place: CountsPlace['delayed'],
    which: { readonly topics: string; readonly isListed: 0 | 1 },
  ): DelayedRows {
    const { counters, now } = this.#tx;
    // The clock was set back: jobs that are stored now may be due before that place.
    if (this.#walked !== null && this.#walked.place[0] > now) this.#walked = null;
    if (place === null || (counters.head() ?? now + 1) > now) return [[], null];
    const [due, version] = this.#afterWalked(place, which);
    const range = { due, version, now };
    const found = this.#sql.oldestDelayed.all({ ...range, ...which }) as unknown as OldestRow[];
    if (found.length > 0) return [found, null];
    const next = (this.#sql.delayedEnd.get(range) as CountsPlace['delayed'] | undefined) ?? null;
    if (next !== null && which.isListed === 0) this.#walked = { topics: which.topics, place: next };
    return [[], next];
  }

  /** A walk over jobs of the same held topics goes on where the last one ended. */
  #afterWalked(
    place: readonly [due: number, version: number],
    { topics, isListed }: { readonly topics: string; readonly isListed: 0 | 1 },
  ): readonly [due: number, version: number] {
    const walked = this.#walked;
    if (walked === null || isListed === 1 || walked.topics !== topics) return place;
    const [due, version] = walked.place;
    return due > place[0] || (due === place[0] && version > place[1]) ? walked.place : place;
  }

  /** After a rollback: it may bring jobs back. */
  forgetWalked(): void {
    this.#walked = null;
  }

  /** One step, as DeadPages.purge. */
  purgeTopic(topic: string, max: number): { readonly purged: number; readonly more: boolean } {
    const { counters, rows, now } = this.#tx;
    const no = counters.topicNumber(topic);
    if (no === undefined) return { purged: 0, more: false };
    const bound = stepMax(this.#tx, Math.min(max, sqliteLimits.bulkStepMax));
    const found = this.#sql.ofTopic.all(no, bound + 1) as unknown[][];
    const purged = bulkStep(found.slice(0, bound), (columns) =>
      rows.end(jobRowOf(columns), { state: 'purged', at: now }),
    );
    return { purged, more: purged < found.length };
  }
}
