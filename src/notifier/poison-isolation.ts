// The rule for jobs that may be killing their notifiers: from limits.strikesAlone strikes on, a job is called when nothing else
// is held here, and nothing else is taken until it is settled, so it can only kill itself.
//
// How it goes: a reserved suspect is kept and the rest of its batch released; nothing is reserved until what runs has ended
// (bounded by the topics' timeouts) and is settled (bounded by the leases); then the suspect is called. In this silence the
// next one follows at once: a crash marks everything its notifier held, and a silence for each of those would cost the end of
// all other calls each time. Why it ends:
//  * its lease grows short while it waits → it is released, and the next reserve, in silence, brings it back fresh;
//  * others were seen to wait, and suspects have been called for notifierLimits.silenceMs, or for as long as it took to become silent
//    → a recess as long as the silence was: the suspects' topics are skipped and the others flow. So hanging suspects cost
//    the others at most half of the time, and the others' calls, however long, cost the suspects three quarters of it;
//  * no wait here is for another notifier, and every one of them ends by a timeout or a lease: nothing can wait for ever.

import { limits } from '../core/limits.ts';
import { notifierLimits } from './limits.ts';
import type { Held } from './settler.ts';

export class PoisonIsolation {
  #suspect: Held | null = null;
  #called = false;
  /** reserve nothing before everything is settled */
  #quiet = false;
  #quietFrom = 0;
  /** when the first suspect of this silence was called */
  #calledFrom: number | null = null;
  /** jobs that are no suspects were handed back in this silence */
  #othersWait = false;
  /** topics of the suspects of this silence, then of the recess after it */
  readonly #resting = new Set<string>();
  #recessUntil = 0;

  static concerns(held: Held): boolean {
    return held.job.strikes >= limits.strikesAlone;
  }

  /** Reserved and not called yet. */
  get waiting(): Held | null {
    return this.#called ? null : this.#suspect;
  }

  /** Chosen and not settled: whatever else comes is handed back. */
  get isTaken(): boolean {
    return this.#suspect !== null;
  }

  get quiet(): boolean {
    return this.#quiet;
  }

  /** Topics whose jobs are left in the store for now. */
  skipped(nowMs: number): ReadonlySet<string> {
    if (this.#quiet) return none;
    if (nowMs >= this.#recessUntil) this.#resting.clear();
    return this.#resting;
  }

  /** Until the topics in recess may be asked for again; 0 = none rests. */
  recessMs(nowMs: number): number {
    return this.#quiet || this.#resting.size === 0 ? 0 : Math.max(0, this.#recessUntil - nowMs);
  }

  /** Takes one of a batch's suspects, or none: where one is taken, in a recess, and when one begins. Then their topics rest, too. The caller
   *  releases the other suspects, and where one was taken the whole rest of the batch. `others`: there is such a rest. */
  choose(suspects: readonly Held[], others: boolean, nowMs: number): Held | null {
    this.#othersWait ||= this.#quiet && others;
    if (this.#suspect !== null) return null;
    const [first] = suspects;
    if (first === undefined) {
      // In silence: another notifier has it.
      if (this.#quiet) this.#endSilence(nowMs);
      return null;
    }
    if (this.#isOver(nowMs)) this.#endSilence(nowMs);
    if (!this.#quiet && nowMs < this.#recessUntil) {
      for (const { job } of suspects) this.#resting.add(job.topic);
      return null;
    }
    if (!this.#quiet) {
      this.#quiet = true;
      this.#quietFrom = nowMs;
      this.#calledFrom = null;
      this.#othersWait = others;
      this.#resting.clear();
    }
    this.#suspect = first;
    this.#called = false;
    return first;
  }

  called(nowMs: number): void {
    this.#called = true;
    this.#calledFrom ??= nowMs;
  }

  /** Handed back uncalled; silence goes on until everything else is settled, and the next reserve brings it again. */
  released(): void {
    this.#suspect = null;
  }

  /** Nothing is held any more. */
  settled(nowMs: number): void {
    if (this.#suspect === null || !this.#called) return;
    this.#resting.add(this.#suspect.job.topic);
    this.#suspect = null;
    this.#called = false;
    if (this.#isOver(nowMs)) this.#endSilence(nowMs);
  }

  #isOver(nowMs: number): boolean {
    if (!this.#quiet || !this.#othersWait || this.#calledFrom === null) return false;
    const untilQuietMs = this.#calledFrom - this.#quietFrom;
    return nowMs - this.#calledFrom >= Math.max(notifierLimits.silenceMs, untilQuietMs);
  }

  #endSilence(nowMs: number): void {
    this.#quiet = false;
    if (this.#othersWait) this.#recessUntil = nowMs + (nowMs - this.#quietFrom);
    else this.#resting.clear();
  }
}

const none: ReadonlySet<string> = new Set();
