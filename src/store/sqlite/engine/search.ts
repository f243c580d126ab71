// Finds jobs by topic, state, id and due time: live ones by dueAt, ended ones latest end first. Read only.
// Invariant: one call scans at most storeLimits.searchRowsMax rows for any filter; the rest follows its
// cursor. An id is looked up in every topic.

import type { FoundJob } from '../../../core/job.ts';
import { endCodes, priorityCodes, stateCodes } from '../../../core/stored-codes.ts';
import type { Page, SearchFilter } from '../../../ports/job-store.ts';
import { type Database, rowsBy, type Statement } from '../../../runtime/database.ts';
import { numberOf } from '../../batches.ts';
import { storeLimits } from '../../limits.ts';
import { isEnd, matches, mergedPage, type Order, orderOf, type Place, placeOf } from '../../pages.ts';
import { dead, delayed, partitionName, ready, reserved, type StateCode } from '../file/schema.ts';
import { asBuffer } from './job-rows.ts';
import type { TransactionContext } from './transaction-context.ts';

export const foundColumns =
  'topic, id, version, origin, state, due, accepted_at, failures, dead_at, ended_at, ended_as';

/** Reads the next rows of an index after a place: `found` those that match, `edge` the last scanned row. */
interface Path {
  readonly found: Statement;
  readonly edge: Statement;
}

const statementsOf = (db: Database) => {
  // due has its own range condition, so that SQLite enters and leaves the index at the right place.
  const live = 'due >= :since AND due < :until AND (due, version) > (:at, :version)';
  const rowsOf = (columns: string, index: string, which: string) =>
    `SELECT ${columns} FROM job INDEXED BY ${index} WHERE ${which} AND ${live}`;
  const pathBy = (index: string, ...each: readonly string[]): Path =>
    pathOf(
      db,
      'due',
      (columns) =>
        `${each.map((which) => rowsOf(columns, index, which)).join(' UNION ALL ')} ORDER BY due, version`,
    );
  return {
    live: pathBy('job_time', 'ended_at IS NULL'),
    liveOfTopic: pathBy('job_topic', 'topic = :topic AND ended_at IS NULL'),
    delayed: pathBy('job_due', 'state = 0'),
    // SQLite merges the priorities, each of which has the order.
    readyOfTopic: pathBy(
      'job_ready',
      ...priorityCodes.map((_, prio) => `state = 1 AND prio = ${prio} AND topic = :topic`),
    ),
    ended: pathOf(
      db,
      'ended_at',
      (columns) => `SELECT ${columns} FROM job INDEXED BY job_ended
        WHERE ended_at IS NOT NULL AND (ended_at, version) < (:at, :version) ORDER BY ended_at DESC, version DESC`,
    ),
    byKey: rowsBy(db, `SELECT ${foundColumns} FROM job WHERE topic = ? AND id = ?`),
  };
};

export class Search {
  readonly #tx: TransactionContext;
  readonly #sql: ReturnType<typeof statementsOf>;

  constructor(tx: TransactionContext) {
    this.#tx = tx;
    this.#sql = statementsOf(tx.db);
  }

  run(filter: SearchFilter, limit: number, cursor: string | null): Page<FoundJob> {
    const order = orderOf(filter.state);
    const from = placeOf(cursor, order.start);
    const topic = filter.topic === undefined ? null : this.#tx.counters.topicNumber(filter.topic);
    if (topic === undefined) return { items: [], nextCursor: null };
    return filter.id === undefined
      ? this.#walk(filter, topic, order, from, limit)
      : this.#lookUp(filter, topic, Buffer.from(filter.id), order, from, limit);
  }

  #walk(
    filter: SearchFilter,
    topic: number | null,
    order: Order<FoundJob>,
    from: Place,
    limit: number,
  ): Page<FoundJob> {
    const { state, since = 0, until = Number.MAX_SAFE_INTEGER } = filter;
    const path = isEnd(state) ? this.#sql.ended : this.#pathOfLive(state, topic, until);
    const range = { ...from, since, until, topic, rows: storeLimits.searchRowsMax };
    const wanted = {
      state: stateNumber(state),
      endedAs: isEnd(state) ? endCodes.indexOf(state) : null,
      below: belowOf(filter),
    };
    const items = this.#read(path.found.all({ ...range, ...wanted, limit: limit + 1 }));
    const isCut = items.length > limit;
    const edge = isCut ? undefined : (path.edge.get(range) as [number, number] | undefined);
    // Without an edge there are fewer rows than one call may scan: nothing follows.
    const part = { items, edge: edge === undefined ? null : { at: edge[0], version: edge[1] } };
    return mergedPage([part], order, limit);
  }

  /** The index with the fewest rows of other states and topics, because only some rows are scanned. Few
   *  delayed jobs are overdue at a time. */
  #pathOfLive(state: SearchFilter['state'], topic: number | null, until: number): Path {
    const { counters, now } = this.#tx;
    if (state === 'delayed' && (topic === null || until <= now)) return this.#sql.delayed;
    if (topic === null) return this.#sql.live;
    const countOf = (code: StateCode) =>
      priorityCodes.reduce((sum, _, prio) => sum + counters.countOf(topic, prio, code), 0);
    if (state === 'ready') return this.#sql.readyOfTopic;
    const others = counters.total(delayed) - countOf(delayed);
    const fewer = others < countOf(ready) + countOf(reserved) + countOf(dead);
    return state === 'delayed' && fewer ? this.#sql.delayed : this.#sql.liveOfTopic;
  }

  #lookUp(
    filter: SearchFilter,
    topic: number | null,
    id: Buffer,
    order: Order<FoundJob>,
    from: Place,
    limit: number,
  ): Page<FoundJob> {
    const topics = topic === null ? [...this.#tx.counters.topicNumbers()] : [topic];
    const rows = topics.map((no) => this.#sql.byKey.get(no, id)).filter((row) => row !== undefined);
    const below = belowOf(filter);
    const items = this.#read(rows).filter(
      (job) => matches(filter, job) && job.version < below && order.isAfter(order.place(job), from),
    );
    return mergedPage([{ items, edge: null }], order, limit);
  }

  #read(rows: readonly unknown[]): FoundJob[] {
    return (rows as unknown[][]).map((row) => readFound(this.#tx.counters, row));
  }
}

/** Reads foundColumns; further columns are ignored. */
export function readFound(counters: TransactionContext['counters'], row: readonly unknown[]): FoundJob {
  const [topic, id, version, origin, state, dueAt, acceptedAt, failures, deadAt, endedAt, endedAs] = row as [
    number,
    Uint8Array,
    number,
    number,
    number,
    number,
    number,
    number,
    number | null,
    number | null,
    number | null,
  ];
  return {
    topic: counters.topicName(topic),
    id: asBuffer(id).toString(),
    version,
    origin,
    state: (endedAs === null ? stateCodes[state] : endCodes[endedAs]) ?? 'dead',
    dueAt,
    acceptedAt,
    failures,
    deadAt,
    endedAt,
  };
}

function belowOf({ before }: SearchFilter): number {
  return numberOf(before, partitionName) ?? Number.MAX_SAFE_INTEGER;
}

/** null: any */
function stateNumber(state: SearchFilter['state']): number | null {
  const number = (stateCodes as readonly unknown[]).indexOf(state);
  return number < 0 ? null : number;
}

/** `at`: the column that orders the rows. `rowsOf`: which rows, in which order. The inner LIMIT bounds
 *  scanned rows, the outer one returned rows. Both run row by row: a page that fills early scans little. */
function pathOf(db: Database, at: 'due' | 'ended_at', rowsOf: (columns: string) => string): Path {
  const found = `SELECT ${foundColumns} FROM (${rowsOf(foundColumns)} LIMIT :rows)
    WHERE (:state IS NULL OR state = :state) AND (:endedAs IS NULL OR ended_as = :endedAs)
    AND (:topic IS NULL OR topic = :topic) AND due >= :since AND due < :until AND version < :below LIMIT :limit`;
  const edge = `${rowsOf(`${at}, version`)} LIMIT 1 OFFSET :rows - 1`;
  return { found: rowsBy(db, found), edge: sharingParameters(rowsBy(db, edge)) };
}

/** It uses only some of the parameters that it gets: those of another statement. */
export function sharingParameters(statement: Statement): Statement {
  statement.setAllowUnknownNamedParameters(true);
  return statement;
}
