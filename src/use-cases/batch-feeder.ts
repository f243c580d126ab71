// BatchFeeder adds the pushes of batches to the push queue in portions, taking the batches in turn. So a
// single push waits behind at most one transaction of them, and batches never use up the store's calls in
// flight.
// Invariant: the pushes of one batch enter the queue in order; each gets exactly one outcome.

import { limits } from '../core/limits.ts';
import type { PushOutcome } from '../ports/job-store.ts';
import { useCaseLimits } from './limits.ts';
import type { PushQueue, PushTicket } from './push-queue.ts';

/** Returns the next push of a batch, or null at the end. Called as late as possible, so the current topic
 *  decides. */
export type NextPush = () => PushTicket | null;

export class BatchFeeder {
  readonly #queue: Pick<PushQueue, 'add'>;
  #batches: NextPush[] = [];
  /** pushes in the queue or in the store */
  #items = 0;
  #bytes = 0;
  #feeding = false;

  constructor(queue: Pick<PushQueue, 'add'>) {
    this.#queue = queue;
  }

  add(next: NextPush): void {
    this.#batches.push(next);
    this.#feed();
  }

  #feed(): void {
    // Settling a push calls #feed again; the outer loop continues.
    if (this.#feeding) return;
    this.#feeding = true;
    try {
      while (this.#items < useCaseLimits.batchFeedItemsMax && this.#bytes < useCaseLimits.batchFeedBytesMax) {
        const next = this.#batches.shift();
        if (next === undefined) return;
        if (this.#feedPortion(next)) this.#batches.push(next);
      }
    } finally {
      this.#feeding = false;
    }
  }

  /** Adds one store call's worth of pushes; false when the batch is at its end. */
  #feedPortion(next: NextPush): boolean {
    let bytes = 0;
    for (let n = 0; n < limits.pushBatchMax && bytes < limits.pushBatchBytesMax; n++) {
      const ticket = next();
      if (ticket === null) return false;
      bytes += ticket.job.body.length;
      this.#enter(ticket);
    }
    return true;
  }

  #enter(ticket: PushTicket): void {
    const { job } = ticket;
    const bytes = job.body.length;
    this.#items += 1;
    this.#bytes += bytes;
    const settle = (outcome: PushOutcome) => {
      this.#items -= 1;
      this.#bytes -= bytes;
      ticket.settle(outcome);
      this.#feed();
    };
    this.#queue.add({ job, settle });
  }
}
