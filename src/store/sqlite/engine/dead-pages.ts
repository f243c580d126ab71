// Lists dead letters newest first; requeues and purges them oldest first, by topic, time and id. Bounded by
// the caller's max; a page is also bounded by its bytes, because it travels in one frame.

import { limits } from '../../../core/limits.ts';
import type { DeadFilter, DeadLetter, Page } from '../../../ports/job-store.ts';
import { type Database, rowsBy } from '../../../runtime/database.ts';
import { numberOf, type StepFilter } from '../../batches.ts';
import { cursorOf, newest, type Place, placeOf } from '../../pages.ts';
import { dead, partitionName } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import { type JobRow, jobColumns, jobRowOf } from './job-rows.ts';
import { requeueRow } from './operator-moves.ts';
import type { Snapshots } from './snapshots.ts';
import { bulkStep, stepMax, type TransactionContext } from './transaction-context.ts';

type Order = 'newest' | 'oldest';

interface Step {
  readonly more: boolean;
  readonly below: number;
}

const statementsOf = (db: Database) => {
  const select = (where: string, direction: 'ASC' | 'DESC') =>
    rowsBy(
      db,
      `SELECT ${jobColumns} FROM job WHERE ${where} state = 3 AND dead_at >= ? AND dead_at < ? AND token < ?
         AND (dead_at, version) < (?, ?)
       ORDER BY dead_at ${direction}, version ${direction} LIMIT ?`,
    );
  const inBothOrders = (where: string) => ({ newest: select(where, 'DESC'), oldest: select(where, 'ASC') });
  return {
    ofAll: inBothOrders(''),
    ofTopic: inBothOrders('topic = ? AND'),
    // The join finds only the job of that burial; CROSS fixes the join order.
    expired: rowsBy(
      db,
      `SELECT ${jobColumns} FROM alert CROSS JOIN job ON job.topic = alert.topic AND job.id = alert.id
       WHERE alert.state >= 2 AND alert.dead_at < ? AND job.state = 3 AND job.version = alert.version
       ORDER BY alert.dead_at, alert.version LIMIT ?`,
    ),
  };
};

export class DeadPages {
  readonly #tx: TransactionContext;
  readonly #snapshots: Snapshots;
  readonly #sql: ReturnType<typeof statementsOf>;

  constructor(tx: TransactionContext, snapshots: Snapshots) {
    this.#tx = tx;
    this.#snapshots = snapshots;
    this.#sql = statementsOf(tx.db);
  }

  /** Deaths since the moment of the filter are left out of their page: there may be many of them. */
  list({ before, ...filter }: DeadFilter, limit: number, cursor: string | null): Page<DeadLetter> {
    const below = numberOf(before, partitionName) ?? Number.MAX_SAFE_INTEGER;
    const found = this.#find(filter, 'newest', limit + 1, placeOf(cursor, newest));
    const items: DeadLetter[] = [];
    let [bytes, read] = [0, 0];
    for (const row of found.slice(0, limit)) {
      if (diedBelow(row, below)) {
        const job = this.#snapshots.readRow(row.n);
        bytes += Buffer.byteLength(JSON.stringify(job.attempts));
        if (items.length > 0 && bytes > limits.reserveBytesMax) break;
        items.push(job);
      }
      read += 1;
    }
    const last = found[read - 1];
    const more = last !== undefined && found.length > read;
    return { items, nextCursor: more ? cursorOf(placeOfRow(last)) : null };
  }

  /** One step: may move fewer than max and set `more`, so that other callers do not wait. `below`: pass it to
   *  the next steps of the call. The same holds for purge. */
  requeue(filter: StepFilter, max: number): Step & { readonly requeued: number } {
    const { tx, found, more, below } = this.#oldest(filter, max);
    const requeued = bulkStep(found, (row) => requeueRow(tx, row));
    return { requeued, more: more || requeued < found.length, below };
  }

  purge(filter: StepFilter, max: number): Step & { readonly purged: number } {
    const { tx, found, more, below } = this.#oldest(filter, max);
    const purged = bulkStep(found, (row) => tx.rows.end(row, { state: 'purged', at: tx.now }));
    return { purged, more: more || purged < found.length, below };
  }

  /** Reads settled alerts, not dead letters: each dead letter has one, and dead letters whose alert stays
   *  owed for weeks would be scanned by every call. */
  expireBefore(before: number, max: number): { readonly expired: number; readonly more: boolean } {
    const bound = stepMax(this.#tx, Math.min(max, limits.expireMax));
    const found = jobRows(this.#sql.expired.all(before, bound + 1));
    for (const row of found.slice(0, bound)) this.#tx.rows.end(row, { state: 'expired', at: this.#tx.now });
    return { expired: Math.min(found.length, bound), more: found.length > bound };
  }

  #oldest(filter: StepFilter, max: number) {
    const below = filter.below ?? this.#tx.counters.lastNumber + 1;
    const bound = stepMax(this.#tx, Math.min(max, sqliteLimits.bulkStepMax));
    const found = this.#find(filter, 'oldest', bound + 1, newest);
    return { tx: this.#tx, found: found.slice(0, bound), more: found.length > bound, below };
  }

  #find(filter: StepFilter, order: Order, limit: number, before: Place): JobRow[] {
    const {
      topic,
      since = 0,
      until = Number.MAX_SAFE_INTEGER,
      ids,
      below = Number.MAX_SAFE_INTEGER,
    } = filter;
    if (ids !== undefined) return this.#findIds(filter, order, limit, before);
    const bounds = [since, until, below, before.at, before.version, limit];
    if (topic === undefined) return jobRows(this.#sql.ofAll[order].all(...bounds));
    const no = this.#tx.counters.topicNumber(topic);
    return no === undefined ? [] : jobRows(this.#sql.ofTopic[order].all(no, ...bounds));
  }

  #findIds(filter: StepFilter, order: Order, limit: number, before: Place): JobRow[] {
    const {
      topic,
      since = 0,
      until = Number.MAX_SAFE_INTEGER,
      ids = [],
      below = Number.MAX_SAFE_INTEGER,
    } = filter;
    if (topic === undefined) throw new Error('a filter by ids needs a topic');
    const inRange = (row: JobRow) => {
      const { at, version } = placeOfRow(row);
      const after = at < before.at || (at === before.at && version < before.version);
      return row.state === dead && at >= since && at < until && diedBelow(row, below) && after;
    };
    const rows = [...new Set(ids)]
      .map((id) => this.#tx.rows.find(topic, id))
      .filter((row) => row !== undefined)
      .filter(inRange)
      .sort((a, b) => placeOfRow(a).at - placeOfRow(b).at || a.version - b.version);
    return (order === 'oldest' ? rows : rows.reverse()).slice(0, limit);
  }
}

function jobRows(rows: unknown[]): JobRow[] {
  return (rows as unknown[][]).map(jobRowOf);
}

function diedBelow({ token }: JobRow, number: number): boolean {
  return (token ?? 0) < number;
}

function placeOfRow(row: JobRow): Place {
  return { at: row.deadAt ?? 0, version: row.version };
}
