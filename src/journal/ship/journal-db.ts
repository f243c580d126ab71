// The journal in MySQL: ports/journal.ts.
// Invariants: a batch and its position are one transaction, so a batch is merged once or again with the same
// result. The row of the stream is locked first: two recorders of one stream take turns.

import type { FlowEvent, JobKey, Version } from '../../core/job.ts';
import { type Change, type JobRow, rowsOf } from '../../core/job-change.ts';
import { firstWithin, grouped, inBatches, partsWithin } from '../../core/lists.ts';
import type { MysqlServer } from '../../core/url/server-url.ts';
import type {
  JournalDb,
  KeyPage,
  LoggedChange,
  OpenFilter,
  RowPage,
  ShipOutcome,
  ShippedBatch,
} from '../../ports/journal.ts';
import { isBefore, type StreamName, type StreamPosition, streamStart } from '../../ports/spool.ts';
import { StoreError, valueFailures } from '../../ports/store-error.ts';
import { sqlLimits } from '../../registry/sql/limits.ts';
import {
  jobRowOf,
  keyOf,
  readColumns,
  type SqlValue,
  type StoredRow,
  shortColumns,
  stateCodeOf,
  textLiteral,
  upsertOf,
  wordsLiteral,
} from './job-upsert.ts';
import { changedBy, JournalSql, type Query } from './journal-sql.ts';
import { beginShipped, JournalWork, positionOf, type StreamRow } from './journal-work.ts';

export class MysqlJournal extends JournalWork implements JournalDb {
  readonly #sql: JournalSql;

  /** Connects on first use. `most`: open connections. */
  constructor(server: MysqlServer, most?: number) {
    const sql = new JournalSql(server, most);
    super(sql);
    this.#sql = sql;
  }

  close(): Promise<void> {
    return this.#sql.close();
  }

  async positions(instance: number): Promise<readonly (StreamName & StreamPosition)[]> {
    const sql = 'SELECT incarnation, segment, offset_at FROM dq_journal_stream WHERE instance = ?';
    const rows = await this.#sql.rows<StreamRow>(sql, [instance]);
    return rows.map((row) => ({ instance, incarnation: row.incarnation, ...positionOf(row) }));
  }

  async ship(batch: ShippedBatch): Promise<ShipOutcome> {
    try {
      return await this.#ship(batch);
    } catch (error) {
      const code = await this.#rejectionOf(error, batch.changes);
      if (code === null) throw error;
      return { kind: 'rejected', code };
    }
  }

  /** null: the failure is not one of the changes. */
  async #rejectionOf(error: unknown, changes: readonly Change[]): Promise<string | null> {
    if (!(error instanceof StoreError) || error.failure.kind !== 'not_stored') return null;
    const { code } = error.failure;
    if (rejections.has(code)) return code;
    // MySQL closes the connection on a packet that is too large, and its answer is rarely read.
    if (code !== 'lost') return null;
    const [row] = await this.#sql.rows<{ readonly packet: number }>('SELECT @@max_allowed_packet AS packet');
    return row !== undefined && packetBytesOf(changes) > row.packet ? tooLarge : null;
  }

  #ship(batch: ShippedBatch): Promise<ShipOutcome> {
    const { instance, incarnation, from, next, marks, late } = batch;
    return this.#sql.transaction(async (query) => {
      const at = await lockedPosition(query, batch);
      if (isBefore(at, from) || isBefore(from, at)) return { kind: 'elsewhere', at };
      await mergeInto(query, batch.changes);
      await log(query, batch);
      await query(
        `INSERT INTO dq_journal_stream (instance, incarnation, segment, offset_at) VALUES (?, ?, ?, ?)
         ON DUPLICATE KEY UPDATE segment = VALUES(segment), offset_at = VALUES(offset_at)`,
        [instance, incarnation, next.segment, next.offset],
      );
      if (marks.size > 0)
        await query(
          `INSERT INTO dq_journal_mark (instance, place, number) VALUES ${listOf(marks.size, 3)}
           ON DUPLICATE KEY UPDATE number = GREATEST(number, VALUES(number))`,
          [...marks]
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .flatMap(([place, number]) => [instance, bytesOf(place), number]),
        );
      // Last: what it says has to be true at the COMMIT.
      await beginShipped(query, late?.() ?? []);
      return { kind: 'shipped' };
    });
  }

  async marks() {
    type MarkRow = { readonly instance: number; readonly place: Buffer; readonly number: number };
    const rows = await this.#sql.rows<MarkRow>('SELECT instance, place, number FROM dq_journal_mark');
    return rows.map((row) => ({ ...row, place: row.place.toString() }));
  }

  async forgetStreams(streams: readonly StreamName[]): Promise<void> {
    for (const { instance, incarnation } of streams)
      await this.#sql.change('DELETE FROM dq_journal_stream WHERE instance = ? AND incarnation = ?', [
        instance,
        incarnation,
      ]);
  }

  async rows(keys: readonly JobKey[], bodies = true): Promise<readonly JobRow[]> {
    const columns = bodies ? readColumns : shortColumns;
    return this.#sql.run(async (query) => (await select<StoredRow>(query, keys, columns)).map(jobRowOf));
  }

  /** Keyset pagination over (order_at, topic, id), in three ranges: MySQL reads a row comparison in full. */
  async open(state: 'waiting' | 'dead', places: readonly string[], cursor: string | null): Promise<RowPage> {
    if (places.length === 0) return { rows: [], nextCursor: null };
    const { found, nextCursor } = await this.#page<OrderedRow & SizedRow>(
      (wanted) => `topic, id, order_at, IF(${wanted}, COALESCE(LENGTH(body), 0), 0) AS bytes`,
      state,
      {},
      [inPlaces(places)],
      cursor,
    );
    const fits = firstWithin(found, sqlLimits.journalPageBytes, ({ bytes }) => bytes);
    const rows = new Map((await this.rows(fits.map(keyOf))).map((row) => [nameOf(row), row]));
    const last = fits.at(-1);
    return {
      rows: fits.flatMap((each) => rows.get(nameOf(keyOf(each))) ?? []),
      nextCursor: fits.length < found.length && last !== undefined ? cursorAt(last) : nextCursor,
    };
  }

  async openKeys(
    state: 'waiting' | 'dead',
    { topic, acceptedFrom, isRestorable = false, ...times }: OpenFilter,
    cursor: string | null,
  ): Promise<KeyPage> {
    const { found, nextCursor } = await this.#page<OrderedRow & Pick<StoredRow, 'version'>>(
      () => 'topic, id, order_at, version',
      state,
      times,
      [
        ...(topic === undefined ? [] : [`topic = ${textLiteral(topic)}`]),
        ...(acceptedFrom === undefined ? [] : [`accepted_at >= ${acceptedFrom}`]),
        ...(isRestorable ? ['origin > ended_origin AND body_origin >= origin'] : []),
      ],
      cursor,
    );
    return { keys: found.map((row) => ({ ...keyOf(row), version: row.version })), nextCursor };
  }

  /** Examines so many rows of an index range, and returns those with all conditions. With a limit on the
   *  returned ones, a statement would read all rows of other shards. */
  async #page<Row extends OrderedRow>(
    columns: (wanted: string) => string,
    state: 'waiting' | 'dead',
    { since = 0, until = Number.MAX_SAFE_INTEGER }: Pick<OpenFilter, 'since' | 'until'>,
    conditions: readonly string[],
    cursor: string | null,
  ): Promise<{ readonly found: readonly Row[]; readonly nextCursor: string | null }> {
    const max = sqlLimits.journalPageRows;
    const wanted = ['1 = 1', ...conditions].join(' AND ');
    const examined: (Row & { readonly wanted: number | null })[] = [];
    await this.#sql.run(async (query) => {
      for (const [range, after] of rangesAfter(readCursor(cursor))) {
        const sql = `SELECT ${columns(wanted)}, (${wanted}) AS wanted FROM dq_job
          WHERE state = ? AND order_at >= ? AND order_at < ? AND ${range}
          ORDER BY order_at, topic, id LIMIT ${max - examined.length}`;
        examined.push(
          ...(await query<(typeof examined)[number]>(sql, [stateCodeOf(state), since, until, ...after])),
        );
        if (examined.length >= max) return;
      }
    });
    const last = examined.at(-1);
    return {
      found: examined.filter((row) => row.wanted === 1),
      nextCursor: examined.length < max || last === undefined ? null : cursorAt(last),
    };
  }

  async changedAbove(
    from: Version,
    places: readonly string[],
    cursor: string | null,
    {
      upTo = Number.MAX_SAFE_INTEGER,
      bodies = true,
    }: { readonly upTo?: Version; readonly bodies?: boolean } = {},
  ): Promise<RowPage> {
    if (places.length === 0) return { rows: [], nextCursor: null };
    const max = sqlLimits.journalPageRows;
    return this.#sql.run(async (query) => {
      // As in #page, the limit is one of examined rows.
      const sql = `SELECT change_no, topic, id, (${inPlaces(places)}) AS wanted FROM dq_job_log
        WHERE change_no > ? AND change_no <= ? ORDER BY change_no LIMIT ${max}`;
      const after = cursor === null ? from : Number(cursor);
      type Examined = Pick<StoredRow, 'change_no' | 'topic' | 'id'> & { readonly wanted: number };
      const changes = await query<Examined>(sql, [after, upTo]);
      const last = changes.at(-1);
      // Two places can have the same number: a page ends before the last one.
      const isFull = changes.length === max && last !== undefined;
      const whole = isFull ? changes.filter(({ change_no: number }) => number < last.change_no) : changes;
      /** by id: its first change of the page */
      const firsts = new Map<string, (typeof whole)[number]>();
      for (const each of whole) {
        if (each.wanted === 0) continue;
        const name = nameOf(keyOf(each));
        if (!firsts.has(name)) firsts.set(name, each);
      }
      const ids = [...firsts.values()];
      const sized = bodies ? await select<SizedRow>(query, ids.map(keyOf), sizedColumns) : [];
      const bytes = new Map(sized.map((row) => [nameOf(keyOf(row)), row.bytes]));
      const bytesOfId = (each: (typeof ids)[number]) => bytes.get(nameOf(keyOf(each))) ?? 0;
      let count = firstWithin(ids, sqlLimits.journalPageBytes, bytesOfId).length;
      while (ids[count] !== undefined && ids[count]?.change_no === ids[count - 1]?.change_no) count += 1;
      // The next page begins with the first change that did not fit.
      const next = ids[count]?.change_no ?? (isFull ? last.change_no : null);
      return {
        rows: (
          await select<StoredRow>(query, ids.slice(0, count).map(keyOf), bodies ? readColumns : shortColumns)
        ).map(jobRowOf),
        nextCursor: next === null ? null : String(next - 1),
      };
    });
  }

  async oldestChange(): Promise<Version | null> {
    type Oldest = { readonly oldest: number | null };
    const [row] = await this.#sql.rows<Oldest>('SELECT MIN(change_no) AS oldest FROM dq_job_log');
    return row?.oldest ?? null;
  }

  async flow({ topic, id }: JobKey, limit: number): Promise<readonly LoggedChange[]> {
    const sql = `SELECT change_no, place, version, event, due_at, process, host, attempt FROM dq_job_log
      WHERE topic = ? AND id = ? ORDER BY change_no DESC LIMIT ${limit}`;
    const values = [bytesOf(topic), bytesOf(id)];
    const rows = await this.#sql.rows<LogRow>(sql, values);
    return rows.toReversed().map(({ version, event, attempt, ...row }) => ({
      number: row.change_no,
      place: row.place.toString(),
      version,
      event,
      dueAt: row.due_at,
      process: row.process.toString(),
      host: row.host.toString(),
      attempt,
    }));
  }

  async trim(before: number, max: number): Promise<boolean> {
    const ended = ['done', 'cancelled', 'purged', 'expired', 'none'] as const;
    const removed = await this.#sql.run(async (query) => {
      let most = await changedBy(
        query,
        `DELETE FROM dq_job_log WHERE change_no < ? ORDER BY change_no LIMIT ${max}`,
        [before * 1_000],
      );
      for (const state of ended) {
        const sql = `DELETE FROM dq_job WHERE state = ? AND order_at < ? ORDER BY order_at LIMIT ${max}`;
        most = Math.max(most, await changedBy(query, sql, [stateCodeOf(state), before]));
      }
      const works = `DELETE FROM dq_restore WHERE state <> 'open' AND kind IN ('heal', 'shipped') AND ended_at < ?
        ORDER BY no LIMIT ${max}`;
      return Math.max(most, await changedBy(query, works, [before]));
    });
    return removed >= max;
  }
}

interface LogRow {
  readonly change_no: number;
  readonly place: Buffer;
  readonly version: number;
  readonly event: FlowEvent;
  readonly due_at: number;
  readonly process: Buffer;
  readonly host: Buffer;
  readonly attempt: string | null;
}

async function lockedPosition(query: Query, { instance, incarnation }: StreamName): Promise<StreamPosition> {
  const [row] = await query<StreamRow>(
    'SELECT incarnation, segment, offset_at FROM dq_journal_stream WHERE instance = ? AND incarnation = ? FOR UPDATE',
    [instance, incarnation],
  );
  return row === undefined ? streamStart : positionOf(row);
}

/** One row per id: a job that came and went within a batch never sends its body. In the order of keys: two
 *  batches do not wait for each other in a circle. */
async function mergeInto(query: Query, changes: readonly Change[]): Promise<void> {
  const sorted = [...rowsOf(changes)].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
  for (const some of partsWithin(sorted, sqlLimits.journalStatementBytes, bytesOfRow))
    await query(upsertOf(some));
}

const bytesOfRow = ({ topic, id, pushed }: JobRow): number =>
  topic.length + 3 * id.length + (pushed?.contentType?.length ?? 0) + (pushed?.body.length ?? 0);

const tooLarge = 'mysql_1153';
const rejections: ReadonlySet<string> = new Set([...valueFailures, tooLarge]);

/** At most, in one statement. */
const packetBytesOf = (changes: readonly Change[]): number =>
  changes.reduce((sum, change) => {
    const bytes = change.kind === 'accepted' ? change.body.length + (change.extension?.length ?? 0) : 0;
    const attempt = 'attempt' in change ? JSON.stringify(change.attempt).length : 0;
    return sum + 2 * bytes + 6 * attempt + sqlLimits.journalRowBytes;
  }, sqlLimits.journalRowBytes);

async function log(query: Query, { changes, process, host }: ShippedBatch): Promise<void> {
  const logged = changes.filter(({ isOwn, kind }) => isOwn && kind !== 'alert');
  if (logged.length === 0) return;
  const by = `${textLiteral(process)},${textLiteral(host)}`;
  const literals = logged
    .sort((a, b) => a.number - b.number)
    .map((change) => {
      const { number, place, topic, id, version, dueAt } = change;
      const key = `${number},${textLiteral(place)},${textLiteral(topic)},${textLiteral(id)}`;
      const attempt = 'attempt' in change ? change.attempt : null;
      const json = attempt === null ? 'NULL' : wordsLiteral(JSON.stringify(attempt));
      return `(${key},${version},'${eventOf(change)}',${dueAt},${by},${json})`;
    });
  // A repeated batch writes the same rows.
  await query(
    `INSERT INTO dq_job_log (change_no, place, topic, id, version, event, due_at, process, host, attempt)
     VALUES ${literals.join(',')} ON DUPLICATE KEY UPDATE change_no = VALUES(change_no)`,
  );
}

function eventOf(change: Change): string {
  if (change.kind === 'moved') return change.by;
  return change.kind === 'ended' ? change.end : change.kind;
}

/** By topic: MariaDB reads the whole table for (topic, id) IN (…). */
async function select<Row>(query: Query, keys: readonly JobKey[], columns: string): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const [topic, its] of grouped(keys, ({ topic }) => topic))
    for (const some of inBatches(its, sqlLimits.journalPageRows)) {
      const ids = some.map(({ id }) => textLiteral(id)).join(',');
      const sql = `SELECT ${columns} FROM dq_job WHERE topic = ${textLiteral(topic)} AND id IN (${ids})`;
      rows.push(...(await query<Row>(sql)));
    }
  return rows;
}

type SizedRow = Pick<StoredRow, 'topic' | 'id'> & { readonly bytes: number };
const sizedColumns = 'topic, id, COALESCE(LENGTH(body), 0) AS bytes';

const inPlaces = (places: readonly string[]) => `place IN (${places.map(textLiteral).join(',')})`;

const nameOf = ({ topic, id }: JobKey): string => `${topic}\0${id}`;

type Cursor = readonly [orderAt: number, topic: string, id: string];

type OrderedRow = Pick<StoredRow, 'order_at' | 'topic' | 'id'>;

function cursorAt({ order_at: orderAt, topic, id }: OrderedRow): string {
  return JSON.stringify([orderAt, topic.toString(), id.toString()] satisfies Cursor);
}

function readCursor(cursor: string | null): Cursor | null {
  if (cursor === null) return null;
  try {
    return JSON.parse(cursor) as Cursor;
  } catch {
    throw new StoreError({ kind: 'not_stored', code: 'bad_cursor' });
  }
}

function rangesAfter(
  cursor: Cursor | null,
): readonly (readonly [sql: string, values: readonly SqlValue[]])[] {
  if (cursor === null) return [['1 = 1', []]];
  const [orderAt, topic, id] = [cursor[0], bytesOf(cursor[1]), bytesOf(cursor[2])];
  return [
    ['order_at = ? AND topic = ? AND id > ?', [orderAt, topic, id]],
    ['order_at = ? AND topic > ?', [orderAt, topic]],
    ['order_at > ?', [orderAt]],
  ];
}

const bytesOf = (text: string): Buffer => Buffer.from(text);
const marksOf = (count: number): string => Array.from({ length: count }, () => '?').join(', ');
const listOf = (rows: number, columns: number): string =>
  Array.from({ length: rows }, () => `(${marksOf(columns)})`).join(', ');
