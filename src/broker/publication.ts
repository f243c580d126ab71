// A Publication is one attempt to publish one message: it has one deadline and exactly one end, and the
// connection code reports to it. The message is unsigned: the broker authenticates its publishers.
// Invariant: a publication that has ended is not sent. So a message that waited for a connection or a blocked
// broker does not arrive after its attempt has failed. It then holds no message: client libraries keep what a
// broker does not confirm until the connection ends, which may be hours.

import type { Target } from '../core/broker.ts';
import { webhookIdOf } from '../core/delivery.ts';
import { formatInstant } from '../core/duration.ts';
import { optionsIn, withOptions } from '../core/extension.ts';
import type { ReservedJob } from '../core/job.ts';
import type { Topic } from '../core/topic/topic.ts';
import type { CallOutcome } from '../core/verdict.ts';
import { clearTimeout, monotonicNow, setImmediate, setTimeout, type Timer } from '../runtime/time.ts';

/** Properties and body of a message, as all protocols send them. */
interface BrokerMessage {
  /** `webhook-id`: the receiver's idempotency key */
  readonly id: string;
  readonly body: Buffer;
  /** null = none */
  readonly contentType: string | null;
  readonly properties: Readonly<Record<string, string | number>>;
  /** epoch ms by the storage clock */
  readonly timestampMs: number;
}

type PublishOutcome = Exclude<CallOutcome, { readonly kind: 'replied' }>;
/** `not_started`: the look-up of the host name got no turn. */
export type PublishEnd = PublishOutcome | { readonly kind: 'not_started' };

export interface PublicationOptions {
  readonly target: Target;
  readonly message: BrokerMessage;
  readonly timeoutMs: number;
  /** Called once. `detail`: the failure, for the log; '' for a success. */
  readonly onEnd: (end: PublishEnd, durationMs: number, detail: string) => void;
}

export class Publication {
  readonly target: Target;
  /** what it waits for, for the detail of a timeout */
  waitsFor = 'a connection';
  /** null: it has ended */
  #options: PublicationOptions | null;
  readonly #startedAt = monotonicNow();
  readonly #timer: Timer;
  #onOver: (() => void) | null = null;

  constructor(options: PublicationOptions) {
    this.#options = options;
    this.target = options.target;
    const { timeoutMs } = options;
    this.#timer = setTimeout(() => this.#onDeadline(timeoutMs), timeoutMs);
  }

  /** Throws after the end. */
  get message(): BrokerMessage {
    if (this.#options === null) throw new Error('the publication has ended');
    return this.#options.message;
  }

  /** `forget` removes it from the list in which it waits; replaces the one of an earlier list. */
  waitIn(forget: () => void, waitsFor: string): void {
    this.#onOver = forget;
    this.waitsFor = waitsFor;
  }

  confirm(): void {
    this.end({ kind: 'confirmed' }, '');
  }

  /** Later ends have no effect. */
  end(end: PublishEnd, detail: string): void {
    this.#close()?.onEnd(end, monotonicNow() - this.#startedAt, detail);
  }

  /** Ends it without an outcome: onEnd is not called. The broker may have got the message. */
  interrupt(): void {
    this.#close();
  }

  /** null: it has ended before */
  #close(): PublicationOptions | null {
    const options = this.#options;
    if (options === null) return null;
    this.#options = null;
    clearTimeout(this.#timer);
    this.#onOver?.();
    this.#onOver = null;
    return options;
  }

  /** Waits for one turn of the event loop: after a stall of this process the confirmation may be unread in
   *  the socket. */
  #onDeadline(timeoutMs: number): void {
    setImmediate(() => {
      this.end(
        { kind: 'no_reply', reason: 'timeout' },
        `no confirmation within ${timeoutMs} ms: waited for ${this.waitsFor}`,
      );
    });
  }
}

/** The message of one attempt: the job's body, its id for the receiver, and properties that say what the
 *  headers of a callback say. `nowMs`: storage clock. `traceparent`: of this attempt; undefined: the push
 *  brought no trace. */
export function brokerMessageOf(
  job: ReservedJob,
  topic: Topic,
  { nowMs, traceparent }: { readonly nowMs: number; readonly traceparent: string | undefined },
): BrokerMessage {
  const options = optionsIn(job.extension);
  const state = options.trace?.state ?? '';
  return {
    id: webhookIdOf(job),
    body: job.body,
    contentType: job.contentType,
    timestampMs: nowMs,
    properties: {
      ...topic.headers,
      'dq-topic': job.topic,
      'dq-job-id': job.id,
      'dq-attempt': job.failures + 1,
      'dq-max-attempts': withOptions(topic, options).maxAttempts,
      'dq-due-at': formatInstant(job.dueAt),
      ...(traceparent === undefined ? {} : { traceparent }),
      ...(traceparent === undefined || state === '' ? {} : { tracestate: state }),
    },
  };
}
