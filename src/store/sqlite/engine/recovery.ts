// Ends leases without an outcome: expired ones, leases of a dead owner, leases that their owner does not
// hold. Bounded by the caller's max; the slots of all notifiers bound the reserved jobs that are scanned.

import type { JobKey, Owner, Token } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import type { Recovered } from '../../../ports/job-store.ts';
import type { Statement } from '../../../runtime/database.ts';
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
  readonly #ofInstance: Statement;
  readonly #longest: Statement;
  readonly #holdMs: number;
  readonly #monotonic: () => number;
  /** storage time and monotonic time of the last call of expired() */
  #calledAt = Number.NEGATIVE_INFINITY;
  #calledMonotonic = Number.NEGATIVE_INFINITY;
  #heldUntil = Number.NEGATIVE_INFINITY;
  /** ms; the length of the last hold */
  #heldMs = 0;

  /** `holdMs` 0: no hold. */
  constructor(tx: TransactionContext, holdMs: number, monotonic: () => number) {
    this.#tx = tx;
    this.#holdMs = holdMs;
    this.#monotonic = monotonic;
    this.#longest = tx.db.prepare('SELECT max(lease_until) AS until FROM job WHERE state = 2 AND token <= ?');
    this.#expired = tx.db.prepare(
      `SELECT ${jobColumns} FROM job WHERE state = 2 AND lease_until <= ? ORDER BY lease_until, token LIMIT ?`,
      { returnArrays: true },
    );
    this.#ofInstance = tx.db.prepare(
      `SELECT ${jobColumns}, owner_incarnation FROM job WHERE state = 2 AND owner_instance = ? ORDER BY lease_until, token`,
      { returnArrays: true },
    );
  }

  nothingIsReserved(): boolean {
    return this.#tx.counters.total(reserved) === 0;
  }

  expired(max: number): Recovered {
    if (this.#isOnHold()) return { returned: 0, poisoned: [], more: false };
    const bound = this.#bound(max);
    const rows = (this.#expired.all(this.#tx.now, bound + 1) as unknown[][]).map(jobRowOf);
    // On a full disk leases expire because their outcomes cannot be written: no strike for the job.
    if (this.#tx.isDiskFull) return this.#release(rows, bound);
    return this.#strike(rows, bound);
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

  /** Whether lease owners may not have reached the store yet. In memory: a start always begins a hold. */
  #isOnHold(): boolean {
    const { now } = this.#tx;
    const at = this.#monotonic();
    const gapMs = now - this.#calledAt;
    if (gapMs > storeLimits.recoverAwayMs) {
      this.#heldMs = Math.max(this.#holdMs, this.#leasesLeftMs(now, gapMs - (at - this.#calledMonotonic)));
      this.#heldUntil = now + this.#heldMs;
    }
    this.#calledAt = now;
    this.#calledMonotonic = at;
    // A clock that was set back does not prolong the hold.
    this.#heldUntil = Math.min(this.#heldUntil, now + this.#heldMs);
    return now < this.#heldUntil;
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
    return Math.max((until ?? 0) - before, this.#heldUntil - before, 0);
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

/** Incarnations that are not in `living` and not younger than all of them. */
function isGone(living: readonly number[]): (incarnation: number) => boolean {
  const known = new Set(living);
  const youngest = living.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...living);
  return (incarnation) => incarnation < youngest && !known.has(incarnation);
}
