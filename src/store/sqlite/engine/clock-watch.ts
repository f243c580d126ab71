// Decides whether the clock of this machine may be used to remove what is too old: a clock that jumps ahead would make everything
// too old at once. After a jump nothing is removed until the clock has stood for a hold: sqliteLimits.clockHoldMs, or
// sqliteLimits.clockFarHoldMs where the jump is longer than the shortest retention and so makes every entry too old.
// Jumps up to sqliteLimits.clockJumpMs are ignored: each makes an entry go early by half of the smallest dead.retention at most, and a
// machine that pauses often would otherwise never remove anything.
// While the process lives, a jump is a change of the distance between the wall clock and the monotonic clock. Across a restart it
// is a large distance from the last time that was trusted, which is kept in jobs.db (meta, `clock`) and is not renewed during a
// hold: a restart during a hold begins another hold. A long downtime looks like a jump and costs one hold.

import { formatDuration } from '../../../core/duration.ts';
import type { Database, Statement } from '../../../runtime/database.ts';
import { sqliteLimits } from '../limits.ts';

export interface ClockWatchOptions {
  /** the storage clock, epoch ms */
  readonly clock: () => number;
  /** ms; never set */
  readonly monotonic: () => number;
  /** sqliteLimits.clockHoldMs, unless a test has less time; 0: no hold at all */
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
  /** false: found at the start */
  readonly isJump: boolean;
}

export class ClockWatch {
  readonly #options: ClockWatchOptions;
  readonly #putNote: Statement;
  /** wall clock minus monotonic clock, and the monotonic time of that reading */
  #reference: { readonly offset: number; readonly at: number };
  #hold: Hold | null = null;
  /** the last trusted time that was written, epoch ms; null: none */
  #notedAt: number | null;

  constructor(db: Database, options: ClockWatchOptions) {
    this.#options = options;
    this.#putNote = db.prepare(
      "INSERT INTO meta(k, v) VALUES ('clock', ?) ON CONFLICT DO UPDATE SET v = excluded.v",
    );
    const read = (k: string) =>
      db.prepare('SELECT v FROM meta WHERE k = ?').get(k) as { v: number } | undefined;
    this.#notedAt = read('clock')?.v ?? null;
    const [now, at] = [options.clock(), options.monotonic()];
    this.#reference = { offset: now - at, at };
    // Without a note (an earlier version wrote none): the last version or token, which is the clock in µs.
    const last = this.#notedAt ?? (read('seq')?.v ?? 0) / 1_000;
    // A store that never stored a job has nothing to lose.
    if (last !== 0) this.#holdAfter(now - last, at, false);
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

  /** The hold, except after a start that a downtime shorter than every retention explains. */
  get warning(): string | null {
    const hold = this.#look();
    return hold !== null && (hold.isJump || this.#isFar(hold.distanceMs)) ? this.hold : null;
  }

  /** Inside a transaction that may remove old entries: whether it may. `mayNote`: the disk has space for the note. */
  mayRemove(now: number, mayNote: boolean): boolean {
    if (this.#look() !== null) return false;
    if (mayNote && (this.#notedAt === null || Math.abs(now - this.#notedAt) >= sqliteLimits.clockNoteMs)) {
      this.#putNote.run(now);
      this.#notedAt = now;
    }
    return true;
  }

  #look(): Hold | null {
    const { clock, monotonic } = this.#options;
    const at = monotonic();
    const offset = clock() - at;
    const isJump = this.#holdAfter(offset - this.#reference.offset, at, true);
    // Renewed from time to time: a clock that is slowed or sped up to the right time does not jump.
    if (isJump || at - this.#reference.at >= sqliteLimits.clockNoteMs) this.#reference = { offset, at };
    if (this.#hold !== null && at >= this.#hold.until) this.#hold = null;
    return this.#hold;
  }

  #isFar(distanceMs: number): boolean {
    return Math.abs(distanceMs) > this.#options.shortestRetentionMs;
  }

  /** Begins a hold where the distance is a jump, and answers that. A hold that runs does not end earlier. */
  #holdAfter(distanceMs: number, at: number, isJump: boolean): boolean {
    if (Math.abs(distanceMs) <= sqliteLimits.clockJumpMs) return false;
    const { holdMs } = this.#options;
    const isLong = holdMs > 0 && this.#isFar(distanceMs);
    const ms = isLong ? Math.max(holdMs, sqliteLimits.clockFarHoldMs) : holdMs;
    const until = Math.max(at + ms, this.#hold?.until ?? at);
    // The monotonic clock has fractions.
    this.#hold = { until, ms: Math.round((until - at) / 1_000) * 1_000, distanceMs, isJump };
    return true;
  }
}

/** In whole days, hours or minutes: 400d, not 34560012s. */
function coarse(ms: number): string {
  const unit = [86_400_000, 3_600_000].find((one) => ms >= 2 * one) ?? 60_000;
  return formatDuration(Math.round(ms / unit) * unit);
}
