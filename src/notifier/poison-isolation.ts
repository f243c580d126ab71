// Decides when a job that may be killing its notifiers is called alone: from limits.strikesIsolated strikes
// on, while this notifier holds nothing else, so that the job can only kill itself. Calls and releases
// nothing.
//
// Course: a reserved candidate is kept, and the rest of its batch is released. Nothing is reserved until
// the running calls have ended (bounded by the topics' timeouts) and are settled (bounded by the leases).
// Then the candidate is called. The next candidate follows at once in the same isolation: a crash gives a
// strike to everything that its notifier held, and one isolation for each of those jobs would cost the end
// of all other calls each time.
//
// Why an isolation ends:
// - The lease of a waiting candidate grows short: it is released, and the next reserve brings it back with
//   a new lease.
// - Others wait, and candidates were called for notifierLimits.isolationMs, or for as long as the isolation
//   took to begin: then comes a pause as long as the isolation. In it the topics of the candidates are
//   skipped and the others flow. So hanging candidates cost the others at most half of the time, and the
//   calls of the others cost the candidates at most three quarters of it.
// - No wait here is for another notifier, and each one ends by a timeout or a lease, so nothing waits for
//   ever.

import { limits } from '../core/limits.ts';
import { notifierLimits } from './limits.ts';
import type { Held } from './settler.ts';

export class PoisonIsolation {
  #candidate: Held | null = null;
  #isCalled = false;
  #isActive = false;
  #activeFrom = 0;
  /** when the first candidate of this isolation was called */
  #calledFrom: number | null = null;
  /** jobs of other kinds were released in this isolation */
  #othersWait = false;
  /** topics of the candidates of this isolation, then of the pause after it */
  readonly #topics = new Set<string>();
  #pauseUntil = 0;

  /** Whether this job is called alone. */
  static concerns(held: Held): boolean {
    return held.job.strikes >= limits.strikesIsolated;
  }

  /** Reserved and not called yet. */
  get waiting(): Held | null {
    return this.#isCalled ? null : this.#candidate;
  }

  /** Chosen and not settled: other jobs that come are released. */
  get hasCandidate(): boolean {
    return this.#candidate !== null;
  }

  /** Nothing is reserved before everything is settled. */
  get isActive(): boolean {
    return this.#isActive;
  }

  /** Topics whose jobs stay in the store for now. */
  skipped(nowMs: number): ReadonlySet<string> {
    if (this.#isActive) return noTopics;
    if (nowMs >= this.#pauseUntil) this.#topics.clear();
    return this.#topics;
  }

  /** ms until the skipped topics may be asked for again; 0 = no topic is skipped. */
  pauseMs(nowMs: number): number {
    return this.#isActive || this.#topics.size === 0 ? 0 : Math.max(0, this.#pauseUntil - nowMs);
  }

  /** Chooses one of a batch's candidates. null: there is none, another one is chosen already, or a pause
   *  runs; in a pause the topics of the candidates are skipped, too. The caller releases the other
   *  candidates, and where one is chosen the whole rest of the batch. `others`: the batch has such a rest. */
  choose(candidates: readonly Held[], others: boolean, nowMs: number): Held | null {
    this.#othersWait ||= this.#isActive && others;
    if (this.#candidate !== null) return null;
    const [first] = candidates;
    if (first === undefined) {
      // In an isolation: another notifier has the candidate.
      if (this.#isActive) this.#end(nowMs);
      return null;
    }
    if (this.#isOver(nowMs)) this.#end(nowMs);
    if (!this.#isActive && nowMs < this.#pauseUntil) {
      for (const { job } of candidates) this.#topics.add(job.topic);
      return null;
    }
    if (!this.#isActive) {
      this.#isActive = true;
      this.#activeFrom = nowMs;
      this.#calledFrom = null;
      this.#othersWait = others;
      this.#topics.clear();
    }
    this.#candidate = first;
    this.#isCalled = false;
    return first;
  }

  called(nowMs: number): void {
    this.#isCalled = true;
    this.#calledFrom ??= nowMs;
  }

  /** The candidate was released without a call. The isolation continues, and the next reserve brings the job
   *  again. */
  released(): void {
    this.#candidate = null;
  }

  /** This notifier holds no job any more. */
  settled(nowMs: number): void {
    if (this.#candidate === null || !this.#isCalled) return;
    this.#topics.add(this.#candidate.job.topic);
    this.#candidate = null;
    this.#isCalled = false;
    if (this.#isOver(nowMs)) this.#end(nowMs);
  }

  #isOver(nowMs: number): boolean {
    if (!this.#isActive || !this.#othersWait || this.#calledFrom === null) return false;
    const untilFirstCallMs = this.#calledFrom - this.#activeFrom;
    return nowMs - this.#calledFrom >= Math.max(notifierLimits.isolationMs, untilFirstCallMs);
  }

  #end(nowMs: number): void {
    this.#isActive = false;
    if (this.#othersWait) this.#pauseUntil = nowMs + (nowMs - this.#activeFrom);
    else this.#topics.clear();
  }
}

const noTopics: ReadonlySet<string> = new Set();
