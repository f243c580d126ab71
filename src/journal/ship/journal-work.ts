// The part of the journal in MySQL that its workers share: restores with their claims, living instances, the
// barrier and `since`. Invariant: all times are of MySQL's clock, so instances with wrong clocks agree.

import type { Version } from '../../core/job.ts';
import {
  allBarriers,
  type JournalInstance,
  noCounts,
  type RestoreState,
  type RestoreWork,
  type ShippedRange,
} from '../../ports/journal.ts';
import { lacksAny, type StreamPosition } from '../../ports/spool.ts';
import { sqlLimits } from '../../registry/sql/limits.ts';
import type { JournalSql, Query } from './journal-sql.ts';

/** epoch ms */
const now = 'CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)';
const noCountsJson = JSON.stringify(noCounts);

interface RestoreRow {
  readonly no: number;
  readonly kind: RestoreWork['kind'];
  readonly about: Buffer;
  readonly note: Version;
  readonly cursor_at: string | null;
  readonly counts: string;
  readonly state: RestoreState['state'];
  readonly begun_at: number;
  readonly ended_at: number | null;
  readonly age: number;
}
const restoreColumns = `no, kind, about, note, cursor_at, counts, state, begun_at, ended_at,
  ${now} - begun_at AS age`;
const instanceColumns = `instance, host, ${now} - seen_at AS ageMs, barrier, highest, spool_bytes AS spoolBytes`;
export interface StreamRow {
  readonly incarnation: number;
  readonly segment: number;
  readonly offset_at: number;
}
export const positionOf = ({
  segment,
  offset_at: offset,
}: Omit<StreamRow, 'incarnation'>): StreamPosition => ({
  segment,
  offset,
});
type InstanceRow = Omit<JournalInstance, 'host'> & { readonly host: Buffer };

export class JournalWork {
  readonly #sql: JournalSql;

  constructor(sql: JournalSql) {
    this.#sql = sql;
  }

  async beginRestore({ kind, about, note }: Pick<RestoreWork, 'kind' | 'about' | 'note'>): Promise<void> {
    await this.#sql.change(
      `INSERT INTO dq_restore (kind, about, note, claimed_until, counts, state, begun_at)
       VALUES (?, ?, ?, 0, ?, 'open', ${now}) ON DUPLICATE KEY UPDATE
       cursor_at = IF(kind = 'heal' AND state <> 'open', NULL, cursor_at),
       claimed_until = IF(kind = 'heal' AND state <> 'open', 0, claimed_until),
       begun_at = IF(kind = 'heal' AND state <> 'open', VALUES(begun_at), begun_at), state = IF(kind = 'heal', 'open', state)`,
      [kind, Buffer.from(about), note, noCountsJson],
    );
  }

  async beginShipped(ranges: readonly ShippedRange[]): Promise<void> {
    await this.#sql.run((query) => beginShipped(query, ranges));
  }

  /** One row per shard. A worker that still has it loses its claim. One that takes longer than `everyMs` goes
   *  on. 0: it begins again in any case. */
  async beginSurvey(shard: string, everyMs: number, againMs: number): Promise<void> {
    await this.beginRestore({ kind: 'survey', about: shard, note: 0 });
    const since = '(SELECT since FROM dq_journal)';
    await this.#sql.change(
      `UPDATE dq_restore SET state = 'open', cursor_at = NULL, counts = ?, claimed_by = NULL, claimed_until = 0,
       ended_at = NULL, begun_at = ${now} WHERE kind = 'survey' AND about = ? AND note = 0 AND
       (((state <> 'open' OR ? = 0) AND begun_at <= ${now} - ?) OR (state <> 'open' AND begun_at < ${since} AND ended_at <= ${now} - ?))`,
      [noCountsJson, Buffer.from(shard), everyMs, everyMs, againMs],
    );
  }

  claimRestore(
    worker: number,
    forMs: number,
    of: 'restore' | 'survey' = 'restore',
  ): Promise<RestoreWork | null> {
    return this.#sql.transaction(async (query) => {
      const [row] = await query<RestoreRow>(
        `SELECT ${restoreColumns} FROM dq_restore WHERE state = 'open' AND claimed_until <= ${now}
         AND kind ${of === 'survey' ? '=' : '<>'} 'survey' ORDER BY kind = 'shipped', no LIMIT 1 FOR UPDATE`,
      );
      if (row === undefined) return null;
      await query(`UPDATE dq_restore SET claimed_by = ?, claimed_until = ${now} + ? WHERE no = ?`, [
        worker,
        forMs,
        row.no,
      ]);
      return restoreOf(row);
    });
  }

  async saveRestore(work: RestoreWork, worker: number, forMs: number): Promise<boolean> {
    const { no, cursor, counts } = work;
    const changed = await this.#sql.change(
      `UPDATE dq_restore SET cursor_at = ?, counts = ?, claimed_until = ${now} + ?
       WHERE no = ? AND state = 'open' AND claimed_by = ?`,
      [cursor, JSON.stringify(counts), forMs, no, worker],
    );
    return changed > 0;
  }

  async endRestore(work: RestoreWork, worker: number, as: 'done' | 'failed'): Promise<boolean> {
    const changed = await this.#sql.change(
      `UPDATE dq_restore SET state = ?, counts = ?, ended_at = ${now}
       WHERE no = ? AND state = 'open' AND claimed_by = ?`,
      [as, JSON.stringify(work.counts), work.no, worker],
    );
    return changed > 0;
  }

  async restores(limit: number, kind?: RestoreWork['kind']): Promise<readonly RestoreState[]> {
    const sql = `SELECT ${restoreColumns} FROM dq_restore WHERE kind ${kind === undefined ? "<> 'survey'" : '= ?'}
      ORDER BY no DESC LIMIT ${limit}`;
    return (await this.#sql.rows<RestoreRow>(sql, kind === undefined ? [] : [kind])).map(restoreOf);
  }

  seen(
    self: Omit<JournalInstance, 'ageMs'>,
    shipped: ReadonlyMap<number, StreamPosition> = new Map(),
  ): Promise<number | null> {
    const { instance, host, barrier, highest, spoolBytes } = self;
    return this.#sql.transaction(async (query) => {
      const found = await query<StreamRow>(
        'SELECT incarnation, segment, offset_at FROM dq_journal_stream WHERE instance = ?',
        [instance],
      );
      const positions = found.map((row) => [row.incarnation, positionOf(row)] as const);
      if (lacksAny(new Map(positions), shipped)) return null;
      await query(
        `INSERT INTO dq_journal_instance (instance, host, seen_at, barrier, highest, spool_bytes)
         VALUES (?, ?, ${now}, ?, ?, ?) ON DUPLICATE KEY UPDATE host = VALUES(host), seen_at = VALUES(seen_at),
         barrier = IF(barrier = ${allBarriers}, VALUES(barrier), GREATEST(barrier, VALUES(barrier))), highest = GREATEST(highest, VALUES(highest)),
         spool_bytes = VALUES(spool_bytes)`,
        [instance, Buffer.from(host), barrier, highest, spoolBytes],
      );
      const [row] = await query<{ readonly barrier: number }>('SELECT barrier FROM dq_journal');
      return row?.barrier ?? 0;
    });
  }

  raiseBarrier(): Promise<number> {
    return this.#sql.transaction(async (query) => {
      await query(`UPDATE dq_journal SET barrier = GREATEST(barrier + 1, ${now})`);
      const [row] = await query<{ readonly barrier: number }>('SELECT barrier FROM dq_journal');
      return row?.barrier ?? 0;
    });
  }

  async instances(): Promise<readonly JournalInstance[]> {
    const sql = `SELECT ${instanceColumns} FROM dq_journal_instance ORDER BY instance`;
    return (await this.#sql.rows<InstanceRow>(sql)).map(instanceOf);
  }

  async begins(instance: number): Promise<void> {
    await this.#sql.change(
      `UPDATE dq_journal_instance SET barrier = 0 WHERE instance = ? AND barrier = ${allBarriers}`,
      [instance],
    );
  }

  giveUp(silentMs: number, only?: number): Promise<readonly JournalInstance[]> {
    const which = `barrier < ${allBarriers} AND ${now} - seen_at >= ?${only === undefined ? '' : ' AND instance = ?'}`;
    const values = only === undefined ? [silentMs] : [silentMs, only];
    return this.#sql.transaction(async (query) => {
      const rows = await query<InstanceRow>(
        `SELECT ${instanceColumns} FROM dq_journal_instance WHERE ${which} ORDER BY instance FOR UPDATE`,
        values,
      );
      for (const { instance } of rows)
        await query(`UPDATE dq_journal_instance SET barrier = ${allBarriers} WHERE instance = ?`, [instance]);
      return rows.map(instanceOf);
    });
  }

  async since(): Promise<number> {
    const sql = 'SELECT since FROM dq_journal';
    const [row] = await this.#sql.rows<{ readonly since: number }>(sql);
    return row?.since ?? 0;
  }

  async raiseSince(to: number): Promise<void> {
    // A host with a wrong clock must not raise it for years.
    const capped = `LEAST(?, ${now} + ${sqlLimits.sinceAheadMs})`;
    await this.#sql.change(`UPDATE dq_journal SET since = GREATEST(since, ${capped})`, [to]);
  }
}

/** One row per place and end of the range: a further batch lowers where its worker continues. */
export async function beginShipped(query: Query, ranges: readonly ShippedRange[]): Promise<void> {
  const sorted = [...ranges].sort((a, b) => (a.place < b.place ? -1 : 1));
  for (const { place, lowest, highest } of sorted)
    await query(
      `INSERT INTO dq_restore (kind, about, note, claimed_until, cursor_at, counts, state, begun_at)
       VALUES ('shipped', ?, ?, 0, ?, ?, 'open', ${now}) ON DUPLICATE KEY UPDATE claimed_by = NULL,
       claimed_until = 0, ended_at = NULL, begun_at = IF(state = 'open', begun_at, VALUES(begun_at)),
       counts = IF(state = 'open', counts, VALUES(counts)), cursor_at = IF(state = 'open',
       LEAST(CAST(cursor_at AS SIGNED), CAST(VALUES(cursor_at) AS SIGNED)), VALUES(cursor_at)), state = 'open'`,
      [Buffer.from(place), highest, String(lowest - 1), noCountsJson],
    );
}

const instanceOf = (row: InstanceRow): JournalInstance => ({ ...row, host: row.host.toString() });

function restoreOf(row: RestoreRow): RestoreState {
  const { no, kind, note, state, age: ageMs } = row;
  return {
    no,
    kind,
    note,
    state,
    about: row.about.toString(),
    cursor: row.cursor_at,
    ageMs,
    counts: JSON.parse(row.counts) as RestoreWork['counts'],
    begunAt: row.begun_at,
    endedAt: row.ended_at,
  };
}
