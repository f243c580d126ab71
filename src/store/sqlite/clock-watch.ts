// Decides whether the clock of this machine may be used to remove what is too old: a clock that jumps ahead would make everything
// too old at once. After a jump nothing is removed until the clock has stood for limits.clockHoldMs.
// While the process lives, a jump is a change of the distance between the wall clock and the monotonic clock. Across a restart it
// is a large distance from the last time that was trusted, which is kept in jobs.db (meta, `clock`) and is not renewed during a
// hold: a restart during a hold begins another hold. A long downtime looks like a jump and costs one hold.

import { formatDuration } from '../../core/duration.ts';
import { limits } from '../../core/limits.ts';
import type { Database, Statement } from '../../sql/database.ts';

export interface ClockWatchOptions {
  /** the storage clock, epoch ms */
  readonly clock: () => number;
  /** ms; never set */
  readonly monotonic: () => number;
  /** limits.clockHoldMs, unless a test has less time; 0: no hold at all */
  readonly holdMs: number;
}

export class ClockWatch {
  readonly #options: ClockWatchOptions;
  readonly #putNote: Statement;
  /** wall clock minus monotonic clock, and the monotonic time of that reading */
  #reference: { readonly offset: number; readonly at: number };
  /** monotonic time; the clock has stood since then */
  #heldFrom = Number.NEGATIVE_INFINITY;
  /** of the hold that began last; null: it began at the start */
  #jumpMs: number | null = null;
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
    if (last !== 0 && Math.abs(now - last) > limits.clockGapMs) this.#heldFrom = at;
  }

  /** Why nothing is removed now; null: old entries may be removed. */
  get hold(): string | null {
    this.#look();
    if (!this.#isHeld()) return null;
    const until = `nothing expires until it has stood for ${formatDuration(this.#options.holdMs)}`;
    if (this.#jumpMs === null)
      return `the clock of this machine is far from the last time in jobs.db; ${until}`;
    const by = formatDuration(Math.round(Math.abs(this.#jumpMs) / 1_000) * 1_000);
    return `the clock of this machine jumped ${this.#jumpMs > 0 ? 'ahead' : 'back'} by ${by}; ${until}`;
  }

  /** The hold, where a jump was seen by this process. */
  get warning(): string | null {
    const hold = this.hold;
    return this.#jumpMs === null ? null : hold;
  }

  /** Inside a transaction that may remove old entries: whether it may. `mayNote`: the disk has space for the note. */
  mayRemove(now: number, mayNote: boolean): boolean {
    if (this.hold !== null) return false;
    if (mayNote && (this.#notedAt === null || Math.abs(now - this.#notedAt) >= limits.clockNoteMs)) {
      this.#putNote.run(now);
      this.#notedAt = now;
    }
    return true;
  }

  #isHeld(): boolean {
    return this.#options.monotonic() - this.#heldFrom < this.#options.holdMs;
  }

  #look(): void {
    const { clock, monotonic } = this.#options;
    const at = monotonic();
    const offset = clock() - at;
    const jumpMs = offset - this.#reference.offset;
    if (Math.abs(jumpMs) > limits.clockJumpMs) {
      this.#jumpMs = jumpMs;
      this.#heldFrom = at;
    } else if (at - this.#reference.at < limits.clockNoteMs) return;
    // Renewed from time to time: a clock that is slowed or sped up to the right time does not jump.
    this.#reference = { offset, at };
  }
}
