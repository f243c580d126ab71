// LoopWatch finds out how long the event loop has not read its sockets, for example while it parsed a large
// body. Bytes that it reads now can have waited in the kernel since then.

import { clearInterval, monotonicNow, setImmediate, setInterval, type Timer } from '../../runtime/time.ts';

/** With the half more that a tick may be late, a wait that stays unnoticed ends 25 ms before the client's
 *  patience. */
const tickMs = 50;
const stallMs = 75;

export class LoopWatch {
  #tickAt = monotonicNow();
  /** of a stall that ended in this turn of the loop: its sockets are read next */
  #stalledAt: number | null = null;
  #timer: Timer | undefined;

  begin(): void {
    this.#tickAt = monotonicNow();
    this.#timer ??= setInterval(() => this.#tick(), tickMs).unref();
  }

  end(): void {
    clearInterval(this.#timer);
  }

  /** monotonicNow() of the earliest arrival of bytes that are read now. */
  unreadSince(): number {
    const now = monotonicNow();
    return this.#stalledAt ?? (now - this.#tickAt > stallMs ? this.#tickAt : now);
  }

  #tick(): void {
    const now = monotonicNow();
    if (now - this.#tickAt > stallMs) {
      this.#stalledAt = this.#tickAt;
      // Runs after the sockets.
      setImmediate(() => {
        this.#stalledAt = null;
      });
    }
    this.#tickAt = now;
  }
}
