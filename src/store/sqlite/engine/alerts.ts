// Stores the alert outbox: one entry per burial, written by bury and recover (job-rows.ts), claimed and
// settled here. Invariant: an owed or claimed entry is never removed; a settled one is removed with its
// dead letter.

import type { AttemptRecord, JobKey, SettledAlert, Version } from '../../../core/job.ts';
import { alertCodes, deadReasonCodes } from '../../../core/stored-codes.ts';
import type { AlertEntry, AlertPage } from '../../../ports/job-store.ts';
import { type Database, rowsBy } from '../../../runtime/database.ts';
import { byDeath, mergedPage, newest, placeOf } from '../../pages.ts';
import { dead } from '../file/schema.ts';
import { asBuffer } from './job-rows.ts';
import { stepMax, type TransactionContext } from './transaction-context.ts';

const owed = alertCodes.indexOf('owed');
const claimed = alertCodes.indexOf('claimed');
const isOwed = 'state < 2 AND (state = 0 OR claimed_until <= ?)';
const columns = 'version, topic, id, dead_at, reason, failures, attempt, state, claimed_until';

const statementsOf = (db: Database) => ({
  anyOwed: db.prepare(`SELECT 1 FROM alert WHERE ${isOwed} LIMIT 1`),
  // One index step per topic that owes alerts: 100,000 dead letters of one topic cost no more than one.
  due: rowsBy(
    db,
    `WITH RECURSIVE owed(topic) AS (
       SELECT min(topic) FROM alert WHERE state < 2
       UNION ALL
       SELECT (SELECT min(topic) FROM alert WHERE state < 2 AND topic > owed.topic) FROM owed WHERE owed.topic IS NOT NULL
     )
     SELECT topic.name FROM owed JOIN topic ON topic.no = owed.topic
     JOIN alert ON alert.version =
       (SELECT version FROM alert WHERE topic = owed.topic AND ${isOwed} ORDER BY dead_at, version LIMIT 1)
     WHERE topic.told_at IS NULL OR topic.told_at <= ? OR topic.told_at > ?
     ORDER BY alert.dead_at, alert.version`,
  ),
  owed: rowsBy(
    db,
    `SELECT ${columns} FROM alert WHERE topic = ? AND ${isOwed} ORDER BY dead_at, version LIMIT ?`,
  ),
  page: rowsBy(
    db,
    `SELECT ${columns} FROM alert WHERE (dead_at, version) < (?, ?) ORDER BY dead_at DESC, version DESC LIMIT ?`,
  ),
  count: rowsBy(db, 'SELECT count(*) FROM alert'),
  find: rowsBy(db, `SELECT ${columns} FROM alert WHERE version = ?`),
  setState: db.prepare('UPDATE alert SET state = ?, claimed_until = ? WHERE version = ?'),
  remove: db.prepare('DELETE FROM alert WHERE version = ?'),
  setSentAt: db.prepare('UPDATE topic SET told_at = ? WHERE no = ?'),
});

export class Alerts {
  readonly #tx: TransactionContext;
  readonly #sql: ReturnType<typeof statementsOf>;

  constructor(tx: TransactionContext) {
    this.#tx = tx;
    this.#sql = statementsOf(tx.db);
  }

  /** Whether claim would find an alert. */
  anyOwed(): boolean {
    return this.#sql.anyOwed.get(this.#tx.now) !== undefined;
  }

  due(windowMs: number): readonly string[] {
    const { now } = this.#tx;
    if (!this.anyOwed()) return [];
    // A window that begins in the future comes from a wrong clock: it must not suppress mails.
    const rows = this.#sql.due.all(now, now - windowMs, now) as [string][];
    return rows.map(([topic]) => topic);
  }

  claim(topic: string, claimMs: number, max: number): readonly AlertEntry[] {
    const { now, counters } = this.#tx;
    const bound = stepMax(this.#tx, max);
    const rows = this.#sql.owed.all(counters.topicNumber(topic) ?? -1, now, bound) as unknown[][];
    return rows.map((row) => {
      this.#sql.setState.run(claimed, now + Math.ceil(claimMs), row[0]);
      return { ...this.#entryOf(row), state: 'claimed' };
    });
  }

  settle(versions: readonly number[], as: SettledAlert): void {
    const topics = new Set<number>();
    for (const version of versions) {
      const row = this.#sql.find.get(version) as unknown[] | undefined;
      if (row === undefined || (row[7] as number) > claimed) continue;
      if (as === 'owed' || this.#hasDeadLetter(row)) {
        this.#sql.setState.run(as === 'owed' ? owed : alertCodes.indexOf(as), null, version);
      } else this.#sql.remove.run(version);
      topics.add(row[1] as number);
    }
    if (as === 'sent') for (const topic of topics) this.#sql.setSentAt.run(this.#tx.now, topic);
  }

  stateOf({ topic, id, version }: JobKey & { readonly version: Version }): AlertEntry['state'] | null {
    const row = this.#sql.find.get(version) as unknown[] | undefined;
    if (row === undefined) return null;
    const entry = this.#entryOf(row);
    return entry.topic === topic && entry.id === id ? entry.state : null;
  }

  list(limit: number, cursor: string | null): AlertPage {
    const place = placeOf(cursor, newest);
    const rows = this.#sql.page.all(place.at, place.version, limit + 1) as unknown[][];
    const items = rows.map((row) => this.#entryOf(row));
    const [total] = this.#sql.count.get() as [number];
    return { ...mergedPage<AlertEntry>([{ items, edge: null }], byDeath, limit), total };
  }

  #hasDeadLetter(row: readonly unknown[]): boolean {
    const job = this.#tx.rows.findIn(row[1] as number, asBuffer(row[2] as Uint8Array).toString());
    return job?.state === dead && job.version === row[0];
  }

  #entryOf(row: readonly unknown[]): AlertEntry {
    const [version, topic, id, deadAt, reason, failures, attempt, state, claimedUntil] = row as [
      number,
      number,
      Uint8Array,
      number,
      number,
      number,
      string | null,
      number,
      number | null,
    ];
    const isExpired = state === claimed && (claimedUntil ?? 0) <= this.#tx.now;
    return {
      version,
      topic: this.#tx.counters.topicName(topic),
      id: asBuffer(id).toString(),
      deadAt,
      reason: deadReasonCodes[reason] ?? 'attempts_exhausted',
      failures,
      attempt: attempt === null ? null : (JSON.parse(attempt) as AttemptRecord),
      state: isExpired ? 'owed' : (alertCodes[state] ?? 'owed'),
    };
  }
}
