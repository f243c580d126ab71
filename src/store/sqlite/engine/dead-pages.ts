// Dead letters: listed newest death first, requeued and purged oldest first, by topic, time and id. Bounded by the caller's
// max; a page also by its bytes, because it travels in one frame.

import { limits } from '../../../core/limits.ts';
import type { DeadFilter, DeadLetter, Page } from '../../../ports/job-store.ts';
import type { Database, Statement } from '../../../runtime/database.ts';
import type { StepFilter } from '../../batches.ts';
import { cursorOf, newest, type Place, placeOf } from '../../pages.ts';
import { dead } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import { type JobRow, jobColumns, jobRowOf } from './job-rows.ts';
import { requeueRow } from './operator-moves.ts';
import type { Snapshots } from './snapshots.ts';
import { bulkStep, stepMax, type TransactionContext } from './transaction-context.ts';

type Order = 'newest' | 'oldest';

interface Step {
  readonly more: boolean;
  readonly versionMax: number;
}

export class DeadPages {
  readonly #bench: TransactionContext;
  readonly #snapshots: Snapshots;
  readonly #ofAll: Readonly<Record<Order, Statement>>;
  readonly #expired: Statement;
  readonly #ofTopic: Readonly<Record<Order, Statement>>;

  constructor(bench: TransactionContext, snapshots: Snapshots) {
    this.#bench = bench;
    this.#snapshots = snapshots;
    this.#ofAll = { newest: select(bench.db, '', 'DESC'), oldest: select(bench.db, '', 'ASC') };
    // The join takes the job of that death alone; CROSS: in this order.
    this.#expired = bench.db.prepare(
      `SELECT ${jobColumns} FROM alert CROSS JOIN job ON job.topic = alert.topic AND job.id = alert.id
       WHERE alert.state >= 2 AND alert.dead_at < ? AND job.state = 3 AND job.version = alert.version
       ORDER BY alert.dead_at, alert.version LIMIT ?`,
      { returnArrays: true },
    );
    this.#ofTopic = {
      newest: select(bench.db, 'topic = ? AND', 'DESC'),
      oldest: select(bench.db, 'topic = ? AND', 'ASC'),
    };
  }

  list(filter: DeadFilter, limit: number, cursor: string | null): Page<DeadLetter> {
    const found = this.#find(filter, 'newest', limit + 1, placeOf(cursor, newest));
    const items: DeadLetter[] = [];
    let bytes = 0;
    for (const row of found.slice(0, limit)) {
      const job = this.#snapshots.readRow(row.n);
      bytes += Buffer.byteLength(JSON.stringify(job.attempts));
      if (items.length > 0 && bytes > limits.reserveBytesMax) break;
      items.push(job);
    }
    const last = found[items.length - 1];
    const more = last !== undefined && found.length > items.length;
    return { items, nextCursor: more ? cursorOf(placeOfRow(last)) : null };
  }

  /** One step: fewer than max, and more are left, where the rest would hold up other callers. `versionMax`: for the next steps of
   *  the call. The same holds for purge. */
  requeue(filter: StepFilter, max: number): Step & { readonly requeued: number } {
    const { bench, found, more, versionMax } = this.#oldest(filter, max);
    const requeued = bulkStep(found, (row) => requeueRow(bench, row));
    return { requeued, more: more || requeued < found.length, versionMax };
  }

  purge(filter: StepFilter, max: number): Step & { readonly purged: number } {
    const { bench, found, more, versionMax } = this.#oldest(filter, max);
    const purged = bulkStep(found, (row) => bench.rows.end(row, { state: 'purged', at: bench.now }));
    return { purged, more: more || purged < found.length, versionMax };
  }

  /** From the settled alerts, not from the dead letters: each of these has its own, and those whose alert cannot be sent for
   *  weeks would be looked through each time. */
  expireBefore(before: number, max: number): { readonly expired: number; readonly more: boolean } {
    const bound = stepMax(this.#bench, Math.min(max, limits.expireMax));
    const found = jobRows(this.#expired.all(before, bound + 1));
    for (const row of found.slice(0, bound))
      this.#bench.rows.end(row, { state: 'expired', at: this.#bench.now });
    return { expired: Math.min(found.length, bound), more: found.length > bound };
  }

  #oldest(filter: StepFilter, max: number) {
    const versionMax = filter.versionMax ?? this.#bench.ledger.drawn;
    const bound = stepMax(this.#bench, Math.min(max, sqliteLimits.bulkStepMax));
    const found = this.#find(filter, 'oldest', bound + 1, newest);
    return { bench: this.#bench, found: found.slice(0, bound), more: found.length > bound, versionMax };
  }

  #find(filter: StepFilter, order: Order, limit: number, before: Place): JobRow[] {
    const {
      topic,
      since = 0,
      until = Number.MAX_SAFE_INTEGER,
      ids,
      versionMax = Number.MAX_SAFE_INTEGER,
    } = filter;
    if (ids !== undefined) return this.#findIds(filter, order, limit, before);
    const bounds = [since, until, versionMax, before.at, before.version, limit];
    if (topic === undefined) return jobRows(this.#ofAll[order].all(...bounds));
    const no = this.#bench.ledger.topicNumber(topic);
    return no === undefined ? [] : jobRows(this.#ofTopic[order].all(no, ...bounds));
  }

  #findIds(filter: StepFilter, order: Order, limit: number, before: Place): JobRow[] {
    const {
      topic,
      since = 0,
      until = Number.MAX_SAFE_INTEGER,
      ids = [],
      versionMax = Number.MAX_SAFE_INTEGER,
    } = filter;
    if (topic === undefined) throw new Error('a filter by ids names no topic');
    const inRange = (row: JobRow) => {
      const { at, version } = placeOfRow(row);
      const after = at < before.at || (at === before.at && version < before.version);
      return row.state === dead && at >= since && at < until && version <= versionMax && after;
    };
    const rows = [...new Set(ids)]
      .map((id) => this.#bench.rows.find(topic, id))
      .filter((row) => row !== undefined)
      .filter(inRange)
      .sort((a, b) => placeOfRow(a).at - placeOfRow(b).at || a.version - b.version);
    return (order === 'oldest' ? rows : rows.reverse()).slice(0, limit);
  }
}

function select(db: Database, where: string, direction: 'ASC' | 'DESC'): Statement {
  return db.prepare(
    `SELECT ${jobColumns} FROM job WHERE ${where} state = 3 AND dead_at >= ? AND dead_at < ? AND version <= ?
       AND (dead_at, version) < (?, ?)
     ORDER BY dead_at ${direction}, version ${direction} LIMIT ?`,
    { returnArrays: true },
  );
}

function jobRows(rows: unknown[]): JobRow[] {
  return (rows as unknown[][]).map(jobRowOf);
}

function placeOfRow(row: JobRow): Place {
  return { at: row.deadAt ?? 0, version: row.version };
}
