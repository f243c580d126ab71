// SecondTicker is the beat of a process: all its work without an exact time runs in one wake-up a second,
// because most of the processes are idle most of the time. All processes beat at the same moment, so that the
// calls and reports of a second reach dq-store and the master in one wake-up, too: in turns they cost half
// as much again (1.13 to 1.46 % of a core while idle).
// Invariant: at most one timer. It runs while something waits for the beat, and keeps the process alive only
// for `once`.

import { limits } from '../core/limits.ts';
import { clearTimeout, monotonicNow, processLocal, setTimeout, type Timer, timeOrigin } from './time.ts';

/** After each full second. Many jobs are due at a full second, and do not meet the work of the beat. So
 *  are the instants of schedules, which this beat finds, not the next one. */
const beatAtMs = 100;

/** ms; Node rounds the clock and the wait of a timer down, so it runs up to 2 ms early. */
const earlyMsMax = 5;

export class SecondTicker {
  readonly #beats = new Set<() => void>();
  readonly #waiting = new Set<() => void>();
  #timer: Timer | null = null;
  /** monotonicNow() of the next beat */
  #nextAt = 0;

  /** Calls `beat` once a second from now on, until the returned function is called; it must not throw. */
  each(beat: () => void): () => void {
    this.#beats.add(beat);
    this.#arm();
    return () => {
      this.#beats.delete(beat);
      this.#disarm();
    };
  }

  /** ms until the next beat, at most limits.tickMs. */
  get leftMs(): number {
    return Math.min(this.#next() - monotonicNow(), limits.tickMs);
  }

  /** monotonicNow() of the next beat: beatAtMs after the next full second of this machine's clock, as it
   *  was when the process started. A step of the clock only sets processes apart. */
  #next(): number {
    const now = monotonicNow();
    const leftMs = this.#nextAt - now;
    // After a beat whose timer was early, the second of that beat is over.
    if (leftMs > 0 && leftMs <= limits.tickMs + earlyMsMax) return this.#nextAt;
    return now + limits.tickMs - ((timeOrigin() + now - beatAtMs) % limits.tickMs);
  }

  /** Calls `beat` at the next beat, unless the returned function is called before. */
  once(beat: () => void): () => void {
    this.#waiting.add(beat);
    this.#arm();
    this.#timer?.ref();
    return () => {
      this.#waiting.delete(beat);
      this.#disarm();
    };
  }

  #arm(): void {
    if (this.#timer !== null) return;
    this.#nextAt = this.#next();
    this.#timer = setTimeout(() => this.#beat(), this.#nextAt - monotonicNow()).unref();
  }

  #disarm(): void {
    if (this.#waiting.size > 0) return;
    this.#timer?.unref();
    if (this.#beats.size > 0 || this.#timer === null) return;
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  #beat(): void {
    this.#timer = null;
    this.#nextAt += limits.tickMs;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const beat of waiting) beat();
    for (const beat of this.#beats) beat();
    if (this.#beats.size > 0) this.#arm();
  }
}

/** of this process */
export const ticker = processLocal(() => new SecondTicker());
