// Decides whether dq may remove old entries by this machine's clock. A clock that jumps ahead would make
// every entry too old at once. After a jump nothing is removed for a hold: sqliteLimits.clockHoldMs, or
// clockFarHoldMs where the jump is longer than the shortest retention.
// A running process sees a jump as a changed distance between wall clock and monotonic clock. At a start,
// a jump is a large distance from the last trusted time in jobs.db (meta, `clock`), which the first
// transaction stores. That time is not renewed during a hold, so a restart begins a new hold. A transaction
// whose time is before it stores its own, because its entries get that time: a restart with this clock needs
// no hold, and one with the right time finds a jump. A long downtime looks like a jump: one hold.
// Jumps up to clockJumpMs are ignored: each removes an entry too early by at most half of the smallest
// dead.retention, and a machine that pauses often would otherwise never remove anything.

import { formatDuration } from '../../../core/duration.ts';
import type { Database, Statement } from '../../../runtime/database.ts';
import { sqliteLimits } from '../limits.ts';

interface ClockWatchOptions {
  /** the storage clock, epoch ms */
  readonly clock: () => number;
  /** ms; never adjusted */
  readonly monotonic: () => number;
  /** sqliteLimits.clockHoldMs; tests pass less; 0: no hold */
  readonly holdMs: number;
  /** ms; the smallest of the configured retentions */
  readonly shortestRetentionMs: number;
}

interface Hold {
  /** monotonic time */
  readonly until: number;
  readonly ms: number;
  /** signed; positive: ahead */
  readonly distanceMs: number;
  /** false: found at start */
  readonly isJump: boolean;
}

export class ClockWatch {
  readonly #options: ClockWatchOptions;
  readonly #putNote: Statement;
  /** wall clock minus monotonic clock, and the monotonic time of that measurement */
  #reference: { readonly offset: number; readonly at: number };
  #hold: Hold | null = null;
  /** the last trusted time in jobs.db, epoch ms; null: no transaction was committed yet */
  #notedAt: number | null;
  /** written by the running transaction */
  #noted: number | null = null;

  constructor(db: Database, options: ClockWatchOptions) {
    this.#options = options;
    this.#putNote = db.prepare(
      "INSERT INTO meta(k, v) VALUES ('clock', ?) ON CONFLICT DO UPDATE SET v = excluded.v",
    );
    const row = db.prepare("SELECT v FROM meta WHERE k = 'clock'").get() as { v: number } | undefined;
    this.#notedAt = row?.v ?? null;
    const [now, at] = [options.clock(), options.monotonic()];
    this.#reference = { offset: now - at, at };
    if (this.#notedAt !== null) this.#holdAfter(now - this.#notedAt, at, false);
  }

  /** At the begin of each transaction: a jump that is undone before the next removal, or while no process
   *  runs, counts, because entries were written meanwhile. A full disk has space for the note wherever it has
   *  space for an entry: it changes a row of a page that most transactions write. */
  watch(now: number): void {
    this.#look();
    this.#noted = null;
    if (this.#notedAt === null || now < this.#notedAt) this.#note(now);
  }

  /** The transaction is committed. */
  keep(): void {
    if (this.#noted !== null) this.#notedAt = this.#noted;
  }

  /** Why nothing is removed now; null: old entries may be removed. */
  get hold(): string | null {
    const hold = this.#look();
    if (hold === null) return null;
    const by = coarse(Math.abs(hold.distanceMs));
    const isAhead = hold.distanceMs > 0;
    const what = hold.isJump
      ? `jumped ${isAhead ? 'ahead' : 'back'} by ${by}`
      : `is ${by} ${isAhead ? 'after' : 'before'} the last time in jobs.db`;
    return `the clock of this machine ${what}; nothing expires until it has stood for ${formatDuration(hold.ms)}`;
  }

  /** The hold, unless a downtime shorter than every retention explains it. */
  get warning(): string | null {
    const hold = this.#look();
    return hold !== null && (hold.isJump || this.#isFar(hold.distanceMs)) ? this.hold : null;
  }

  /** Whether a transaction may remove old entries. `mayNote`: the disk has space to store the trusted
   *  time. */
  mayRemove(now: number, mayNote: boolean): boolean {
    if (this.#look() !== null) return false;
    if (mayNote && now - (this.#notedAt ?? 0) >= sqliteLimits.clockNoteMs) this.#note(now);
    return true;
  }

  #note(now: number): void {
    this.#putNote.run(now);
    this.#noted = now;
  }

  #look(): Hold | null {
    const { clock, monotonic } = this.#options;
    const at = monotonic();
    const offset = clock() - at;
    const isJump = this.#holdAfter(offset - this.#reference.offset, at, true);
    // Renewed regularly: a clock that is slewed to the right time does not jump.
    if (isJump || at - this.#reference.at >= sqliteLimits.clockNoteMs) this.#reference = { offset, at };
    if (this.#hold !== null && at >= this.#hold.until) this.#hold = null;
    return this.#hold;
  }

  #isFar(distanceMs: number): boolean {
    return Math.abs(distanceMs) > this.#options.shortestRetentionMs;
  }

  /** Begins a hold where the distance is a jump and returns whether it did. A running hold never gets
   *  shorter. */
  #holdAfter(distanceMs: number, at: number, isJump: boolean): boolean {
    if (Math.abs(distanceMs) <= sqliteLimits.clockJumpMs) return false;
    const { holdMs } = this.#options;
    const isLong = holdMs > 0 && this.#isFar(distanceMs);
    const ms = isLong ? Math.max(holdMs, sqliteLimits.clockFarHoldMs) : holdMs;
    const until = Math.max(at + ms, this.#hold?.until ?? at);
    // The monotonic clock has fractions of a ms.
    this.#hold = { until, ms: Math.round((until - at) / 1_000) * 1_000, distanceMs, isJump };
    return true;
  }
}

/** In whole days, hours or minutes: 400d, not 34560012s. */
function coarse(ms: number): string {
  const unit = [86_400_000, 3_600_000].find((one) => ms >= 2 * one) ?? 60_000;
  return formatDuration(Math.round(ms / unit) * unit);
}
