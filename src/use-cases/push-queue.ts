// PushQueue coalesces pushes: those that arrive in one turn of the event loop, or while the previous store
// call runs, go in one call, in order of arrival, at most limits.pushBatchMax jobs and
// limits.pushBatchBytesMax bytes. A connection enters a share at once. What it sends beyond that waits in a
// line of its own, and lines and batches take turns in portions. So a push of another connection waits behind
// at most one transaction of them, and they never use up the store's calls in flight.
// Invariants: every ticket gets exactly one outcome, and the queue keeps no job after its call. The pushes of
// one connection, and those of one batch, enter in order.
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

/** Returns the next push of a batch, or null at the end. Called as late as possible, so the current topic
 *  decides. */
type NextPush = () => PushTicket | null;

export class PushQueue {
  readonly #store: Pick<JobStore, 'push'>;
  readonly #onFailure: (error: unknown) => void;
  readonly #feeder = new Feeder((ticket) => this.add(ticket));
  readonly #producers = new WeakMap<object, Producer>();
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

  /** A push of a client whose protocol does not bound how many are open. */
  addInTurn(connection: object, ticket: PushTicket): void {
    let producer = this.#producers.get(connection);
    if (producer === undefined) {
      producer = new Producer();
      this.#producers.set(connection, producer);
    }
    if (producer.hasShare) this.add(producer.entering(ticket));
    else if (!producer.wait(ticket)) ticket.settle(lineFull);
    else if (!producer.isFed) {
      producer.isFed = true;
      this.#feeder.add(producer.next);
    }
  }

  addBatch(next: NextPush): void {
    this.#feeder.add(next);
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
const lineFull: PushOutcome = { kind: 'not_stored', code: 'line_full' };

function jobOf(ticket: PushTicket): PushJob {
  return ticket.job;
}

/** Takes batches and lines in turn, a portion of each. */
class Feeder {
  readonly #enqueue: (ticket: PushTicket) => void;
  #batches: NextPush[] = [];
  /** pushes in the queue or in the store */
  #items = 0;
  #bytes = 0;
  #feeding = false;

  constructor(enqueue: (ticket: PushTicket) => void) {
    this.#enqueue = enqueue;
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
    this.#enqueue({ job, settle });
  }
}

/** One connection: its share, and its line. */
class Producer {
  /** the feeder takes from the line */
  isFed = false;
  /** pushes beside the line that have no outcome, and the bytes of their bodies */
  #open = 0;
  #openBytes = 0;
  #line: PushTicket[] = [];
  #lineAt = 0;
  #lineBytes = 0;

  get hasShare(): boolean {
    return !this.isFed && this.#open < limits.pushBatchMax && this.#openBytes < limits.pushBatchBytesMax;
  }

  entering(ticket: PushTicket): PushTicket {
    this.#open += 1;
    this.#openBytes += ticket.job.body.length;
    return new Entered(ticket, this);
  }

  settled(ticket: PushTicket): void {
    this.#open -= 1;
    this.#openBytes -= ticket.job.body.length;
  }

  /** False, and the push is not kept, when the line is full. */
  wait(ticket: PushTicket): boolean {
    const bytes = bytesInLine(ticket);
    if (this.#lineBytes + bytes > useCaseLimits.lineBytesMax) return false;
    this.#lineBytes += bytes;
    this.#line.push(ticket);
    return true;
  }

  readonly next = (): PushTicket | null => {
    const ticket = this.#line[this.#lineAt];
    if (ticket === undefined) {
      this.isFed = false;
      this.#line = [];
      this.#lineAt = 0;
      return null;
    }
    this.#lineAt += 1;
    this.#lineBytes -= bytesInLine(ticket);
    return ticket;
  };
}

function bytesInLine({ job }: PushTicket): number {
  return job.body.length + useCaseLimits.linePushBytes;
}

/** A push in its connection's share. */
class Entered implements PushTicket {
  readonly job: PushJob;
  readonly #ticket: PushTicket;
  readonly #producer: Producer;

  constructor(ticket: PushTicket, producer: Producer) {
    this.job = ticket.job;
    this.#ticket = ticket;
    this.#producer = producer;
  }

  settle(outcome: PushOutcome): void {
    this.#producer.settled(this.#ticket);
    this.#ticket.settle(outcome);
  }
}
