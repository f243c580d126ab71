// The rule for jobs that may be killing their notifiers: from limits.strikesAlone strikes on, a job is called when nothing else
// is held here, and nothing else is taken until it is settled, so it can only kill itself.
//
// How it goes: a reserved suspect is kept and the rest of its batch released; nothing is reserved until what runs has ended
// (bounded by the topics' timeouts) and is settled (bounded by the leases); then the suspect is called. Why it ends:
//  * its lease grows short while it waits → it is released, and the next reserve, in silence, brings it back fresh;
//  * many suspects (a crash marks everything its notifier held) → after each one comes a recess as long as the others were
//    kept waiting; meanwhile its topic is skipped and the others flow, so a hanging suspect costs them at most half the time;
//  * no wait here is for another notifier, and every one of them ends by a timeout or a lease: nothing can wait for ever.

import { limits } from '../core/limits.ts';
import type { Held } from './settler.ts';

export class Alone {
  #suspect: Held | null = null;
  #called = false;
  /** reserve nothing before everything is settled */
  #quiet = false;
  #quietFrom = 0;
  #recessUntil = 0;
  readonly #resting = new Set<string>();

  static concerns(held: Held): boolean {
    return held.job.strikes >= limits.strikesAlone;
  }

  /** Reserved and not called yet. */
  get waiting(): Held | null {
    return this.#called ? null : this.#suspect;
  }

  get quiet(): boolean {
    return this.#quiet;
  }

  /** Topics whose jobs are left in the store for now. */
  skipped(nowMs: number): ReadonlySet<string> {
    if (nowMs >= this.#recessUntil) this.#resting.clear();
    return this.#resting;
  }

  /** Until the topics in recess may be asked for again; 0 = none rests. */
  recessMs(nowMs: number): number {
    return this.#resting.size === 0 ? 0 : Math.max(0, this.#recessUntil - nowMs);
  }

  /** Takes one of a batch's suspects, or none during a recess: then their topics rest, too. The caller releases the others,
   *  and where one was taken the whole rest of the batch. */
  choose(suspects: readonly Held[], nowMs: number): Held | null {
    if (nowMs < this.#recessUntil) {
      for (const { job } of suspects) this.#resting.add(job.topic);
      return null;
    }
    const [first] = suspects;
    if (first === undefined) return null;
    this.#suspect = first;
    this.#called = false;
    if (!this.#quiet) this.#quietFrom = nowMs;
    this.#quiet = true;
    return first;
  }

  called(): void {
    this.#called = true;
  }

  /** Handed back uncalled; silence goes on until everything else is settled, and the next reserve brings it again. */
  released(): void {
    this.#suspect = null;
  }

  /** A reserve in silence found no suspect: another notifier has it. */
  foundNone(): void {
    this.#quiet = false;
  }

  /** Nothing is held any more. */
  settled(nowMs: number): void {
    if (this.#suspect === null || !this.#called) return;
    this.#resting.add(this.#suspect.job.topic);
    this.#recessUntil = nowMs + (nowMs - this.#quietFrom);
    this.#suspect = null;
    this.#called = false;
    this.#quiet = false;
  }
}
