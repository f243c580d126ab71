// Ends leases without an outcome: expired ones, leases of a dead owner, leases that their owner does not
// hold. Lists expired leases of pulled jobs, and changes none of them. Bounded by the caller's max; the slots
// of all notifiers bound the reserved jobs that are scanned.

import type { JobKey, Owner, Token } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import type { ExpiredPull, Recovered } from '../../../ports/job-store.ts';
import type { Database, Statement } from '../../../runtime/database.ts';
import { storeLimits } from '../../limits.ts';
import { reasonCodes } from '../../stored-codes.ts';
import { reserved } from '../file/schema.ts';
import { backToReady } from './finish.ts';
import { type JobRow, jobColumns, jobRowOf } from './job-rows.ts';
import { stepMax, type TransactionContext } from './transaction-context.ts';

const poison = reasonCodes.indexOf('poison');

export class Recovery {
  readonly #tx: TransactionContext;
  readonly #expired: Statement;
  readonly #expiredPulls: Statement;
  readonly #ofInstance: Statement;
  readonly #monotonic: () => number;
  /** storage time and monotonic time of the last call of expired() */
  #calledAt = Number.NEGATIVE_INFINITY;
  #calledMonotonic = Number.NEGATIVE_INFINITY;
  /** Two: a lease of a pulled job may last a day, and must not hold those of notifiers for so long. */
  readonly #hold: Hold;
  readonly #pullHold: Hold;

  /** `holdMs` 0: no hold. */
  constructor(tx: TransactionContext, holdMs: number, monotonic: () => number) {
    this.#tx = tx;
    this.#monotonic = monotonic;
    const [ofProcess, pulled] = ['owner_instance > 0', 'owner_instance = 0'] as const;
    this.#hold = new Hold(tx.db, ofProcess, holdMs);
    this.#pullHold = new Hold(tx.db, pulled, holdMs);
    const expired = (whose: string) =>
      tx.db.prepare(
        `SELECT ${jobColumns}, lease_until FROM job WHERE state = 2 AND ${whose} AND lease_until <= ?
         ORDER BY lease_until, token LIMIT ?`,
        { returnArrays: true },
      );
    this.#expired = expired(ofProcess);
    this.#expiredPulls = expired(pulled);
    this.#ofInstance = tx.db.prepare(
      `SELECT ${jobColumns}, owner_incarnation FROM job
       WHERE state = 2 AND ${ofProcess} AND owner_instance = ? ORDER BY lease_until, token`,
      { returnArrays: true },
    );
  }

  /** Whether recover would change nothing. Counts as a call: while no job is reserved, no other is made. */
  nothingExpires(): boolean {
    this.#noteCall();
    return this.nothingIsReserved();
  }

  nothingIsReserved(): boolean {
    return this.#tx.counters.total(reserved) === 0;
  }

  expired(max: number): Recovered {
    const { now, isDiskFull } = this.#tx;
    this.#noteCall();
    const bound = this.#bound(max);
    const ended = (hold: Hold, expired: Statement) =>
      hold.holds(now) ? [] : (expired.all(now, bound + 1) as unknown[][]);
    const rows = ended(this.#hold, this.#expired).map(jobRowOf);
    const pulls = ended(this.#pullHold, this.#expiredPulls);
    // On a full disk leases expire because their outcomes cannot be written: no strike and no attempt.
    if (isDiskFull) return this.#release([...rows, ...pulls.map(jobRowOf)], bound);
    const struck = this.#strike(rows, bound);
    if (pulls.length === 0) return struck;
    const pulled = pulls.slice(0, bound).map((columns) => this.#pulled(columns));
    return { ...struck, more: struck.more || pulls.length > bound, pulled };
  }

  #pulled(columns: readonly unknown[]): ExpiredPull {
    const { topic, id, version, token, failures } = jobRowOf(columns);
    const until = columns[12] as number;
    const key = { topic: this.#tx.counters.topicName(topic), id: id.toString() };
    // Tokens are the clock in µs.
    const leaseMs = Math.max(0, until - Math.floor((token ?? 0) / 1_000));
    return { lease: { ...key, version, token: token ?? 0 }, failures, leaseMs, until };
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

  releaseUnheld(owner: Owner, held: readonly Token[]): number {
    const tokens = new Set<number | null>(held);
    const rows = this.#leasesOf(owner.instance, (incarnation) => incarnation === owner.incarnation).filter(
      (row) => !tokens.has(row.token),
    );
    for (const row of rows) backToReady(this.#tx, row, row.strikes);
    return rows.length;
  }

  /** Lease owners may not have reached the store yet. In memory: a start always begins a hold. */
  #noteCall(): void {
    const { now } = this.#tx;
    const at = this.#monotonic();
    const gapMs = now - this.#calledAt;
    if (gapMs > storeLimits.recoverAwayMs) {
      const jumpMs = gapMs - (at - this.#calledMonotonic);
      for (const hold of [this.#hold, this.#pullHold]) hold.begin(now, jumpMs);
    }
    this.#calledAt = now;
    this.#calledMonotonic = at;
  }

  #leasesOf(instance: number, matches: (incarnation: number) => boolean): JobRow[] {
    return (this.#ofInstance.all(instance) as unknown[][])
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
    const poisoned: JobKey[] = [];
    const struck = rows.slice(0, max);
    for (const row of struck) {
      const strikes = row.strikes + 1;
      if (strikes < limits.strikesPoison) backToReady(this.#tx, row, strikes);
      else {
        const attempt = this.#tx.rows.attemptsOf(row.n).at(-1) ?? null;
        const { failures } = row;
        this.#tx.rows.bury(row, { failures, strikes, at: this.#tx.now, reason: poison, attempt });
        poisoned.push({ topic: this.#tx.counters.topicName(row.topic), id: row.id.toString() });
      }
    }
    return { returned: struck.length - poisoned.length, poisoned, more: rows.length > struck.length };
  }
}

/** A time without recovery, after an outage or a jump of the clock. Of the leases that match `whose`. */
class Hold {
  readonly #longest: Statement;
  readonly #holdMs: number;
  #until = Number.NEGATIVE_INFINITY;
  /** its length */
  #ms = 0;

  constructor(db: Database, whose: string, holdMs: number) {
    this.#holdMs = holdMs;
    this.#longest = db.prepare(
      `SELECT max(lease_until) AS until FROM job WHERE state = 2 AND ${whose} AND token <= ?`,
    );
  }

  begin(now: number, jumpMs: number): void {
    this.#ms = Math.max(this.#holdMs, this.#leasesLeftMs(now, jumpMs));
    this.#until = now + this.#ms;
  }

  holds(now: number): boolean {
    // A clock that was set back does not prolong the hold.
    this.#until = Math.min(this.#until, now + this.#ms);
    return now < this.#until;
  }

  /** Ms that leases from before a clock jump or a suspend of this machine still have: their owners live and
   *  use the monotonic clock. At most the longest current lease; 0 without a jump. */
  #leasesLeftMs(now: number, jumpMs: number): number {
    // NaN at the first call: the time before is unknown.
    if (this.#holdMs === 0 || !(jumpMs > storeLimits.recoverAwayMs)) return 0;
    const before = now - jumpMs;
    // Tokens are the clock in µs: leases with later tokens began after the jump and end at the right time.
    const { until } = this.#longest.get(before * 1_000) as { until: number | null };
    // A second jump during the hold keeps the rest of the hold.
    return Math.max((until ?? 0) - before, this.#until - before, 0);
  }
}

/** Incarnations that are not in `living` and not younger than all of them. */
function isGone(living: readonly number[]): (incarnation: number) => boolean {
  const known = new Set(living);
  const youngest = living.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...living);
  return (incarnation) => incarnation < youngest && !known.has(incarnation);
}
