// Counting jobs and clearing a topic. Counts come from memory, so asking often costs nothing however many jobs there are.

import type { StateCounts, StoreAdmin } from '../../../ports/job-store.ts';
import type { Statement } from '../../../runtime/database.ts';
import { dead, delayed, ready, reserved, type StateCode } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import { jobColumns, jobRowOf } from './job-rows.ts';
import { bulkStep, stepMax, type TransactionContext } from './transaction-context.ts';

/** `next`: the number after which the next page begins; null = this was the last one. */
export type CountsPage = Awaited<ReturnType<StoreAdmin['counts']>> & { readonly next: number | null };

export class JobCounts {
  readonly #bench: TransactionContext;
  readonly #oldestReady: Statement;
  readonly #ofTopic: Statement;

  constructor(bench: TransactionContext) {
    this.#bench = bench;
    // From the tally, one look at the index for each topic that has ready jobs; a thousand questions from here would take ten
    // times as long, and the first ready job in the order of all that are due may stand behind a million dead ones.
    this.#oldestReady = bench.db.prepare(
      `SELECT min((SELECT due FROM job WHERE state = 1 AND prio = tally.prio AND topic = tally.topic ORDER BY due LIMIT 1))
       FROM tally
       WHERE topic > ? AND topic <= ? AND state = 1 AND n > 0 AND topic NOT IN (SELECT value FROM json_each(?))`,
      { returnArrays: true },
    );
    this.#ofTopic = bench.db.prepare(
      `SELECT ${jobColumns} FROM job INDEXED BY job_topic WHERE topic = ? AND ended_at IS NULL LIMIT ?`,
      { returnArrays: true },
    );
  }

  /** Of all topics, or of a page: of those whose numbers come after `after`. A frame of the socket takes no more than 100,000. */
  counts(held: readonly string[] = [], after: number | null = null): CountsPage {
    const { ledger, now } = this.#bench;
    const topics: [string, StateCounts][] = [];
    const from = after ?? -1;
    const max = after === null ? Number.POSITIVE_INFINITY : sqliteLimits.countsPageTopics;
    let end = from;
    let looked = 0;
    let isLast = true;
    for (const no of ledger.topicNumbersAfter(from)) {
      // Those that have no job cost little, but there may be many of them.
      if (topics.length >= max || looked >= 10 * max) {
        isLast = false;
        break;
      }
      looked += 1;
      end = no;
      const of = (state: StateCode) =>
        ledger.countOf(no, 0, state) + ledger.countOf(no, 1, state) + ledger.countOf(no, 2, state);
      const counts = { delayed: of(delayed), ready: of(ready), reserved: of(reserved), dead: of(dead) };
      if (counts.delayed + counts.ready + counts.reserved + counts.dead > 0)
        topics.push([ledger.topicName(no), counts]);
    }
    const without = held.map((name) => ledger.topicNumber(name)).filter((no) => no !== undefined);
    const [oldestReady] = this.#oldestReady.get(from, end, JSON.stringify(without)) as [number | null];
    const oldest = Math.min(oldestReady ?? now + 1, ledger.head() ?? now + 1);
    // From entries, not by assignment: a topic may be called `constructor`.
    return {
      topics: Object.fromEntries(topics),
      oldestOverdueMs: oldest > now ? null : now - oldest,
      next: isLast ? null : end,
    };
  }

  /** One step, as DeadPages.purge. */
  purgeTopic(topic: string, max: number): { readonly purged: number; readonly more: boolean } {
    const { ledger, rows, now } = this.#bench;
    const no = ledger.topicNumber(topic);
    if (no === undefined) return { purged: 0, more: false };
    const bound = stepMax(this.#bench, Math.min(max, sqliteLimits.bulkStepMax));
    const found = this.#ofTopic.all(no, bound + 1) as unknown[][];
    const purged = bulkStep(found.slice(0, bound), (columns) =>
      rows.end(jobRowOf(columns), { state: 'purged', at: now }),
    );
    return { purged, more: purged < found.length };
  }
}
