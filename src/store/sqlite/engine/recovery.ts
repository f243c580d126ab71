// Leases that end without an outcome: run out, of a dead owner, or of an owner that does not know it has them. Bounded by
// the caller's max; the reserved jobs that are looked through are bounded by the slots of all notifiers.

import type { JobKey, Owner, Token } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import type { Recovered } from '../../../ports/job-store.ts';
import type { Statement } from '../../../runtime/database.ts';
import { storeLimits } from '../../limits.ts';
import { reasonCodes, reserved } from '../file/schema.ts';
import { backInPlace } from './finish.ts';
import { type JobRow, jobColumns, jobRowOf } from './job-rows.ts';
import { stepMax, type TransactionContext } from './transaction-context.ts';

const poison = reasonCodes.indexOf('poison');

export class Recovery {
  readonly #bench: TransactionContext;
  readonly #expired: Statement;
  readonly #ofInstance: Statement;
  readonly #longest: Statement;
  readonly #holdMs: number;
  readonly #monotonic: () => number;
  /** storage time and monotonic time of the last call of expired() */
  #askedAt = Number.NEGATIVE_INFINITY;
  #askedMonotonic = Number.NEGATIVE_INFINITY;
  #heldUntil = Number.NEGATIVE_INFINITY;
  /** ms; the length of the hold that began last */
  #heldMs = 0;

  /** `holdMs` 0: no hold at all. */
  constructor(bench: TransactionContext, holdMs: number, monotonic: () => number) {
    this.#bench = bench;
    this.#holdMs = holdMs;
    this.#monotonic = monotonic;
    this.#longest = bench.db.prepare(
      'SELECT max(lease_until) AS until FROM job WHERE state = 2 AND token <= ?',
    );
    this.#expired = bench.db.prepare(
      `SELECT ${jobColumns} FROM job WHERE state = 2 AND lease_until <= ? ORDER BY lease_until, token LIMIT ?`,
      { returnArrays: true },
    );
    this.#ofInstance = bench.db.prepare(
      `SELECT ${jobColumns}, owner_incarnation FROM job WHERE state = 2 AND owner_instance = ? ORDER BY lease_until, token`,
      { returnArrays: true },
    );
  }

  nothingIsReserved(): boolean {
    return this.#bench.ledger.total(reserved) === 0;
  }

  expired(max: number): Recovered {
    if (this.#isOnHold()) return { returned: 0, poisoned: [], more: false };
    const bound = this.#bound(max);
    const rows = (this.#expired.all(this.#bench.now, bound + 1) as unknown[][]).map(jobRowOf);
    // On a full disk a lease may run out because nobody could write how it ended; that is no fault of the job.
    if (this.#bench.isTight) return this.#giveBack(rows, bound);
    return this.#strike(rows, bound);
  }

  ofOwners(
    instance: number,
    which: { readonly dead: number } | { readonly living: readonly number[] },
    max: number,
  ): Recovered {
    const rows = this.#leasesOf(
      instance,
      'dead' in which ? (incarnation) => incarnation === which.dead : isNoneOf(which.living),
    );
    return this.#strike(rows, this.#bound(max));
  }

  releaseUnheld(owner: Owner, held: readonly Token[]): number {
    const tokens = new Set<number | null>(held);
    const rows = this.#leasesOf(owner.instance, (incarnation) => incarnation === owner.incarnation).filter(
      (row) => !tokens.has(row.token),
    );
    for (const row of rows) backInPlace(this.#bench, row, row.strikes);
    return rows.length;
  }

  /** Whether those who hold leases may not have been heard yet. In memory: after a start nothing else is known either. */
  #isOnHold(): boolean {
    const { now } = this.#bench;
    const at = this.#monotonic();
    const gapMs = now - this.#askedAt;
    if (gapMs > storeLimits.recoverAwayMs) {
      this.#heldMs = Math.max(this.#holdMs, this.#leasesLeftMs(now, gapMs - (at - this.#askedMonotonic)));
      this.#heldUntil = now + this.#heldMs;
    }
    this.#askedAt = now;
    this.#askedMonotonic = at;
    // A clock that was set back makes it no longer.
    this.#heldUntil = Math.min(this.#heldUntil, now + this.#heldMs);
    return now < this.#heldUntil;
  }

  /** How long the leases from before a jump of the clock ahead, or a suspend of this machine, would have lasted without it: their
   *  owners live and go on by the monotonic clock. At most the longest lease that is held; 0 without a jump. */
  #leasesLeftMs(now: number, jumpMs: number): number {
    // NaN at the first call: nothing is known of the time before.
    if (this.#holdMs === 0 || !(jumpMs > storeLimits.recoverAwayMs)) return 0;
    const before = now - jumpMs;
    // Tokens are the clock in µs: later ones were given after the jump and have the right end.
    const { until } = this.#longest.get(before * 1_000) as { until: number | null };
    // A second jump during the hold: what was left of it is left still.
    return Math.max((until ?? 0) - before, this.#heldUntil - before, 0);
  }

  #leasesOf(instance: number, matches: (incarnation: number) => boolean): JobRow[] {
    return (this.#ofInstance.all(instance) as unknown[][])
      .filter((columns) => matches(columns[12] as number))
      .map(jobRowOf);
  }

  #bound(max: number): number {
    return stepMax(this.#bench, Math.min(max, limits.recoverMax));
  }

  #giveBack(rows: readonly JobRow[], max: number): Recovered {
    const returned = rows.slice(0, max);
    for (const row of returned) backInPlace(this.#bench, row, row.strikes);
    return { returned: returned.length, poisoned: [], more: rows.length > returned.length };
  }

  #strike(rows: readonly JobRow[], max: number): Recovered {
    const poisoned: JobKey[] = [];
    const struck = rows.slice(0, max);
    for (const row of struck) {
      const strikes = row.strikes + 1;
      if (strikes < limits.strikesPoison) backInPlace(this.#bench, row, strikes);
      else {
        const attempt = this.#bench.rows.attemptsOf(row.n).at(-1) ?? null;
        const { failures } = row;
        this.#bench.rows.bury(row, { failures, strikes, at: this.#bench.now, reason: poison, attempt });
        poisoned.push({ topic: this.#bench.ledger.topicName(row.topic), id: row.id.toString() });
      }
    }
    return { returned: struck.length - poisoned.length, poisoned, more: rows.length > struck.length };
  }
}

/** Nor younger than all of them. */
function isNoneOf(living: readonly number[]): (incarnation: number) => boolean {
  const known = new Set(living);
  const youngest = living.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...living);
  return (incarnation) => incarnation < youngest && !known.has(incarnation);
}
