// Ends leases without an outcome: expired ones, leases of a dead owner, leases that their owner does not
// hold. Lists expired leases of pulled jobs, and those of poison jobs, and changes none of them. Bounded by
// the caller's max; the slots of all notifiers bound the reserved jobs that are scanned.
// Invariant: a jump of the clock, ahead or back, neither shortens nor prolongs a lease: owners use the
// monotonic clock.

import { optionsIn } from '../../../core/extension.ts';
import type { Lease, Owner, Token } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import type { ExpiredPull, Recovered, Unheld } from '../../../ports/job-store.ts';
import { type Database, rowsBy, type Statement } from '../../../runtime/database.ts';
import { storeLimits } from '../../limits.ts';
import { reserved } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import { backToReady } from './finish.ts';
import { type JobRow, jobColumns, jobRowOf } from './job-rows.ts';
import { stepMax, type TransactionContext } from './transaction-context.ts';

interface Moment {
  /** epoch ms */
  readonly storage: number;
  /** ms */
  readonly monotonic: number;
}

const statementsOf = (db: Database) => {
  // A literal for each part, so that the index of its leases is used.
  const [ofProcess, pulled] = ['owner_instance > 0', 'owner_instance = 0'] as const;
  const { pullLeaseMsMin: least, pullLeaseMsMax: most, leaseTimeOffMs: off } = limits;
  const expired = (whose: string) =>
    rowsBy(
      db,
      `SELECT ${jobColumns}, lease_until, extension FROM job WHERE state = 2 AND ${whose} AND lease_until <= ?
       ORDER BY lease_until, token LIMIT ?`,
    );
  return {
    shift: db.prepare('UPDATE job SET lease_until = lease_until + ? WHERE state = 2'),
    // Tokens are the clock in µs, or ahead of it. A token that is ahead by all of the lease hides its length,
    // so it gets the longest: one that is too short would give the job of a working client to another one. It
    // costs the job of a client that died a wait of that time.
    shorten: db.prepare(
      `UPDATE job SET lease_until = ?1 + CASE WHEN lease_until - token / 1000 < ${least - off} THEN ${most}
         ELSE max(${least}, min(${most}, lease_until - token / 1000)) END
       WHERE state = 2 AND ${pulled} AND lease_until > ?1 + ${most}`,
    ),
    expired: expired(ofProcess),
    expiredPulls: expired(pulled),
    ofInstance: rowsBy(
      db,
      `SELECT ${jobColumns}, owner_incarnation FROM job
       WHERE state = 2 AND ${ofProcess} AND owner_instance = ? ORDER BY lease_until, token`,
    ),
  };
};

export class Recovery {
  readonly #tx: TransactionContext;
  readonly #sql: ReturnType<typeof statementsOf>;
  readonly #monotonic: () => number;
  /** monotonic time of the last call of expired() */
  #calledAt = Number.NEGATIVE_INFINITY;
  /** Both clocks when the ends of the leases were right: at the open of the file, then at the begin of the
   *  last committed transaction that moved them, or that began without leases. */
  #right: Moment;
  /** at the begin of the running transaction */
  #begun: Moment;
  /** The ends of the leases are right by the clocks at the begin of the running transaction. */
  #isRight = false;
  readonly #holdMs: number;
  /** monotonic time */
  #holdUntil = Number.NEGATIVE_INFINITY;

  /** `holdMs` 0: no hold. */
  constructor(tx: TransactionContext, holdMs: number, monotonic: () => number) {
    this.#tx = tx;
    this.#monotonic = monotonic;
    this.#begun = { storage: tx.now, monotonic: monotonic() };
    this.#right = this.#begun;
    this.#holdMs = holdMs;
    this.#sql = statementsOf(tx.db);
  }

  nothingIsReserved(): boolean {
    return this.#tx.counters.total(reserved) === 0;
  }

  expired(max: number): Recovered {
    const { now, isDiskFull } = this.#tx;
    const isHeld = this.#isHeld();
    this.#sql.shorten.run(now);
    const bound = this.#bound(max);
    const ended = (expired: Statement) => (isHeld ? [] : (expired.all(now, bound + 1) as unknown[][]));
    const rows = ended(this.#sql.expired).map(jobRowOf);
    const pulls = ended(this.#sql.expiredPulls);
    // On a full disk leases expire because their outcomes cannot be written: no strike and no attempt.
    if (isDiskFull) return this.#release([...rows, ...pulls.map(jobRowOf)], bound);
    const struck = this.#strike(rows, bound);
    if (pulls.length === 0) return struck;
    const pulled = pulls.slice(0, bound).map((columns) => this.#pulled(columns));
    return { ...struck, more: struck.more || pulls.length > bound, pulled };
  }

  #pulled(columns: readonly unknown[]): ExpiredPull {
    const row = jobRowOf(columns);
    const { failures, due } = row;
    const [until, extension] = columns.slice(12) as [number, Uint8Array | null];
    const lease = this.#leaseOf(row);
    // Tokens are the clock in µs, or ahead of it: then the length is too short.
    const leaseMs = Math.max(0, until - Math.floor(lease.token / 1_000));
    return { lease, failures, leaseMs, until, dueAt: due, options: optionsIn(extension) };
  }

  ofOwners(
    instance: number,
    which: { readonly dead: number } | { readonly living: readonly number[] },
    max: number,
  ): Recovered {
    const rows = this.#leasesOf(
      instance,
      'dead' in which ? (incarnation) => incarnation === which.dead : isGone(which.living),
    );
    return this.#strike(rows, this.#bound(max));
  }

  releaseUnheld(owner: Owner, held: readonly Token[], upTo: Token): Unheld {
    const tokens = new Set<number | null>(held);
    const unheld = this.#leasesOf(owner.instance, (incarnation) => incarnation === owner.incarnation).filter(
      (row) => !tokens.has(row.token),
    );
    const rows = unheld.filter(({ token }) => (token ?? 0) <= upTo);
    for (const row of rows) backToReady(this.#tx, row, row.strikes);
    return {
      released: rows.length,
      left: unheld.length - rows.length,
      last: this.#tx.counters.lastNumber,
    };
  }

  /** Notes a call. After an outage no lease expires for holdMs: owners may not have reached the store yet. In
   *  memory: a start always begins a hold. */
  #isHeld(): boolean {
    const at = this.#monotonic();
    if (at - this.#calledAt > storeLimits.recoverAwayMs) this.#holdUntil = at + this.#holdMs;
    this.#calledAt = at;
    return at < this.#holdUntil;
  }

  /** At the begin of each transaction: after a jump of the clock or a suspend, the ends of all leases move
   *  with it. Every lease in the file is from before a jump that is found here. Their numbers cannot tell
   *  which ones are: after the clock was set back, tokens run ahead of it. */
  watchClock(): void {
    this.#begun = { storage: this.#tx.now, monotonic: this.#monotonic() };
    const jumpMs =
      this.#begun.storage - this.#right.storage - (this.#begun.monotonic - this.#right.monotonic);
    const isJump = this.#holdMs > 0 && Math.abs(jumpMs) > sqliteLimits.clockStepMs;
    const isWithoutLeases = this.nothingIsReserved();
    if (isJump && !isWithoutLeases) this.#sql.shift.run(Math.ceil(jumpMs));
    this.#isRight = isJump || isWithoutLeases;
  }

  /** The shift of the transaction is on disk. After a rollback the next begin finds the jump again. Shorter
   *  steps add up until they are a jump. */
  keepClock(): void {
    if (this.#isRight) this.#right = this.#begun;
  }

  #leasesOf(instance: number, matches: (incarnation: number) => boolean): JobRow[] {
    return (this.#sql.ofInstance.all(instance) as unknown[][])
      .filter((columns) => matches(columns[12] as number))
      .map(jobRowOf);
  }

  #bound(max: number): number {
    return stepMax(this.#tx, Math.min(max, limits.recoverMax));
  }

  #release(rows: readonly JobRow[], max: number): Recovered {
    const returned = rows.slice(0, max);
    for (const row of returned) backToReady(this.#tx, row, row.strikes);
    return { returned: returned.length, poisoned: [], more: rows.length > returned.length };
  }

  #strike(rows: readonly JobRow[], max: number): Recovered {
    const poisoned: Lease[] = [];
    const struck = rows.slice(0, max);
    for (const row of struck) {
      const strikes = row.strikes + 1;
      if (strikes < limits.strikesPoison) backToReady(this.#tx, row, strikes);
      else poisoned.push(this.#leaseOf(row));
    }
    return { returned: struck.length - poisoned.length, poisoned, more: rows.length > struck.length };
  }

  #leaseOf({ topic, id, version, token }: JobRow): Lease {
    return { topic: this.#tx.counters.topicName(topic), id, version, token: token ?? 0 };
  }
}

/** Incarnations that are not in `living` and not younger than all of them. */
function isGone(living: readonly number[]): (incarnation: number) => boolean {
  const known = new Set(living);
  const youngest = living.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...living);
  return (incarnation) => incarnation < youngest && !known.has(incarnation);
}
