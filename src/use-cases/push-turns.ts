// PushTurns adds the pushes of clients to the push queue. A connection enters a share at once. What it sends
// beyond that waits in a line of its own, and the lines take turns. So a push of another connection never
// waits behind all that one has sent.
// Invariant: the pushes of one connection enter the queue in order; each gets exactly one outcome.

import { limits } from '../core/limits.ts';
import type { PushOutcome } from '../ports/job-store.ts';
import { BatchFeeder } from './batch-feeder.ts';
import { useCaseLimits } from './limits.ts';
import type { PushQueue, PushTicket } from './push-queue.ts';

export class PushTurns {
  readonly #queue: Pick<PushQueue, 'add'>;
  readonly #feeder: BatchFeeder;
  readonly #producers = new WeakMap<object, Producer>();

  constructor(queue: Pick<PushQueue, 'add'>) {
    this.#queue = queue;
    this.#feeder = new BatchFeeder(queue);
  }

  add(connection: object, ticket: PushTicket): void {
    let producer = this.#producers.get(connection);
    if (producer === undefined) {
      producer = new Producer();
      this.#producers.set(connection, producer);
    }
    if (producer.hasShare) this.#queue.add(producer.entering(ticket));
    else if (!producer.wait(ticket)) ticket.settle(lineFull);
    else if (!producer.isFed) {
      producer.isFed = true;
      this.#feeder.add(producer.next);
    }
  }
}

const lineFull: PushOutcome = { kind: 'not_stored', code: 'line_full' };

/** One connection. */
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

class Entered implements PushTicket {
  readonly job: PushTicket['job'];
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
