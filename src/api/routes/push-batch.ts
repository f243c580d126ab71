// PushBatch supplies the pushes of one batch one by one and collects their results, in the order of the
// batch. A rejected item does not affect the others. Knows no format: the protocol of the caller makes the
// results.

import { catalogue, DqError } from '../../core/errors.ts';
import type { PushJob, PushOutcome } from '../../ports/job-store.ts';
import { monotonicNow } from '../../runtime/time.ts';
import type { PushTicket } from '../../use-cases/push-queue.ts';
import type { BatchPush } from '../../use-cases/read-batch.ts';
import type { ApiContext } from '../api-context.ts';
import { logRequest } from '../http/request-log.ts';
import { finishPush, type PushReply, rejectionOf } from './push-result.ts';

type Accepted = Extract<PushReply, { readonly ok: true }>;

export interface PushBatchOptions<R> {
  readonly role: ApiContext['role'];
  /** an error: an unreadable item, and its place is in the error */
  readonly items: readonly (BatchPush | DqError)[];
  /** Called as late as possible, so the current topic decides. Never throws. */
  readonly jobOf: (item: BatchPush) => PushJob | DqError;
  readonly accepted: (reply: Accepted) => R;
  readonly rejected: (error: DqError) => R;
  /** Adds the place of the item to the error of a readable one. */
  readonly placed?: (error: DqError, index: number) => DqError;
  /** protocol of the caller; absent: the HTTP API */
  readonly via?: string;
}

export interface BatchResults<R> {
  readonly accepted: number;
  readonly results: readonly R[];
}

export class PushBatch<R> {
  /** after the last result */
  readonly settled: Promise<BatchResults<R>>;
  readonly #options: PushBatchOptions<R>;
  readonly #results: R[];
  readonly #since = monotonicNow();
  #at = 0;
  #open: number;
  #accepted = 0;
  #settle: (results: BatchResults<R>) => void = () => {};

  constructor(options: PushBatchOptions<R>) {
    this.#options = options;
    this.#open = options.items.length;
    this.#results = new Array<R>(options.items.length);
    this.settled = new Promise((resolve) => {
      this.#settle = resolve;
    });
    if (this.#open === 0) this.#finish();
  }

  /** The next valid push; records the results of invalid items before it. null at the end. */
  next(): PushTicket | null {
    for (;;) {
      const index = this.#at;
      const item = this.#options.items[index];
      if (item === undefined) return null;
      this.#at += 1;
      if (item instanceof DqError) {
        this.#reject(index, item, null);
        continue;
      }
      const { jobOf, placed } = this.#options;
      const job = jobOf(item);
      if (!(job instanceof DqError)) return { job, settle: (outcome) => this.#complete(index, job, outcome) };
      this.#reject(index, placed?.(job, index) ?? job, item);
    }
  }

  /** `item`: null for an unreadable one. */
  #reject(index: number, error: DqError, item: BatchPush | null): void {
    const { role, rejected, via } = this.#options;
    role.metrics.count('dq_pushes_total', 1, rejectionOf(error.code));
    logRequest(role.log, {
      method: 'POST',
      topic: item?.topic ?? null,
      id: item?.request.id ?? null,
      status: catalogue[error.code].status,
      code: error.code,
      version: null,
      dueAt: null,
      bytes: item?.request.body.length ?? 0,
      ms: null,
      ...(via === undefined ? {} : { via, reason: error.message }),
    });
    this.#record(index, rejected(error));
  }

  #complete(index: number, job: PushJob, outcome: PushOutcome): void {
    const { role, accepted, rejected, placed, via } = this.#options;
    const reply = finishPush({ role }, job, outcome, this.#since, via);
    if (reply.ok) {
      this.#accepted += 1;
      this.#record(index, accepted(reply));
    } else this.#record(index, rejected(placed?.(reply.error, index) ?? reply.error));
  }

  #record(index: number, result: R): void {
    this.#results[index] = result;
    this.#open -= 1;
    if (this.#open === 0) this.#finish();
  }

  #finish(): void {
    this.#settle({ accepted: this.#accepted, results: this.#results });
  }
}
