// PushQueue coalesces pushes: those that arrive in one turn of the event loop, or while the previous store
// call runs, go in one call, in order of arrival, at most limits.pushBatchMax jobs and
// limits.pushBatchBytesMax bytes.
// Invariant: every ticket gets exactly one outcome, and the queue keeps no job after its call.
// Rejected: one call per request (a third less throughput); one call per turn (many small calls, and each
// wakes the store).

import { limits } from '../core/limits.ts';
import type { JobStore, PushJob, PushOutcome } from '../ports/job-store.ts';
import { clearTimeout, setImmediate, setTimeout, type Timer } from '../runtime/time.ts';
import { useCaseLimits } from './limits.ts';

/** A push that waits for its outcome. An object with a method, not a promise: dq settles thousands per
 *  second. */
export interface PushTicket {
  readonly job: PushJob;
  settle(outcome: PushOutcome): void;
}

export class PushQueue {
  readonly #store: Pick<JobStore, 'push'>;
  readonly #onFailure: (error: unknown) => void;
  #waiting: PushTicket[] = [];
  #bytes = 0;
  /** store calls without an answer yet */
  #inFlight = 0;
  #timer: Timer | undefined;

  /** `onFailure`: called when the store breaks its contract by rejecting; the outcome of those pushes is
   *  `unknown`. */
  constructor(store: Pick<JobStore, 'push'>, onFailure: (error: unknown) => void) {
    this.#store = store;
    this.#onFailure = onFailure;
  }

  add(ticket: PushTicket): void {
    const bytes = ticket.job.body.length;
    const full =
      this.#waiting.length >= limits.pushBatchMax ||
      (this.#waiting.length > 0 && this.#bytes + bytes > limits.pushBatchBytesMax);
    if (full) this.#flush();
    if (this.#waiting.length === 0) this.#flushLater();
    this.#waiting.push(ticket);
    this.#bytes += bytes;
  }

  /** The store starts no call of this queue before it has answered the previous one, so that answer sends
   *  the next call. A timer sends it too: with a store that hangs, the caller must learn early that the
   *  job is not stored. */
  #flushLater(): void {
    if (this.#inFlight === 0) setImmediate(this.#flush);
    else this.#timer = setTimeout(this.#flush, useCaseLimits.pushGatherMs);
  }

  /** Has no effect when a full batch went earlier. */
  readonly #flush = (): void => {
    clearTimeout(this.#timer);
    if (this.#waiting.length === 0) return;
    const tickets = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    void this.#send(tickets);
  };

  /** Never rejects. */
  async #send(tickets: readonly PushTicket[]): Promise<void> {
    let outcomes: readonly PushOutcome[];
    const early = new Set<number>();
    this.#inFlight += 1;
    try {
      outcomes = await this.#store.push(tickets.map(jobOf), (n, outcome) => {
        early.add(n);
        tickets[n]?.settle(outcome);
      });
    } catch (error) {
      this.#onFailure(error);
      outcomes = [];
    }
    this.#inFlight -= 1;
    // Before the answers: the store works while dq writes them.
    if (this.#inFlight === 0) this.#flush();
    for (let n = 0; n < tickets.length; n++) if (!early.has(n)) tickets[n]?.settle(outcomes[n] ?? noAnswer);
  }
}

const noAnswer: PushOutcome = { kind: 'unknown', code: 'no_answer' };

function jobOf(ticket: PushTicket): PushJob {
  return ticket.job;
}
