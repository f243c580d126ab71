// Reads a stored job with body and attempts. Writes nothing.

import type { JobKey, JobSnapshot } from '../../../core/job.ts';
import { deadReasonCodes, stateCodes } from '../../../core/stored-codes.ts';
import type { DeadLetter } from '../../../ports/job-store.ts';
import { type Database, rowsBy, type Statement } from '../../../runtime/database.ts';
import { asBuffer, jobColumns, jobRowOf } from './job-rows.ts';
import type { TransactionContext } from './transaction-context.ts';

const statementsOf = (db: Database) => {
  const columns = `${jobColumns}, job.accepted_at, job.ctype, job.reason`;
  return {
    read: rowsBy(
      db,
      `SELECT ${columns}, job.extension, body.bytes FROM job LEFT JOIN body ON body.n = job.n WHERE job.n = ?`,
    ),
    readRow: rowsBy(db, `SELECT ${columns} FROM job WHERE job.n = ?`),
  };
};

export class Snapshots {
  readonly #tx: TransactionContext;
  readonly #sql: ReturnType<typeof statementsOf>;

  constructor(tx: TransactionContext) {
    this.#tx = tx;
    this.#sql = statementsOf(tx.db);
  }

  get(key: JobKey, how?: 'bodiless'): JobSnapshot | null {
    const row = this.#tx.rows.find(key.topic, key.id);
    if (row === undefined) return null;
    return how === undefined ? this.read(row.n) : { ...this.readRow(row.n), body: Buffer.alloc(0) };
  }

  /** The job of row n, which exists. */
  read(n: number): JobSnapshot {
    const columns = columnsOf(this.#sql.read, n);
    const [extension, bytes] = columns.slice(15) as [Uint8Array | null, Uint8Array | null];
    return {
      ...this.#snapshot(columns),
      // Of a damaged file: the rest of the job stays visible and removable.
      body: bytes === null ? Buffer.alloc(0) : asBuffer(bytes),
      ...(extension === null ? {} : { extension: asBuffer(extension) }),
    };
  }

  /** The same without its body and options. */
  readRow(n: number): DeadLetter {
    return this.#snapshot(columnsOf(this.#sql.readRow, n));
  }

  #snapshot(columns: readonly unknown[]): DeadLetter {
    const row = jobRowOf(columns);
    const [acceptedAt, contentType, reason] = columns.slice(12) as [number, string | null, number | null];
    return {
      topic: this.#tx.counters.topicName(row.topic),
      id: row.id,
      version: row.version,
      origin: row.origin,
      state: stateCodes[row.state] ?? 'dead',
      dueAt: row.due,
      acceptedAt,
      failures: row.failures,
      strikes: row.strikes,
      contentType,
      attempts: this.#tx.rows.attemptsOf(row.n),
      deadAt: row.deadAt,
      deadReason: reason === null ? null : (deadReasonCodes[reason] ?? null),
    };
  }
}

function columnsOf(statement: Statement, n: number): readonly unknown[] {
  const columns = statement.get(n) as unknown[] | undefined;
  if (columns === undefined) throw new Error(`job row ${n} is missing`);
  return columns;
}
