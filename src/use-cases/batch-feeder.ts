// Lets the pushes of batches into the queue a portion at a time, batch after batch in turn, so that a push of its own waits behind
// one transaction's worth of them, whatever is being sent, and the store's room for calls is never theirs alone.
// Invariant: the pushes of one batch enter the queue in their order; each that entered leaves with one outcome.

import { limits } from '../core/limits.ts';
import type { PushOutcome } from '../ports/job-store.ts';
import { useCaseLimits } from './limits.ts';
import type { PushQueue, PushTicket } from './push-queue.ts';

/** The next push of a batch, made as late as this so that it is judged by what its topic is then; null = there are no more. */
export type NextPush = () => PushTicket | null;

export class BatchFeeder {
  readonly #queue: Pick<PushQueue, 'add'>;
  #batches: NextPush[] = [];
  /** in the queue or with the store */
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
    // A portion may settle a push of its own; whoever feeds goes on anyway.
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

  /** As much as travels in one call; answers whether there may be more. */
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
