// Reads ended jobs by topic and id; removes them oldest end first. The row of a job becomes its history
// entry (job-rows.ts), and a push of its id makes it a job again. Rejected: a table of its own. Its index
// of ids costs each ack a second random page (measured per ack: 25 µs; 9 µs this way; 13 µs for a delete).

import type { AttemptRecord, EndedJob, JobKey } from '../../../core/job.ts';
import { isTickId } from '../../../core/job-id.ts';
import { limits } from '../../../core/limits.ts';
import { endCodes, withFirstAttempt } from '../../../core/stored-codes.ts';
import { type Database, rowsBy } from '../../../runtime/database.ts';
import { asBuffer } from './job-rows.ts';
import type { TransactionContext } from './transaction-context.ts';

/** n, end, version, id */
type Following = readonly [number, number, number, Uint8Array];

const beforeAll: readonly [endedAt: number, version: number] = [-1, -1];

const statementsOf = (db: Database) => {
  const oldest = 'SELECT n FROM job WHERE ended_at < ? ORDER BY ended_at, version LIMIT ?';
  return {
    read: rowsBy(
      db,
      `SELECT job.version, job.origin, job.ended_as, job.ended_at, job.due, job.accepted_at, job.failures, attempts.list, job.ctype
       FROM job LEFT JOIN attempts ON attempts.n = job.n
       WHERE job.topic = ? AND job.id = ? AND job.ended_at IS NOT NULL`,
    ),
    anyOlder: db.prepare('SELECT 1 FROM job WHERE ended_at < ? LIMIT 1'),
    forgetAttempts: db.prepare(`DELETE FROM attempts WHERE n IN (${oldest})`),
    forget: db.prepare(`DELETE FROM job WHERE n IN (${oldest})`),
    following: rowsBy(
      db,
      `SELECT n, ended_at, version, id FROM job INDEXED BY job_ended
       WHERE ended_at IS NOT NULL AND (ended_at, version) > (?, ?) ORDER BY ended_at, version LIMIT ?`,
    ),
    forgetAttemptsOf: db.prepare('DELETE FROM attempts WHERE n = ?'),
    forgetOne: db.prepare('DELETE FROM job WHERE n = ?'),
  };
};

export class History {
  readonly #tx: TransactionContext;
  readonly #sql: ReturnType<typeof statementsOf>;
  /** End and version of the entry that forgetEarly examined last. What a rollback brings back waits for the
   *  next turn. */
  #examined = beforeAll;

  constructor(tx: TransactionContext) {
    this.#tx = tx;
    this.#sql = statementsOf(tx.db);
  }

  get(key: JobKey): EndedJob | null {
    const topic = this.#tx.counters.topicNumber(key.topic);
    if (topic === undefined) return null;
    const row = this.#sql.read.get(topic, Buffer.from(key.id)) as unknown[] | undefined;
    if (row === undefined) return null;
    const [version, origin, state, endedAt, dueAt, acceptedAt, failures, list, ctype] = row as [
      number,
      number,
      number,
      number,
      number,
      number,
      number,
      string | null,
      string | null,
    ];
    return {
      topic: key.topic,
      id: key.id,
      version,
      origin,
      state: endCodes[state] ?? 'done',
      endedAt,
      dueAt,
      acceptedAt,
      failures,
      attempts: attemptsOfEnded(list, ctype),
    };
  }

  forgetBefore(before: number, max: number): { readonly forgotten: number; readonly more: boolean } {
    const bound = Math.min(max, limits.forgetMax);
    this.#sql.forgetAttempts.run(before, bound);
    const forgotten = Number(this.#sql.forget.run(before, bound).changes);
    return { forgotten, more: this.anyOlder(before) };
  }

  /** Removes entries of any age, except ends of schedules from `ticksSince` on: a process that takes over an
   *  instant looks for them. Examines `max` entries in the order of their ends, after those of the last call,
   *  because any number of them may stay. false: no further one follows, and the next call begins again. */
  forgetEarly(ticksSince: number, max: number): boolean {
    const rows = this.#sql.following.all(...this.#examined, max) as unknown as Following[];
    for (const [n, endedAt, , id] of rows) {
      if (endedAt >= ticksSince && isTickId(asBuffer(id).toString())) continue;
      this.#sql.forgetAttemptsOf.run(n);
      this.#sql.forgetOne.run(n);
    }
    const last = rows.length < max ? undefined : rows.at(-1);
    this.#examined = last === undefined ? beforeAll : [last[1], last[2]];
    return last !== undefined;
  }

  /** Whether forget would find an entry. */
  anyOlder(before: number): boolean {
    return this.#sql.anyOlder.get(before) !== undefined;
  }
}

/** job.ctype of an entry holds the first attempt that delivered it. */
export function attemptsOfEnded(list: string | null, ctype: string | null): readonly AttemptRecord[] {
  const stored = list === null ? [] : (JSON.parse(list) as AttemptRecord[]);
  return ctype === null ? stored : withFirstAttempt(stored, ctype);
}
