// Writes the rows of jobs and what belongs to each move: counts, earliest delayed job, owed alerts. All
// operations change jobs only through these methods. Invariant: a job has one row in `job` and one in
// `body`, a row in `attempts` only after a failed attempt; its tally changes in the same transaction.
// Writes run by get(), which returns nothing: run() makes an object of two numbers, 1 µs of an ack's 12.

import { optionsIn, pushedExtension, webhookOriginOf, withAgainOf } from '../../../core/extension.ts';
import {
  type AttemptRecord,
  type EndState,
  type Lease,
  pullOwner,
  type VersionedKey,
} from '../../../core/job.ts';
import { isTickId } from '../../../core/job-id.ts';
import { limits } from '../../../core/limits.ts';
import { endCodes } from '../../../core/stored-codes.ts';
import { type Database, rowsBy } from '../../../runtime/database.ts';
import { dead, delayed, ended, ready, reserved, type StateCode } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import type { TopicCounters } from './topic-counters.ts';

/** A job as the operations see it. */
export interface JobRow {
  readonly n: number;
  readonly topic: number;
  readonly id: string;
  readonly state: StateCode;
  readonly prio: number;
  readonly due: number;
  readonly version: number;
  readonly origin: number;
  readonly failures: number;
  readonly strikes: number;
  /** of the lease; of a dead letter: the number of its death */
  readonly token: number | null;
  readonly deadAt: number | null;
}

/** The row of an ended job: not counted, invisible to operations; a push of its id reuses it. */
export type EndedRow = Omit<JobRow, 'state'> & { readonly state: typeof ended };

export function isEnded(row: JobRow | EndedRow): row is EndedRow {
  return row.state === ended;
}

/** The caller read another version of the job: nothing may change. */
export function namesOther({ version }: VersionedKey, row: JobRow): boolean {
  return version !== undefined && version !== row.version;
}

/** What a push writes. */
export interface NewJob {
  readonly topic: number;
  readonly id: Buffer;
  readonly state: typeof delayed | typeof ready;
  readonly prio: number;
  readonly due: number;
  readonly version: number;
  readonly acceptedAt: number;
  readonly failures: number;
  readonly contentType: string | null;
  readonly body: Buffer;
  /** extension.ts */
  readonly extension: Buffer | null;
}

/** A job that waits, without a lease. */
interface Waiting {
  readonly state: typeof delayed | typeof ready;
  readonly due: number;
  readonly version: number;
  readonly failures: number;
  readonly strikes: number;
}

/** What an edit writes beside it. */
type Edited = Pick<NewJob, 'prio' | 'contentType' | 'body' | 'extension'> & {
  readonly origin: number;
};

/** The end of a job. */
interface End {
  readonly state: EndState;
  readonly at: number;
  readonly attempt?: LastAttempt;
}

/** The attempt that delivered a job; an only attempt as packFirstAttempt encodes it; null: do not store
 *  it. */
export type LastAttempt = AttemptRecord | string | null;

const noOwner = 'owner_instance = NULL, owner_incarnation = NULL, lease_until = NULL';
const noLease = `token = NULL, ${noOwner}`;
export const jobColumns =
  'job.n, job.topic, job.id, job.state, job.prio, job.due, job.version, job.origin, job.failures, job.strikes, job.token, job.dead_at';

export function jobRowOf(row: readonly unknown[]): JobRow {
  const [n, topic, id, state, prio, due, version, origin, failures, strikes, token, deadAt] = row as [
    number,
    number,
    Uint8Array,
    StateCode,
    number,
    number,
    number,
    number,
    number,
    number,
    number | null,
    number | null,
  ];
  return {
    n,
    topic,
    id: asBuffer(id).toString(),
    state,
    prio,
    due,
    version,
    origin,
    failures,
    strikes,
    token,
    deadAt,
  };
}

/** The same bytes. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** `row` as it is under the lease of `token`. A literal: spreads make slow objects. */
function reservedRow(row: JobRow, token: number): JobRow {
  const { n, topic, id, prio, due, version, origin, failures, strikes, deadAt } = row;
  return { n, topic, id, state: reserved, prio, due, version, origin, failures, strikes, token, deadAt };
}

const statementsOf = (db: Database) => ({
  // Selects no id: each blob in a result is an allocation.
  find: rowsBy(
    db,
    `SELECT n, state, prio, due, version, origin, failures, strikes, token, dead_at FROM job WHERE topic = ? AND id = ?`,
  ),
  insertJob: db.prepare(
    'INSERT INTO job(topic, id, state, prio, due, version, origin, accepted_at, failures, ctype, extension) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10) ON CONFLICT(topic, id) DO NOTHING',
  ),
  insertBody: db.prepare('INSERT INTO body(n, bytes) VALUES (last_insert_rowid(), ?)'),
  renewJob: db.prepare(
    `UPDATE job SET state = ?, prio = ?, due = ?, version = ?, origin = ?, accepted_at = ?, failures = ?, ctype = ?, extension = ?, strikes = 0,
     ${noLease}, dead_at = NULL, reason = NULL, ended_at = NULL, ended_as = NULL WHERE n = ?`,
  ),
  renewBody: db.prepare(
    'INSERT INTO body(n, bytes) VALUES (?, ?) ON CONFLICT DO UPDATE SET bytes = excluded.bytes',
  ),
  readExtension: rowsBy(db, 'SELECT extension FROM job WHERE n = ?'),
  deleteJob: db.prepare('DELETE FROM job WHERE n = ?'),
  deleteBody: db.prepare('DELETE FROM body WHERE n = ?'),
  deleteAttempts: db.prepare('DELETE FROM attempts WHERE n = ?'),
  readAttempts: rowsBy(db, 'SELECT list FROM attempts WHERE n = ?'),
  writeAttempts: db.prepare(
    'INSERT INTO attempts(n, list) VALUES (?, ?) ON CONFLICT DO UPDATE SET list = excluded.list',
  ),
  toWaiting: db.prepare(
    `UPDATE job SET state = ?, due = ?, version = ?, failures = ?, strikes = ?, ${noLease}, dead_at = NULL, reason = NULL WHERE n = ?`,
  ),
  toEdited: db.prepare('UPDATE job SET origin = ?, prio = ?, ctype = ?, extension = ? WHERE n = ?'),
  toReserved: db.prepare(
    'UPDATE job SET state = 2, token = ?, owner_instance = ?, owner_incarnation = ?, lease_until = ? WHERE n = ?',
  ),
  extend: db.prepare('UPDATE job SET lease_until = ? WHERE n = ? AND owner_instance = ?'),
  leaseUntil: rowsBy(db, 'SELECT lease_until FROM job WHERE n = ?'),
  leaseOwner: rowsBy(db, 'SELECT owner_instance FROM job WHERE n = ?'),
  setOptions: db.prepare('UPDATE job SET extension = ? WHERE n = ?'),
  endOf: rowsBy(db, 'SELECT ended_as, ended_at FROM job WHERE n = ?'),
  toDead: db.prepare(
    `UPDATE job SET state = 3, failures = ?, strikes = ?, token = ?, ${noOwner}, dead_at = ?, reason = ? WHERE n = ?`,
  ),
  toEnded: db.prepare(
    `UPDATE job SET state = ${ended}, ctype = ?, origin = ?, extension = NULL, ${noLease}, dead_at = NULL, reason = NULL, ended_at = ?, ended_as = ? WHERE n = ?`,
  ),
  addAlert: db.prepare(
    'INSERT INTO alert(version, topic, id, dead_at, reason, failures, attempt, state) VALUES (?, ?, ?, ?, ?, ?, ?, 0)',
  ),
  endAlert: db.prepare('DELETE FROM alert WHERE version = ? AND state >= 2'),
});

export class JobRows {
  readonly #counters: TopicCounters;
  /** Reserved jobs by token, so that a finishing write need not read their rows. Invariant: each entry equals
   *  the file. A missing one, after a restart or a rollback, is read from the file. */
  readonly #leases = new Map<number, JobRow>();
  /** Each ended job leaves a history entry; false: only those of schedules do. */
  keepsHistory = true;
  readonly #sql: ReturnType<typeof statementsOf>;

  constructor(db: Database, counters: TopicCounters) {
    this.#counters = counters;
    this.#sql = statementsOf(db);
  }

  /** A job, live or dead. */
  find(topic: string, id: string): JobRow | undefined {
    const row = this.place(topic, id);
    return row === undefined || isEnded(row) ? undefined : row;
  }

  /** Includes ended jobs: a new version reuses the row. */
  place(topic: string, id: string): JobRow | EndedRow | undefined {
    const no = this.#counters.topicNumber(topic);
    return no === undefined ? undefined : this.#findIn(no, id);
  }

  /** A job, live or dead. */
  findIn(topic: number, id: string): JobRow | undefined {
    const row = this.#findIn(topic, id);
    return row === undefined || isEnded(row) ? undefined : row;
  }

  #findIn(topic: number, id: string): JobRow | EndedRow | undefined {
    const row = this.#sql.find.get(topic, Buffer.from(id)) as number[] | undefined;
    if (row === undefined) return undefined;
    const [n, state, prio, due, version, origin, failures, strikes, token, deadAt] = row;
    return { n, topic, id, state, prio, due, version, origin, failures, strikes, token, deadAt } as JobRow;
  }

  /** The reserved job of this lease; null: the lease has ended. */
  leased({ topic, id, version, token }: Lease): JobRow | null {
    const known = this.#leases.get(token);
    if (
      known !== undefined &&
      known.id === id &&
      known.version === version &&
      this.#counters.topicName(known.topic) === topic
    )
      return known;
    const row = this.find(topic, id);
    return row?.state === reserved && row.version === version && row.token === token ? row : null;
  }

  /** After a rollback, of a transaction or to a savepoint: entries may differ from the file. */
  forgetLeases(): void {
    this.#leases.clear();
  }

  /** false: the file has a row with this id, live or ended, and nothing was written. */
  insert(job: NewJob): boolean {
    const { changes } = this.#sql.insertJob.run(
      job.topic,
      job.id,
      job.state,
      job.prio,
      job.due,
      job.version,
      job.acceptedAt,
      job.failures,
      job.contentType,
      job.extension,
    );
    if (changes === 0) return false;
    this.#sql.insertBody.get(job.body);
    this.#arrives(job.topic, job.prio, job.state, job.due);
    return true;
  }

  /** A new version replaces the row with this id. Rows are written first: the counters may read the file. */
  replace(old: JobRow | EndedRow, job: NewJob): void {
    this.#sql.renewJob.get(
      job.state,
      job.prio,
      job.due,
      job.version,
      job.version,
      job.acceptedAt,
      job.failures,
      job.contentType,
      job.extension,
      old.n,
    );
    this.#sql.renewBody.get(old.n, job.body);
    this.forgetAttempts(old);
    if (!isEnded(old)) this.#leaves(old);
    this.#arrives(job.topic, job.prio, job.state, job.due);
  }

  /** Live or dead → ended: removes body and lease; leaves a history entry if history is kept, or the job is
   *  of a schedule. */
  end(row: JobRow, { state, at, attempt = null }: End): void {
    this.#sql.deleteBody.get(row.n);
    if (this.keepsHistory || isTickId(row.id)) {
      const only = typeof attempt === 'string';
      if (!only && attempt !== null) this.addAttempt(row, attempt);
      this.#sql.toEnded.get(
        only ? attempt : null,
        this.#webhookOrigin(row),
        at,
        endCodes.indexOf(state),
        row.n,
      );
    } else {
      this.forgetAttempts(row);
      this.#sql.deleteJob.get(row.n);
    }
    this.#leaves(row);
  }

  /** The block that names it leaves the row. Only versions after a push can be edited ones. */
  #webhookOrigin({ n, version, origin }: JobRow): number {
    if (version === origin) return origin;
    return webhookOriginOf({ origin, extension: this.#extensionOf(n) });
  }

  #extensionOf(n: number): Uint8Array | null {
    return (this.#sql.readExtension.get(n) as [Uint8Array | null])[0];
  }

  /** The job lives elsewhere: its row goes without a history entry. */
  remove(row: JobRow): void {
    this.#sql.deleteBody.get(row.n);
    this.forgetAttempts(row);
    this.#sql.deleteJob.get(row.n);
    this.#leaves(row);
  }

  reserve(row: JobRow, lease: { token: number; instance: number; incarnation: number; until: number }): void {
    const { token } = lease;
    this.#sql.toReserved.get(token, lease.instance, lease.incarnation, lease.until, row.n);
    if (this.#leases.size < sqliteLimits.leasesKept) this.#leases.set(token, reservedRow(row, token));
    this.#counters.count(row.topic, row.prio, ready, -1);
    this.#counters.count(row.topic, row.prio, reserved, 1);
  }

  /** Moves the end of a lease of pullOwner; false: it belongs to a process. */
  extend(row: JobRow, until: number): boolean {
    return this.#sql.extend.run(until, row.n, pullOwner.instance).changes === 1;
  }

  /** Whether a reserved job is in the lease of a pull client. */
  isPulled(row: JobRow): boolean {
    return (this.#sql.leaseOwner.get(row.n) as [number])[0] === pullOwner.instance;
  }

  endOf(row: EndedRow): End {
    const [state, at] = this.#sql.endOf.get(row.n) as [number, number];
    return { state: endCodes[state] ?? 'done', at };
  }

  /** End of the lease of a reserved job. */
  leaseUntil(row: JobRow): number {
    return (this.#sql.leaseUntil.get(row.n) as [number])[0];
  }

  /** Delayed or ready again, without a lease. */
  wait(row: JobRow, to: Waiting, prio = row.prio): void {
    this.#sql.toWaiting.get(to.state, to.due, to.version, to.failures, to.strikes, row.n);
    this.#leaves(row);
    this.#arrives(row.topic, prio, to.state, to.due);
  }

  /** Delayed or ready with other content. The number of snoozes stays, but for a dead letter: a snooze
   *  changes no version, so the caller may have read an older one. */
  edit(row: JobRow, to: Waiting, { origin, prio, contentType, extension, body }: Edited): void {
    const snoozed = row.state === dead ? null : this.#extensionOf(row.n);
    this.#sql.toEdited.get(origin, prio, contentType, withAgainOf(snoozed, extension), row.n);
    this.#sql.renewBody.get(row.n, body);
    this.wait(row, to, prio);
  }

  /** The number of snoozes begins again. */
  forgetSnoozes(row: JobRow): void {
    const extension = this.#extensionOf(row.n);
    if (optionsIn(extension).again !== undefined) this.setOptions(row, pushedExtension(extension));
  }

  /** Replaces the options of the job (extension.ts). */
  setOptions(row: JobRow, extension: Buffer | null): void {
    this.#sql.setOptions.get(extension, row.n);
  }

  /** Dead, with an owed alert. */
  bury(
    row: JobRow,
    how: { failures: number; strikes: number; at: number; reason: number; attempt: AttemptRecord | null },
  ): void {
    const death = this.#counters.nextNumber(how.at);
    this.#sql.toDead.get(how.failures, how.strikes, death, how.at, how.reason, row.n);
    this.#leaves(row);
    this.#counters.count(row.topic, row.prio, dead, 1);
    const attempt = how.attempt === null ? null : JSON.stringify(how.attempt);
    this.#sql.addAlert.get(
      row.version,
      row.topic,
      Buffer.from(row.id),
      how.at,
      how.reason,
      how.failures,
      attempt,
    );
  }

  addAttempt(row: JobRow, attempt: AttemptRecord): void {
    const stored = this.#attemptsOf(row.n);
    // An unreadable list stays as it is, for inspection.
    if (stored === null) return;
    const list = [...stored, attempt].slice(-limits.attemptsKept);
    this.#sql.writeAttempts.get(row.n, JSON.stringify(list));
  }

  /** Empty where the list is unreadable: the job must stay usable. */
  attemptsOf(n: number): AttemptRecord[] {
    return this.#attemptsOf(n) ?? [];
  }

  /** null: a damaged file holds no valid list; fsck names it. */
  #attemptsOf(n: number): AttemptRecord[] | null {
    const row = this.#sql.readAttempts.get(n) as [string] | undefined;
    if (row === undefined) return [];
    try {
      const list: unknown = JSON.parse(row[0]);
      return Array.isArray(list) ? (list as AttemptRecord[]) : null;
    } catch {
      return null;
    }
  }

  /** A requeued job may have some, too: its failures count from 0. */
  forgetAttempts(row: JobRow | EndedRow): void {
    if (row.failures > 0 || row.version !== row.origin) this.#sql.deleteAttempts.get(row.n);
  }

  #leaves(row: JobRow): void {
    this.#counters.count(row.topic, row.prio, row.state, -1);
    if (row.state === reserved) this.#leases.delete(row.token as number);
    if (row.state === delayed) this.#counters.delayedRemoved(row.due);
    // An owed alert outlives its dead letter.
    if (row.state === dead) this.#sql.endAlert.get(row.version);
  }

  #arrives(topic: number, prio: number, state: typeof delayed | typeof ready, due: number): void {
    this.#counters.count(topic, prio, state, 1);
    if (state === delayed) this.#counters.delayedAdded(due);
  }
}
