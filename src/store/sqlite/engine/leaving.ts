// The jobs of a jobs.db that dq leaves for Redis: finds them for the mover, forgets what has arrived, and
// keeps the open move in the file, so that it ends with the file and survives every process.
// Invariant: only jobs that are not reserved leave; nothing here changes them, so a listed job is the same
// until it is forgotten.

import type { JobKey, Version } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import { priorityCodes } from '../../../core/stored-codes.ts';
import type { Found, LeavingJob, LeavingPlace, LeavingState, Whereabouts } from '../../../ports/leaving.ts';
import { type Database, rowsBy, type Statement } from '../../../runtime/database.ts';
import { dead, delayed, ready, reserved, type StateCode } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import { type JobRow, jobColumns, jobRowOf } from './job-rows.ts';
import type { Snapshots } from './snapshots.ts';
import type { TransactionContext } from './transaction-context.ts';

interface Stage {
  readonly rows: Statement;
  /** what the rows are ordered by */
  readonly place: (row: JobRow) => LeavingPlace;
  readonly before: LeavingPlace;
}

const statementsOf = (db: Database) => ({
  anyAlert: db.prepare('SELECT 1 FROM alert WHERE state < 2 LIMIT 1'),
  owesAlert: db.prepare('SELECT 1 FROM alert WHERE version = ? AND state < 2'),
  lastEnd: rowsBy(db, 'SELECT max(ended_at) FROM job WHERE ended_at IS NOT NULL'),
  meta: rowsBy(db, 'SELECT v FROM meta WHERE k = ?'),
  putMeta: db.prepare('INSERT INTO meta(k, v) VALUES (?, ?) ON CONFLICT DO UPDATE SET v = excluded.v'),
  removeMeta: db.prepare('DELETE FROM meta WHERE k = ?'),
});

export class Leaving {
  readonly #tx: TransactionContext;
  readonly #snapshots: Snapshots;
  readonly #stages: readonly Stage[];
  readonly #sql: ReturnType<typeof statementsOf>;
  /** by Engine.freeze */
  isFrozen = false;

  constructor(tx: TransactionContext, snapshots: Snapshots) {
    const { db } = tx;
    this.#tx = tx;
    this.#snapshots = snapshots;
    this.#stages = [
      stage(db, ready, ['prio', 'topic', 'due', 'version'], (row) => [
        row.prio,
        row.topic,
        row.due,
        row.version,
      ]),
      stage(db, delayed, ['due', 'version'], (row) => [row.due, row.version]),
      stage(db, dead, ['dead_at', 'version'], (row) => [row.deadAt ?? 0, row.version]),
    ];
    this.#sql = statementsOf(db);
  }

  state(): LeavingState {
    return {
      jobs: this.#jobs(),
      owesAlerts: this.#owesAlerts(),
      move: this.#read('moving'),
      startedAt: this.#read('moving_at'),
      total: this.#read('moving_jobs'),
      ended: this.#read('moved'),
      isFrozen: this.isFrozen,
      lastEndAt: (this.#sql.lastEnd.get() as [number | null])[0],
    };
  }

  find(keys: readonly JobKey[]): Found {
    const jobs: Whereabouts[] = [];
    let bytes = 0;
    for (const { topic, id } of keys) {
      const row = this.#tx.rows.find(topic, id);
      const found = row === undefined ? null : row.state === reserved ? 'reserved' : this.#jobOf(row);
      if (found !== null && found !== 'reserved') bytes += bytesOf(found);
      if (jobs.length > 0 && bytes > limits.pushBatchBytesMax) break;
      jobs.push(found);
    }
    return { move: this.#read('moving'), left: this.#jobs(), jobs };
  }

  page(after: LeavingPlace | null): { jobs: readonly LeavingJob[]; next: LeavingPlace | null } {
    const [at = 0, ...place] = after ?? [];
    const current = this.#stages[at];
    if (current === undefined) return { jobs: [], next: null };
    const { rows, before, place: placeOf } = current;
    const found = rows.all(
      ...(place.length === 0 ? before : place),
      sqliteLimits.leavingPageMax,
    ) as unknown[][];
    const jobs: LeavingJob[] = [];
    let bytes = 0;
    let next: LeavingPlace | null = at + 1 < this.#stages.length ? [at + 1] : null;
    for (const [i, row] of found.map(jobRowOf).entries()) {
      if (row.state !== dead || this.#sql.owesAlert.get(row.version) === undefined) {
        const job = this.#jobOf(row);
        bytes += bytesOf(job);
        if (jobs.length > 0 && bytes > limits.pushBatchBytesMax) break;
        jobs.push(job);
      }
      const isLast = i + 1 === found.length && found.length < sqliteLimits.leavingPageMax;
      if (!isLast) next = [at, ...placeOf(row)];
      else next = at + 1 < this.#stages.length ? [at + 1] : null;
    }
    return { jobs, next };
  }

  begin(): LeavingState {
    const { counters, now } = this.#tx;
    if (this.#read('moving') === null && this.#jobs() > 0) {
      this.#sql.putMeta.run('moving', counters.nextNumber(now));
      this.#sql.putMeta.run('moving_at', now);
      this.#sql.putMeta.run('moving_jobs', this.#jobs());
    }
    return this.state();
  }

  opens(move: number): boolean | null {
    if (this.#read('moving') !== move) return null;
    const isFirst = this.#read('moving_opened') === null;
    this.#sql.putMeta.run('moving_opened', 1);
    return isFirst;
  }

  forget(jobs: readonly (JobKey & { readonly version: Version })[]): void {
    for (const { topic, id, version } of jobs) {
      const row = this.#tx.rows.find(topic, id);
      if (row === undefined || row.version !== version || row.state === reserved) continue;
      // Mailed from here: its alert would go with it.
      if (row.state === dead && this.#sql.owesAlert.get(version) !== undefined) continue;
      this.#tx.rows.remove(row);
    }
  }

  end(): boolean {
    const move = this.#read('moving');
    if (move === null) return true;
    if (this.#jobs() > 0 || this.#owesAlerts()) return false;
    // The target has to close the earlier move first: `moved` names one.
    if (this.#read('moved') !== null) return false;
    for (const key of ['moving', 'moving_at', 'moving_jobs', 'moving_opened']) this.#sql.removeMeta.run(key);
    this.#sql.putMeta.run('moved', move);
    return true;
  }

  closed(move: number): void {
    if (this.#read('moved') === move) this.#sql.removeMeta.run('moved');
  }

  #jobs(): number {
    const { counters } = this.#tx;
    const states: readonly StateCode[] = [delayed, ready, reserved, dead];
    return states.reduce((sum: number, state) => sum + counters.total(state), 0);
  }

  #owesAlerts(): boolean {
    return this.#sql.anyAlert.get() !== undefined;
  }

  #read(key: string): number | null {
    return (this.#sql.meta.get(key) as [number] | undefined)?.[0] ?? null;
  }

  #jobOf(row: JobRow): LeavingJob {
    const { topic, id, version, origin, dueAt, failures, acceptedAt, contentType, body, ...more } =
      this.#snapshots.read(row.n);
    const { attempts, deadAt, deadReason, extension = null } = more;
    const death =
      row.state === dead
        ? { at: deadAt ?? 0, reason: deadReason ?? ('attempts_exhausted' as const), isTold: true }
        : null;
    return {
      topic,
      id,
      version,
      origin,
      dueAt,
      failures,
      acceptedAt,
      priority: priorityCodes[row.prio] ?? 'normal',
      contentType,
      extension,
      body,
      death,
      attempts,
    };
  }
}

/** Attempts may be larger than the body: each has parts of the receiver's reply. */
const bytesOf = ({ body, attempts }: LeavingJob): number =>
  body.length + Buffer.byteLength(JSON.stringify(attempts));

function stage(
  db: Database,
  state: number,
  columns: readonly string[],
  place: (row: JobRow) => LeavingPlace,
): Stage {
  const names = columns.join(', ');
  return {
    // A literal for the state, so that its index is used.
    rows: rowsBy(
      db,
      `SELECT ${jobColumns} FROM job WHERE state = ${state} AND (${names}) > (${columns.map(() => '?').join(', ')})
       ORDER BY ${names} LIMIT ?`,
    ),
    place,
    before: columns.map(() => -1),
  };
}
