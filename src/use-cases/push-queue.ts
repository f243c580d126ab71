// Coalesces pushes: what arrives in one turn of the event loop, or while the store is busy with the call before, goes to it
// as one call, in order of arrival, at most limits.pushBatchMax jobs and limits.pushBatchBytesMax bytes. Keeps no job beyond
// its call and tells every ticket exactly one outcome. One call per request instead costs a third of the throughput
// (architecture.md, decision 13); a call per turn, however busy the store, made small calls of which each woke it.

import { limits } from '../core/limits.ts';
import type { JobStore, PushJob, PushOutcome } from '../ports/job-store.ts';
import { useCaseLimits } from './limits.ts';

/** A push that waits for its outcome. An object with a method, not a promise: thousands of them are settled per second. */
export interface PushTicket {
  readonly job: PushJob;
  settle(outcome: PushOutcome): void;
}

export class PushQueue {
  readonly #store: Pick<JobStore, 'push'>;
  readonly #onFailure: (error: unknown) => void;
  #waiting: PushTicket[] = [];
  #bytes = 0;
  /** calls that have no answer yet */
  #underWay = 0;
  #patience: NodeJS.Timeout | undefined;

  /** `onFailure` is told of a store that breaks its contract by rejecting; its pushes are `unknown` then. */
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

  /** A store that has a call of ours in hand would not begin with this one; the answer to that one sends it. It does not
   *  wait for a store that hangs, or it would be told too late that it is not stored. */
  #flushLater(): void {
    if (this.#underWay === 0) setImmediate(this.#flush);
    else this.#patience = setTimeout(this.#flush, useCaseLimits.pushGatherMs);
  }

  /** Also runs for nothing, when a full batch went before its turn ended. */
  readonly #flush = (): void => {
    clearTimeout(this.#patience);
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
    this.#underWay += 1;
    try {
      outcomes = await this.#store.push(tickets.map(jobOf), (n, outcome) => {
        early.add(n);
        tickets[n]?.settle(outcome);
      });
    } catch (error) {
      this.#onFailure(error);
      outcomes = [];
    }
    this.#underWay -= 1;
    // Before the answers are written: the store works meanwhile.
    if (this.#underWay === 0) this.#flush();
    for (let n = 0; n < tickets.length; n++) if (!early.has(n)) tickets[n]?.settle(outcomes[n] ?? noAnswer);
  }
}

const noAnswer: PushOutcome = { kind: 'unknown', code: 'no_answer' };

function jobOf(ticket: PushTicket): PushJob {
  return ticket.job;
}
